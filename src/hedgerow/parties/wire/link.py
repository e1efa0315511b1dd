"""`Link`: a TLS connection on which no wait is without an end."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from typing import Protocol

from hedgerow.errors import Code
from hedgerow.parties.wire.requests import BLOCK_BYTES, PREFIX, Body, header_length

# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
TIME_ERRORS = {9, 10}
LONGEST_WAIT = 1e6
"""Seconds in one wait; sockets take no number of seconds that is much larger."""
_DRAIN_SECONDS = 2.0
_DRAIN_BYTES = 1 << 26
# Where a system does not tell, the end shows when it is read.
_LEFT = getattr(select, "POLLRDHUP", 0)


class Patience(Protocol):
    """How long the other side may still take."""

    def left(self) -> float:
        """Seconds; not positive when they are over."""

    def count(self, moved: int, seconds: float) -> None:
        """Take account of bytes that were moved, and of the time that was waited for them."""


class Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds up to the moment."""
        return self._end - time.monotonic()

    def count(self, moved: int, seconds: float) -> None:
        """Change nothing."""


class Rate:
    """Some seconds, which are the most that can be saved up, and more for every byte that comes.

    Only the time of waiting for the other side counts, not what this side does with the bytes.
    """

    def __init__(self, seconds: float, bytes_per_second: float) -> None:
        self._left = self._most = seconds
        self._rate = bytes_per_second

    def left(self) -> float:
        """Seconds of waiting that are left."""
        return self._left

    def count(self, moved: int, seconds: float) -> None:
        """Earn time with bytes."""
        self._left = min(self._most, self._left + moved / self._rate - seconds)


class Link:
    """One connection, for blocking use by one thread; it owns the socket."""

    def __init__(
        self, raw: socket.socket, context: ssl.SSLContext, *, server: bool, peer: str
    ) -> None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setblocking(True)
        self.peer = peer
        self._tls = context.wrap_socket(
            raw, server_side=server, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )

    def handshake(self, patience: Patience) -> bytes:
        """Shake hands and return the peer's certificate as DER; `OSError` if it fails."""
        self._tls.settimeout(self._wait(patience))
        self._tls.do_handshake()
        return self._tls.getpeercert(binary_form=True) or b""

    def send(self, data: bytes | memoryview, patience: Patience) -> None:
        """Send all of it."""
        view = memoryview(data).cast("B")
        while view.nbytes:
            self._tls.settimeout(self._wait(patience))
            begun = time.monotonic()
            done = self._tls.send(view[:BLOCK_BYTES])
            patience.count(done, time.monotonic() - begun)
            view = view[done:]

    def send_body(self, body: Body, patience: Patience, *, heed: bool = False) -> int:
        """Send a payload; return the bytes that were sent.

        With `heed`, stop as soon as the other side says something.
        """
        sent = 0
        for piece in body.pieces:
            view = memoryview(piece).cast("B")
            for at in range(0, view.nbytes, BLOCK_BYTES):
                if heed and self.speaks():
                    return sent
                part = view[at : at + BLOCK_BYTES]
                sent += part.nbytes
                if sent > body.length:
                    break
                self.send(part, patience)
            if sent > body.length:
                break
        if sent != body.length:
            raise Code.BAD_PARAMETER.error(
                expected=f"a payload of {body.length} bytes, as declared",
                found="more" if sent > body.length else f"{sent} bytes",
            )
        return sent

    def receive_into(self, view: memoryview, patience: Patience) -> None:
        """Fill memory that is already there."""
        while view.nbytes:
            self._tls.settimeout(self._wait(patience))
            begun = time.monotonic()
            got = self._tls.recv_into(view[:BLOCK_BYTES])
            if got == 0:
                raise ConnectionResetError("the connection was closed")
            patience.count(got, time.monotonic() - begun)
            view = view[got:]

    def receive_header(self, patience: Patience, code: Code) -> bytes:
        """Read a header; memory for it is taken once its length has passed."""
        prefix = bytearray(PREFIX.size)
        self.receive_into(memoryview(prefix), patience)
        header = bytearray(header_length(bytes(prefix), code))
        self.receive_into(memoryview(header), patience)
        return bytes(header)

    def drain(self) -> None:
        """Say that no more comes, and throw away for a while what still arrives.

        Closing a socket with unread bytes resets the connection, and the other side could lose the
        message that tells it why.
        """
        with contextlib.suppress(OSError, ValueError), self._detach_socket() as raw:
            raw.shutdown(socket.SHUT_WR)
            end, count = time.monotonic() + _DRAIN_SECONDS, 0
            block = bytearray(BLOCK_BYTES)
            while (left := end - time.monotonic()) > 0 and count < _DRAIN_BYTES:
                raw.settimeout(left)
                got = raw.recv_into(block)
                if got == 0:
                    return
                count += got

    def speaks(self, seconds: float = 0.0) -> bool:
        """Whether something is there to be read, or the end, within so many seconds."""
        waiting = select.poll()
        waiting.register(self._tls.fileno(), select.POLLIN)
        return self._tls.pending() > 0 or bool(waiting.poll(1000 * seconds))

    def goes_on(self, seconds: float) -> bool:
        """Whether the other side sends something within so many seconds, and has not left."""
        if self._tls.pending():
            return True
        waiting = select.poll()
        waiting.register(self._tls.fileno(), select.POLLIN | _LEFT)
        events = [event for _, event in waiting.poll(1000 * seconds)]
        return bool(events) and not events[0] & (_LEFT | select.POLLHUP | select.POLLERR)

    def cut(self) -> None:
        """End the connection from another thread: whoever waits on it fails at once."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._tls, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._tls.close()

    def _detach_socket(self) -> socket.socket:
        return socket.socket(fileno=self._tls.detach())

    def _wait(self, patience: Patience) -> float:
        left = patience.left()
        if left <= 0:
            raise TimeoutError(f"{self.peer} took too long")
        return min(left, LONGEST_WAIT)


class Incoming:
    """The payload of a request, read from the connection by whoever handles it."""

    def __init__(self, link: Link, length: int, patience: Patience) -> None:
        self.length = self.left = length
        self._link, self._patience = link, patience
        self.failed = False

    def read(self, size: int | None = None) -> bytes:
        """Return the next `size` bytes, by default all that are left; fewer at the end only."""
        data = bytearray(self.left if size is None else min(size, self.left))
        self.read_into(memoryview(data))
        return bytes(data)

    def read_into(self, view: memoryview) -> int:
        """Fill memory as far as the payload goes; return the bytes."""
        part = view.cast("B")[: self.left]
        try:
            self._link.receive_into(part, self._patience)
        except TimeoutError:
            self.failed = True
            raise Code.REQUEST_TOO_SLOW.error(
                expected=f"{self.length} bytes of payload at the least rate",
                found=f"{self.left} of them missing",
            ) from None
        except OSError as error:
            self.failed = True
            raise Code.REQUEST_CUT_OFF.error(
                expected=f"{self.length} bytes of payload from {self._link.peer}",
                found=f"{self.left} of them missing: {error.strerror or error}",
            ) from None
        self.left -= part.nbytes
        return part.nbytes

    def save(self, file: Writer) -> int:
        """Write all that is left to a file, block by block; return the bytes."""
        block = memoryview(bytearray(BLOCK_BYTES))
        total = 0
        while self.left:
            got = self.read_into(block)
            file.write(block[:got])
            total += got
        return total


class Writer(Protocol):
    """Anything that takes bytes, such as a file or a hash behind a small adapter."""

    def write(self, data: memoryview, /) -> object:
        """Take them."""
