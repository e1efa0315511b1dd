"""Checks that every mechanism shares."""

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import NoisyMax, TwoSidedGeometric
from hedgerow.privacy.mechanisms.mechanism import (
    LIMIT,
    check_count,
    check_epsilon,
    check_integers,
    check_sensitivity,
)


def test_good_parameters_become_plain_numbers() -> None:
    assert type(check_epsilon(np.float32(0.5))) is float
    assert check_epsilon(2) == 2.0
    assert check_epsilon(5e-324) > 0
    assert type(check_sensitivity(np.int32(4))) is int
    assert check_sensitivity(10**30) == 10**30
    assert check_count(1) == 1


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: check_epsilon(10**400), Code.BAD_EPSILON),
        (lambda: check_epsilon(np.nan), Code.BAD_EPSILON),
        (lambda: check_epsilon(1j), Code.BAD_EPSILON),
        (lambda: check_sensitivity(np.float64(1)), Code.BAD_MECHANISM_INPUT),
        (lambda: check_sensitivity(None), Code.BAD_MECHANISM_INPUT),
        (lambda: check_count(0), Code.BAD_MECHANISM_INPUT),
        (lambda: check_integers([1.0], "values"), Code.BAD_MECHANISM_INPUT),
    ],
)
def test_bad_parameters_are_refused(call, code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code


def test_integers_become_int64() -> None:
    for dtype in (np.int8, np.uint16, np.int32, np.int64, np.uint64):
        array = check_integers(np.array([0, 100], dtype=dtype), "values")
        assert array.dtype == np.int64
        assert array.tolist() == [0, 100]
    assert check_integers(np.array([2**64 - 1], dtype=np.uint64), "values").tolist() == [LIMIT]


def test_rate_is_exact() -> None:
    rate = TwoSidedGeometric(0.1, 3).variable.a
    assert rate == NoisyMax(0.1, 3, monotone=True).a == Fraction(0.1) / 3
    assert rate * 3 != Fraction(1, 10)
