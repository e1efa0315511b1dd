from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Domain, encode
from hedgerow.trees.growing.grow_tree import bootstrap_rows, grow_forest
from hedgerow.trees.growing.growth import Limits
from tests.trees.small_tables import random_table


def halves(bunch, task):
    domain = Domain.suggest(bunch.data, bunch.target, max_bins=32, task=task, quiet=True)
    table = encode(bunch.data, domain, bunch.target)
    even = np.arange(table.n_slots) % 2 == 0
    return table.rows(np.flatnonzero(even)), table.rows(np.flatnonzero(~even))


@pytest.mark.parametrize(
    ("options", "peer"),
    [
        ({}, RandomForestClassifier),
        ({"splitter": "random", "bootstrap": False}, ExtraTreesClassifier),
    ],
)
def test_held_out_accuracy_matches_scikit_learn(options, peer):
    train, test = halves(load_breast_cancer(), "classification")
    forest = grow_forest(train, n_trees=40, seed=1, **options)
    accuracy = (forest.predict_class(test.bins) == test.target).mean()
    theirs = peer(40, random_state=1).fit(train.bins, train.target).score(test.bins, test.target)
    assert accuracy == pytest.approx(theirs, abs=0.025)
    assert accuracy > 0.93


def test_held_out_error_matches_scikit_learn():
    train, test = halves(load_diabetes(), "regression")
    forest = grow_forest(train, n_trees=60, seed=1, max_features=0.5, limits=Limits(max_depth=6))
    error = ((forest.decide(test.bins)[:, 0] - test.target) ** 2).mean()
    peer = RandomForestRegressor(60, max_features=0.5, max_depth=6, random_state=1)
    peer.fit(train.bins, train.target)
    theirs = ((peer.predict(test.bins) - test.target) ** 2).mean()
    assert error == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize("splitter", ["best", "random"])
def test_the_seed_alone_decides(monkeypatch, splitter):
    table = random_table(31, 400, [9, 8, 7, 6, 5])
    options = {"n_trees": 5, "seed": 9, "splitter": splitter, "limits": Limits(max_depth=5)}
    first = grow_forest(table, n_threads=1, **options)
    assert grow_forest(table, n_threads=3, **options) == first
    module = import_module("hedgerow.trees.growing.grow_tree")
    monkeypatch.setattr(module, "_FEW_CELLS", 0)
    assert grow_forest(table, n_threads=2, **options) == first
    sequence = np.random.SeedSequence(9)
    assert grow_forest(table, **{**options, "seed": sequence}) == first
    assert grow_forest(table, **{**options, "seed": 10}) != first
    assert len({hash(tree) for tree in first.trees}) == 5


def test_a_bootstrap_sample_counts_rows_with_their_repeats():
    present = np.random.default_rng(0).random(3000) < 0.7
    index = bootstrap_rows(present, np.random.default_rng(1))
    assert index.dtype == np.int32
    assert index.size == present.sum()
    assert present[index].all()
    assert (np.diff(index) >= 0).all()
    # A row is left out with probability 1/e.
    assert np.unique(index).size / present.sum() == pytest.approx(1 - np.exp(-1), abs=0.03)


def test_trees_without_bootstrap_see_every_row():
    table = random_table(32, 200, [9, 8, 7])
    forest = grow_forest(table, n_trees=3, bootstrap=False, seed=0)
    for tree in forest.trees:
        np.testing.assert_array_equal(tree.value[0], np.bincount(table.target, minlength=3))


def test_at_least_one_tree():
    with pytest.raises(HedgerowError) as caught:
        grow_forest(random_table(32, 20, [9, 8]), n_trees=0)
    assert caught.value.code is Code.BAD_PARAMETER
