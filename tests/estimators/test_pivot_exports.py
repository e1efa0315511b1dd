"""Models that peers see answer as the peers do: as JSON, in scikit-learn and in ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from hedgerow import (
    PivotBoostingClassifier,
    PivotBoostingRegressor,
    PivotForestClassifier,
    PivotForestRegressor,
    PivotLogisticRegression,
    PivotTreeClassifier,
    PivotTreeRegressor,
    read_model,
)
from hedgerow.errors import HedgerowError
from hedgerow.tables import encode
from hedgerow.trees import to_sklearn
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.forest import Forest
from hedgerow.trees.tree import Tree
from tests.trees.export.test_onnx import assert_same, assert_same_boosted

FEW: dict[str, Any] = {"n_peers": 2, "max_bins": 4}
GROWN = FEW | {"max_depth": 2}
ROUNDS = GROWN | {"n_estimators": 2, "learning_rate": 0.5}
PASSES = FEW | {"max_iter": 3, "batch_size": 50, "learning_rate": 1.0}


def numbers(load: Any) -> tuple[pd.DataFrame, Any]:
    X, y = load(return_X_y=True, as_frame=True)
    return X.iloc[:, :4], y


def mixed() -> tuple[pd.DataFrame, Any]:
    """A category and a number, either of which may be missing."""
    rng = np.random.default_rng(0)
    kind, size = rng.choice(["a", "b", "c"], 200).astype(object), rng.normal(size=200)
    y = pd.Series(np.where((kind == "a") | (size > 1), "yes", "no"))
    kind[::7], size[::9] = None, np.nan
    return pd.DataFrame({"kind": kind, "size": size}), y


IRIS, CANCER, PEOPLE = (load_iris, load_breast_cancer, load_diabetes)
CASES: dict[str, tuple[Any, Any, type[Any], str]] = {
    "tree": (PivotTreeClassifier(**GROWN), IRIS, Tree, "values"),
    "tree of a number": (PivotTreeRegressor(**GROWN), PEOPLE, Tree, "values"),
    "forest": (PivotForestClassifier(**GROWN, n_estimators=3), IRIS, Forest, "values"),
    "forest of a number": (PivotForestRegressor(**GROWN, n_estimators=3), PEOPLE, Forest, "values"),
    "softmax": (PivotBoostingClassifier(**ROUNDS), IRIS, Boosted, "values"),
    "one-vs-rest": (PivotBoostingClassifier(**ROUNDS, loss="one-vs-rest"), IRIS, Boosted, "values"),
    "two classes": (PivotBoostingClassifier(**ROUNDS), CANCER, Boosted, "values"),
    "boosted number": (PivotBoostingRegressor(**ROUNDS), PEOPLE, Boosted, "values"),
    "logistic": (PivotLogisticRegression(**PASSES), CANCER, Boosted, "values"),
    "logistic, three classes": (PivotLogisticRegression(**PASSES), IRIS, Boosted, "values"),
    "logistic, no intercept": (
        PivotLogisticRegression(**PASSES, fit_intercept=False),
        CANCER,
        Boosted,
        "values",
    ),
    "logistic, categories": (
        PivotLogisticRegression(**PASSES, missing="own bin"),
        mixed,
        Boosted,
        "bins",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * (name.startswith("logistic,") or "two" in name)
        )
        for name in CASES
    ],
)
def test_an_opened_model_answers_without_its_peers(name: str, tmp_path: Path) -> None:
    estimator, load, kind, on = CASES[name]
    X, y = load() if load is mixed else numbers(load)
    peers = estimator.fit(X, y)
    file = tmp_path / "model.json"
    file.write_text(peers.to_json())
    model, privacy = read_model(file)
    assert type(model) is kind
    assert privacy is not None
    bins = encode(X, peers.domain_).bins
    rows: Any = bins if on == "bins" else X.to_numpy()
    told = peers.predict(X)
    if not model.is_classifier:
        target = peers.domain_.target
        found = np.clip(model.decide(bins)[:, 0], *target.bounds)
        np.testing.assert_allclose(found, told, rtol=0, atol=1e-6 * np.ptp(target.bounds))
    elif kind is not Forest:
        # Peers count votes, a forest by itself takes the mean of probabilities.
        assert np.array_equal(peers.classes_[model.predict_class(bins)], told)
    if kind is Boosted and model.is_classifier:
        # Of logistic regression, peers read probabilities off lines.
        off = 0.004 if name.startswith("logistic") else 1e-9
        chances = model.distribution(bins)
        np.testing.assert_allclose(chances, peers.predict_proba(X), rtol=0, atol=off)
    elsewhere = to_sklearn(model, on=on)
    given = bins if on == "bins" else X
    if model.is_classifier:
        np.testing.assert_allclose(elsewhere.predict_proba(given), model.distribution(bins))
    else:
        np.testing.assert_allclose(elsewhere.predict(given), model.decide(bins)[:, 0])
    same = assert_same_boosted if kind is Boosted else assert_same
    same(model, peers.to_onnx(on=on), rows, bins)


@pytest.mark.parametrize(
    "hidden",
    [
        PivotTreeClassifier(**GROWN, hide="thresholds"),
        PivotBoostingClassifier(**ROUNDS, hide="everything"),
        PivotLogisticRegression(**PASSES, hide="weights"),
    ],
)
def test_a_hidden_model_is_not_exported(hidden: Any) -> None:
    X, y = numbers(load_breast_cancer)
    hidden.fit(X, y)
    for export in (hidden.to_json, hidden.to_onnx, hidden.to_sklearn):
        with pytest.raises(HedgerowError, match="hidden"):
            export()
