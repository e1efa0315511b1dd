"""`Channel`: frames to and from one peer over a TLS stream."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import frames
from hedgerow.net.frames import HEADER_BYTES, FrameKind, Header
from hedgerow.net.loop import READ, WRITE, Conversation, Want
from hedgerow.net.stream import Stream

Piece = bytes | memoryview
_T = TypeVar("_T")
# RFC 8446, section 5.5: AES-GCM may protect 2**24.5 full records under one key. The `ssl` module
# cannot change the key within a connection.
MAX_KEY_BYTES = 1 << 38


class Mail(NamedTuple):
    """One mail: when it came, on the clock of `time.monotonic`, and the digest of its step."""

    moment: float
    digest: bytes
    data: bytes


class Channel:
    """One connection to one peer, as conversations of a `Loop`; `left` after its goodbye.

    `inbox` has mail that came and was not asked for yet, `awaited` the length of one that is on
    its way.
    """

    def __init__(self, stream: Stream, me: int, peer: int, session: bytes) -> None:
        self.stream, self.me, self.peer, self.session = stream, me, peer, session
        self.left = False
        self._fd = stream.fileno()
        self._next_out = self._next_in = 0
        self._in_frame = False
        # The header being read outlives a step: it may belong to a later one.
        self._header = bytearray(HEADER_BYTES)
        self._filled = 0
        self.inbox: deque[Mail] = deque()
        self._digest, self._mail = b"", bytearray()
        # So does the mail being read: this is where its next bytes go.
        self._rest: memoryview | None = None

    @property
    def awaited(self) -> int:
        """Bytes of the mail of which the header has come, 0 if there is none."""
        return 0 if self._rest is None else len(self._mail)

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
                view = view[(yield from self._do(step, partial(self.stream.send, view))) :]
        yield from self._do(step, self.stream.flush)
        self._in_frame = False

    def receive_header(self, step: str, expected: Header) -> Conversation:
        """Read the next header and compare it with the only one that fits."""
        if self.left:
            raise frames.has_left(self.peer, step)
        yield from self._read_header(step)
        self._take(step, expected)

    def receive(self, step: str, view: memoryview) -> Conversation:
        """Read payload into memory that is already there."""
        while view.nbytes:
            view = view[(yield from self._read(step, view)) :]

    def watch(self, step: str) -> Conversation:
        """Look out for the end of the session while other peers are being waited for.

        A frame of a later step is left where it is, but for its header, which is kept.
        """
        while not self.left and self._filled < HEADER_BYTES:
            yield Want(self._fd, READ)
            yield from self._read_header(step)
            header = frames.parse(self._header, peer=self.peer, step=step)
            if header.kind in (FrameKind.DATA, FrameKind.MAIL):
                continue
            self._take_end(step, header, FrameKind.DATA)

    def collect(self, step: str, most: int) -> Conversation:
        """Read mail into the inbox as it comes, each and all of it at most so many bytes.

        What is above that stays with the peer until the inbox has been emptied.
        """
        while not self.left:
            if self._rest is None:
                if self.inbox and sum(len(mail.data) for mail in self.inbox) >= most:
                    return
                yield from self._read_header(step)
                header = frames.parse(self._header, peer=self.peer, step=step)
                if header.kind is not FrameKind.MAIL:
                    self._take_end(step, header, FrameKind.MAIL)
                    continue
                if header.length > most:
                    raise frames.long_mail(self.peer, step, header.length, most)
                self._take(step, self.incoming(FrameKind.MAIL, header.digest, header.length))
                self._digest, self._mail = header.digest, bytearray(header.length)
                self._rest = memoryview(self._mail)
            yield from self._read_mail(step)

    def _read_mail(self, step: str) -> Conversation:
        while self._rest is not None and self._rest.nbytes:
            self._rest = self._rest[(yield from self._read(step, self._rest)) :]
        self._rest = None
        self.inbox.append(Mail(time.monotonic(), self._digest, bytes(self._mail)))

    def _take_end(self, step: str, header: Header, awaited: FrameKind) -> None:
        """Take a goodbye, or raise what the end or a frame of another kind means."""
        if header.kind is FrameKind.GOODBYE:
            self._take(step, self.incoming(FrameKind.GOODBYE, frames.NO_DIGEST, 0))
            self.left = True
        else:
            self._take(step, self.incoming(awaited, frames.NO_DIGEST, 0))

    def _read_header(self, step: str) -> Conversation:
        view = memoryview(self._header)
        while self._filled < HEADER_BYTES:
            self._filled += yield from self._read(step, view[self._filled :])

    def _read(self, step: str, view: memoryview) -> Generator[Want, None, int]:
        """Read something, and return how much; nothing is lost to who stops at a pause."""
        got = yield from self._do(step, partial(self.stream.receive, view))
        if got == 0:
            raise self._gone(step, None)
        return got

    def _do(self, step: str, act: Callable[[], _T]) -> Generator[Want, None, _T]:
        """Do something as soon as the connection lets it be done."""
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                yield Want(self._fd, READ)
            except ssl.SSLWantWriteError:
                yield Want(self._fd, WRITE)
            except OSError as error:
                raise self._gone(step, error) from None

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

    def _gone(self, step: str, error: OSError | None) -> HedgerowError:
        why = "the connection was closed" if error is None else f"{error.strerror or error}"
        return Code.PEER_GONE.error(
            expected=f"party {self.peer} to be connected in step {step!r}", found=why
        )
