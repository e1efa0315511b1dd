"""Headers: written and read without loss; hostile bytes give numbered errors and nothing else."""

import secrets
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import frames
from hedgerow.net.frames import HEADER_BYTES, FrameKind, Header
from hedgerow.net.network import Route

SESSION = bytes(range(16))
EXPECTED = Header(FrameKind.DATA, 2, SESSION, 5, b"d" * 16, 80)

headers = st.builds(
    Header,
    kind=st.sampled_from(FrameKind),
    sender=st.integers(0, 255),
    session=st.binary(min_size=16, max_size=16),
    sequence=st.integers(0, 2**64 - 1),
    digest=st.binary(min_size=16, max_size=16),
    length=st.integers(0, 2**64 - 1),
)


def judge(data: bytes, expected: Header = EXPECTED) -> Code | None:
    """Number of the error that these bytes give; None if they are accepted."""
    try:
        header = frames.parse(data, peer=2, step="mul")
        frames.check(header, expected, peer=2, step="mul")
    except HedgerowError as error:
        named = "party 2" in str(error) and "step 'mul'" in str(error)
        return error.code if named else Code.UNKNOWN_ERROR_NUMBER
    return None


@given(headers)
@settings(max_examples=50)
def test_round_trip(header: Header) -> None:
    data = header.pack()
    assert len(data) == HEADER_BYTES
    assert frames.parse(data, peer=2, step="mul") == header
    assert judge(data, header) is None or header.kind is FrameKind.ABORT


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_give_a_numbered_error(data: bytes) -> None:
    assert judge(data) is Code.BAD_FRAME


def test_a_hundred_thousand_random_frames() -> None:
    # A quarter is noise; the rest is a good frame with a few bytes changed, which reaches further.
    noise = secrets.token_bytes(64)
    good = EXPECTED.pack()
    seen: dict[Code | None, int] = {}
    for i in range(100_000):
        noise = noise[1:] + bytes([(i * 2654435761 >> 13) & 255 ^ noise[i % 64]])
        if i % 4 == 0:
            data = noise[:HEADER_BYTES]
        else:
            changed = bytearray(good)
            for k in range(i % 4):
                changed[noise[k] % HEADER_BYTES] = noise[k + 20]
            data = bytes(changed)
        code = judge(data)
        assert (code is None) == (data == good)
        seen[code] = seen.get(code, 0) + 1
    assert set(seen) <= {
        None,
        Code.BAD_FRAME,
        Code.WRONG_VERSION,
        Code.PEER_STOPPED,
        Code.PEER_GONE,
    }
    assert seen[Code.BAD_FRAME] > 50_000
    assert seen[Code.WRONG_VERSION] > 1000


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"sequence": 4}, "sequence number 4"),
        ({"sequence": 6}, "sequence number 6"),
        ({"session": bytes(16)}, "session 0000"),
        ({"sender": 1}, "sender 1"),
        ({"length": 2**63}, f"{2**63} bytes"),
        ({"digest": bytes(16)}, "digest 0000"),
        ({"kind": FrameKind.HELLO}, "kind HELLO"),
    ],
)
def test_each_field_is_compared(change: dict, found: str) -> None:
    with pytest.raises(HedgerowError, match=found) as caught:
        frames.check(replace(EXPECTED, **change), EXPECTED, peer=2, step="mul")
    assert caught.value.code is Code.BAD_FRAME


def test_endings() -> None:
    abort = frames.abort_header(2, SESSION, 5, Code.PEER_TIMEOUT.value)
    with pytest.raises(HedgerowError, match="stopped with error H803") as caught:
        frames.check(abort, EXPECTED, peer=2, step="mul")
    assert caught.value.code is Code.PEER_STOPPED
    # An abort that was recorded in another session ends nothing as such: it is a bad frame.
    assert judge(replace(abort, session=bytes(16)).pack()) is Code.BAD_FRAME
    assert judge(replace(EXPECTED, kind=FrameKind.GOODBYE, length=0).pack()) is Code.PEER_GONE


def test_greetings_that_differ() -> None:
    hello = replace(EXPECTED, kind=FrameKind.HELLO)
    assert judge(replace(hello, session=bytes(16)).pack(), hello) is Code.SESSION_MISMATCH
    assert judge(replace(hello, digest=bytes(16)).pack(), hello) is Code.SESSION_MISMATCH
    assert judge(hello.pack(), hello) is None


def test_digest_depends_on_everything_in_the_plan() -> None:
    plan = [Route(0, 1, (2, 3), "uint64"), Route(1, 2, (6,), "uint64")]
    others = [
        ("mul ", plan),
        ("mul", plan[:1]),
        ("mul", plan[::-1]),
        ("mul", [Route(0, 1, (3, 2), "uint64"), plan[1]]),
        ("mul", [Route(0, 1, (2, 3), "int64"), plan[1]]),
        ("mul", [Route(0, 2, (2, 3), "uint64"), plan[1]]),
    ]
    digests = {frames.plan_digest(step, p) for step, p in [("mul", plan), *others]}
    assert len(digests) == 7
    assert frames.plan_digest("mul", tuple(plan)) == frames.plan_digest("mul", plan)


def test_wire_bytes() -> None:
    assert HEADER_BYTES == 56
    assert frames.wire_bytes([]) == 56 + 22
    assert frames.wire_bytes([0, 8]) == 64 + 22
    assert frames.wire_bytes([(1 << 14) - 56]) == (1 << 14) + 22
    assert frames.wire_bytes([(1 << 14) - 55]) == (1 << 14) + 1 + 2 * 22
    assert frames.wire_bytes([1 << 15, 1]) == 56 + (1 << 15) + 1 + 4 * 22
