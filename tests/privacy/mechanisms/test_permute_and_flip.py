"""Permute-and-flip: the law as published."""

import itertools
import math

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import ExponentialMechanism, PermuteAndFlip


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


def test_never_worse_than_the_exponential_mechanism() -> None:
    # Theorem 2 of the paper, in expected score.
    for scores in itertools.product(range(4), repeat=4):
        ours, theirs = (m(1.0).law(scores) @ scores for m in (PermuteAndFlip, ExponentialMechanism))
        assert ours >= theirs - 1e-12
