"""The one reader of JSON from elsewhere: what it reads, and that every refusal is numbered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError

CODES = [Code.BAD_MODEL_FILE, Code.BAD_LEDGER_FILE]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_plain_objects_are_read_as_they_are(found: dict[str, object]) -> None:
    text = json.dumps(found, ensure_ascii=False)
    assert jsonfile.loads(text, Code.BAD_MODEL_FILE) == found
    if text.isascii():
        assert jsonfile.loads(text.encode(), Code.BAD_MODEL_FILE) == found


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "1e5",
        b"\xff\xfe",
        "\ufeff{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"format": "hedgerow-model", "format": "hedgerow-model"}',
        '{"a": [{"b": 1, "b": 2}]}',
        '{"version": NaN}',
        '{"version": Infinity}',
        '{"version": -Infinity}',
        '{"version": 1e999}',
        '{"version": -1e999}',
        '{"version": ' + "9" * 5_000 + "}",
        '{"version": ' + str(10**400) + "}",
        '{"version": -' + str(10**400) + "}",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_anything_else_is_refused_with_the_number_of_the_format(
    text: str | bytes, code: Code
) -> None:
    with pytest.raises(HedgerowError) as caught:
        jsonfile.loads(text, code)
    assert caught.value.code is code
    assert len(str(caught.value)) < 2000


def test_numbers_up_to_the_range_of_floats_are_read() -> None:
    text = json.dumps({"a": 10**299, "b": 1.7e308, "c": 5e-324})
    assert jsonfile.loads(text, Code.BAD_MODEL_FILE) == {"a": 10**299, "b": 1.7e308, "c": 5e-324}
    assert float(10**jsonfile.MAX_DIGITS) > 0


@pytest.mark.parametrize(
    "error", [ValueError("x"), TypeError("x"), KeyError("x"), OverflowError("x"), RecursionError()]
)
def test_what_goes_wrong_while_reading_becomes_the_number(error: Exception) -> None:
    with pytest.raises(HedgerowError) as caught, jsonfile.refusing(Code.BAD_LEDGER_FILE):
        raise error
    assert caught.value.code is Code.BAD_LEDGER_FILE
    assert caught.value.__cause__ is error


def test_numbered_errors_and_bugs_pass_as_they_are() -> None:
    with pytest.raises(HedgerowError) as caught, jsonfile.refusing(Code.BAD_LEDGER_FILE):
        raise Code.BAD_SCOPE.error(found="another scope")
    assert caught.value.code is Code.BAD_SCOPE
    with pytest.raises(AttributeError), jsonfile.refusing(Code.BAD_LEDGER_FILE):
        raise AttributeError


def test_long_texts_are_cut_in_messages() -> None:
    assert jsonfile.shown("short") == "short"
    assert jsonfile.shown([1]) == "[1]"
    assert len(jsonfile.shown("x" * 1000)) == 300
    assert jsonfile.shown(10**5000) == "a very long int"
