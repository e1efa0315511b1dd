"""Numbered errors: unique, pickled without loss, one page each."""

import pickle
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError, InputError, InputTypeError, PrivacyError

PAGES = Path(__file__).parents[1] / "docs" / "errors"


def test_numbers_are_unique_and_ordered() -> None:
    numbers = [code.value.number for code in Code]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_message_says_expected_found_and_what_to_do(code: Code) -> None:
    error = code.error(found="three hedgehogs")
    assert isinstance(error, code.value.raises)
    text = str(error)
    assert text.startswith(f"{code.number}: ")
    for part in (code.value.expected, "three hedgehogs", code.value.fix):
        assert part in text
    assert not any(field.endswith(".") for field in (code.value.expected, code.value.fix))


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_page_in_the_docs_is_current(code: Code) -> None:
    page = PAGES / f"{code.number}.md"
    assert page.read_text() == code.page(), "run `make docs`"


def test_no_page_without_a_number() -> None:
    assert {p.stem for p in PAGES.glob("H*.md")} == {code.number for code in Code}


def test_errors_cross_process_boundaries() -> None:
    # joblib and multiprocessing pickle exceptions: the number must survive.
    error = Code.BAD_EPSILON.error(found="-1", fix="choose 1.0")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, PrivacyError)
    assert str(again) == str(error)
    assert again.code is Code.BAD_EPSILON


def test_errors_are_the_builtin_kinds_users_expect() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(InputTypeError, TypeError)
    assert issubclass(PrivacyError, HedgerowError)
