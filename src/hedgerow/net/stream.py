"""`Stream`: TLS over a socket that never blocks, with few system calls.

The TLS engine works on memory; the socket is read and written in large blocks. A TLS record holds
only 16 KiB, and a pair of system calls for each costs more than its encryption.
"""

from __future__ import annotations

import contextlib
import socket
import ssl

_BLOCK = 1 << 17


class Stream:
    """One TLS connection.

    Like an `ssl.SSLSocket` that does not block, it raises `ssl.SSLWantReadError` or
    `ssl.SSLWantWriteError` where it would have to wait, and `OSError` where it fails. It owns the
    socket. `first` is sent before all else, in the clear; `sent` counts it, the handshake and TLS
    records too.
    """

    def __init__(
        self, raw: socket.socket, context: ssl.SSLContext, *, server: bool, first: bytes = b""
    ) -> None:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._raw = raw
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server)
        self._block = memoryview(bytearray(_BLOCK))
        self._unsent = memoryview(first)
        self.sent = 0

    def fileno(self) -> int:
        """File descriptor of the socket, for polling."""
        return self._raw.fileno()

    def handshake(self) -> None:
        """Shake hands; call again after what it wants has come."""
        while True:
            self.flush()
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                self._fill()
            except ssl.SSLError:
                # The alert tells the other side why.
                with contextlib.suppress(OSError):
                    self.flush()
                raise
            else:
                self.flush()
                return

    def certificate(self) -> bytes:
        """Return the peer's certificate as DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    def send(self, view: memoryview) -> int:
        """Encrypt a part and hand it to the socket as far as it goes; `flush` sends the rest."""
        self.flush()
        taken = self._tls.write(view[:_BLOCK])
        with contextlib.suppress(ssl.SSLWantWriteError):
            self.flush()
        return taken

    def flush(self) -> None:
        """Hand everything that is encrypted to the socket."""
        while self._unsent or self._out.pending:
            if not self._unsent:
                self._unsent = memoryview(self._out.read())
            try:
                done = self._raw.send(self._unsent)
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self.sent += done
            self._unsent = self._unsent[done:]

    def receive(self, view: memoryview) -> int:
        """Decrypt into memory; 0 at the end of the stream."""
        while True:
            try:
                return self._tls.read(len(view), view)  # type: ignore[return-value]
            except ssl.SSLWantReadError:
                self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0

    def _fill(self) -> None:
        try:
            got = self._raw.recv_into(self._block)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if got:
            self._in.write(self._block[:got])
        else:
            self._in.write_eof()

    def end(self) -> None:
        """Send no more."""
        self._raw.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Throw away what has come; False at the end."""
        try:
            return self._raw.recv_into(self._block) > 0
        except BlockingIOError:
            raise ssl.SSLWantReadError from None

    def close(self) -> None:
        """Close the socket."""
        self._raw.close()
