"""Rewriting trees into thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute
from hedgerow.tables.domain import Domain
from hedgerow.trees.export import expand as module
from hedgerow.trees.export.expand import expand
from hedgerow.trees.layout import SplitKind
from tests.trees.tree_strategies import (
    NO_YES,
    chain,
    quick,
    random_tree,
    single_split,
    trees_with_bins,
)

COLOURS = Attribute(name="c", kind="categorical", categories=tuple("abcdefgh"))


def follow(parts, row):
    v = 0
    while parts.left[v] >= 0:
        v = parts.left[v] if row[parts.feature[v]] <= parts.cut[v] else parts.right[v]
    return int(parts.source[v])


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
        (single_split(COLOURS, SplitKind.VALUE, 0), [0], 1),
        (single_split(COLOURS, SplitKind.VALUE, 7), [6], 1),
        (single_split(COLOURS, SplitKind.VALUE, 3), [2, 3], 2),
        (single_split(COLOURS, SplitKind.WARY, -1), [0, 1, 2, 3, 4, 5, 6], 3),
        (single_split(COLOURS, SplitKind.SUBSET, 0, [1, 1, 0, 0, 0, 0, 0, 0]), [1], 1),
        (single_split(COLOURS, SplitKind.SUBSET, 0, [0] * 8), [], 0),
        (single_split(COLOURS, SplitKind.THRESHOLD, 4), [4], 1),
    ],
)
def test_thresholds_by_hand(tree, cuts, depth):
    parts = expand(tree)
    assert sorted(parts.cut[parts.left >= 0].tolist()) == cuts
    assert parts.depth == depth


def test_a_chain_on_one_attribute_stays_linear():
    # "= a", else "= b", else ...: the copies of what follows are cut down by what is known.
    domain = Domain(attributes=(COLOURS,), target=NO_YES)
    tree = chain(domain, 7, SplitKind.VALUE, [4, 2, 6, 1, 3, 5, 7])
    parts = expand(tree)
    assert np.count_nonzero(parts.left < 0) == 8


def test_refuses_what_explodes(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 50)
    tree = random_tree(np.random.default_rng(0), max_splits=60, kinds=[SplitKind.VALUE])
    with pytest.raises(HedgerowError) as caught:
        expand(tree)
    assert caught.value.code is Code.CANNOT_EXPORT
