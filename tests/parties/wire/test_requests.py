"""Errors and payloads survive the wire, and fields stay within their bounds."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.parties.wire.requests import (
    BLOCK_BYTES,
    MAX_ERROR_BYTES,
    MAX_FIELDS_BYTES,
    Body,
    as_body,
    error_fields,
    pack_error,
    pack_fields,
    parse_error,
    status_of,
)
from tests.parties.wire.parties_calls import refuses

FIELDS = st.dictionaries(
    st.text(max_size=5),
    st.none()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
    | st.lists(st.booleans(), max_size=3),
    max_size=4,
)


def come_back(error: HedgerowError, party: str = "server-a") -> HedgerowError:
    back = parse_error(json.loads(pack_error(error))["error"], party)
    assert back is not None
    return back


@given(FIELDS)
def test_fields_fit_into_a_header(fields: dict) -> None:
    data = pack_fields(fields)
    # No line ends in it, and nothing that a header would lose.
    assert all(32 <= byte < 127 for byte in data)
    assert data.strip() == data
    assert jsonfile.loads(data, Code.BAD_REQUEST) == fields


def test_fields_are_bounded() -> None:
    room = MAX_FIELDS_BYTES - len(pack_fields({"a": ""}))
    assert len(pack_fields({"a": "x" * room})) == MAX_FIELDS_BYTES
    refuses(Code.HEADER_TOO_LARGE, lambda: pack_fields({"a": "x" * (room + 1)}))


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_every_error_travels(code: Code) -> None:
    error = code.error(found="three hedgehogs")
    back = come_back(error)
    assert type(back) is type(error)
    assert (back.code, back.expected, back.fix) == (code, error.expected, error.fix)
    assert back.found == "three hedgehogs (at server-a)"
    assert (error.party, back.party) == (None, "server-a")
    assert pickle.loads(pickle.dumps(back)).party == "server-a"
    assert 400 <= status_of(error) < 600


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
    error = come_back(Code.PEER_GONE.error(found=found), "lab")
    assert (error.found, error.party) == (told, "lab")


def test_words_of_others_are_harmless() -> None:
    error = Code.BAD_EPSILON.error(found="\x1b[31m\r\nline\u202e" + "x" * 100_000)
    back = come_back(error)
    assert back.found.startswith("?[31m??line?xxx")
    assert len(back.found) < 2100
    widest = Code.BAD_EPSILON.error(expected="\U0001f333" * 9999, found="\U0001f333" * 9999)
    widest.fix = widest.found
    assert len(pack_error(widest)) <= MAX_ERROR_BYTES


def test_an_error_of_a_newer_release() -> None:
    parts = {"code": "FROM_THE_FUTURE", "expected": "a", "found": "b", "fix": "c"}
    error = parse_error(parts, "s")
    assert isinstance(error, NetworkError)
    assert error.code is Code.BAD_REPLY
    assert "FROM_THE_FUTURE" in str(error)
    assert error.party == "s"


@pytest.mark.parametrize(
    "error",
    [
        {},
        [],
        "H870",
        {"code": 1, "expected": "", "found": "", "fix": ""},
        {"code": "BAD_EPSILON"},
        {"code": "BAD_EPSILON", "expected": "", "found": "", "fix": "", "more": ""},
    ],
)
def test_malformed_errors(error: object) -> None:
    refuses(Code.BAD_REPLY, lambda: parse_error(error, "s"))


def test_no_error() -> None:
    assert parse_error(None, "s") is None
    assert error_fields(Code.BAD_NAME.error(found="x"))["error"]["code"] == "BAD_NAME"


def test_bodies() -> None:
    assert as_body(None).length == 0
    assert as_body(b"abc").length == 3
    assert as_body([b"ab", bytearray(3), memoryview(b"c")]).length == 6
    assert as_body(Body(9, iter(()))).length == 9
    refuses(Code.BAD_PARAMETER, lambda: as_body(iter([b"a"])))
    refuses(Code.BAD_PARAMETER, lambda: as_body("text"))


def test_payload_of_any_pieces() -> None:
    data = bytes(range(256)) * 5000
    pieces = [data[:1], b"", data[1:70_000], bytearray(data[70_000:900_000]), data[900_000:]]
    blocks = list(Body(len(data), (memoryview(piece) for piece in pieces)).blocks())
    assert b"".join(blocks) == data
    assert max(block.nbytes for block in blocks) == BLOCK_BYTES


@pytest.mark.parametrize("pieces", [[b"ab"], [b"abcd"], [b"ab", b"cd"], []])
def test_a_body_of_another_length_than_declared(pieces: list) -> None:
    sent = []
    refuses(Code.BAD_PARAMETER, lambda: sent.extend(Body(3, pieces).blocks()))
    assert sum(block.nbytes for block in sent) <= 3
