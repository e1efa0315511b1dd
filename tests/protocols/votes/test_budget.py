"""The largest epsilon of an answer: within the budget, and nearly all of it."""

import math

import pytest

from hedgerow.errors import HedgerowError
from hedgerow.privacy.accounting import basic, tightest, zcdp
from hedgerow.protocols.votes.budget import answers_release, query_epsilon_for, vote_mechanism


def test_one_answer_has_the_noise_of_votes_that_rise_and_fall() -> None:
    mechanism = vote_mechanism(0.5)
    assert float(mechanism.a) == 0.25
    assert not mechanism.monotone
    assert mechanism.sensitivity == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1 / 3, 7.0])
@pytest.mark.parametrize("queries", [1, 3, 7, 1000])
def test_pure_answers_share_epsilon_equally(epsilon: float, queries: int) -> None:
    each = query_epsilon_for(epsilon, queries, 3)
    assert basic([answers_release(each, 3, queries)]).epsilon <= epsilon
    assert each == pytest.approx(epsilon / queries, rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    "queries", [1, 10, 100, 1000, pytest.param(20_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_a_delta_buys_more_for_each_answer(epsilon: float, queries: int, delta: float) -> None:
    each = query_epsilon_for(epsilon, queries, 2, delta=delta)
    every = answers_release(each, 2, queries)
    assert tightest([every], delta).epsilon <= epsilon
    assert each >= epsilon / queries * (1 - 1e-15)
    more = answers_release(each * (1 + 3e-6), 2, queries)
    assert tightest([more], delta).epsilon > epsilon
    # Never below what zCDP alone would give: rho = each^2 / 2 per answer.
    rho = (math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta))) ** 2
    assert each >= math.sqrt(2 * rho / queries) * (1 - 1e-5)
    assert zcdp([every]).epsilon == pytest.approx(queries * each**2 / 2)


def test_the_price_of_precision_is_part_of_delta() -> None:
    # Below the deltas of the answers themselves only addition is left.
    assert query_epsilon_for(1.0, 100, 2, delta=1e-18) == query_epsilon_for(1.0, 100, 2)


@pytest.mark.parametrize(("epsilon", "queries"), [(0.0, 3), (math.inf, 3), (1.0, 0), (-1.0, 1)])
def test_budgets_that_are_none_are_refused(epsilon: float, queries: int) -> None:
    with pytest.raises(HedgerowError, match=r"H201|H501"):
        query_epsilon_for(epsilon, queries, 2)
