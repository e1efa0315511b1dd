"""Headers survive the wire, and nothing else is taken for one."""

import json
import math
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.parties.wire.requests import (
    MAGIC,
    MAX_HEADER_BYTES,
    PREFIX,
    VERSION,
    Body,
    ReplyHeader,
    Request,
    as_body,
    error_fields,
    header_length,
    pack,
    parse_error,
)
from tests.parties.wire.parties_calls import refuses, stamped

GOOD = json.loads(stamped("echo", 5, id="ab" * 16, time=1.5).pack()[PREFIX.size :])


def read(data: bytes) -> Request:
    """Read a request as a service does: the prefix, then as many bytes as it says."""
    length = header_length(data[: PREFIX.size].ljust(PREFIX.size, b"\0"), Code.BAD_REQUEST)
    return Request.parse(data[PREFIX.size : PREFIX.size + length])


FIELDS = st.dictionaries(
    st.text(max_size=5),
    st.none()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
    | st.lists(st.booleans(), max_size=3),
    max_size=4,
)


@given(FIELDS, st.integers(0, 1 << 38))
def test_a_request_survives(fields: dict, payload: int) -> None:
    request = Request("some-verb", fields, payload, "0f" * 16, 1234.5)
    assert read(request.pack()) == request


# Bytes of every kind: noise, noise behind a prefix, JSON with something wrong in it.
NOISE = st.binary(max_size=200)
FRAMED = NOISE.map(lambda body: PREFIX.pack(MAGIC, VERSION, len(body)) + body)
NEARLY = st.tuples(st.sampled_from(sorted(GOOD)), FIELDS | st.none() | st.integers() | st.text())
SPOILT = NEARLY.map(lambda change: pack(GOOD | {change[0]: change[1]}))


@settings(max_examples=3_000)
@given(st.one_of(NOISE, FRAMED, SPOILT))
@example(PREFIX.pack(MAGIC, VERSION, 100_000) + b"[" * 100_000)
@example(PREFIX.pack(MAGIC, VERSION, 60_000) + b"[" * 60_000)
@example(PREFIX.pack(MAGIC, VERSION, 60_000) + b'{"a":' * 12_000)
@example(pack(GOOD)[:-1] + b',"verb":"echo"}')
def test_garbage_is_refused_by_number(data: bytes) -> None:
    found: Request | HedgerowError
    try:
        found = read(data)
    except HedgerowError as error:
        found = error
    if isinstance(found, HedgerowError):
        assert found.code in {Code.BAD_REQUEST, Code.WRONG_VERSION, Code.HEADER_TOO_LARGE}
    else:
        assert math.isfinite(found.time)
        assert 0 <= found.payload <= 1 << 38


@settings(max_examples=2_000)
@given(NOISE)
def test_garbage_as_a_reply(data: bytes) -> None:
    refuses(Code.BAD_REPLY, lambda: ReplyHeader.parse(data, "server"))


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "Echo"},
        {"verb": "../x"},
        {"verb": "echo\n"},
        {"verb": ""},
        {"verb": 1},
        {"id": "ab" * 15},
        {"id": "AB" * 16},
        {"id": None},
        {"time": True},
        {"time": "now"},
        {"payload": -1},
        {"payload": 1.0},
        {"payload": True},
        {"payload": 1 << 39},
        {"fields": []},
        {"fields": None},
        {"more": 1},
    ],
)
def test_every_field_is_checked(change: dict) -> None:
    refuses(Code.BAD_REQUEST, lambda: read(pack(GOOD | change)))
    short = dict(GOOD)
    short.pop(next(iter(change)), None)
    if short != GOOD:
        refuses(Code.BAD_REQUEST, lambda: read(pack(short)))


def test_a_header_is_bounded() -> None:
    room = MAX_HEADER_BYTES - len(pack({"a": ""})) + PREFIX.size
    assert len(pack({"a": "x" * room})) == MAX_HEADER_BYTES + PREFIX.size
    refuses(Code.HEADER_TOO_LARGE, lambda: pack({"a": "x" * (room + 1)}))


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_every_error_travels(code: Code) -> None:
    error = code.error(found="three hedgehogs")
    data = pack(error_fields(error))[PREFIX.size :]
    back = ReplyHeader.parse(data, "server-a").error
    assert back is not None
    assert type(back) is type(error)
    assert (back.code, back.expected, back.fix) == (code, error.expected, error.fix)
    assert back.found == "three hedgehogs (at server-a)"
    assert (error.party, back.party) == (None, "server-a")
    assert pickle.loads(pickle.dumps(back)).party == "server-a"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("a hole (at ward)", "a hole (at ward, says lab)"),
        ("a hole (at ward, says registry)", "a hole (at ward, says lab)"),
        ("a hole (at lab)", "a hole (at lab)"),
        ("(at ward) a hole", "(at ward) a hole (at lab)"),
    ],
)
def test_news_that_was_passed_on_say_where_and_who_says_so(found: str, told: str) -> None:
    error = parse_error(error_fields(Code.SITE_LOST.error(found=found))["error"], "lab")
    assert error is not None
    assert (error.found, error.party) == (told, "lab")


def test_words_of_others_are_harmless() -> None:
    error = Code.BAD_EPSILON.error(found="\x1b[31m\r\nline\u202e" + "x" * 100_000)
    data = pack(error_fields(error))[PREFIX.size :]
    back = ReplyHeader.parse(data, "s").error
    assert back is not None
    assert back.found.startswith("?[31m??line?xxx")
    assert len(back.found) < 2100


def test_an_error_of_a_newer_release() -> None:
    parts = {"code": "FROM_THE_FUTURE", "expected": "a", "found": "b", "fix": "c"}
    error = ReplyHeader.parse(json.dumps({"error": parts}).encode(), "s").error
    assert isinstance(error, NetworkError)
    assert error.code is Code.BAD_REPLY
    assert "FROM_THE_FUTURE" in str(error)
    assert error.party == "s"


@pytest.mark.parametrize(
    "reply",
    [
        {"error": None},
        {"error": {}},
        {"error": {"code": 1, "expected": "", "found": "", "fix": ""}},
        {"error": {"code": "BAD_EPSILON"}, "fields": {}},
        {"fields": {}},
        {"fields": {}, "payload": -1},
        {"go": True, "fields": {}},
    ],
)
def test_malformed_replies(reply: dict) -> None:
    refuses(Code.BAD_REPLY, lambda: ReplyHeader.parse(json.dumps(reply).encode(), "s"))


def test_bodies() -> None:
    assert as_body(None).length == 0
    assert as_body(b"abc").length == 3
    assert as_body([b"ab", bytearray(3), memoryview(b"c")]).length == 6
    assert as_body(Body(9, iter(()))).length == 9
    refuses(Code.BAD_PARAMETER, lambda: as_body(iter([b"a"])))
    refuses(Code.BAD_PARAMETER, lambda: as_body("text"))
