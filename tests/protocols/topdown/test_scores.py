"""Scores from counts: exact ones are those of the criteria, noisy ones are corrected for noise."""

import numpy as np
import pytest

from hedgerow.privacy import NoiseSource, TwoSidedGeometric
from hedgerow.protocols.topdown.scores import (
    best_branches,
    decrease,
    exact_scores,
    first_branches,
    impurity,
    node_scores,
    totals,
)
from hedgerow.trees.counts.leaves import LeafCounts
from tests.protocols.topdown.topdown_cases import plan, table


@pytest.mark.parametrize("criterion", ["gini", "entropy", "max"])
def test_exact_and_real_decreases_agree(criterion: str) -> None:
    made = plan("single-machine", criterion=criterion)
    counts = LeafCounts(table(), made.candidates)
    counts.split([0], [5])
    histogram, classes = counts.histogram([0, 1, 2]), counts.class_counts([0, 1, 2])
    exact = (exact_scores(made, histogram) - node_scores(made, classes)[:, None]) / 2.0**made.shift
    first = first_branches(histogram, made.candidates)
    second = totals(histogram, made.candidates) - first
    real = decrease(first, second, criterion) * classes.sum(axis=1)[:, None]
    # Floors and the rounding of the logarithm's table.
    assert np.abs(exact - real).max() < 1.0
    assert (exact >= -1 / 2**made.shift * 3).all()


def test_the_worth_of_a_split_moves_by_no_more_than_its_sensitivity() -> None:
    rng = np.random.default_rng(0)
    for criterion in ("gini", "entropy", "max"):
        made = plan("single-machine", criterion=criterion, max_depth=2)
        most = made.value(1).sensitivity
        worst = 0
        for _ in range(300):
            histogram = rng.integers(0, rng.choice([2, 30, 400]), (1, 2, 2))
            for extra in range(4):
                more = histogram.copy()
                more.reshape(-1)[extra] += 1
                worth = [_worth(made, each) for each in (histogram, more)]
                worst = max(worst, abs(worth[0] - worth[1]))
        assert worst <= most
        assert worst > most / 8


def _worth(made, branches: np.ndarray) -> int:
    left, right = node_scores(made, branches[:, 0]), node_scores(made, branches[:, 1])
    return int((left + right - node_scores(made, branches.sum(axis=1)))[0])


def test_impurities() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 0.0], [5.0, 0.0]])
    assert impurity(counts, "gini") == pytest.approx([1.5, 0.0, 0.0])
    entropy = 4 * (-(0.75 * np.log2(0.75)) - 0.25 * np.log2(0.25))
    assert impurity(counts, "entropy") == pytest.approx([entropy, 0.0, 0.0])
    assert impurity(counts, "max") == pytest.approx([1.0, 0.0, 0.0])


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_what_noise_adds_is_subtracted(criterion: str) -> None:
    mechanism = TwoSidedGeometric(0.05)
    first, second = np.array([600, 400]), np.array([1200, 800])
    noisy = mechanism(
        np.tile(np.stack([first, second]), (4000, 1, 1)), NoiseSource.insecure_seeded(3)
    )
    plain = decrease(noisy[:, 0], noisy[:, 1], criterion).mean()
    each = np.full(4000, mechanism.variance)
    corrected = decrease(noisy[:, 0], noisy[:, 1], criterion, (each, each)).mean()
    assert plain > 2e-4  # nothing but noise: the branches have equal shares
    assert abs(corrected) < plain / 5


def test_all_histograms_together_estimate_a_branch_better() -> None:
    made = plan("noisy-counts")
    histogram = LeafCounts(table(), made.candidates).histogram([0])
    truth = first_branches(histogram, made.candidates)
    mechanism = TwoSidedGeometric(0.1)
    noisy = mechanism(np.repeat(histogram, 3000, axis=0), NoiseSource.insecure_seeded(4))
    found = best_branches(noisy, made.candidates)
    error = found.first - truth
    spread = mechanism.variance * found.variance[0][0]
    assert np.abs(error.mean(axis=0)).max() < 5 * np.sqrt(spread.max() / 3000)
    measured = error.var(axis=0).mean(axis=1)
    assert measured == pytest.approx(spread, rel=0.15)
    alone = (first_branches(noisy, made.candidates) - truth).var(axis=0).mean(axis=1)
    assert (measured < alone).all()
    assert measured.sum() < 0.7 * alone.sum()
