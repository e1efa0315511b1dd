"""Export to scikit-learn: the same answers on raw values and on bins."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.export.sklearn import to_sklearn
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import (
    chain,
    forests,
    quick,
    random_bins,
    random_boosted,
    random_domain,
    random_tree,
    single_split,
    trees_with_bins,
)


def encoded(domain, X):
    """Bins of raw numbers by the definition of a cut point."""
    columns = []
    for attribute, x in zip(domain.attributes, X.T, strict=True):
        bins = np.searchsorted(attribute.cuts, x, side="left")
        columns.append(np.where(np.isnan(x), attribute.n_bins - 1, bins))
    return np.asfortranarray(np.stack(columns, axis=1).astype(domain.dtype))


def raw_values(rng, domain, n):
    """Values inside, outside and exactly at the cut points; NaN where it is allowed."""
    X = np.empty((n, len(domain.attributes)))
    for j, attribute in enumerate(domain.attributes):
        lo, hi = attribute.bounds
        X[:, j] = rng.uniform(lo - 10, hi + 10, size=n)
        if len(attribute.cuts):
            at = rng.random(n) < 0.4
            X[at, j] = rng.choice(attribute.cuts, size=at.sum())
        if attribute.missing == "own bin":
            X[rng.random(n) < 0.2, j] = np.nan
    return X


def assert_same(model, made, given_, bins):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if model.is_classifier:
            p = made.predict_proba(given_)
            assert np.allclose(p, model.distribution(bins), rtol=0, atol=1e-12)
            classes = np.array(model.domain.target.classes)
            sure = np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2:-1].max(axis=1, initial=0)
            rows = (sure > 1e-9) | isinstance(model, Tree)
            expected = classes[model.predict_class(bins)]
            assert np.array_equal(made.predict(given_)[rows], expected[rows])
        else:
            assert np.allclose(made.predict(given_), model.decide(bins)[:, 0], atol=1e-12)


@quick
@given(trees_with_bins(rows=200))
def test_every_tree_on_bins(case):
    tree, bins = case
    made = to_sklearn(tree, on="bins")
    kind = DecisionTreeClassifier if tree.is_classifier else DecisionTreeRegressor
    assert type(made) is kind
    assert_same(tree, made, bins, bins)


@quick
@given(forests(max_splits=8))
def test_every_forest_on_bins(forest):
    bins = random_bins(np.random.default_rng(1), forest.domain, 100)
    made = to_sklearn(forest, on="bins")
    kind = RandomForestClassifier if forest.is_classifier else RandomForestRegressor
    assert type(made) is kind
    assert len(made.estimators_) == len(forest.trees)
    assert_same(forest, made, bins, bins)


@quick
@given(st.integers(0, 2**32 - 1))
def test_thresholds_on_raw_values_cut_points_included(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, numeric_only=True)
    grown = [random_tree(rng, domain, kinds=[SplitKind.THRESHOLD], max_splits=20) for _ in range(3)]
    X = raw_values(rng, domain, 300)
    bins = encoded(domain, X)
    for model in (grown[0], Forest(grown)):
        assert_same(model, to_sklearn(model), X, bins)


def assert_same_boosted(model, made, X, bins):
    kind = HistGradientBoostingClassifier if model.is_classifier else HistGradientBoostingRegressor
    if model.link == "one-vs-rest":
        kind = OneVsRestClassifier
    assert type(made) is kind
    # Threads of OpenMP that wait for each other on a busy machine take longer than the work.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if not model.is_classifier:
            assert np.array_equal(made.predict(X), model.raw(bins)[:, 0])
            return
        # The same numbers in the same order: not a bit differs.
        assert np.array_equal(made.decision_function(X).reshape(len(X), -1), model.raw(bins))
        assert np.allclose(made.predict_proba(X), model.distribution(bins), rtol=0, atol=1e-15)
        classes = np.array(model.domain.target.classes)
        assert np.array_equal(made.predict(X), classes[model.predict_class(bins)])


@pytest.mark.parametrize(
    ("classes", "joint"), [(0, True), (2, True), (3, True), (3, False), (5, True), (5, False)]
)
@pytest.mark.parametrize("seed", range(3))
def test_boosted_trees_on_bins(classes, joint, seed):
    rng = np.random.default_rng([classes, seed])
    domain = random_domain(rng, classes=classes)
    bins = random_bins(rng, domain, 100)
    # The first seed is a model of leaves alone.
    model = random_boosted(rng, domain, rounds=3, max_splits=6 * seed, joint=joint)
    assert_same_boosted(model, to_sklearn(model, on="bins"), bins, bins)


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_boosted_thresholds_on_raw_values_cut_points_included(classes):
    rng = np.random.default_rng(classes)
    domain = random_domain(rng, numeric_only=True, classes=classes)
    model = random_boosted(rng, domain, rounds=4, kinds=[SplitKind.THRESHOLD], max_splits=20)
    X = raw_values(rng, domain, 300)
    made = to_sklearn(model)
    assert_same_boosted(model, made, X, encoded(domain, X))
    assert made.n_iter_ == 4
    assert made.n_features_in_ == len(domain.attributes)
    assert made.feature_names_in_.tolist() == list(domain.names)
    assert not hasattr(clone(made), "_predictors")


def one_cut(at, **options):
    bounds = (at - 1, at + 1) if abs(at) < 1e9 else (-4e38, 4e38)
    attribute = Attribute(name="x", kind="numeric", bounds=bounds, edges=(at,), **options)
    target = Target(classes=("left", "right"))
    value = [[1, 1], [1, 0], [0, 1]]
    return single_split(attribute, SplitKind.THRESHOLD, 0, target=target, value=value)


@pytest.mark.parametrize("cut", [0.1, 0.3, 1 / 3, -0.7, 16_777_217.0, 1e-300])
def test_only_what_float32_cannot_tell_from_the_cut_differs(cut):
    made = to_sklearn(one_cut(cut))
    single = np.float32(cut)
    below, above = (np.nextafter(single, np.float32(s)) for s in (-np.inf, np.inf))
    X = np.array([[cut], [np.nextafter(cut, -np.inf)], [below], [above]], dtype=np.float64)
    with pytest.warns(UserWarning, match="feature names"):
        assert made.predict(X).tolist() == ["left", "left", "left", "right"]
    # The documented exception: a value above the cut that rounds to the same float32.
    beyond = np.nextafter(cut, np.inf)
    with pytest.warns(UserWarning, match="feature names"):
        found = made.predict([[beyond]]).tolist()
    assert found == ["left" if np.float32(beyond) == single else "right"]


def test_missing_values_go_right_and_can_be_split_off():
    tree = one_cut(0.5, missing="own bin")
    last = Tree(tree.domain, **(tree.arrays | {"cut": np.array([1, -1, -1])}))
    X = np.array([[0.0], [1.0], [np.nan], [1e30]])
    for model, expected in (
        (tree, ["left", "right", "right", "right"]),
        (last, ["left", "left", "right", "left"]),
    ):
        with pytest.warns(UserWarning, match="feature names"):
            assert to_sklearn(model).predict(X).tolist() == expected


@pytest.mark.parametrize(
    "kind", [SplitKind.VALUE, SplitKind.WARY, SplitKind.SUBSET, SplitKind.THRESHOLD]
)
def test_other_splits_have_no_form_on_values(kind):
    categorical = kind == SplitKind.THRESHOLD
    attribute = (
        Attribute(name="x", kind="categorical", categories=("a", "b"))
        if categorical
        else Attribute(name="x", kind="numeric", bounds=(0, 1), edges=(0.5,))
    )
    target = Target(bounds=(0, 1))
    tree = single_split(attribute, kind, 0, [1, 0], target=target, value=[[0.5], [0], [1]])
    with pytest.raises(HedgerowError, match="'x'") as caught:
        to_sklearn(tree)
    assert caught.value.code is Code.CANNOT_EXPORT
    bins = np.array([[0], [1]], dtype=np.uint8)
    assert to_sklearn(tree, on="bins").predict(bins).tolist() == [0, 1]


def test_cut_points_that_float32_merges_are_refused():
    close = Attribute(name="x", kind="numeric", bounds=(0, 2), edges=(1.0, 1.0 + 1e-12))
    domain = Domain(attributes=(close,), target=Target(classes=("a", "b")))
    tree = chain(domain, 2, cut=[0, 1], value=np.eye(2)[[0, 0, 0, 1, 0]])
    for model in (tree, one_cut(3.9e38)):
        with pytest.raises(HedgerowError, match="float32") as caught:
            to_sklearn(model)
        assert caught.value.code is Code.CANNOT_EXPORT


def test_the_object_is_a_whole_estimator():
    rng = np.random.default_rng(3)
    domain = random_domain(rng, numeric_only=True, classes=3)
    tree = random_tree(rng, domain, kinds=[SplitKind.THRESHOLD], released=True)
    made = to_sklearn(tree)
    assert made.classes_.tolist() == ["class 0", "class 1", "class 2"]
    assert made.feature_names_in_.tolist() == list(domain.names)
    assert made.n_features_in_ == len(domain.attributes)
    assert made.get_n_leaves() <= tree.n_leaves
    assert made.get_depth() <= tree.depth
    assert made.feature_importances_.tolist() == [0.0] * len(domain.attributes)
    X = raw_values(rng, domain, 20)
    with pytest.warns(UserWarning, match="feature names"):
        assert made.decision_path(X).shape == (20, made.tree_.node_count)
    assert not hasattr(clone(made), "tree_")


def test_classes_keep_their_type():
    for classes in ((0, 1), (False, True), (0.5, 1.5)):
        tree = one_cut(0.5)
        domain = Domain(attributes=tree.domain.attributes, target=Target(classes=classes))
        made = to_sklearn(Tree(domain, **tree.arrays), on="bins")
        assert made.predict([[0], [1]]).tolist() == list(classes)


def test_on_is_checked():
    with pytest.raises(HedgerowError) as caught:
        to_sklearn(one_cut(0.5), on="labels")
    assert caught.value.code is Code.BAD_PARAMETER
