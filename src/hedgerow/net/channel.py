"""`Channel`: frames to and from one peer over a TLS stream."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import frames
from hedgerow.net.frames import HEADER_BYTES, FrameKind, Header
from hedgerow.net.loop import READ, WRITE, Conversation, Want
from hedgerow.net.stream import Stream

Piece = bytes | memoryview
# RFC 8446, section 5.5: AES-GCM may protect 2**24.5 full records under one key. The `ssl` module
# cannot change the key within a connection.
MAX_KEY_BYTES = 1 << 38


class Channel:
    """One connection to one peer, as conversations of a `Loop`; `left` after its goodbye."""

    def __init__(self, stream: Stream, me: int, peer: int, session: bytes) -> None:
        self.stream, self.me, self.peer, self.session = stream, me, peer, session
        self.left = False
        self._fd = stream.fileno()
        self._next_out = self._next_in = 0
        self._in_frame = False
        # The header being read outlives a step: it may belong to a later one.
        self._header = bytearray(HEADER_BYTES)
        self._filled = 0

    def outgoing(self, kind: FrameKind, digest: bytes, length: int) -> bytes:
        """Write the header of the next frame to the peer, and count it."""
        if self.stream.sent + length > MAX_KEY_BYTES:
            raise Code.TOO_MUCH_FOR_ONE_KEY.error(
                expected=f"at most {MAX_KEY_BYTES} bytes to party {self.peer} in a session",
                found=f"{self.stream.sent} bytes and {length} more",
            )
        header = Header(kind, self.me, self.session, self._next_out, digest, length)
        self._next_out += 1
        return header.pack()

    def incoming(self, kind: FrameKind, digest: bytes, length: int) -> Header:
        """Return the header that the next frame of the peer must have."""
        return Header(kind, self.peer, self.session, self._next_in, digest, length)

    def send(self, step: str, pieces: Iterable[Piece]) -> Conversation:
        """Send the pieces of one frame."""
        self._in_frame = True
        for piece in pieces:
            view = memoryview(piece)
            while view.nbytes:
                try:
                    view = view[self.stream.send(view) :]
                except ssl.SSLWantWriteError:
                    yield Want(self._fd, WRITE)
                except OSError as error:
                    raise self._gone(step, error) from None
        while True:
            try:
                self.stream.flush()
                break
            except ssl.SSLWantWriteError:
                yield Want(self._fd, WRITE)
            except OSError as error:
                raise self._gone(step, error) from None
        self._in_frame = False

    def receive_header(self, step: str, expected: Header) -> Conversation:
        """Read the next header and compare it with the only one that fits."""
        if self.left:
            raise self._has_left(step)
        yield from self._read_header(step)
        self._take(step, expected)

    def receive(self, step: str, view: memoryview) -> Conversation:
        """Read payload into memory that is already there."""
        while view.nbytes:
            try:
                got = self.stream.receive(view)
            except ssl.SSLWantReadError:
                yield Want(self._fd, READ)
            except OSError as error:
                raise self._gone(step, error) from None
            else:
                if got == 0:
                    raise self._gone(step, None)
                view = view[got:]

    def watch(self, step: str) -> Conversation:
        """Look out for the end of the session while other peers are being waited for.

        A frame of a later step is left where it is, but for its header, which is kept.
        """
        while not self.left and self._filled < HEADER_BYTES:
            yield Want(self._fd, READ)
            yield from self._read_header(step)
            header = frames.parse(self._header, peer=self.peer, step=step)
            if header.kind is FrameKind.DATA:
                continue
            if header.kind is FrameKind.GOODBYE:
                self._take(step, self.incoming(FrameKind.GOODBYE, frames.NO_DIGEST, 0))
                self.left = True
            else:
                self._take(step, self.incoming(FrameKind.DATA, frames.NO_DIGEST, 0))

    def _read_header(self, step: str) -> Conversation:
        view = memoryview(self._header)
        while self._filled < HEADER_BYTES:
            # Byte counts are kept at every pause, for whoever reads on.
            try:
                got = self.stream.receive(view[self._filled :])
            except ssl.SSLWantReadError:
                yield Want(self._fd, READ)
            except OSError as error:
                raise self._gone(step, error) from None
            else:
                if got == 0:
                    raise self._gone(step, None)
                self._filled += got

    def _take(self, step: str, expected: Header) -> None:
        if self._header != expected.pack():
            header = frames.parse(self._header, peer=self.peer, step=step)
            frames.check(header, expected, peer=self.peer, step=step)
        self._filled = 0
        self._next_in += 1

    def goodbye(self) -> Conversation:
        """End the session in good order; a peer that is gone does not need to be told."""
        if self.left:
            return
        last = Header(FrameKind.GOODBYE, self.me, self.session, self._next_out, frames.NO_DIGEST, 0)
        with contextlib.suppress(OSError):
            yield from self.send("goodbye", [last.pack()])
            self.stream.end()

    def abort(self, reason: int) -> None:
        """Try once to tell the peer that an error has ended the session, then send no more."""
        last = frames.abort_header(self.me, self.session, self._next_out, reason)
        with contextlib.suppress(OSError):
            # In the middle of a frame the peer would take it for payload.
            if not self._in_frame:
                self.stream.send(memoryview(last.pack()))
            self.stream.end()

    def drain(self) -> Conversation:
        """Throw away what still comes, until the peer closes.

        Closing a socket with unread bytes resets the connection, and the peer could lose the
        frame that tells it why.
        """
        while True:
            try:
                if not self.stream.discard():
                    return
            except ssl.SSLWantReadError:
                yield Want(self._fd, READ)
            except OSError:
                return

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()

    def _has_left(self, step: str) -> HedgerowError:
        return Code.PEER_GONE.error(
            expected=f"party {self.peer} to take part in step {step!r}",
            found="it has ended its program before",
        )

    def _gone(self, step: str, error: OSError | None) -> HedgerowError:
        why = "the connection was closed" if error is None else f"{error.strerror or error}"
        return Code.PEER_GONE.error(
            expected=f"party {self.peer} to be connected in step {step!r}", found=why
        )
