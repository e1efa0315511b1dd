"""Private boosting as scikit-learn sees it: its checks, refusals, and what users get."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from hedgerow import Attribute, Domain, DPBoostingClassifier, DPBoostingRegressor, Target
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.trees.boosted import Boosted

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=20),
        Attribute(name="ward", kind="categorical", categories=("north", "south")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=1_000,
)
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"age": RNG.integers(0, 101, 600), "ward": RNG.choice(["north", "south"], 600)})
ILL = np.where((ROWS.age > 60) ^ (RNG.random(600) < 0.1), "yes", "no")
COST = Domain(
    attributes=DOMAIN.attributes,
    target=Target(name="cost", bounds=(0, 100), outside="error"),
    capacity=1_000,
)


def test_a_fit_costs_epsilon_at_delta_and_says_so() -> None:
    model = DPBoostingClassifier(2.0, DOMAIN, delta=1e-5).fit(ROWS, ILL)
    total = model.privacy_.total("public")
    assert 1.99 < total.epsilon <= 2.0
    assert total.delta == 1e-5
    assert model.score(ROWS, ILL) > 0.8
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.allclose(model.predict_proba(ROWS).sum(axis=1), 1)
    assert np.argmax(model.feature_importances_) == 0
    raw = model.decision_function(ROWS)
    assert np.array_equal(raw > 0, model.predict(ROWS) == "yes")
    document = json.loads(model.to_json())
    assert document["privacy"]["delta"] == 1e-5
    assert np.array_equal(
        Boosted.from_json(model.to_json()).raw(model._encode_query(ROWS).bins)[:, 0], raw
    )


def test_regression_answers_within_the_bounds() -> None:
    cost = ROWS.age.to_numpy(dtype=np.float64)
    model = DPBoostingRegressor(5.0, COST).fit(ROWS, cost)
    found = model.predict(ROWS)
    assert found.min() >= 0
    assert found.max() <= 100
    assert model.score(ROWS, cost) > 0.7
    with pytest.raises(HedgerowError) as caught:
        DPBoostingRegressor(5.0, COST).fit(ROWS, cost + 50)
    assert caught.value.code is Code.OUTSIDE_BOUNDS


def test_exports_answer_alike() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :6]
    attributes = tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(float(c.min()), float(c.max())), bins=12)
        for i, c in enumerate(X.T)
    )
    domain = Domain(attributes=attributes, target=Target(name="y", classes=(0, 1)), capacity=600)
    model = DPBoostingClassifier(10.0, domain).fit(X, y)
    exported = model.to_sklearn()
    assert np.allclose(exported.predict_proba(X), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {"delta": 0.0},
        {"delta": 0.5},
        {"delta": 1.0},
        {"n_estimators": 0},
        {"n_estimators": "many"},
        {"max_leaves": 1},
        {"learning_rate": 0.0},
        {"learning_rate": "fast"},
        {"subsample": 0.0},
        {"subsample": 1.5},
        {"public_seed": -1},
        {"random_state": -1},
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        DPBoostingClassifier(1.0, DOMAIN, **parameters).fit(ROWS, ILL)
    assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(("delta", "warned"), [(1e-3, True), (0.4, True), (0.99e-3, False)])
def test_a_delta_of_one_in_capacity_is_warned_of(delta: float, warned: bool) -> None:
    model = DPBoostingClassifier(1.0, DOMAIN, delta=delta, n_estimators=5)
    for act in (model.plan, lambda: model.plan(DOMAIN), lambda: model.fit(ROWS, ILL)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            act()
        said = [str(one.message) for one in caught if issubclass(one.category, HedgerowWarning)]
        told = [text for text in said if "1 / capacity = 0.001" in text]
        assert len(told) == int(warned)
        assert all("such as 1e-05" in text for text in told)
        assert all(one.filename == __file__ for one in caught)


def test_a_domain_from_the_rows_is_warned_of() -> None:
    model = DPBoostingClassifier(1.0, n_estimators=3, insecure_domain_from_data=True)
    with pytest.warns(HedgerowWarning, match="insecure_domain_from_data") as caught:
        model.fit(ROWS[["age"]], ILL)
    assert [one.filename for one in caught] == [__file__]
    assert not model.privacy_.total("public").private


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
def test_other_refusals_spend_nothing() -> None:
    small = DOMAIN.model_copy(update={"capacity": 10})
    for model, code in (
        (DPBoostingClassifier(), Code.MISSING_DOMAIN),
        (DPBoostingClassifier(float("inf"), DOMAIN), Code.BAD_EPSILON),
        (DPBoostingClassifier(1.0, small), Code.CAPACITY_EXCEEDED),
    ):
        with pytest.raises(HedgerowError) as caught:
            model.fit(ROWS, ILL)
        assert caught.value.code is code
        assert not hasattr(model, "privacy_")


def test_seeded_noise_repeats_and_is_marked() -> None:
    model = DPBoostingClassifier(1.0, DOMAIN, random_state=3, n_estimators=10)
    with pytest.warns(HedgerowWarning):
        first = model.fit(ROWS, ILL).boosted_
    with pytest.warns(HedgerowWarning):
        assert clone(model).fit(ROWS, ILL).boosted_ == first
    assert not model.privacy_.total().private


def test_it_works_in_a_pipeline() -> None:
    train, test, y, z = train_test_split(ROWS, ILL, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(), DPBoostingClassifier(5.0, DOMAIN))
    assert pipeline.fit(train, y).score(test, z) > 0.7
