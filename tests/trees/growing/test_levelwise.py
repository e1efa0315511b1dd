import tracemalloc

import numpy as np
import pytest

from hedgerow.trees.counts import rows as rows_module
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.chooser import Best
from hedgerow.trees.growing.criteria import CRITERIA
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.levelwise import grow_levelwise
from hedgerow.trees.growing.search import Search
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import children, encoded, random_table

N_BINS = [9, 4, 12, 2, 6]
ORDERED = [True, False, True, False, True]


def grow(table, limits=Limits(), name="gini", branching="binary", n_threads=None, **options):  # noqa: B008
    rows = Rows(table, Candidates.from_domain(table.domain, branching), n_threads=n_threads)
    search = Search(CRITERIA[name], Best(), limits.min_samples_leaf)
    return grow_levelwise(table.domain, rows, search, limits, **options)


def check_against_rows(tree, table):
    """Every node holds exactly the rows that its way down selects."""
    members = [np.arange(table.n_slots)]
    for node in range(tree.n_nodes):
        rows = members[node]
        assert tree.weight[node] == rows.size
        if rows.size and tree.is_classifier:
            counts = np.bincount(table.target[rows], minlength=tree.n_outputs)
            np.testing.assert_array_equal(tree.value[node], counts)
        elif rows.size:
            assert tree.value[node, 0] == pytest.approx(table.target[rows].mean())
        if tree.kind[node] != SplitKind.LEAF:
            assert tree.first_child[node] == len(members)
            column = table.bins[rows, tree.feature[node]]
            child = children(column, tree.kind[node], tree.cut[node], 0)
            members += [rows[child == c] for c in range(tree.arity[node])]
    return members


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_nodes_hold_their_rows(branching, regression):
    table = random_table(8, 700, N_BINS, ordered=ORDERED, regression=regression)
    name = "squared_error" if regression else "entropy"
    tree = grow(table, Limits(max_depth=4), name, branching, once=branching == "wary")
    assert tree.depth == 4
    check_against_rows(tree, table)


def test_limits_hold_everywhere():
    table = random_table(9, 2000, N_BINS, ordered=ORDERED)
    tree = grow(table, Limits(max_depth=6, min_samples_split=60, min_samples_leaf=11))
    members = check_against_rows(tree, table)
    inner = tree.kind != SplitKind.LEAF
    assert tree.depth <= 6
    assert tree.weight[inner].min() >= 60
    assert tree.weight.min() >= 11
    # A leaf above the last level is pure, too small, or cannot be split within the limits.
    for node in np.flatnonzero(~inner & (tree.node_depths < 6)):
        rows = members[node]
        pure = np.unique(table.target[rows]).size == 1
        assert pure or rows.size < 60 or not _has_split(table, rows, 11)


def _has_split(table, rows, leaf):
    candidates = Candidates.from_domain(table.domain)
    for c in range(len(candidates)):
        column = table.bins[rows, candidates.feature[c]]
        right = children(column, candidates.kind[c], candidates.cut[c], 0).sum()
        if min(right, rows.size - right) >= leaf:
            return True
    return False


def test_a_full_tree_is_pure_or_inseparable():
    table = random_table(10, 300, [3, 3, 3])
    tree = grow(table)
    members = check_against_rows(tree, table)
    for node in tree.leaves:
        rows = members[node]
        pure = np.unique(table.target[rows]).size == 1
        assert pure or len(np.unique(table.bins[rows], axis=0)) == 1


def test_splits_without_any_decrease_are_made():
    """Exclusive or: no single attribute helps at the root, as in scikit-learn it is split."""
    bins = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    table = encoded(bins, bins[:, 0] ^ bins[:, 1], n_bins=[2, 2])
    tree = grow(table)
    assert tree.n_leaves == 4
    assert grow(table, Limits(min_impurity_decrease=1e-6)).n_leaves == 1


def test_thresholds_lie_in_the_middle_of_the_gap():
    """Occupied bins 1, 2, 8 and 15, the last of which is the missing bin."""
    bins = np.repeat([1, 2, 8, 15], 5)[:, None]
    table = encoded(bins, np.repeat([0, 0, 1, 2], 5), n_bins=[16])
    tree = grow(table)
    assert tree.cut[tree.kind == SplitKind.THRESHOLD].tolist() == [5, 11]
    plain = grow(table, centre=False)
    assert plain.cut[plain.kind == SplitKind.THRESHOLD].tolist() == [2, 8]


def test_the_lowest_attribute_and_cut_win_ties():
    column = np.repeat([0, 4], 10)
    table = encoded(np.stack([column % 3, column, column], axis=1), np.repeat([0, 1], 10))
    assert grow(table).feature[0] == 0
    table = encoded(np.stack([column * 0, column, column], axis=1), np.repeat([0, 1], 10))
    assert grow(table).feature[0] == 1


def test_an_attribute_is_used_once_on_a_path():
    table = random_table(12, 900, [3, 4, 3], ordered=False)
    tree = grow(table, branching="wary", once=True)
    assert tree.depth == 3
    used = [set()]
    for node in range(tree.n_nodes):
        feature = int(tree.feature[node])
        assert feature not in used[node]
        used += [used[node] | {feature} for _ in range(tree.arity[node])]


@pytest.mark.parametrize("regression", [False, True])
def test_threads_and_blocks_do_not_change_the_tree(monkeypatch, regression):
    table = random_table(13, 1500, N_BINS, ordered=ORDERED, regression=regression)
    name = "squared_error" if regression else "gini"
    alone = grow(table, Limits(max_depth=7), name, n_threads=1)
    monkeypatch.setattr(rows_module, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 2000)
    assert grow(table, Limits(max_depth=7), name, n_threads=3) == alone


@pytest.mark.parametrize("target", [np.zeros(6, dtype=np.uint8), np.full(6, 2.5)])
def test_one_class_or_one_number_is_one_leaf(target):
    table = encoded(np.arange(6)[:, None], target, n_classes=2)
    tree = grow(table, name="gini" if target.dtype.kind == "u" else "squared_error")
    assert tree.n_nodes == 1
    assert tree.weight.tolist() == [6]


def test_nothing_to_split_by():
    table = encoded(np.zeros((6, 1), dtype=int), np.arange(6) % 2, n_bins=[1], ordered=False)
    assert grow(table).n_nodes == 1


def test_working_memory_stays_below_the_table():
    """Rows in tens of bytes, scores in blocks: on 41 columns well below the encoded table."""
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 48, (300_000, 41), dtype=np.uint8)
    table = encoded(bins, rng.integers(0, 23, 300_000, dtype=np.uint8), n_bins=[48] * 41)
    del bins
    tracemalloc.start()
    tree = grow(table, Limits(max_depth=6))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tree.n_leaves == 64
    assert peak < 0.6 * table.bins.nbytes
