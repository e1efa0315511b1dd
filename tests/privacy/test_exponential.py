"""The exponential mechanism: law as published, privacy, exactness."""

import itertools

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import ExponentialMechanism
from hedgerow.privacy.source import NoiseSource

N = 10**6


def test_law_is_the_published_one() -> None:
    scores = np.array([3, 1, 0, 3, -5])
    weights = np.exp(0.8 * scores / 2 / 3)
    law = ExponentialMechanism(0.8, sensitivity=3).law(scores)
    assert law == pytest.approx(weights / weights.sum(), abs=1e-15)
    monotone = ExponentialMechanism(0.4, sensitivity=3, monotone=True).law(scores)
    assert monotone == pytest.approx(law)
    assert ExponentialMechanism(1e9).law([0, 10**12, 10**12]).tolist() == [0.0, 0.5, 0.5]


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
    mechanism = ExponentialMechanism(epsilon, sensitivity, monotone)
    rows = np.broadcast_to(np.array(scores), (N, len(scores)))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(1)), minlength=len(scores))
    assert chi_square(counts, mechanism.law(scores)) > 1e-4


def test_masked_choice_has_its_law(chi_square) -> None:
    mechanism, scores = ExponentialMechanism(0.7), np.array([2, 9, 0, 1, 2])
    valid = np.array([True, False, True, True, False])
    rows, masks = (np.broadcast_to(x, (N, 5)) for x in (scores, valid))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(2), valid=masks), minlength=5)
    assert chi_square(counts, mechanism.law(scores, valid=valid)) > 1e-4


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_law_respects_epsilon(epsilon: float) -> None:
    for monotone, moves in ((False, [-1, 0, 1]), (True, [0, 1])):
        mechanism = ExponentialMechanism(epsilon, monotone=monotone)
        for scores in itertools.product(range(4), repeat=3):
            law = mechanism.law(scores)
            for move in itertools.product(moves, repeat=3):
                other = mechanism.law(np.add(scores, move))
                assert np.abs(np.log(law / other)).max() <= epsilon + 1e-12


def test_one_good_candidate_among_many() -> None:
    # Nearly every proposal is rejected, and rows take far more bytes than were drawn at first.
    rows = np.zeros((20, 30_000), dtype=np.int64)
    rows[:, 777] = 1000
    assert (ExponentialMechanism(10.0)(rows, NoiseSource.insecure_seeded(1)) == 777).all()


def test_delta_is_zero() -> None:
    assert ExponentialMechanism(1.0).delta(2**20) == 0.0
