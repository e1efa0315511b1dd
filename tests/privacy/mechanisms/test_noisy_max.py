"""Noisy max: ties, closed form of the law, price of finite precision."""

import itertools
import math

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import NoisyMax
from hedgerow.privacy.mechanisms.coins import Geometric
from hedgerow.privacy.source import NoiseSource
from tests.privacy.mechanisms.choice_laws import worst_loss
from tests.privacy.mechanisms.coin_laws import masses_of


def winners(masses: np.ndarray, scores: tuple[int, ...]) -> np.ndarray:
    """Law of the winner when each candidate's noise has the given masses, by enumeration."""
    law = np.zeros(len(scores))
    for noise in itertools.product(range(masses.size), repeat=len(scores)):
        totals = [q + g for q, g in zip(scores, noise, strict=True)]
        law[totals.index(max(totals))] += math.prod(masses[g] for g in noise)
    return law


def test_law_without_noise_gives_ties_to_the_lowest_index() -> None:
    mechanism = NoisyMax(1000.0)
    assert mechanism.law([1, 7, 7, 3]).tolist() == pytest.approx([0, 1, 0, 0])
    rows = np.tile([1, 7, 7, 3], (1000, 1))
    assert set(mechanism(rows, NoiseSource.system()).tolist()) == {1}


@pytest.mark.parametrize("epsilon", [2.0, 3.0])
@pytest.mark.parametrize("scores", [(0, 0, 0), (2, 0, 1), (0, 3, 3), (5,)])
def test_law_against_enumeration(epsilon: float, scores: tuple[int, ...]) -> None:
    mechanism = NoisyMax(epsilon)
    p = math.exp(-epsilon / 2)
    masses = (1 - p) * p ** np.arange(40)
    assert mechanism.law(scores) == pytest.approx(winners(masses, scores), abs=1e-13)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 20.0, 1e300])
def test_law_sums_to_one(epsilon: float) -> None:
    mechanism = NoisyMax(epsilon)
    for scores in ([5], [0] * 40, [3, -(10**12), 4, 10**9, 10**9 - 1], list(range(60))):
        assert mechanism.law(scores).sum() == pytest.approx(1, abs=1e-12)


def test_monotone_noise_does_not_cover_scores_that_move_apart() -> None:
    mechanism = NoisyMax(1.0, monotone=True)
    assert worst_loss(mechanism, [-1, 0, 1]) > 1.5
    # Nearly all of twice epsilon: the threshold of candidate 0 moves by 2.
    loss = math.log(mechanism.law([1, 19])[0] / mechanism.law([0, 20])[0])
    assert loss == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 50.0, 1000.0, 1e300])
@pytest.mark.parametrize("monotone", [False, True])
def test_delta_is_below_its_bound(epsilon: float, monotone: bool) -> None:
    mechanism = NoisyMax(epsilon, 3, monotone)
    assert 0 < mechanism.delta(1) <= mechanism.delta(2**20) < 2**-60


def test_delta_formulas() -> None:
    mechanism = NoisyMax(1.0)
    length = mechanism.variable.length
    tail = math.exp(-0.5 * 2**length)
    assert mechanism.delta(9) == pytest.approx(9 * (math.e - 1) * tail / (1 - tail))
    assert mechanism.delta(9, t=64) == pytest.approx(9 * (1 + math.e) * (tail + length * 2.0**-65))


@pytest.mark.parametrize(("epsilon", "monotone"), [(1.0, False), (1.0, True), (3.0, False)])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("t", [None, 4, 10])
def test_delta_bounds_the_exact_one(
    epsilon: float, monotone: bool, length: int, t: int | None
) -> None:
    # Few digits of few bits: the law as drawn can be enumerated and compared with its neighbours.
    mechanism = NoisyMax(epsilon, monotone=monotone)
    vars(mechanism)["variable"] = Geometric(mechanism.a, length)
    masses = masses_of(mechanism.variable, t)
    laws = {s: winners(masses, s) for s in itertools.product(range(-1, 5), repeat=2)}
    exact = 0.0
    for scores, law in laws.items():
        for move in itertools.product([0, 1] if monotone else [-1, 0, 1], repeat=2):
            other = laws.get((scores[0] + move[0], scores[1] + move[1]))
            if other is not None:
                for a, b in ((law, other), (other, law)):
                    exact = max(exact, np.maximum(a - math.exp(epsilon) * b, 0).sum())
    assert 0 < exact <= mechanism.delta(2, t)


def test_truncation_bound_is_nearly_attained() -> None:
    mechanism = NoisyMax(1.0)
    vars(mechanism)["variable"] = Geometric(mechanism.a, 3)
    masses = masses_of(mechanism.variable)
    # Candidate 0 wins only with the largest noise, and after the move not at all.
    exact = winners(masses, (0, 6))[0] - math.e * winners(masses, (-1, 7))[0]
    assert mechanism.delta(1) / 4 < exact < mechanism.delta(1)
