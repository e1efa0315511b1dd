"""A channel under hostile bytes: numbered errors, and nothing is read past a bad header."""

import secrets
import ssl

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.channel import Channel
from hedgerow.net.frames import HEADER_BYTES, NO_DIGEST, FrameKind, Header

SESSION = bytes(16)
DIGEST = b"d" * 16


class Script:
    """Stands for a stream: gives the bytes it was made with, then ends or waits."""

    sent = 0
    full = False

    def __init__(self, data: bytes, *, ends: bool = True) -> None:
        self.data, self.ends, self.taken, self.written = data, ends, 0, b""

    def fileno(self) -> int:
        return 99

    def receive(self, view: memoryview) -> int:
        part = self.data[self.taken : self.taken + len(view)]
        if not part and not self.ends:
            raise ssl.SSLWantReadError
        view[: len(part)] = part
        self.taken += len(part)
        return len(part)

    def send(self, view: memoryview) -> int:
        if self.full:
            raise ssl.SSLWantWriteError
        self.written += bytes(view[:7])
        return min(7, len(view))

    def flush(self) -> None:
        pass

    def end(self) -> None:
        pass


def channel(data: bytes, **options) -> Channel:
    return Channel(Script(data, **options), 0, 1, SESSION)


def finish(conversation) -> None:
    for _ in conversation:
        raise BlockingIOError


def code_of(chan: Channel, conversation) -> Code | None:
    try:
        finish(conversation)
    except HedgerowError as error:
        named = "party 1" in str(error) and "step 'mul'" in str(error)
        return error.code if named else Code.UNKNOWN_ERROR_NUMBER
    return None


def test_frames_in_and_out() -> None:
    frame = Header(FrameKind.DATA, 1, SESSION, 0, DIGEST, 5).pack() + b"hello"
    chan = channel(frame)
    payload = bytearray(5)
    finish(chan.receive_header("mul", chan.incoming(FrameKind.DATA, DIGEST, 5)))
    finish(chan.receive("mul", memoryview(payload)))
    assert payload == b"hello"
    finish(chan.send("mul", [chan.outgoing(FrameKind.DATA, DIGEST, 5), b"hello"]))
    assert chan.stream.written == Header(FrameKind.DATA, 0, SESSION, 0, DIGEST, 5).pack() + b"hello"
    assert chan.incoming(FrameKind.DATA, DIGEST, 0).sequence == 1


def test_a_hundred_thousand_hostile_frames() -> None:
    good = Header(FrameKind.DATA, 1, SESSION, 0, DIGEST, 5).pack()
    noise = secrets.token_bytes(1 << 12)
    seen: dict[Code | None, int] = {}
    for i in range(100_000):
        at = i % 4000
        if i % 3 == 0:
            data = noise[at : at + i % 90]
        else:
            byte = (i // 3) % HEADER_BYTES
            data = good[:byte] + bytes([noise[at] ^ i & 255]) + good[byte + 1 :] + noise[:50]
        chan = channel(data)
        code = code_of(chan, chan.receive_header("mul", chan.incoming(FrameKind.DATA, DIGEST, 5)))
        seen[code] = seen.get(code, 0) + 1
        assert (code is None) == (data[:HEADER_BYTES] == good)
        assert chan.stream.taken <= HEADER_BYTES
    assert set(seen) <= {
        None,
        Code.BAD_FRAME,
        Code.WRONG_VERSION,
        Code.PEER_GONE,
        Code.PEER_STOPPED,
    }


def test_twenty_thousand_hostile_frames_among_mail() -> None:
    """A good mail, then anything: the mail is there, and nothing is read past a bad header."""
    first = Header(FrameKind.MAIL, 1, SESSION, 0, DIGEST, 5).pack() + b"hello"
    good = Header(FrameKind.MAIL, 1, SESSION, 1, DIGEST, 40).pack()
    noise = secrets.token_bytes(1 << 12)
    seen: dict[Code | None, int] = {}
    for i in range(20_000):
        at = i % 4000
        if i % 3 == 0:
            data = noise[at : at + i % 90]
        else:
            byte = (i // 3) % HEADER_BYTES
            data = good[:byte] + bytes([noise[at] ^ i & 255]) + good[byte + 1 :]
        chan = channel(first + data + noise[:40])
        code = code_of(chan, chan.collect("mul", 100))
        seen[code] = seen.get(code, 0) + 1
        assert chan.inbox[0][1:] == (DIGEST, b"hello")
        # The digest of a mail and its length below the bound are its sender's to choose.
        kept = [*range(32), *range(48, 55)]
        if any(bytes(data[k : k + 1]) != good[k : k + 1] for k in kept):
            assert len(chan.inbox) == 1
            assert chan.stream.taken <= len(first) + HEADER_BYTES
        assert sum(len(mail.data) for mail in chan.inbox) <= 205
    assert set(seen) <= {
        Code.BAD_FRAME,
        Code.WRONG_VERSION,
        Code.PEER_GONE,
        Code.PEER_STOPPED,
    }
    assert seen[Code.BAD_FRAME] > 10_000


def test_mail_in_parts_outlives_a_step() -> None:
    frame = Header(FrameKind.MAIL, 1, SESSION, 0, DIGEST, 5).pack() + b"hello"
    chan = channel(frame[:58], ends=False)
    next(chan.collect("mul", 100))
    assert chan.awaited == 5
    chan.stream.data += frame[58:]
    # Another step reads on.
    next(chan.collect("add", 100))
    assert chan.inbox.popleft().data == b"hello"
    assert chan.awaited == 0


def test_a_full_inbox_reads_no_more() -> None:
    frames = [Header(FrameKind.MAIL, 1, SESSION, k, DIGEST, 60).pack() + bytes(60) for k in (0, 1)]
    chan = channel(b"".join([*frames, b"more"]))
    finish(chan.collect("mul", 100))
    assert len(chan.inbox) == 2
    assert chan.stream.taken == 2 * (HEADER_BYTES + 60)


def test_a_header_may_come_in_parts_and_early() -> None:
    frame = Header(FrameKind.DATA, 1, SESSION, 0, DIGEST, 5).pack()
    chan = channel(frame[:20], ends=False)
    watch = chan.watch("mul")
    next(watch)
    next(watch)
    # The conversation is dropped here, as at the end of a step; what it has read is kept.
    chan.stream.data += frame[20:]
    finish(chan.receive_header("mul", chan.incoming(FrameKind.DATA, DIGEST, 5)))


def test_watching() -> None:
    abort = Header(FrameKind.ABORT, 1, SESSION, 0, (803).to_bytes(2, "big") + bytes(14), 0).pack()
    goodbye = Header(FrameKind.GOODBYE, 1, SESSION, 0, NO_DIGEST, 0).pack()
    data = Header(FrameKind.DATA, 1, SESSION, 0, DIGEST, 5).pack()
    ends = [(abort, Code.PEER_STOPPED), (b"", Code.PEER_GONE), (b"x" * 56, Code.BAD_FRAME)]
    for sent, code in [*ends, (goodbye, None), (data, None)]:
        chan = channel(sent)
        watch = chan.watch("mul")
        next(watch)
        assert code_of(chan, watch) is code
        assert chan.left == (sent == goodbye)
    chan = channel(goodbye)
    watch = chan.watch("mul")
    next(watch)
    finish(watch)
    with pytest.raises(HedgerowError) as caught:
        finish(chan.receive_header("mul", chan.incoming(FrameKind.DATA, DIGEST, 5)))
    assert caught.value.code is Code.PEER_GONE


def test_endings_are_not_put_into_the_middle_of_a_frame() -> None:
    chan = channel(b"")
    sending = chan.send("mul", [b"long frame"])
    chan.stream.full = True
    next(sending)
    chan.stream.full = False
    chan.abort(803)
    assert chan.stream.written == b""
    other = channel(b"")
    other.abort(803)
    abort = Header(FrameKind.ABORT, 0, SESSION, 0, (803).to_bytes(2, "big") + bytes(14), 0)
    assert other.stream.written == abort.pack()[:7]


def test_goodbye_waits_for_room() -> None:
    chan = channel(b"")
    chan.stream.full = True
    leaving = chan.goodbye()
    next(leaving)
    chan.stream.full = False
    finish(leaving)
    assert chan.stream.written == Header(FrameKind.GOODBYE, 0, SESSION, 0, NO_DIGEST, 0).pack()
    chan.left = True
    finish(chan.goodbye())
    assert len(chan.stream.written) == HEADER_BYTES
