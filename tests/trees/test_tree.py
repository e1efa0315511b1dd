"""`Tree`: shape, answers, post-processing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.tree import SplitKind, Tree, n_outputs
from tests.trees.tree_strategies import chain, quick, random_tree, trees, trees_with_bins, walk

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),
        Attribute(name="colour", kind="categorical", categories=("red", "green", "blue")),
    ),
    target=Target(name="y", classes=("no", "yes")),
)


def by_hand(value, weight=None):
    """age <= 50: (colour = green: 3 | 4), else one leaf per colour (5, 6, 7)."""
    n = 8
    return Tree(
        DOMAIN,
        kind=[SplitKind.THRESHOLD, SplitKind.VALUE, SplitKind.WARY, 0, 0, 0, 0, 0],
        feature=[0, 1, 1, -1, -1, -1, -1, -1],
        cut=[1, 1, -1, -1, -1, -1, -1, -1],
        first_child=[1, 3, 5, -1, -1, -1, -1, -1],
        value=value,
        weight=np.arange(n) if weight is None else weight,
    )


def test_shape_and_answers_by_hand():
    value = np.array([[0, 0], [0, 0], [0, 0], [5, 1], [1, 5], [-2, 0], [2, 2], [-3, 6.0]])
    tree = by_hand(value)
    assert (tree.n_nodes, tree.n_leaves, tree.depth, tree.n_outputs) == (8, 5, 2, 2)
    assert tree.leaves.tolist() == [3, 4, 5, 6, 7]
    assert tree.parents.tolist() == [-1, 0, 0, 1, 1, 2, 2, 2]
    bins = np.array([[0, 1], [1, 0], [2, 0], [3, 1], [3, 2]], dtype=np.uint8)
    assert tree.apply(bins).tolist() == [3, 4, 5, 6, 7]
    assert np.array_equal(tree.decide(bins), value[3:])
    # Nothing above 0 is uniform and a tie goes to the lowest class, in labels too.
    expected = [[5 / 6, 1 / 6], [1 / 6, 5 / 6], [0.5, 0.5], [0.5, 0.5], [0, 1]]
    assert np.allclose(tree.distribution(bins), expected, atol=1e-15)
    assert tree.predict_class(bins).tolist() == [0, 1, 0, 0, 1]
    assert repr(tree) == "Tree(classification, 8 nodes, 5 leaves, depth 2)"


@quick
@given(trees_with_bins())
def test_every_row_ends_where_the_definition_says(case):
    tree, bins = case
    assert tree.apply(bins).tolist() == [walk(tree, row) for row in bins]


@quick
@given(trees_with_bins())
def test_labels_are_the_most_probable_class(case):
    tree, bins = case
    if not tree.is_classifier:
        return
    p = tree.distribution(bins)
    assert np.allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p.min() >= 0.0
    assert np.array_equal(tree.predict_class(bins), p.argmax(axis=1))


def test_huge_counts_have_a_distribution():
    tree = by_hand(np.full((8, 2), [1e308, 1e308]))
    assert np.array_equal(tree.distributions, np.full((8, 2), 0.5))


def test_regression_has_values_but_no_classes():
    domain = Domain(attributes=DOMAIN.attributes, target=Target(bounds=(0, 1)))
    tree = Tree(domain, [0], [-1], [-1], [-1], [[0.25]], [10])
    assert tree.decide(np.zeros((3, 2), dtype=np.uint8)).tolist() == [[0.25]] * 3
    for ask in (
        lambda: tree.labels,
        lambda: tree.distributions,
        lambda: tree.predict_class(np.zeros((1, 2), dtype=np.uint8)),
    ):
        with pytest.raises(HedgerowError) as caught:
            ask()
        assert caught.value.code is Code.BAD_TARGET
    assert n_outputs(domain) == 1


def test_arrays_are_copied_and_read_only():
    value = np.ones((8, 2))
    tree = by_hand(value)
    value[:] = 7
    assert tree.value.max() == 1
    for array in tree.arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0
    with pytest.raises(AttributeError):
        tree.kind = tree.kind


def test_equality_and_hash():
    nan = by_hand(np.ones((8, 2)), weight=np.full(8, np.nan))
    assert nan == by_hand(np.ones((8, 2)), weight=np.full(8, np.nan))
    assert hash(nan) == hash(by_hand(np.zeros((8, 2))))
    assert nan != by_hand(np.ones((8, 2)))
    assert nan != "a tree"


def test_unreleased_inner_nodes_have_no_label():
    value = np.ones((8, 2))
    value[:3] = np.nan
    tree = by_hand(value)
    assert tree.labels.tolist() == [-1, -1, -1, 0, 0, 0, 0, 0]
    assert np.isnan(tree.distributions[:3]).all()


@quick
@given(trees())
def test_one_leaf_per_way_down(tree):
    assert tree.n_leaves + np.count_nonzero(tree.arity) == tree.n_nodes
    assert tree.depth == tree.node_depths[tree.leaves].max()


def test_a_chain_of_a_million_nodes_is_no_problem():
    tree = chain(DOMAIN, 500_000)
    assert tree.depth == 500_000
    assert tree.apply(np.array([[0, 0]], dtype=np.uint8)).tolist() == [1]


def test_random_trees_cover_every_kind_of_split():
    rng = np.random.default_rng(1)
    seen = np.zeros(5, dtype=int)
    for _ in range(30):
        seen += np.bincount(random_tree(rng).kind, minlength=5)
    assert seen.min() > 0
