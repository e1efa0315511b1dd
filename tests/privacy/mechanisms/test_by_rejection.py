"""Choices by rejection: nothing is truncated, rows that need many proposals, extremes."""

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import LIMIT, ByRejection, ExponentialMechanism, PermuteAndFlip
from hedgerow.privacy.source import NoiseSource

N = 10**6
pytestmark = pytest.mark.parametrize("choice", [PermuteAndFlip, ExponentialMechanism])


def test_delta_is_zero(choice: type[ByRejection]) -> None:
    assert choice(1.0).delta(2**20) == 0.0


def test_one_good_candidate_among_many(choice: type[ByRejection]) -> None:
    # Nearly every proposal is rejected, and rows take far more bytes than were drawn at first.
    rows = np.zeros((20, 30_000), dtype=np.int64)
    rows[:, 777] = 1000
    assert (choice(10.0)(rows, NoiseSource.insecure_seeded(1)) == 777).all()


def test_extreme_scores_and_epsilons(choice: type[ByRejection]) -> None:
    ends = np.tile([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0], (100, 1))
    assert (choice(1e-15)(ends, NoiseSource.insecure_seeded(1)) == 1).all()
    assert choice(1.0).law([-LIMIT, LIMIT]).tolist() == [0.0, 1.0]
    rows = np.tile([0, 1, 0], (1000, 1))
    assert (choice(1e300)(rows, NoiseSource.system()) == 1).all()


def test_tiny_epsilon_is_nearly_uniform(choice: type[ByRejection], chi_square) -> None:
    rows = np.broadcast_to(np.array([0, 1, 2]), (N, 3))
    counts = np.bincount(choice(1e-300)(rows, NoiseSource.insecure_seeded(1)))
    assert chi_square(counts, np.full(3, 1 / 3)) > 1e-4
