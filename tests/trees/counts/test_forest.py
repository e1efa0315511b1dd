"""Counts of a forest equal plain counting, whatever the batches, and survive a second reading."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.trees.counts.coins_of_rows import draw_key
from hedgerow.trees.counts.forest import (
    Batch,
    ForestCounts,
    ForestShape,
    ForestSplits,
    LocalCounts,
    place,
)
from hedgerow.trees.layout import SplitKind

N_BINS = (5, 300, 4)
KEY = draw_key(NoiseSource.insecure_seeded(5))
SUBSETS = np.zeros((2, 300), dtype=np.bool_)
SUBSETS[0, [1, 3]] = True
SUBSETS[1, [0, 2]] = True


def table(n: int, classes: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bins = np.column_stack([rng.integers(0, b, n) for b in N_BINS]).astype(np.uint16)
    target = rng.integers(0, 3, n).astype(np.uint8) if classes else rng.integers(-9, 10, n)
    return bins, target, rng.random(n) < 0.9


def batches(n: int, classes: bool, cuts: list[int]) -> list[Batch]:
    parts = [np.array_split(array, cuts) for array in table(n, classes)]
    return [Batch(*columns, number) for number, columns in enumerate(zip(*parts, strict=True))]


def shape(classes: bool, partition: bool, n_trees: int = 4) -> ForestShape:
    return ForestShape(N_BINS, n_trees, partition, 3 if classes else None)


def some_splits(n: int) -> ForestSplits:
    """A threshold, a leaf and two subsets, in turn."""
    turn = np.arange(n) % 4
    kinds = [SplitKind.THRESHOLD, SplitKind.LEAF, SplitKind.SUBSET, SplitKind.SUBSET]
    return ForestSplits(
        np.array([1, -1, 0, 2], dtype=np.int32)[turn],
        np.array(kinds, dtype=np.uint8)[turn],
        np.array([120, -1, 0, 1], dtype=np.int32)[turn],
        SUBSETS,
    )


def goes_left(bins: np.ndarray, splits: ForestSplits, at: int) -> np.ndarray:
    b = bins[:, splits.feature[at]]
    if splits.kind[at] == SplitKind.THRESHOLD:
        return b <= splits.cut[at]
    return splits.subsets[splits.cut[at], b]


def channels_of(target: np.ndarray, classes: bool) -> list[int]:
    if classes:
        return np.bincount(target, minlength=3).tolist()
    return [target.size, target.sum(), (target**2).sum()]


@pytest.mark.parametrize("classes", [True, False], ids=["classes", "units"])
@pytest.mark.parametrize("partition", [True, False], ids=["partitioned", "whole"])
@pytest.mark.parametrize("cuts", [[], [100, 101, 900]], ids=["one batch", "four batches"])
def test_counts_equal_plain_counting(classes: bool, partition: bool, cuts: list[int]) -> None:
    parts = batches(2000, classes, cuts)
    counts = LocalCounts(parts)
    assert isinstance(counts, ForestCounts)
    counts.begin(shape(classes, partition), KEY)
    for _ in range(3):
        # Rows of each node, found by reading every batch again from the roots.
        where = np.concatenate([place(b, KEY, counts.forest).where for b in parts], axis=1)
        bins, target = (np.concatenate([getattr(b, k) for b in parts]) for k in ("bins", "target"))
        rows = [np.flatnonzero((where == p).any(axis=0)) for p in range(counts.forest.n_nodes)]

        asked = np.arange(counts.forest.n_nodes).repeat(3), np.tile([2, 0, 1], len(rows))
        flat, offsets = counts.histogram(*asked)
        for ask, (p, f) in enumerate(zip(*asked, strict=True)):
            found = flat[offsets[ask] : offsets[ask + 1]]
            assert found.tolist() == np.bincount(bins[rows[p], f], minlength=N_BINS[f]).tolist()

        expected = [channels_of(target[r], classes) for r in rows]
        assert counts.channels().tolist() == expected

        splits = some_splits(len(rows))
        real = np.flatnonzero(splits.kind != SplitKind.LEAF)
        sides = counts.sides(np.repeat(real, 2), splits.take(np.repeat(real, 2)))
        for ask, p in enumerate(np.repeat(real, 2)):
            left = goes_left(bins[rows[p]], splits, p)
            for side, chosen in enumerate((left, ~left)):
                assert sides[ask, side].tolist() == channels_of(target[rows[p]][chosen], classes)

        counts.advance(splits)
        after = counts.channels()
        arity = np.diff(splits.first)
        summed = np.add.reduceat(after, splits.first[:-1])
        assert summed.tolist() == expected
        assert set(arity.tolist()) == {1, 2}


def test_rows_of_a_partitioned_forest_are_in_one_tree_and_of_a_whole_one_in_all() -> None:
    parts = batches(500, True, [])
    present = int(parts[0].present.sum())
    for partition, times in ((True, 1), (False, 4)):
        counts = LocalCounts(parts)
        counts.begin(shape(True, partition), KEY)
        assert counts.channels().sum() == times * present
        assert counts.n_records == present


def test_a_second_core_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = batches(40_000, True, [])
    answers = []
    for cores in (1, 3):
        monkeypatch.setattr("hedgerow.threads.available", lambda cores=cores: cores)
        counts = LocalCounts(parts)
        counts.begin(shape(True, True), KEY)
        counts.advance(some_splits(4))
        nodes = np.arange(counts.forest.n_nodes)
        answers.append([counts.histogram(nodes, nodes % 3)[0], counts.channels()])
    for one, three in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, three)


def code_of(function, *args) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args)
    return caught.value.code


def test_what_does_not_fit_is_refused() -> None:
    (good,) = batches(20, True, [])
    one = shape(True, True)
    assert code_of(LocalCounts, []) is Code.BAD_PARAMETER
    assert code_of(LocalCounts, [good, good]) is Code.BAD_PARAMETER
    assert code_of(LocalCounts([good]).channels) is Code.BAD_PARAMETER
    assert code_of(Batch, good.bins, good.target[:3], good.present) is Code.WRONG_SHAPE
    assert code_of(Batch, good.bins, good.target * 0.5, good.present) is Code.WRONG_TYPE
    assert code_of(ForestShape, N_BINS, 0, True, 3) is Code.BAD_PARAMETER
    other = ForestShape(N_BINS[:2], 4, True, 3)
    assert code_of(LocalCounts([good]).begin, other, KEY) is Code.WRONG_SHAPE
    narrow = ForestShape((2, 300, 4), 4, True, 3)
    assert code_of(LocalCounts([good]).begin, narrow, KEY) is Code.OUTSIDE_BOUNDS
    fewer = ForestShape(N_BINS, 4, True, 2)
    assert code_of(LocalCounts([good]).begin, fewer, KEY) is Code.UNKNOWN_CLASS
    counts = LocalCounts([good])
    counts.begin(one, KEY)
    assert code_of(counts.advance, some_splits(3)) is Code.WRONG_SHAPE
