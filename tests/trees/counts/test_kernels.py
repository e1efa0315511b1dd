"""Each kernel against a few lines of NumPy, for every number format and group size."""

import numpy as np
import pytest

from hedgerow.trees.counts import kernels
from hedgerow.trees.growing.criteria import CRITERIA, FLOAT_TABLE
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import channels, children

T, V, W = int(SplitKind.THRESHOLD), int(SplitKind.VALUE), int(SplitKind.WARY)
K = 3


class Case:
    """Rows in two ranges and a gap, with an empty node between them."""

    def __init__(self, target_type, bin_type=np.uint8, d=6, n=101, seed=0):
        rng = np.random.default_rng(seed)
        self.n_bins = np.array([2, 7, 5, 3, 9, 4][:d], dtype=np.int32)
        self.columns = np.stack([rng.integers(0, m, n) for m in self.n_bins]).astype(bin_type)
        self.order = rng.permutation(n).astype(np.int32)
        if target_type == np.uint8:
            self.target = rng.integers(0, K, n).astype(np.uint8)
            self.buffer_type = np.int32
        else:
            self.target = rng.integers(-9, 9, n).astype(target_type)
            self.buffer_type = target_type
        self.start = np.array([0, 40, 47])
        self.stop = np.array([40, 40, n])
        self.features = np.arange(d)
        self.offset = np.concatenate([[0], np.cumsum(self.n_bins)]).astype(np.int64)
        # As in `Candidates`: to Numba a read-only array is another type, compiled once more.
        self.n_bins.setflags(write=False)

    @property
    def ranges(self):
        return self.columns, self.order, self.target, self.start, self.stop

    def buffer(self):
        # What is left of earlier use must not matter.
        return np.full((kernels.GROUP, self.n_bins.max(), K), 77, dtype=self.buffer_type)

    def rows(self, node):
        lo, hi = self.start[node], self.stop[node]
        return self.order[lo:hi], self.target[lo:hi]

    def expected_histogram(self):
        out = np.zeros((3, self.offset[-1], K), dtype=np.float64)
        for node in range(3):
            rows, target = self.rows(node)
            for f, at in enumerate(self.offset[:-1]):
                for b in range(self.n_bins[f]):
                    out[node, at + b] = channels(target[self.columns[f, rows] == b], K)
        return out


CASES = [
    (np.uint8, np.uint8),
    (np.uint8, np.uint16),
    (np.float64, np.uint8),
    (np.int64, np.uint8),
]


@pytest.mark.parametrize(("target_type", "bin_type"), CASES)
def test_histograms(target_type, bin_type):
    case = Case(target_type, bin_type)
    out = np.full((3, case.offset[-1], K), -1, dtype=np.float64)
    kernels.histogram_nodes(
        *case.ranges, case.features, case.n_bins, case.offset, case.buffer(), out
    )
    np.testing.assert_array_equal(out, case.expected_histogram())


@pytest.mark.parametrize("d", range(1, 6))
def test_groups_of_any_size(d):
    case = Case(np.uint8, d=d)
    out = np.zeros((3, case.offset[-1], K))
    kernels.histogram_nodes(
        *case.ranges, case.features, case.n_bins, case.offset, case.buffer(), out
    )
    np.testing.assert_array_equal(out, case.expected_histogram())


def test_only_the_given_features_are_written():
    case = Case(np.uint8)
    out = np.full((3, case.offset[-1], K), -1.0)
    kernels.histogram_nodes(
        *case.ranges, np.array([1, 4]), case.n_bins, case.offset, case.buffer(), out
    )
    expected = np.full_like(out, -1.0)
    for f in (1, 4):
        part = slice(case.offset[f], case.offset[f + 1])
        expected[:, part] = case.expected_histogram()[:, part]
    np.testing.assert_array_equal(out, expected)


def score(case, name, kinds, leaf=0, skip=None, features=None):
    kinds.setflags(write=False)
    per_feature = np.where(kinds == W, 1, np.where(kinds == T, case.n_bins - 1, case.n_bins))
    first = np.concatenate([[0], np.cumsum(per_feature)]).astype(np.int64)
    out = np.full((3, first[-1]), 55.0)
    constant = np.zeros((3, kinds.size), dtype=bool)
    kernels.score_nodes(
        *case.ranges,
        case.features if features is None else features,
        np.zeros_like(constant) if skip is None else skip,
        case.n_bins,
        kinds,
        first,
        CRITERIA[name].kernel,
        leaf,
        0,
        FLOAT_TABLE,
        -np.inf,
        case.buffer(),
        out,
        constant,
    )
    return out, constant, first


def test_a_small_branch_scores_lowest():
    case = Case(np.uint8)
    kinds = np.array([T, T, V, T, V, T], dtype=np.uint8)
    free, _, first = score(case, "gini", kinds)
    limited, _, _ = score(case, "gini", kinds, leaf=9)
    for node in range(3):
        rows, _ = case.rows(node)
        for f, kind in enumerate(kinds):
            for cut in range(first[f + 1] - first[f]):
                child = children(case.columns[f, rows], kind, cut, case.n_bins[f])
                smallest = min(rows.size - child.sum(), child.sum())
                expected = free[node, first[f] + cut] if smallest >= 9 else -np.inf
                assert limited[node, first[f] + cut] == expected


def test_skipped_features_are_lowest_and_the_others_unchanged():
    case = Case(np.uint8)
    kinds = np.full(6, T, dtype=np.uint8)
    rng = np.random.default_rng(2)
    skip = rng.random((3, 6)) < 0.5
    free, _, first = score(case, "entropy", kinds)
    some, _, _ = score(case, "entropy", kinds, skip=skip)
    feature = np.repeat(np.arange(6), np.diff(first))
    np.testing.assert_array_equal(some, np.where(skip[:, feature], -np.inf, free))


def test_other_features_are_not_touched():
    case = Case(np.uint8)
    out, _, first = score(case, "gini", np.full(6, T, dtype=np.uint8), features=np.array([2, 5]))
    touched = np.isin(np.repeat(np.arange(6), np.diff(first)), [2, 5])
    assert (out[:, ~touched] == 55.0).all()
    assert (out[:, touched] != 55.0).all()


def test_constant_features_are_noticed():
    case = Case(np.uint8)
    case.columns[1] = 4
    case.columns[3, case.order[47:]] = 2
    _, constant, _ = score(case, "gini", np.full(6, T, dtype=np.uint8))
    assert constant[0].tolist() == [False, True, False, False, False, False]
    assert constant[1].all()  # no rows at all
    assert constant[2].tolist() == [False, True, False, True, False, False]


SPLITS = [([4, 0, 1], [T, T, V], [3, 0, 2]), ([1, 2, 4], [W, W, W], [0, 0, 0])]


def chosen(case, features, kinds, cuts):
    feature = np.array(features, dtype=np.int32)
    kind = np.array(kinds, dtype=np.uint8)
    width = np.where(kind == W, case.n_bins[feature], 2)
    first = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    return feature, kind, np.array(cuts, dtype=np.int32), first


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("target_type", "bin_type"), CASES)
def test_tally(target_type, bin_type, split):
    case = Case(target_type, bin_type)
    feature, kind, cut, first = chosen(case, *split)
    counts = np.zeros((first[-1], K))
    gap = np.zeros((3, 2), dtype=np.int64)
    before = case.order.copy()
    kernels.tally_children(
        *case.ranges, feature, kind, cut, case.n_bins, first[:-1], case.buffer(), counts, gap
    )
    np.testing.assert_array_equal(case.order, before)
    for node in range(3):
        rows, target = case.rows(node)
        column = case.columns[feature[node], rows]
        child = children(column, kind[node], cut[node], 0)
        for c in range(first[node + 1] - first[node]):
            np.testing.assert_array_equal(counts[first[node] + c], channels(target[child == c], K))
        assert gap[node, 0] == max(column[child == 0], default=-1)
        assert gap[node, 1] == min(column[child != 0], default=case.n_bins[feature[node]])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("target_type", "bin_type"), CASES)
def test_move_is_a_stable_partition(target_type, bin_type, split):
    case = Case(target_type, bin_type)
    feature, kind, cut, first = chosen(case, *split)
    order, target = case.order.copy(), case.target.copy()
    begin, expected_order, expected_target = [], order.copy(), target.copy()
    for node in range(3):
        lo, hi = case.start[node], case.stop[node]
        child = children(case.columns[feature[node], order[lo:hi]], kind[node], cut[node], 0)
        by_child = np.argsort(child, kind="stable")
        expected_order[lo:hi] = order[lo:hi][by_child]
        expected_target[lo:hi] = target[lo:hi][by_child]
        sizes = np.bincount(child, minlength=first[node + 1] - first[node])
        begin.append(lo + np.cumsum(sizes) - sizes)
    kernels.move_rows(
        *case.ranges,
        feature,
        kind,
        cut,
        first[:-1],
        np.concatenate(begin),
        np.empty(60, dtype=np.int32),
        np.empty(60, dtype=target.dtype),
    )
    np.testing.assert_array_equal(case.order, expected_order)
    np.testing.assert_array_equal(case.target, expected_target)
