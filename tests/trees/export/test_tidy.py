"""Tidy positions: gaps kept, parents centred, mirror images."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.trees.export.tidy import tidy
from tests.trees.tree_strategies import quick, trees

GAP = 3.0


def children_of(tree):
    return [
        list(range(first, first + arity)) if arity else []
        for first, arity in zip(tree.first_child.tolist(), tree.arity.tolist(), strict=True)
    ]


@quick
@given(trees(), st.randoms(use_true_random=False))
def test_nothing_on_a_level_overlaps_and_order_is_kept(tree, random):
    children = children_of(tree)
    widths = [random.uniform(1, 30) for _ in children]
    x = tidy(children, widths, GAP)
    left, right = x - np.array(widths) / 2, x + np.array(widths) / 2
    assert np.isclose(left.min(), 0.0, atol=1e-9)
    # From left to right as a walk over the tree meets the nodes.
    order, stack = [], [0]
    while stack:
        v = stack.pop()
        order.append(v)
        stack += reversed(children[v])
    for depth in range(tree.depth + 1):
        level = [v for v in order if tree.node_depths[v] == depth]
        gaps = left[level[1:]] - right[level[:-1]]
        assert np.all(gaps >= GAP - 1e-9)


@quick
@given(trees())
def test_parents_stand_in_the_middle(tree):
    children = children_of(tree)
    x = tidy(children, [10.0] * len(children), GAP)
    for v, below in enumerate(children):
        if below:
            assert np.isclose(x[v], (x[below[0]] + x[below[-1]]) / 2, atol=1e-9)


@quick
@given(trees())
def test_a_mirrored_tree_has_the_mirrored_picture(tree):
    children = children_of(tree)
    widths = [5.0 + v % 7 for v in range(len(children))]
    x = tidy(children, widths, GAP)
    mirrored = tidy([below[::-1] for below in children], widths, GAP)
    width = max(x + np.array(widths) / 2)
    assert np.allclose(mirrored, width - x, atol=1e-8)


def test_small_trees_by_hand():
    assert tidy([[]], [10.0], GAP).tolist() == [5.0]
    assert tidy([[1], []], [10.0, 4.0], GAP).tolist() == [5.0, 5.0]
    # Two leaves of width 10 are 13 apart.
    assert tidy([[1, 2], [], []], [10.0] * 3, GAP).tolist() == [11.5, 5.0, 18.0]
