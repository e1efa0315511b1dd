"""Permute-and-flip: law as published, privacy, exactness."""

import itertools
import math

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import LIMIT, ExponentialMechanism, PermuteAndFlip
from hedgerow.privacy.source import NoiseSource

N = 10**6


def published(scores: list[int], a: float) -> np.ndarray:
    """Algorithm 1 by enumeration of the orders."""
    heads = [math.exp(-a * (max(scores) - q)) for q in scores]
    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for r in order:
            law[r] += left * heads[r]
            left *= 1 - heads[r]
    return law / math.factorial(len(scores))


@pytest.mark.parametrize("scores", [[4], [0, 0], [3, 1, 0, 3], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 4.0, 1000.0])
def test_law_is_the_published_one(scores: list[int], epsilon: float) -> None:
    for monotone in (False, True):
        a = epsilon if monotone else epsilon / 2
        law = PermuteAndFlip(epsilon, monotone=monotone).law(scores)
        assert law == pytest.approx(published(scores, a), abs=1e-14)


def test_law_of_many_candidates() -> None:
    scores = np.random.default_rng(0).integers(0, 100, 500)
    law = PermuteAndFlip(0.2).law(scores)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    # Equal scores, equal chances: the order is uniform.
    for q in np.unique(scores):
        assert np.ptp(law[scores == q]) < 1e-15


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "monotone", "scores"),
    [
        (1.0, 1, False, [3, 1, 0, 3]),
        (1.0, 1, True, [3, 1, 0, 3]),
        (0.02, 1, False, [0, 40, 90, 100, 7]),
        (1e-6, 1, False, [0, 2_000_000, 1_000_000]),
        (2.0, 5, True, [-7, -7, -7, -5]),
        (30.0, 1, True, [5, 5, 4]),
        (0.5, 1, False, list(range(30))),
    ],
)
def test_choice_has_its_law(
    epsilon: float, sensitivity: int, monotone: bool, scores: list[int], chi_square
) -> None:
    mechanism = PermuteAndFlip(epsilon, sensitivity, monotone)
    rows = np.broadcast_to(np.array(scores), (N, len(scores)))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(1)), minlength=len(scores))
    assert chi_square(counts, mechanism.law(scores)) > 1e-4


def test_masked_choice_has_its_law(chi_square) -> None:
    mechanism, scores = PermuteAndFlip(0.7), np.array([2, 9, 0, 1, 2])
    valid = np.array([True, False, True, True, False])
    rows, masks = (np.broadcast_to(x, (N, 5)) for x in (scores, valid))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(2), valid=masks), minlength=5)
    assert chi_square(counts, mechanism.law(scores, valid=valid)) > 1e-4


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_law_respects_epsilon(epsilon: float) -> None:
    for monotone, moves in ((False, [-1, 0, 1]), (True, [0, 1])):
        mechanism = PermuteAndFlip(epsilon, monotone=monotone)
        for scores in itertools.product(range(4), repeat=3):
            law = mechanism.law(scores)
            for move in itertools.product(moves, repeat=3):
                other = mechanism.law(np.add(scores, move))
                assert np.abs(np.log(law / other)).max() <= epsilon + 1e-12


def test_never_worse_than_the_exponential_mechanism() -> None:
    # Theorem 2 of the paper, in expected score.
    for scores in itertools.product(range(4), repeat=4):
        ours, theirs = (m(1.0).law(scores) @ scores for m in (PermuteAndFlip, ExponentialMechanism))
        assert ours >= theirs - 1e-12


def test_extreme_scores_and_epsilons() -> None:
    ends = np.tile([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0], (100, 1))
    assert (PermuteAndFlip(1e-15)(ends, NoiseSource.insecure_seeded(1)) == 1).all()
    assert PermuteAndFlip(1.0).law([-LIMIT, LIMIT]).tolist() == [0.0, 1.0]
    rows = np.tile([0, 1, 0], (1000, 1))
    assert (PermuteAndFlip(1e300)(rows, NoiseSource.system()) == 1).all()


def test_tiny_epsilon_is_nearly_uniform(chi_square) -> None:
    rows = np.broadcast_to(np.array([0, 1, 2]), (N, 3))
    counts = np.bincount(PermuteAndFlip(1e-300)(rows, NoiseSource.insecure_seeded(1)))
    assert chi_square(counts, np.full(3, 1 / 3)) > 1e-4


def test_delta_is_zero() -> None:
    assert PermuteAndFlip(1.0).delta(2**20) == 0.0
