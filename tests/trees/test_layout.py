"""The layout of a tree: what is accepted, and which numbered error everything else meets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees import layout
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import quick, random_tree, trees

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),
        Attribute(name="colour", kind="categorical", categories=("red", "green", "blue")),
    ),
    target=Target(name="y", classes=("no", "yes")),
)


def arrays(**changes):
    """A root on age with two leaves."""
    made = {
        "kind": [1, 0, 0],
        "feature": [0, -1, -1],
        "cut": [1, -1, -1],
        "first_child": [1, -1, -1],
        "value": [[3, 4], [3, 0], [0, 4]],
        "weight": [7, 3, 4],
        "subsets": [],
    }
    return made | changes


SUBSET = {"kind": [3, 0, 0], "cut": [1, -1, -1], "subsets": [[0, 1, 0, 0], [1, 0, 0, 1]]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": [5, 0, 0]}, "unknown kind"),
        ({"kind": [256, 0, 0]}, "do not fit into uint8"),
        ({"kind": [1.0, 0, 0]}, "of type float64"),
        ({"kind": ["1", "0", "0"]}, "of type"),
        ({"kind": [[1], [0], [0]]}, "dimensions"),
        ({"kind": [1, [0], 0]}, "not an array"),
        ({"kind": []}, "no nodes"),
        ({"feature": [2, -1, -1]}, "outside the domain"),
        ({"feature": [-1, -1, -1]}, "outside the domain"),
        ({"feature": [-2, -1, -1]}, "outside the domain"),
        ({"feature": [0, 0, -1]}, "feature in a leaf, first at node 1"),
        ({"feature": [0, -1]}, "2 entries of feature for 3 nodes"),
        ({"feature": [2**40, -1, -1]}, "do not fit into int32"),
        ({"cut": [3, -1, -1]}, "does not separate"),
        ({"cut": [-1, -1, -1]}, "does not separate"),
        ({"kind": [2, 0, 0], "cut": [4, -1, -1]}, "no bin"),
        ({"kind": [2, 0, 0], "cut": [-1, -1, -1]}, "no bin"),
        ({"kind": [3, 0, 0], "cut": [0, -1, -1]}, "no row of `subsets`"),
        ({**SUBSET, "subsets": []}, "no row of `subsets`"),
        ({**SUBSET, "subsets": None}, "no row of `subsets`"),
        ({**SUBSET, "cut": [2, -1, -1]}, "no row of `subsets`, first at node 0"),
        ({**SUBSET, "cut": [-1, -1, -1]}, "no row of `subsets`"),
        ({**SUBSET, "cut": [2**31 - 1, -1, -1]}, "no row of `subsets`"),
        ({**SUBSET, "subsets": [[0, 1, 0], [1, 0, 1]]}, "where every bin goes"),
        ({**SUBSET, "subsets": [[], []]}, "where every bin goes"),
        ({**SUBSET, "subsets": [[0, 1, 0, 0, 1]] * 2}, "no attribute has more than 4"),
        ({**SUBSET, "subsets": [0, 1, 0, 0]}, "1 dimensions where 2"),
        ({**SUBSET, "subsets": [[0, 1, 0], [1, 0, 1, 0]]}, "not an array"),
        ({**SUBSET, "subsets": [[0, 1, 2, 0]] * 2}, "do not fit into bool"),
        ({**SUBSET, "subsets": [[0.0, 1.0, 1.0, 0.0]] * 2}, "of type float64"),
        ({**SUBSET, "subsets": [["0", "1", "1", "0"]] * 2}, "of type"),
        ({"kind": [4, 0, 0]}, "exactly one node"),
        ({"first_child": [0, -1, -1]}, "after their parent"),
        ({"first_child": [-1, -1, -1]}, "after their parent"),
        ({"first_child": [2, -1, -1]}, "exactly one node"),
        ({"first_child": [2**31 - 1, -1, -1]}, "exactly one node"),
        ({"first_child": [1, 2, -1]}, "leaf with children"),
        ({"value": [[3, 4], [np.nan, np.nan], [0, 4]]}, "leaf without a value, first at node 1"),
        ({"value": [[3, np.nan], [3, 0], [0, 4]]}, "in part only"),
        ({"value": [[3, 4], [np.inf, 0], [0, 4]]}, "infinite"),
        ({"value": [[3, 4, 0], [3, 0, 0], [0, 4, 0]]}, "shape"),
        ({"value": [3, 3, 0]}, "dimensions"),
        ({"weight": [-np.inf, 3, 4]}, "infinite"),
        ({"weight": [7, 3]}, "2 entries of weight"),
    ],
)
def test_refuses_what_is_no_tree(changes, says):
    with pytest.raises(HedgerowError, match=says) as caught:
        Tree(DOMAIN, **arrays(**changes))
    assert caught.value.code is Code.BAD_TREE


def test_refuses_two_parents_and_a_cycle_between_later_nodes():
    two_leaves = {"value": [[1, 1]] * 5, "weight": [1] * 5, "cut": [0] * 5}
    for first_child in ([1, 3, 3, -1, -1], [1, 1, -1, -1, -1], [3, 1, -1, -1, -1]):
        kind = [0 if c < 0 else 1 for c in first_child]
        feature = [-1 if c < 0 else 0 for c in first_child]
        with pytest.raises(HedgerowError) as caught:
            Tree(DOMAIN, kind=kind, feature=feature, first_child=first_child, **two_leaves)
        assert caught.value.code is Code.BAD_TREE


def test_refuses_a_domain_without_target():
    with pytest.raises(HedgerowError) as caught:
        Tree(Domain(attributes=DOMAIN.attributes), **arrays())
    assert caught.value.code is Code.BAD_TARGET


def test_children_may_come_in_any_order_after_their_parents():
    # Best-first growth: the right child is split before the left one.
    tree = Tree(
        DOMAIN,
        kind=[1, 2, 1, 0, 0, 0, 0],
        feature=[0, 1, 0, -1, -1, -1, -1],
        cut=[1, 2, 2, 0, 0, 0, 0],
        first_child=[1, 5, 3, -1, -1, -1, -1],
        value=np.ones((7, 2)),
        weight=np.ones(7),
    )
    assert tree.parents.tolist() == [-1, 0, 0, 2, 2, 1, 1]
    assert tree.node_depths.tolist() == [0, 1, 1, 2, 2, 2, 2]
    assert tree.cut.tolist() == [1, 2, 2, -1, -1, -1, -1]


@quick
@given(trees())
def test_arity_is_two_or_the_number_of_bins(tree):
    arity = layout.arity(tree.domain, tree.kind, tree.feature)
    for v in range(tree.n_nodes):
        if tree.kind[v] == SplitKind.LEAF:
            assert arity[v] == 0
        elif tree.kind[v] == SplitKind.WARY:
            assert arity[v] == tree.domain.n_bins[tree.feature[v]]
        else:
            assert arity[v] == 2
    assert arity.sum() == tree.n_nodes - 1


@pytest.mark.parametrize(
    ("bins", "code"),
    [
        (np.zeros((3, 2)), Code.WRONG_TYPE),
        (np.zeros((3, 2), dtype=np.int64), Code.WRONG_TYPE),
        ([[0, 0]], Code.WRONG_TYPE),
        (np.zeros((3, 3), dtype=np.uint8), Code.WRONG_SHAPE),
        (np.zeros(2, dtype=np.uint8), Code.WRONG_SHAPE),
        (np.array([[4, 0]], dtype=np.uint8), Code.OUTSIDE_BOUNDS),
        (np.array([[300, 0]], dtype=np.uint16), Code.OUTSIDE_BOUNDS),
    ],
)
def test_bins_are_checked_before_use(bins, code):
    tree = Tree(DOMAIN, **arrays())
    with pytest.raises(HedgerowError) as caught:
        tree.apply(bins)
    assert caught.value.code is code


def test_a_wary_split_never_leaves_its_children():
    tree = random_tree(np.random.default_rng(0), DOMAIN, kinds=[SplitKind.WARY], max_splits=3)
    used = int(tree.feature[0])
    bins = np.zeros((1, 2), dtype=np.uint8)
    bins[0, used] = DOMAIN.n_bins[used]
    with pytest.raises(HedgerowError) as caught:
        tree.apply(bins)
    assert caught.value.code is Code.OUTSIDE_BOUNDS


def test_a_table_of_subsets_is_kept_as_far_as_it_is_read():
    tree = Tree(DOMAIN, **arrays(**SUBSET))
    assert tree.subsets.dtype == np.bool_
    assert tree.subsets.tolist() == [[False] * 4, [True, False, False, True]]
    bins = np.array([[0, 0], [1, 0], [2, 0], [3, 0]], dtype=np.uint8)
    assert tree.apply(bins).tolist() == [1, 2, 2, 1]
    colour = {**SUBSET, "feature": [1, -1, -1]}
    narrow = Tree(DOMAIN, **arrays(**colour))
    assert narrow.subsets.tolist() == [[False] * 3, [True, False, False]]
    same = np.array([[0, 0, 0], [1, 0, 0]], dtype=bool)
    assert Tree(DOMAIN, **arrays(**(colour | {"subsets": same}))) == narrow
    assert Tree(DOMAIN, **arrays(**(colour | {"subsets": ~same}))) != narrow
    assert Tree(DOMAIN, **arrays(subsets=[[1, 1, 1, 1]])).subsets.shape == (0, 0)
    assert Tree(DOMAIN, **arrays(subsets=None)) == Tree(DOMAIN, **arrays())


def test_a_row_may_serve_attributes_of_different_width():
    tree = Tree(
        DOMAIN,
        kind=[3, 3, 0, 0, 0],
        feature=[1, 0, -1, -1, -1],
        cut=[0, 0, -1, -1, -1],
        first_child=[1, 3, -1, -1, -1],
        value=np.ones((5, 2)),
        weight=np.ones(5),
        subsets=[[1, 0, 1, 1]],
    )
    bins = np.array([[0, 0], [1, 2], [3, 2], [3, 1]], dtype=np.uint8)
    assert tree.apply(bins).tolist() == [3, 4, 3, 2]
