"""Forests over columns at peers, as estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import cross_val_score

from hedgerow import PivotForestClassifier, PivotForestRegressor
from hedgerow.errors import HedgerowError
from hedgerow.tables import encode

IRIS, PEOPLE = load_iris(), load_diabetes()


@pytest.fixture(scope="module")
def iris() -> PivotForestClassifier:
    return PivotForestClassifier(n_peers=2, n_estimators=5, max_depth=3).fit(IRIS.data, IRIS.target)


def test_most_of_the_trees_decide(iris: PivotForestClassifier) -> None:
    query = IRIS.data[::3]
    bins = encode(query, iris.domain_).bins
    each = np.stack([tree.predict_class(bins) for tree in iris.forest_.trees])
    votes = (each[:, :, None] == np.arange(3)).sum(axis=0)
    assert np.array_equal(iris.predict(query), votes.argmax(axis=1))
    assert (iris.predict(IRIS.data) == IRIS.target).mean() > 0.93


def test_all_peers_learned_what_was_opened(iris: PivotForestClassifier) -> None:
    assert set(iris.what_was_learned_) == {"peer 0", "peer 1"}
    names = {row["name"] for row in iris.what_was_learned_["peer 0"]}
    assert names <= {one.name for one in iris.plan_.openings()}
    assert iris.privacy_.total("peer").epsilon == np.inf


def test_a_hidden_forest_answers_the_same_and_shows_no_tree() -> None:
    rows, y = PEOPLE.data[:150, :4], PEOPLE.target[:150]
    options = {"n_peers": 2, "n_estimators": 3, "max_depth": 2, "max_bins": 4}
    shown = PivotForestRegressor(**options).fit(rows, y)
    hidden = PivotForestRegressor(**options, hide="peers").fit(rows, y)
    assert not hasattr(hidden, "forest_")
    with pytest.raises(HedgerowError, match="hidden"):
        hidden.to_sklearn()
    np.testing.assert_allclose(hidden.predict(rows[:20]), shown.predict(rows[:20]), atol=1e-3)


def test_parameters_are_those_of_the_options() -> None:
    model = clone(PivotForestClassifier(n_estimators=2, max_features=1))
    assert model.get_params()["max_features"] == 1
    with pytest.raises(HedgerowError, match="max_features"):
        PivotForestClassifier(max_features="log2").fit(IRIS.data, IRIS.target)
    with pytest.raises(HedgerowError, match="n_estimators"):
        PivotForestClassifier(n_estimators=0).fit(IRIS.data, IRIS.target)


def test_it_is_scored_like_any_other() -> None:
    model = PivotForestClassifier(n_peers=2, n_estimators=2, max_depth=1, max_bins=4)
    assert cross_val_score(model, IRIS.data, IRIS.target, cv=2).shape == (2,)
