"""`Forest`: the mean of its trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.forest import Forest
from hedgerow.trees.predict import CHUNK
from tests.trees.tree_strategies import forests, quick, random_bins, random_domain, random_tree


@quick
@given(forests())
def test_decides_with_the_mean_of_the_trees(forest):
    bins = random_bins(np.random.default_rng(0), forest.domain, 60)
    one = [t.distribution(bins) if t.is_classifier else t.decide(bins) for t in forest.trees]
    assert np.allclose(forest.decide(bins), np.mean(one, axis=0), rtol=1e-14, atol=1e-14)
    if forest.is_classifier:
        assert np.array_equal(forest.predict_class(bins), forest.decide(bins).argmax(axis=1))
        assert np.array_equal(forest.distribution(bins), forest.decide(bins))


@quick
@given(forests())
def test_json_round_trip(forest):
    assert Forest.from_json(forest.to_json()) == forest
    assert Forest.from_dict(forest.to_dict(privacy={"epsilon": 1})) == forest


def test_chunks_do_not_change_the_sum():
    rng = np.random.default_rng(2)
    domain = random_domain(rng, classes=3)
    forest = Forest(tuple(random_tree(rng, domain) for _ in range(7)))
    bins = random_bins(rng, domain, CHUNK + 500)
    assert np.array_equal(forest.decide(bins)[-500:], forest.decide(bins[-500:]))


def test_ties_go_to_the_lowest_class():
    rng = np.random.default_rng(3)
    domain = random_domain(rng, classes=2)
    leaf = {"kind": [0], "feature": [-1], "cut": [-1], "first_child": [-1], "weight": [1]}
    tree = random_tree(rng, domain)
    forest = Forest([type(tree)(domain, value=value, **leaf) for value in ([[9, 0]], [[0, 1]])])
    bins = random_bins(rng, domain, 3)
    assert forest.decide(bins).tolist() == [[0.5, 0.5]] * 3
    assert forest.predict_class(bins).tolist() == [0, 0, 0]
    assert repr(forest) == "Forest(classification, 2 trees, 2 nodes)"


def test_needs_trees_of_one_domain():
    rng = np.random.default_rng(4)
    for trees in ((), (random_tree(rng), random_tree(rng)), ("tree",)):
        with pytest.raises(HedgerowError) as caught:
            Forest(trees)
        assert caught.value.code is Code.BAD_TREE


def test_a_regression_forest_has_no_classes():
    rng = np.random.default_rng(5)
    domain = random_domain(rng, classes=0)
    forest = Forest([random_tree(rng, domain), random_tree(rng, domain)])
    bins = random_bins(rng, domain, 2)
    assert forest.decide(bins).shape == (2, 1)
    with pytest.raises(HedgerowError) as caught:
        forest.predict_class(bins)
    assert caught.value.code is Code.BAD_TARGET


def test_bins_are_checked():
    rng = np.random.default_rng(6)
    forest = Forest([random_tree(rng, random_domain(rng, max_bins=6), max_splits=8)])
    with pytest.raises(HedgerowError) as caught:
        forest.decide(np.full((2, len(forest.domain.attributes)), 200, dtype=np.uint8))
    assert caught.value.code is Code.OUTSIDE_BOUNDS
