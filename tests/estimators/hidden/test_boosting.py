import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.model_selection import train_test_split

from hedgerow import Domain, HiddenBoostingClassifier, HiddenBoostingRegressor
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import encode

CANCER, ILL = load_breast_cancer(return_X_y=True)
DOMAIN = Domain.suggest(CANCER, ILL, max_bins=16, quiet=True).confirm_public(capacity=450)
TRAIN, TEST = train_test_split(np.arange(569), random_state=0, stratify=ILL)


@pytest.mark.parametrize(("engine", "rounds"), [("clear", 20), ("simulate", 3)])
def test_without_noise_it_is_as_accurate_as_scikit_learn(engine: str, rounds: int) -> None:
    model = HiddenBoostingClassifier(
        domain=DOMAIN, noise="none", n_estimators=rounds, engine=engine, n_owners=2
    ).fit(CANCER[TRAIN], ILL[TRAIN])
    bins = encode(CANCER, DOMAIN).bins
    oracle = GradientBoostingClassifier(n_estimators=rounds, random_state=0)
    oracle.fit(bins[TRAIN], ILL[TRAIN])
    expected = oracle.score(bins[TEST], ILL[TEST])
    assert model.score(CANCER[TEST], ILL[TEST]) == pytest.approx(expected, abs=0.005)
    gap = model.decision_function(CANCER[TRAIN]) - oracle.decision_function(bins[TRAIN])
    assert np.median(np.abs(gap)) < 1e-3
    assert model.privacy_.total("analyst").epsilon == math.inf
    assert model.privacy_.total("server 2").epsilon == 0


def test_classes_probabilities_and_scores_agree() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    domain = Domain.suggest(X, names, max_bins=8, quiet=True).confirm_public(capacity=150)
    model = HiddenBoostingClassifier(domain=domain, noise="none", n_estimators=3, engine="clear")
    model.fit(X, names)
    odds = model.predict_proba(X)
    assert np.allclose(odds.sum(axis=1), 1)
    assert np.allclose(np.exp(model.predict_log_proba(X)), odds)
    assert np.array_equal(model.classes_[odds.argmax(axis=1)], model.predict(X))
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, names) > 0.95


def test_without_noise_the_regressor_fits_as_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    domain = Domain.suggest(X, y, max_bins=16, task="regression", quiet=True)
    domain = domain.confirm_public(capacity=442)
    model = HiddenBoostingRegressor(domain=domain, noise="none", n_estimators=10, engine="clear")
    bins = encode(X, domain).bins
    oracle = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(bins, y)
    found = model.fit(X, y).predict(X)
    assert np.quantile(np.abs(found - oracle.predict(bins)), 0.95) < 0.2
    assert model.score(X, y) == pytest.approx(oracle.score(bins, y), abs=0.005)


@pytest.mark.parametrize("splitter", ["best", "random"])
def test_noise_costs_epsilon_once_for_all_answers(splitter: str) -> None:
    model = HiddenBoostingClassifier(
        40.0, DOMAIN, n_estimators=4, learning_rate=0.5, max_depth=2, splitter=splitter
    ).fit(CANCER[TRAIN], ILL[TRAIN])
    assert np.array_equal(model.predict(CANCER[TEST]), model.predict(CANCER[TEST]))
    total = model.privacy_.total("analyst")
    assert total.epsilon <= 40.0
    assert total.epsilon == pytest.approx(40.0)
    assert model.score(CANCER[TEST], ILL[TEST]) > 0.75
    assert model.what_was_learned("server 0") == []


def test_parameters_are_refused_with_a_number() -> None:
    for wrong in (
        {"noise": "leaves"},
        {"n_estimators": 0},
        {"max_depth": "auto"},
        {"learning_rate": 2.0},
        {"split_share": 0.0},
        {"splitter": "worst"},
        {"public_seed": -1},
    ):
        with pytest.raises(HedgerowError) as caught:
            HiddenBoostingClassifier(domain=DOMAIN, **wrong).fit(CANCER[TRAIN], ILL[TRAIN])
        assert caught.value.code is Code.BAD_PARAMETER, wrong
