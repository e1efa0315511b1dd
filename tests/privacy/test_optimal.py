"""Optimal composition against the closed formula, exact enumeration and dp-accounting."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hedgerow.privacy.optimal import optimal_epsilon


def divergence(losses: dict[float, float], epsilon: float) -> float:
    return math.fsum(p * -math.expm1(epsilon - x) for x, p in losses.items() if x > epsilon)


def enumerate_losses(epsilons: list[float]) -> dict[float, float]:
    """All outcomes of the randomised responses, one by one."""
    law: dict[float, float] = {}
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        pairs = list(zip(signs, epsilons, strict=True))
        loss = math.fsum(s * e for s, e in pairs)
        law[loss] = law.get(loss, 0) + math.prod(1 / (1 + math.exp(-s * e)) for s, e in pairs)
    return law


def closed_formula(k: int, epsilon: float, at: float) -> float:
    """Paper: kairouz2015composition, theorem 3.3, for k equal epsilons."""
    terms = (
        math.comb(k, j) * max(0.0, math.exp((k - j) * epsilon) - math.exp(at + j * epsilon))
        for j in range(k + 1)
    )
    return math.fsum(terms) / (1 + math.exp(epsilon)) ** k


@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_equal_epsilons_match_the_closed_formula(k: int, epsilon: float, delta: float) -> None:
    found = optimal_epsilon({epsilon: k}, delta)
    assert closed_formula(k, epsilon, found) <= delta
    if found > 0:
        assert closed_formula(k, epsilon, found * (1 - 1e-5) - 1e-12) > delta * (1 - 1e-4)


@settings(max_examples=40)
@given(
    st.lists(st.floats(0.001, 2), min_size=1, max_size=6),
    st.sampled_from([1e-30, 1e-15, 1e-6, 1e-3, 0.3]),
)
def test_never_below_the_truth_and_close_to_it(epsilons: list[float], delta: float) -> None:
    found = optimal_epsilon(Counter(epsilons), delta)
    law = enumerate_losses(epsilons)
    assert found <= math.fsum(epsilons) * (1 + 1e-12)
    # The total itself is always true; sums of floats may differ in the last place.
    assert divergence(law, found * (1 + 1e-14)) <= delta or found >= math.fsum(epsilons)
    slack = 2 * len(epsilons) * math.fsum(epsilons) / 2**16 + 1e-5 * found + 1e-12
    assert found <= slack or divergence(law, found - slack) > delta * (1 - 1e-3)


@pytest.mark.parametrize("sequence", [{0.1: 30, 0.5: 4}, {0.25: 3, 0.6: 2, 0.07: 20}])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_agrees_with_dp_accounting(sequence: dict[float, int], delta: float) -> None:
    composed = privacy_loss_distribution.identity(value_discretization_interval=1e-3)
    for epsilon, count in sequence.items():
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=1e-3
        )
        composed = composed.compose(one.self_compose(count))
    found = optimal_epsilon(sequence, delta)
    # dp-accounting rounds every negative loss up as well, by up to one interval each.
    assert 0 <= composed.get_epsilon_for_delta(delta) - found + 1e-5 <= 0.1


def test_nothing_costs_nothing() -> None:
    assert optimal_epsilon({}, 1e-6) == 0
    assert optimal_epsilon({0.0: 5, 1.0: 0}, 1e-6) == 0
    assert optimal_epsilon({1e-9: 1}, 1e-6) == 0


def test_long_sequences() -> None:
    """A hundred thousand equal releases: the normal approximation is close, and time is short."""
    k, epsilon, delta = 100_000, 0.01, 1e-6
    found = optimal_epsilon({epsilon: k}, delta)
    mean, deviation = k * epsilon * math.tanh(epsilon / 2), math.sqrt(k) * epsilon
    assert found == pytest.approx(mean + 4.4 * deviation, rel=0.05)
    assert optimal_epsilon({epsilon: 10_000_000}, delta) == math.inf  # refused, never guessed


@pytest.mark.parametrize(("k", "epsilon"), [(1_000_000, 1e-4), (200_000, 3e-3), (50_000, 0.2)])
def test_nothing_that_counts_is_left_out_of_a_long_sequence(k: int, epsilon: float) -> None:
    """The hockey-stick divergence over all numbers of positive losses, also the far ones."""
    for delta in (1e-6, 1e-12):
        found = optimal_epsilon({epsilon: k}, delta)
        positives = np.arange(k + 1)
        losses = (2 * positives - k) * epsilon
        gain = np.where(losses > found, -np.expm1(np.minimum(0.0, found - losses)), 0.0)
        law = binom.pmf(positives, k, 1 / (1 + math.exp(-epsilon)))
        assert delta * (1 - 1e-4) < gain @ law <= delta * (1 + 1e-6)


def test_many_different_epsilons_stay_below_their_sum() -> None:
    epsilons = np.random.default_rng(3).uniform(0.01, 0.2, 120)
    found = optimal_epsilon(Counter(epsilons.tolist()), 1e-6)
    assert 0.3 * epsilons.sum() < found < 0.8 * epsilons.sum()


def test_large_epsilons_do_not_overflow() -> None:
    assert optimal_epsilon({800.0: 2, 1.0: 1}, 1e-9) == pytest.approx(1601, rel=1e-3)


@pytest.mark.parametrize(
    "counts",
    [
        {1.0: 1, 5e-324: 1},
        {1.0: 2, 1e-310: 3},
        {5e-324: 1},
        {5e-322: 7, 6.3e-322: 2},
        {1e-310: 3, 1e-305: 5},
    ],
    ids=str,
)
def test_epsilons_next_to_nothing_have_a_result(counts: dict[float, int]) -> None:
    total = sum(epsilon * count for epsilon, count in counts.items())
    assert 0 <= optimal_epsilon(counts, 1e-12) <= total * (1 + 1e-9)
