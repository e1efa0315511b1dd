"""Sampled trees: the coins, the bound, and that no tree releases more than was charged."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError, LeakageError, PrivacyError
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import basic, tightest
from hedgerow.protocols.hidden.sampling import (
    MECHANISM,
    RATE_BITS,
    SAMPLED,
    amplified,
    coin_constant,
    sample_rows,
    tree_epsilon_for,
)
from hedgerow.secure.ring import Z16
from tests.protocols.hidden.forest_runs import ENGINES, asked, planned, slots, trained
from tests.secure.engines import reveal

TREES, RATE = 4, 0.25
TREE = 2.0
"""Epsilon of one tree on the records that it sees."""
EPSILON = TREES * math.log(1 + RATE * (math.exp(TREE) - 1))
"""Of all trees together on all records."""


@given(st.floats(1e-6, 60), st.floats(2**-20, 1), st.floats(0, 1e-3))
def test_the_bound_is_the_formula_rounded_up(epsilon: float, rate: float, delta: float) -> None:
    found, found_delta = amplified(epsilon, delta, rate)
    g = coin_constant(rate) / 2**RATE_BITS
    assert rate - 2.0**-RATE_BITS < g <= rate
    wanted = math.log1p(g * math.expm1(epsilon))
    assert wanted * (1 - 1e-13) <= found <= wanted * (1 + 1e-9)
    assert g * delta <= found_delta <= delta
    # More than the paper says, and never more than without sampling.
    assert g * epsilon * (1 - 1e-9) <= found <= epsilon


def test_figures() -> None:
    assert amplified(1.0, 0.0, 0.1)[0] == pytest.approx(0.15865, abs=1e-4)
    assert amplified(1000.0, 0.0, 0.5)[0] == pytest.approx(1000 - math.log(2))
    assert amplified(math.inf, 0.0, 0.5) == (math.inf, 0.0)
    assert amplified(2.0, 1e-9, 1.0) == (2.0, 1e-9)


@given(st.floats(0.01, 100), st.integers(1, 50), st.floats(0.001, 1))
def test_the_epsilon_of_a_tree_uses_the_budget_up(epsilon: float, trees: int, rate: float) -> None:
    each = tree_epsilon_for(epsilon, trees, rate)
    total = trees * amplified(each, 0.0, rate)[0]
    assert epsilon * (1 - 1e-9) <= total <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, 2.0**-30, math.nan])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        coin_constant(rate)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rate", [0.25, 0.013, 1.0])
def test_coins_have_the_rate_and_do_not_know_of_each_other(engine: str, rate: float) -> None:
    plan = planned(noise="none", n_trees=40, sampling="poisson", rate=rate)
    made = trained(planned(noise="none"), slots(), engine).engine
    drawn = reveal(sample_rows(made, 40, plan.n_slots, rate, Z16)).astype(np.int64)
    assert drawn.shape == (40, plan.n_slots)
    assert set(np.unique(drawn)) <= {0, 1}
    n = drawn.size
    assert abs(drawn.mean() - rate) <= 5 * math.sqrt(rate * (1 - rate) / n)
    pairs = (drawn[1:] * drawn[:-1]).mean()
    assert abs(pairs - rate**2) <= 6 * math.sqrt(rate**2 / n)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("leaf_release", ["counts", "labels"])
def test_trees_are_charged_as_a_whole(engine: str, branching: str, leaf_release: str) -> None:
    plan = planned(
        noise="splits+leaves",
        n_trees=TREES,
        sampling="poisson",
        rate=RATE,
        epsilon=EPSILON,
        branching=branching,
        leaf_release=leaf_release,
    )
    forest = trained(plan, slots(plan.n_slots), engine)
    assert set(forest.ask(asked())) <= {0, 1, 2}
    total = forest.ledger.formal_total("analyst")
    assert total.epsilon == pytest.approx(EPSILON, rel=1e-9)
    assert total.epsilon <= EPSILON
    assert 0 < total.delta < TREES * 2.0**-58
    # The paper: as many times rate times epsilon, which is less than what holds.
    claimed = forest.ledger.claimed_total("analyst")
    assert claimed == pytest.approx(TREES * RATE * TREE)
    assert claimed < total.epsilon
    (release,) = forest.ledger.releases
    assert (release.mechanism, release.reason, release.times) == (MECHANISM, SAMPLED, TREES)
    assert tightest([release], 1e-6).epsilon <= total.epsilon
    assert all(row["equal"] for row in forest.leakage.compare())
    assert forest.ledger.not_private


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "splits+leaves"},
        {"noise": "splits+leaves", "leaf_release": "labels", "branching": "wary"},
        {"noise": "leaves", "random_splits": True},
    ],
)
def test_what_is_drawn_inside_a_tree_comes_to_what_is_amplified(options: Any) -> None:
    plan = planned(n_trees=TREES, sampling="poisson", rate=RATE, epsilon=EPSILON, **options)
    inside = basic(plan.tree_releases())
    (each,) = plan.releases()
    epsilon, delta = amplified(inside.epsilon, inside.delta, RATE)
    assert each.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert each.delta == pytest.approx(delta, rel=1e-9)


def test_no_tree_releases_more_than_was_charged() -> None:
    plan = planned(
        noise="splits+leaves", n_trees=TREES, sampling="poisson", rate=RATE, epsilon=EPSILON
    )
    ledger = Ledger()
    paid = plan.charge(ledger)
    first, *others = plan.tree_releases()
    with pytest.raises(LeakageError, match="H306"):
        paid.charge(replace(first, epsilon=first.epsilon * 1.01))
    paid.charge(first, *others)
    # Each of them once.
    with pytest.raises(LeakageError, match="H306"):
        paid.charge(first)
    assert ledger.releases == tuple(plan.releases())


@pytest.mark.parametrize("noise", ["none", "leaves"])
def test_sampling_does_not_help_trees_without_noise(noise: str) -> None:
    plan = planned(noise=noise, n_trees=TREES, sampling="poisson", rate=RATE, epsilon=EPSILON)
    forest = trained(plan, slots(plan.n_slots))
    forest.ask(asked())
    assert forest.ledger.formal_total("analyst").epsilon == math.inf
    claimed = forest.ledger.claimed_total("analyst")
    assert claimed == (None if noise == "none" else pytest.approx(TREES * RATE * TREE))


def test_coins_are_charged_for_before_they_are_flipped() -> None:
    plan = planned(noise="splits+leaves", n_trees=TREES, sampling="poisson", epsilon=EPSILON)
    with pytest.raises(PrivacyError, match="H207"):
        plan.charge(Ledger(budget=0.99 * EPSILON))
