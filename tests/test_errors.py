"""Numbered errors: unique, pickled without loss, one page each."""

import pickle
from pathlib import Path
from types import FunctionType

import pytest

from hedgerow.errors import (
    RETIRED,
    Code,
    HedgerowError,
    HedgerowWarning,
    InputError,
    InputTypeError,
    PrivacyError,
    _specs,
    warn_caller,
)

PAGES = Path(__file__).parents[1] / "docs" / "errors"


def test_numbers_are_unique_and_ordered() -> None:
    numbers = [code.value for code in Code]
    assert numbers == sorted(set(numbers))


def test_a_retired_number_is_not_given_again() -> None:
    assert RETIRED
    assert RETIRED.keys().isdisjoint(code.value for code in Code)


def test_every_number_has_its_texts_and_no_text_is_left_over() -> None:
    assert list(_specs()) == [code.name for code in Code]


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_message_says_expected_found_and_what_to_do(code: Code) -> None:
    error = code.error(found="three hedgehogs")
    assert isinstance(error, code.spec.raises)
    text = str(error)
    assert text.startswith(f"{code.number}: ")
    for part in (code.spec.expected, "three hedgehogs", code.spec.fix):
        assert part in text
    assert not any(field.endswith(".") for field in (code.spec.expected, code.spec.fix))


@pytest.mark.parametrize("code", Code, ids=lambda c: c.name)
def test_page_in_the_docs_is_current(code: Code) -> None:
    page = PAGES / f"{code.number}.md"
    assert page.read_text() == code.page(), "run `make docs`"


def test_no_page_without_a_number() -> None:
    assert {p.stem for p in PAGES.glob("H*.md")} == {code.number for code in Code}


def test_a_quoted_sentence_ends_once() -> None:
    error = Code.BAD_TARGET.error(found="Unknown label type.", expected="labels, ...")
    assert "Expected: labels, ... Found: Unknown label type. Do: " in str(error)
    assert error.found == "Unknown label type."


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


def test_warnings_point_at_the_line_outside_the_package() -> None:
    """However deep they come from: nobody can mend a line of the package."""
    inside = {"__name__": "hedgerow.estimators.deep"}
    deep = FunctionType((lambda warn: warn("words")).__code__, inside)
    deeper = FunctionType((lambda one, warn: one(warn)).__code__, inside)
    with pytest.warns(HedgerowWarning, match="words") as caught:
        deeper(deep, warn_caller)
    assert [one.filename for one in caught] == [__file__]
