"""Trees with one branch per bin: random attributes, the shape, the votes."""

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.tree import Tree
from reproduce.paper_001.wary import (
    check_depth,
    cut_back,
    grow_wary,
    node_counts,
    some_attributes,
    tree_of,
    votes,
    wary_candidates,
)
from tests.trees.tree_strategies import quick, trees_with_bins


def domain_of(*bins: int, classes: int = 2) -> Domain:
    return Domain(
        attributes=tuple(
            Attribute(name=f"a{j}", kind="categorical", categories=tuple(range(b)))
            for j, b in enumerate(bins)
        ),
        target=Target(classes=tuple(range(classes))),
        capacity=1_000,
    )


def table_of(domain: Domain, n: int, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    bins = np.stack([rng.integers(0, b, n) for b in domain.n_bins], axis=1)
    target = rng.integers(0, domain.target.n_classes, n).astype(np.uint8)
    return Encoded(domain, np.asfortranarray(bins, dtype=np.uint8), target, np.ones(n, dtype=bool))


def test_so_many_valid_attributes_are_drawn_uniformly(chi_square) -> None:
    valid = np.zeros((60_000, 6), dtype=bool)
    valid[:, [0, 2, 3, 5]] = True
    drawn = some_attributes(valid, 2, NoiseSource.insecure_seeded(1))
    assert (drawn.sum(axis=1) == 2).all()
    assert not drawn[:, [1, 4]].any()
    pairs = drawn[:, [0, 2, 3, 5]] @ np.array([8, 4, 2, 1])
    seen = np.unique(pairs, return_counts=True)[1]
    assert chi_square(seen, np.full(6, 1 / 6)) > 1e-3


def test_all_are_drawn_where_there_are_fewer() -> None:
    valid = np.array([[True, False, False], [True, True, True]])
    source = NoiseSource.insecure_seeded(1)
    np.testing.assert_array_equal(some_attributes(valid, 2, source).sum(axis=1), [1, 2])
    assert some_attributes(valid, None, source) is valid


def test_every_node_is_split_and_an_attribute_is_used_once_on_a_path() -> None:
    domain = domain_of(3, 2, 4)
    table = table_of(domain, 200)
    rows = Rows(table, wary_candidates(domain))
    seen: list[np.ndarray] = []

    def choose(nodes: np.ndarray, valid: np.ndarray, level: int) -> np.ndarray:
        seen.append(valid.copy())
        # Children of one node differ in what they use next.
        return np.array([np.flatnonzero(v)[i % v.sum()] for i, v in enumerate(valid)])

    levels = grow_wary(rows, 3, choose)
    counts = node_counts(rows, levels)
    assert [len(c) for c in counts] == [1, 3, 8, 24]
    assert [v.sum(axis=1).max() for v in seen] == [3, 2, 1]
    assert all(c.sum() == 200 for c in counts)
    tree = tree_of(domain, levels, [c.astype(float) for c in counts])
    assert tree.depth == 3
    # The counts of a leaf are those of the rows that come to it.
    leaf = tree.apply(table.bins)
    for node in tree.leaves:
        mine = np.bincount(table.target[leaf == node], minlength=2)
        np.testing.assert_array_equal(tree.value[node], mine)
    np.testing.assert_array_equal(tree.weight, tree.value.sum(axis=1))


@pytest.mark.parametrize("depth", [0, 4])
def test_depths_that_cannot_be_grown_are_refused(depth: int) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        check_depth(domain_of(2, 2, 2), depth)
    with pytest.raises(HedgerowError, match="leaves"):
        check_depth(domain_of(*[200] * 5), 4)


def test_votes_are_one_each_or_as_confident_as_the_leaf() -> None:
    domain = domain_of(2, 2)
    table = table_of(domain, 50)
    rows = Rows(table, wary_candidates(domain))
    levels = grow_wary(rows, 1, lambda nodes, valid, level: np.zeros(1, dtype=np.int64))
    root = np.array([[1.0, 1.0]])
    trees = [
        tree_of(domain, levels, [root, np.array(leaves, dtype=float)])
        for leaves in ([[9, 1], [1, 3]], [[4, 6], [0, 2]], [[45, 55], [-3, -1]])
    ]
    bins = np.asfortranarray([[0, 0], [1, 0]], dtype=np.uint8)
    forest = Forest(tuple(trees))
    np.testing.assert_array_equal(votes(forest, bins), [[1, 2], [1, 2]])
    found = votes(forest, bins, confident=True)
    np.testing.assert_allclose(found, [[0.9, 0.6 + 0.55], [0.5, 0.75 + 1.0]])


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
