"""Options that are one of a few words."""

from enum import StrEnum
from typing import Literal

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.options import check_option

Colour = Literal["red", "green"]


class Named(StrEnum):
    red = "red"


@pytest.mark.parametrize("value", ["red", "green", np.str_("red"), Named.red])
def test_listed(value) -> None:
    check_option("colour", value, Colour)


@pytest.mark.parametrize("value", ["blue", "Red", "", None, True, 1, b"red", ["red"], ("red",)])
def test_not_listed(value) -> None:
    with pytest.raises(HedgerowError) as caught:
        check_option("colour", value, Colour)
    assert caught.value.code is Code.BAD_PARAMETER
    assert caught.value.expected == "colour as one of 'red', 'green'"
    assert caught.value.found == f"colour={value!r}"


def test_what_does_not_compare_is_refused_too() -> None:
    with pytest.raises(HedgerowError, match="H501"):
        check_option("colour", np.array(["red", "green"]), Colour)


def test_equal_values_of_another_type() -> None:
    check_option("level", 1, Literal[1, None])
    check_option("level", None, Literal[1, None])
    with pytest.raises(HedgerowError, match="H501"):
        check_option("level", 1.0, Literal[1, None])
