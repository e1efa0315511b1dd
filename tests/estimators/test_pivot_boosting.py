"""Boosting over columns at peers, as estimators."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import Account, PivotBoostingClassifier, PivotBoostingRegressor
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Budget, Ledger
from hedgerow.tables import encode

IRIS, PEOPLE, CANCER = load_iris(), load_diabetes(), load_breast_cancer()
FEW: dict[str, Any] = {"n_peers": 2, "n_estimators": 3, "max_depth": 2, "learning_rate": 0.5}


@pytest.fixture(scope="module")
def iris() -> PivotBoostingClassifier:
    return PivotBoostingClassifier(**FEW).fit(IRIS.data, IRIS.target)


def test_it_learns_and_answers_as_its_opened_model(iris: PivotBoostingClassifier) -> None:
    bins = encode(IRIS.data, iris.domain_).bins
    assert (iris.predict(IRIS.data) == IRIS.target).mean() > 0.93
    assert np.array_equal(iris.predict(IRIS.data), iris.boosted_.predict_class(bins))
    found = iris.predict_proba(IRIS.data)
    np.testing.assert_allclose(found, iris.boosted_.distribution(bins), atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_all_peers_learned_what_was_opened(iris: PivotBoostingClassifier) -> None:
    assert set(iris.what_was_learned_) == {"peer 0", "peer 1"}
    names = [row["name"] for row in iris.what_was_learned_["peer 1"]]
    assert names == [one.name for one in iris.plan_.openings()]
    assert iris.privacy_.total("peer").epsilon == np.inf
    charged = len(iris.privacy_.releases)
    iris.predict(IRIS.data[:2])
    assert len(iris.privacy_.releases) == charged
    assert iris.offline_.rounds > 0
    assert iris.online_.rounds > 0


@pytest.mark.parametrize("engine", ["simulate", "processes"])
def test_a_hidden_model_answers_the_same_and_shows_no_tree(engine: str) -> None:
    rows, y = PEOPLE.data[:120, :3], PEOPLE.target[:120]
    options = {**FEW, "n_estimators": 2, "max_bins": 4}
    shown = PivotBoostingRegressor(**options).fit(rows, y)
    hidden = PivotBoostingRegressor(**options, hide="everything", engine=engine).fit(rows, y)
    assert not hasattr(hidden, "boosted_")
    assert not hidden.what_was_learned_["peer 0"]
    with pytest.raises(HedgerowError, match="hidden"):
        hidden.to_sklearn()
    off = np.abs(hidden.predict(rows) - shown.predict(rows))
    assert np.quantile(off, 0.9) < 0.01 * np.ptp(y)


def test_peers_with_ids_and_a_booster_for_each_class() -> None:
    frame = pd.DataFrame(CANCER.data[:100, :3], columns=["a", "b", "c"])
    ids, y = np.arange(100), pd.Series(CANCER.target[:100])
    model = PivotBoostingClassifier(n_estimators=2, max_depth=1, learning_rate=1.0)
    model.fit_peers([frame[["a"]], frame[["b", "c"]]], [None, y], [ids, ids])
    assert (model.predict(frame) == y).mean() > 0.8
    each = PivotBoostingClassifier(**{**FEW, "n_estimators": 1}, loss="one-vs-rest")
    each.fit(IRIS.data[:, :2], IRIS.target)
    assert each.boosted_.link == "one-vs-rest"
    assert each.predict_proba(IRIS.data[:3, :2]).shape == (3, 3)


def test_parameters_are_those_of_the_options() -> None:
    model = clone(PivotBoostingClassifier(n_estimators=2, subsample=0.5))
    assert model.get_params()["subsample"] == 0.5
    for wrong in ({"hide": "thresholds"}, {"n_estimators": 0}, {"loss": "hinge"}):
        with pytest.raises(HedgerowError, match=next(iter(wrong))):
            PivotBoostingClassifier(**wrong).fit(IRIS.data, IRIS.target)


def test_an_account_with_a_budget_refuses_it() -> None:
    account = Account(Ledger(budget=Budget(1.0)))
    with pytest.raises(HedgerowError) as caught:
        PivotBoostingClassifier(account=account).fit(IRIS.data, IRIS.target)
    assert caught.value.code is Code.BUDGET_EXCEEDED


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:random_state makes masks repeatable")
@parametrize_with_checks(
    [
        PivotBoostingClassifier(n_peers=2, n_estimators=2, max_depth=1, max_bins=4),
        PivotBoostingRegressor(
            n_peers=2, n_estimators=2, max_depth=2, max_bins=4, learning_rate=1.0
        ),
    ]
)
def test_scikit_learn_agrees(estimator: Any, check: Any) -> None:
    check(estimator)
