import heapq

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.best_first import grow_best_first
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.chooser import Best
from hedgerow.trees.growing.criteria import CRITERIA
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.levelwise import grow_levelwise
from hedgerow.trees.growing.search import Search
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import random_table

N_BINS = [9, 4, 12, 6]


def grow(table, limits, learner=grow_best_first, name="gini"):
    rows = Rows(table, Candidates.from_domain(table.domain))
    search = Search(CRITERIA[name], Best(), limits.min_samples_leaf)
    return learner(table.domain, rows, search, limits)


def total_decrease(tree):
    """Decrease of n * Gini at each inner node, NaN at leaves."""
    n = tree.value.sum(axis=1)
    impurity = n - (tree.value**2).sum(axis=1) / n
    out = np.full(tree.n_nodes, np.nan)
    inner = np.flatnonzero(tree.kind != SplitKind.LEAF)
    first = tree.first_child[inner]
    out[inner] = impurity[inner] - impurity[first] - impurity[first + 1]
    return out


@pytest.mark.parametrize("leaves", [2, 3, 8, 30])
def test_the_best_splits_of_the_full_tree_in_order(leaves):
    """Best-first on the full tree's decreases picks exactly the splits that were made."""
    table = random_table(21, 1200, N_BINS)
    full = grow(table, Limits(), grow_levelwise)
    decrease = total_decrease(full)
    frontier, kept = [(-decrease[0], 0)], 0.0
    for _ in range(leaves - 1):
        value, node = heapq.heappop(frontier)
        kept -= value
        for child in (full.first_child[node], full.first_child[node] + 1):
            if full.kind[child] != SplitKind.LEAF:
                heapq.heappush(frontier, (-decrease[child], child))
    tree = grow(table, Limits(max_leaf_nodes=leaves))
    assert tree.n_leaves == leaves
    assert np.nansum(total_decrease(tree)) == pytest.approx(kept)


def test_with_room_for_all_leaves_it_is_the_full_tree():
    table = random_table(22, 300, N_BINS)
    full = grow(table, Limits(max_depth=5), grow_levelwise)
    tree = grow(table, Limits(max_depth=5, max_leaf_nodes=10_000))
    assert tree.n_leaves == full.n_leaves
    np.testing.assert_array_equal(tree.decide(table.bins), full.decide(table.bins))


def test_limits_hold():
    table = random_table(23, 900, N_BINS)
    limits = Limits(max_leaf_nodes=25, max_depth=4, min_samples_leaf=20, min_samples_split=90)
    tree = grow(table, limits)
    assert tree.n_leaves <= 25
    assert tree.depth <= 4
    assert tree.weight.min() >= 20
    assert tree.weight[tree.kind != SplitKind.LEAF].min() >= 90
    least = 0.004
    strict = grow(table, Limits(max_leaf_nodes=25, min_impurity_decrease=least))
    assert np.nanmin(total_decrease(strict)) / 900 >= least


def test_regression_and_pure_tables():
    table = random_table(24, 400, N_BINS, regression=True)
    tree = grow(table, Limits(max_leaf_nodes=12), name="squared_error")
    assert tree.n_leaves == 12
    mean = ((tree.decide(table.bins)[:, 0] - table.target) ** 2).mean()
    assert mean < 0.6 * table.target.var()


def test_a_number_of_leaves_is_needed():
    with pytest.raises(HedgerowError) as caught:
        grow(random_table(0, 20, N_BINS), Limits())
    assert caught.value.code is Code.BAD_PARAMETER
