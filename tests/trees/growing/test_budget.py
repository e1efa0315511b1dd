"""The public rules of the private tree's budget."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.growing.budget import DEEPEST, criterion_for, depth_for, divide


@given(
    epsilon=st.floats(1e-6, 1e3),
    depth=st.integers(1, 40),
    share=st.floats(0.01, 0.99),
)
def test_the_parts_never_exceed_the_whole(epsilon: float, depth: int, share: float) -> None:
    spending = divide(epsilon, depth, share)
    exact = depth * Fraction(spending.split) + Fraction(spending.leaf)
    assert exact <= Fraction(epsilon)
    assert float(exact) == pytest.approx(epsilon, rel=1e-15)
    assert math.fsum([spending.split] * depth + [spending.leaf]) <= epsilon


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 5e-324, 1.7e308])
def test_an_epsilon_that_cannot_be_divided_is_refused(epsilon: float) -> None:
    with pytest.raises(HedgerowError) as caught:
        divide(epsilon, 3)
    far = math.isfinite(epsilon) and epsilon > 0
    assert caught.value.code is (Code.EPSILON_BEYOND_REACH if far else Code.BAD_EPSILON)


def test_depth_grows_with_records_and_epsilon() -> None:
    by_records = [depth_for(1.0, 10**k, 100, 1.0) for k in range(1, 9)]
    assert by_records == sorted(by_records)
    by_epsilon = [depth_for(10.0**k, 1000, 100, 1.0) for k in range(-3, 4)]
    assert by_epsilon == sorted(by_epsilon)
    assert by_records[0] == by_epsilon[0] == 1
    assert by_records[-1] == DEEPEST
    assert depth_for(1.0, 1000, 100, 2.0) <= depth_for(1.0, 1000, 100, 1.0)
    assert depth_for(1.0, 1000, 100, 1.0, arity=8.0) < depth_for(1.0, 1000, 100, 1.0)


def test_the_quiet_score_serves_small_tables_and_the_fine_one_large_ones() -> None:
    assert criterion_for(1.0, 600, 2) == "max"
    assert criterion_for(1.0, 30_000, 2) == "gini"
    assert criterion_for(1.0, 5_000, 10) == "max"
