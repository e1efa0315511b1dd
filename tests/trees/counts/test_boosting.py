"""What boosting sees of the rows: exact sums, bounded for each row, added up over batches."""

from itertools import pairwise

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts.boosting import (
    FunctionShape,
    Gradients,
    LocalBoostCounts,
    Loss,
    sample_slots,
)
from hedgerow.trees.counts.forest import Batch

RNG = np.random.default_rng(5)
N, UNIT = 20_000, 1 << 16
BINS = np.asfortranarray(RNG.integers(0, [4, 3], (N, 2)).astype(np.uint8))
CLASSES = RNG.integers(0, 3, N).astype(np.uint8)
PRESENT = RNG.random(N) < 0.9
PAIR = FunctionShape(np.array([0, 1]), (np.array([0, 0, 1, 1]), np.array([2, 0, 1])), (2, 3))


def batches(cuts: list[int], target: np.ndarray) -> list[Batch]:
    edges = [0, *cuts, N]
    return [
        Batch(BINS[low:high], target[low:high], PRESENT[low:high], number)
        for number, (low, high) in enumerate(pairwise(edges))
    ]


def gradients(loss: Loss, k: int, limit: float = 0.8) -> Gradients:
    return Gradients(loss, k, 100, int(limit * UNIT), UNIT)


def test_marginals_are_histograms() -> None:
    counts = LocalBoostCounts(batches([7_000], CLASSES))
    first, second = counts.marginals([4, 3], 3)
    for c in range(3):
        chosen = PRESENT & np.equal(CLASSES, c)
        assert first[:, c].tolist() == np.bincount(BINS[chosen, 0], minlength=4).tolist()
        assert second[:, c].tolist() == np.bincount(BINS[chosen, 1], minlength=3).tolist()
    units = RNG.integers(-100, 101, N)
    (first, _) = LocalBoostCounts(batches([1], units)).marginals([4, 3], None)
    for b in range(4):
        chosen = PRESENT & (BINS[:, 0] == b)
        assert first[b].tolist() == [chosen.sum(), units[chosen].sum()]


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_sums_are_those_of_clipped_gradients(loss: Loss) -> None:
    k = 3 if loss == "softmax" else 1
    target = RNG.integers(-100, 101, N) if loss == "squared" else CLASSES
    start = RNG.normal(size=k)
    counts = LocalBoostCounts(batches([5_000, 9_001], target))
    counts.begin(gradients(loss, k), start)
    values = RNG.normal(size=(6, k))
    counts.add(PAIR, values)
    leaf = PAIR.parts[0][BINS[:, 0]] + 2 * PAIR.parts[1][BINS[:, 1]]
    scores = start + values[leaf]
    if loss == "squared":
        found = target[:, None] / 100 - scores
    elif loss == "logistic":
        found = (target == 1)[:, None] - 1 / (1 + np.exp(-scores))
    else:
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        found = np.eye(3)[target] - share / share.sum(axis=1, keepdims=True)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    clipped = found * np.minimum(1, 0.8 / length)
    expected = np.stack([clipped[PRESENT & (leaf == one)].sum(axis=0) for one in range(6)])
    # Each row is rounded to a unit.
    assert np.abs(counts.sums(PAIR, None) / UNIT - expected).max() <= N / UNIT


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_no_row_moves_the_sums_further_than_the_limit(loss: Loss) -> None:
    k = 4 if loss == "softmax" else 1
    one = FunctionShape(np.array([0]), (np.zeros(4, dtype=np.int64),), (1,))
    what = gradients(loss, k)
    for _ in range(300):
        target = RNG.integers(-100, 101, 1) if loss == "squared" else np.array([1], np.uint8)
        batch = Batch(np.zeros((1, 1), np.uint8), target, np.ones(1, np.bool_))
        counts = LocalBoostCounts([batch])
        counts.begin(what, RNG.normal(size=k) * 10.0 ** RNG.integers(-3, 200))
        assert int((counts.sums(one, None) ** 2).sum()) <= what.limit**2


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_move_nothing_further(loss: Loss, score: float) -> None:
    k = 2 if loss == "softmax" else 1
    target = np.array([1], dtype=np.int64 if loss == "squared" else np.uint8)
    counts = LocalBoostCounts([Batch(np.zeros((1, 1), np.uint8), target, np.ones(1, np.bool_))])
    counts.begin(gradients(loss, k), np.full(k, score))
    one = FunctionShape(np.array([0]), (np.zeros(4, dtype=np.int64),), (1,))
    assert int((counts.sums(one, None) ** 2).sum()) <= gradients(loss, k).limit ** 2


def test_a_sample_is_the_same_again_and_close_to_its_rate() -> None:
    key = bytes(range(16))
    first = sample_slots(key, 3, 0.25, 1, 100_000)
    assert np.array_equal(first, sample_slots(key, 3, 0.25, 1, 100_000))
    assert not np.array_equal(first, sample_slots(key, 4, 0.25, 1, 100_000))
    assert abs(first.mean() - 0.25) < 0.01
    counts = LocalBoostCounts(batches([], CLASSES))
    counts.begin(gradients("logistic", 1, 2.0), np.array([-800.0]))
    # Every record of class 1 has gradient 1, the others 0.
    one = FunctionShape(np.array([0]), (np.zeros(4, dtype=np.int64),), (1,))
    kept = sample_slots(key, 0, 0.25, 0, N)
    expected = UNIT * int((PRESENT & kept & (CLASSES == 1)).sum())
    assert counts.sums(one, (key, 0, 0.25))[0, 0] == expected


def test_a_number_twice_is_refused() -> None:
    batch = batches([], CLASSES)[0]
    with pytest.raises(HedgerowError) as caught:
        LocalBoostCounts([batch, batch])
    assert caught.value.code is Code.BAD_PARAMETER
