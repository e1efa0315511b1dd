"""Merging of sibling leaves that say the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from hedgerow.trees.layout import SplitKind
from hedgerow.trees.prune import cut_back
from hedgerow.trees.tree import Tree
from tests.trees.test_tree import DOMAIN, by_hand
from tests.trees.tree_strategies import quick, trees_with_bins


def test_merges_upwards_and_adds_up():
    value = np.array([[9, 9], [9, 9], [9, 9], [5, 1], [3, 2], [1, 0], [2, 2], [1, 3.0]])
    pruned = by_hand(value, weight=[0, 0, 0, 6, 5, 1, 4, 4]).pruned_same_label()
    # Node 1 becomes a leaf; node 2 keeps its three children, one of which says "yes".
    assert pruned.kind.tolist() == [SplitKind.THRESHOLD, 0, SplitKind.WARY, 0, 0, 0]
    assert pruned.value[1].tolist() == [8, 3]
    assert pruned.weight[1] == 11
    assert pruned.first_child.tolist() == [1, -1, 3, -1, -1, -1]
    value[7] = [4, 3]
    assert by_hand(value).pruned_same_label().value.tolist() == [[15, 8]]


def test_sums_that_lose_the_label_are_not_used():
    # In floating point 2**53 + 1 is 2**53: the sum of the counts would be a tie.
    value = np.zeros((8, 2))
    value[3:] = [[2.0**53, 2.0**53 + 2], [1, 0], [1, 0], [1, 0], [1, 0]]
    value[4] = [1, 2]
    pruned = by_hand(value).pruned_same_label()
    assert pruned.labels[1] == 1
    value[3:5] = [0, 1.7e308]
    pruned = by_hand(value, weight=np.full(8, 1.7e308)).pruned_same_label()
    assert pruned.value[1].tolist() == [0, 1.7e308]
    assert np.isnan(pruned.weight[1])


@quick
@given(trees_with_bins())
def test_labels_stay_and_nothing_is_left_to_merge(case):
    tree, bins = case
    if not tree.is_classifier:
        return
    pruned = tree.pruned_same_label()
    assert np.array_equal(pruned.predict_class(bins), tree.predict_class(bins))
    assert pruned.pruned_same_label() == pruned
    for v in np.flatnonzero(pruned.kind != SplitKind.LEAF):
        first, end = pruned.first_child[v], pruned.first_child[v] + pruned.arity[v]
        leaves = (pruned.kind[first:end] == SplitKind.LEAF).all()
        assert not leaves or len(set(pruned.labels[first:end].tolist())) > 1


@quick
@given(trees_with_bins())
def test_cut_back_sends_rows_to_the_marked_ancestor(case):
    tree, bins = case
    mark = tree.node_depths == 1
    value = np.nan_to_num(tree.value)
    value[:, 0] = np.arange(tree.n_nodes)
    cut = Tree(tree.domain, **cut_back(tree, mark, value, tree.weight))
    leaf = tree.apply(bins)
    while np.any(deep := tree.node_depths[leaf] > 1):
        leaf = np.where(deep, tree.parents[leaf], leaf)
    assert np.array_equal(cut.decide(bins)[:, 0], leaf)


def test_subsets_of_what_is_gone_go_too():
    # Subset 0 splits what is merged, subset 2 the root, and subset 1 nothing.
    tree = Tree(
        DOMAIN,
        kind=[SplitKind.SUBSET, 0, SplitKind.SUBSET, 0, 0],
        feature=[1, -1, 1, -1, -1],
        cut=[2, -1, 0, -1, -1],
        first_child=[1, -1, 3, -1, -1],
        value=[[5, 5], [5, 0], [0, 5], [0, 2], [0, 3]],
        weight=[10, 5, 5, 2, 3],
        subsets=[[1, 1, 0], [1, 1, 1], [0, 1, 0]],
    )
    pruned = tree.pruned_same_label()
    assert pruned.kind.tolist() == [SplitKind.SUBSET, 0, 0]
    assert pruned.cut.tolist() == [0, -1, -1]
    assert pruned.subsets.tolist() == [[False, True, False]]
    bins = np.array([[0, 0], [0, 1], [0, 2]], dtype=np.uint8)
    assert pruned.predict_class(bins).tolist() == tree.predict_class(bins).tolist() == [1, 0, 1]
    leaf = tree.node_depths == 0
    cut = cut_back(tree, leaf, tree.value, tree.weight)
    assert cut["subsets"].shape[0] == 0
