"""Logistic regression over columns at peers, as an estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import Account, PivotLogisticRegression
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Budget, Ledger

CANCER, IRIS = load_breast_cancer(as_frame=True), load_iris()
FEW = {"n_peers": 2, "max_iter": 3, "batch_size": 100}
"""Hardly trained, to be quick."""


@pytest.fixture(scope="module")
def cancer() -> PivotLogisticRegression:
    return PivotLogisticRegression(**FEW, learning_rate=0.5).fit(
        CANCER.data.iloc[:, :8], CANCER.target
    )


@pytest.fixture(scope="module")
def iris() -> PivotLogisticRegression:
    return PivotLogisticRegression(n_peers=2, max_iter=8, batch_size=50, learning_rate=2.0).fit(
        IRIS.data, np.array(["s", "e", "i"])[IRIS.target]
    )


def test_an_opened_model_is_that_of_scikit_learn(cancer: PivotLogisticRegression) -> None:
    X = CANCER.data.iloc[:, :8]
    rows, taken = cancer.features(X), cancer.to_sklearn()
    assert isinstance(taken, LogisticRegression)
    assert cancer.coef_.shape == (1, 8)
    assert list(cancer.features_) == list(X.columns)
    np.testing.assert_array_equal(cancer.predict(X), taken.predict(rows))
    np.testing.assert_allclose(
        cancer.predict_proba(X), taken.predict_proba(rows), rtol=0, atol=0.002
    )
    np.testing.assert_allclose(
        cancer.decision_function(X), taken.decision_function(rows), rtol=0, atol=1e-4
    )
    reference = LogisticRegression().fit(rows, CANCER.target)
    assert cancer.score(X, CANCER.target) >= reference.score(rows, CANCER.target) - 0.02


def test_several_classes(iris: PivotLogisticRegression) -> None:
    rows, taken = iris.features(IRIS.data), iris.to_sklearn()
    assert list(iris.classes_) == ["e", "i", "s"]
    assert iris.coef_.shape == (3, 4)
    np.testing.assert_array_equal(iris.predict(IRIS.data), taken.predict(rows))
    chances = iris.predict_proba(IRIS.data)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_allclose(chances, taken.predict_proba(rows), rtol=0, atol=0.005)
    assert iris.decision_function(IRIS.data[:7]).shape == (7, 3)
    assert iris.score(IRIS.data, np.array(["s", "e", "i"])[IRIS.target]) > 0.9


def test_what_was_learned_is_what_was_opened(cancer: PivotLogisticRegression) -> None:
    learned = cancer.what_was_learned_
    assert list(learned) == ["peer 0", "peer 1"]
    assert [(row["name"], row["values"]) for row in learned["peer 1"]] == [("weights", 9)]
    assert cancer.privacy_.total("peer").epsilon == np.inf
    before = len(cancer.privacy_.entries)
    cancer.predict(CANCER.data.iloc[:3, :8])
    assert len(cancer.privacy_.entries) == before


def test_a_hidden_model_answers_and_shows_nothing() -> None:
    X = CANCER.data.iloc[:, :8]
    model = PivotLogisticRegression(**FEW, learning_rate=0.5, hide="weights").fit(X, CANCER.target)
    assert not any(model.what_was_learned_.values())
    assert not hasattr(model, "coef_")
    assert model.score(X, CANCER.target) > 0.85
    with pytest.raises(HedgerowError, match="hidden"):
        model.to_sklearn()


@pytest.mark.parametrize("hide", ["nothing", "weights"])
def test_processes_send_and_open_what_the_simulator_does(hide: str) -> None:
    ends = []
    for engine in ("simulate", "processes"):
        model = PivotLogisticRegression(**FEW | {"max_iter": 1}, hide=hide, engine=engine)
        ends.append(model.fit(CANCER.data.iloc[:, :4], CANCER.target))
    one, other = ends
    assert one.what_was_learned_ == other.what_was_learned_
    assert one.privacy_.entries == other.privacy_.entries
    for name in ("offline_", "online_"):
        assert getattr(one, name).payload == getattr(other, name).payload
        assert getattr(one, name).rounds == getattr(other, name).rounds
    chances = [model.predict_proba(CANCER.data.iloc[:20, :4]) for model in ends]
    np.testing.assert_allclose(*chances, rtol=0, atol=0.005)


def test_tables_of_peers_with_ids_and_categories() -> None:
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 200)
    size = rng.normal(size=200)
    size[::9] = np.nan
    y = np.where((kind == "a") | (np.nan_to_num(size) > 1), "yes", "no")
    order = rng.permutation(200)
    tables: list[Any] = [pd.DataFrame({"kind": kind}), pd.DataFrame({"size": size[order]})]
    model = PivotLogisticRegression(max_iter=4, learning_rate=2.0, missing="own bin")
    model.fit_peers(tables, [y, None], ids=[np.arange(200), order])
    assert list(model.features_) == [
        *("kind=a", "kind=b", "kind=c", "kind=missing", "size", "size=missing")
    ]
    both = pd.DataFrame({"kind": kind, "size": size})
    assert model.score(both, y) > 0.85
    assert model.coef_[0, 0] > max(model.coef_[0, 1:3])


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"C": "strong"},
        {"max_iter": 0},
        {"batch_size": 0},
        {"learning_rate": -1.0},
        {"learning_rate": 1e9},
        {"momentum": 1.0},
        {"hide": "features"},
        {"max_bins": 300},
        {"fit_intercept": "yes"},
        {"engine": "clear"},
        {"n_peers": 1},
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(HedgerowError) as caught:
        PivotLogisticRegression(**parameters).fit(CANCER.data, CANCER.target)
    assert caught.value.code is Code.BAD_PARAMETER


def test_an_account_with_a_budget_pays_for_no_exact_weights() -> None:
    account = Account(Ledger(budget=Budget(1.0)))
    with pytest.raises(HedgerowError) as caught:
        PivotLogisticRegression(account=account).fit(IRIS.data, IRIS.target)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert not account.costs()


def test_parameters_are_cloned() -> None:
    model = clone(PivotLogisticRegression(C=0.5, momentum=0.3))
    assert (model.C, model.momentum, model.max_bins) == (0.5, 0.3, 64)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:random_state makes masks repeatable")
@parametrize_with_checks(
    [PivotLogisticRegression(n_peers=2, max_iter=3, max_bins=4, learning_rate=2.0)],
    expected_failed_checks=lambda _: dict.fromkeys(
        (
            "check_decision_proba_consistency",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
        ),
        "a truncated product is rounded down or up by chance: of two questions about one row, "
        "scores may differ by 2^-16, and rows that nearly tie may change places",
    ),
)
def test_scikit_learn_agrees(estimator: Any, check: Any) -> None:
    check(estimator)
