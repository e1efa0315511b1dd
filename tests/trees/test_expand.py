"""Rewriting trees into thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tree_strategies import quick, random_tree, trees_with_bins

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees import expand as module
from hedgerow.trees.expand import expand
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

COLOURS = Domain(
    attributes=(Attribute(name="c", kind="categorical", categories=tuple("abcdefgh")),),
    target=Target(classes=("no", "yes")),
)


def follow(parts, row):
    v = 0
    while parts.left[v] >= 0:
        v = parts.left[v] if row[parts.feature[v]] <= parts.cut[v] else parts.right[v]
    return int(parts.source[v])


def single_split(kind, cut, subsets=()):
    n = 8 if kind == SplitKind.WARY else 2
    return Tree(
        COLOURS,
        kind=[kind] + [0] * n,
        feature=[0] + [-1] * n,
        cut=[cut] + [-1] * n,
        first_child=[1] + [-1] * n,
        value=np.ones((n + 1, 2)),
        weight=np.ones(n + 1),
        subsets=np.array(subsets, dtype=np.uint8),
    )


@quick
@given(trees_with_bins())
def test_every_row_ends_in_the_same_leaf(case):
    tree, bins = case
    parts = expand(tree)
    assert [follow(parts, row) for row in bins] == tree.apply(bins).tolist()


@quick
@given(trees_with_bins(rows=1))
def test_it_is_a_binary_tree_in_depth_first_order(case):
    parts = expand(case[0])
    inner = np.flatnonzero(parts.left >= 0)
    assert np.array_equal(parts.left[inner], inner + 1)
    assert np.all(parts.right[inner] > parts.left[inner])
    seen = np.concatenate([[0], parts.left[inner], parts.right[inner]])
    assert np.array_equal(np.sort(seen), np.arange(len(parts.feature)))
    depth = np.zeros(len(parts.feature), dtype=int)
    for v in inner:
        depth[[parts.left[v], parts.right[v]]] = depth[v] + 1
    assert depth.max() == parts.depth
    assert np.all((parts.feature >= 0) == (parts.left >= 0))


@pytest.mark.parametrize(
    ("tree", "cuts", "depth"),
    [
        (single_split(SplitKind.VALUE, 0), [0], 1),
        (single_split(SplitKind.VALUE, 7), [6], 1),
        (single_split(SplitKind.VALUE, 3), [2, 3], 2),
        (single_split(SplitKind.WARY, -1), [0, 1, 2, 3, 4, 5, 6], 3),
        (single_split(SplitKind.SUBSET, 0, [0, 0, 1, 1, 1, 1, 1, 1]), [1], 1),
        (single_split(SplitKind.SUBSET, 0, [0] * 8), [], 0),
        (single_split(SplitKind.THRESHOLD, 4), [4], 1),
    ],
)
def test_thresholds_by_hand(tree, cuts, depth):
    parts = expand(tree)
    assert sorted(parts.cut[parts.left >= 0].tolist()) == cuts
    assert parts.depth == depth


def test_a_chain_on_one_attribute_stays_linear():
    # "= a", else "= b", else ...: the copies of what follows are cut down by what is known.
    n = 15
    tree = Tree(
        COLOURS,
        kind=[2 if v % 2 == 0 and v < 14 else 0 for v in range(n)],
        feature=[0 if v % 2 == 0 and v < 14 else -1 for v in range(n)],
        cut=[[4, 2, 6, 1, 3, 5, 7][v // 2] if v % 2 == 0 and v < 14 else -1 for v in range(n)],
        first_child=[v + 1 if v % 2 == 0 and v < 14 else -1 for v in range(n)],
        value=np.ones((n, 2)),
        weight=np.ones(n),
    )
    parts = expand(tree)
    assert np.count_nonzero(parts.left < 0) == 8


def test_refuses_what_explodes(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 50)
    tree = random_tree(np.random.default_rng(0), max_splits=60, kinds=[SplitKind.VALUE])
    with pytest.raises(HedgerowError) as caught:
        expand(tree)
    assert caught.value.code is Code.CANNOT_EXPORT
