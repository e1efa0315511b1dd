"""A model that public numbers choose: which, why, and that it is the chosen one in every way."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hedgerow import (
    Account,
    Attribute,
    Batches,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPClassifier,
    DPRegressor,
    DPTreeClassifier,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.protocols.choice import BUDGET_FOR_BOOSTING, choose_model
from hedgerow.trees.model import model_from_json

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=20),
        Attribute(name="ward", kind="categorical", categories=("north", "south")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=1_000,
)
COST = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0, 100))})
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"age": RNG.integers(0, 101, 600), "ward": RNG.choice(["north", "south"], 600)})
ILL = np.where((ROWS.age > 60) ^ (RNG.random(600) < 0.1), "yes", "no")
AGE = ROWS.age.to_numpy(dtype=np.float64)


@pytest.mark.parametrize(
    ("estimator", "y", "kind"),
    [
        (DPClassifier(1.0, DOMAIN), ILL, DPBoostingClassifier),
        (DPClassifier(0.1, DOMAIN), ILL, DPTreeClassifier),
        (DPClassifier(1.0, DOMAIN, model="median-forest"), ILL, MedianForestClassifier),
        (DPRegressor(1.0, COST), AGE, DPBoostingRegressor),
        (DPRegressor(0.1, COST), AGE, MedianForestRegressor),
    ],
)
def test_public_numbers_choose_and_the_ledger_is_the_models(estimator, y, kind) -> None:
    plan = estimator.plan()
    fitted = estimator.fit(ROWS, y)
    assert type(fitted.model_) is kind
    assert fitted.choice_.reason in (
        "capacity * epsilon = 1000, at least 200",
        "capacity * epsilon = 100, below 200",
        "capacity * epsilon = 100, below 200, and numbers to predict",
        "it was named",
    )
    assert list(fitted.privacy_.releases) == list(plan.releases())
    total = fitted.privacy_.total("public")
    assert 0.999 * estimator.epsilon < total.epsilon <= estimator.epsilon * (1 + 1e-9)
    assert total.private
    assert np.array_equal(fitted.predict(ROWS), fitted.model_.predict(ROWS))
    assert np.array_equal(fitted.feature_importances_, fitted.model_.feature_importances_)
    read, privacy = model_from_json(fitted.to_json())
    assert type(read) is type(fitted.released_)
    assert privacy == json.loads(fitted.privacy_.to_json())


def test_the_choice_does_not_depend_on_rows() -> None:
    few, one_class = ROWS[:5], np.full(5, "no")
    for epsilon in (0.1, 1.0):
        whole = DPClassifier(epsilon, DOMAIN).fit(ROWS, ILL)
        assert DPClassifier(epsilon, DOMAIN).fit(few, one_class).choice_ == whole.choice_


def test_the_rule() -> None:
    epsilon = BUDGET_FOR_BOOSTING / 1_000
    assert choose_model(DOMAIN, epsilon, 1_000).model == "boosting"
    assert choose_model(DOMAIN, 0.99 * epsilon, 1_000).model == "tree"
    assert choose_model(DOMAIN, 0.1, 1_000, in_memory=False).model == "median-forest"
    bare = Domain(attributes=DOMAIN.attributes, target=DOMAIN.target)
    for domain, code in (
        (bare, Code.MISSING_CAPACITY),
        (Domain(attributes=DOMAIN.attributes, capacity=9), Code.BAD_TARGET),
    ):
        with pytest.raises(HedgerowError) as caught:
            DPClassifier(1.0, domain).fit(ROWS, ILL)
        assert caught.value.code is code


def test_batches_are_read_by_what_can_read_them(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    ROWS.assign(ill=ILL).to_parquet(file)
    for epsilon, kind in ((5.0, DPBoostingClassifier), (0.1, MedianForestClassifier)):
        fitted = DPClassifier(epsilon, DOMAIN).fit(Batches(file, DOMAIN))
        assert type(fitted.model_) is kind
        assert fitted.predict(ROWS).shape == (600,)


@pytest.mark.parametrize(
    "parameters",
    [
        {"model": "stump"},
        {"model": None},
        {"delta": 0.0},
        {"delta": 0.5},
        {"delta": float("nan")},
        {"public_seed": -1},
        {"bad_rows": "drop"},
        {"random_state": -1},
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        DPClassifier(1.0, DOMAIN, **parameters).fit(ROWS, ILL)
    assert caught.value.code is Code.BAD_PARAMETER


def test_a_tree_learns_no_numbers() -> None:
    with pytest.raises(HedgerowError) as caught:
        DPRegressor(1.0, COST, model="tree").fit(ROWS, AGE)
    assert caught.value.code is Code.BAD_TARGET
    fitted = DPRegressor(5.0, COST).fit(ROWS, AGE)
    assert fitted.predict(ROWS).min() >= 0
    assert fitted.predict(ROWS).max() <= 100
    assert fitted.score(ROWS, AGE) > 0.7


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_an_account_pays_once_and_refuses_before_rows_are_read(epsilon: float) -> None:
    account = Account.new("people.account.json", 1.5 * epsilon, 1e-5, fit_delta=1e-6)
    model = DPClassifier(epsilon, DOMAIN, account=account).fit(ROWS, ILL)
    assert account.spent().epsilon == pytest.approx(epsilon, rel=1e-3)
    earlier, ledger = model.released_, model.privacy_
    with pytest.raises(HedgerowError) as caught:
        model.fit(None, None)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert model.released_ is earlier
    assert model.privacy_ is ledger


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_second_fit_and_the_fit_of_a_copy_are_warned_of_once() -> None:
    model = DPClassifier(0.1, DOMAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HedgerowWarning)
        model.fit(ROWS, ILL)
    with pytest.warns(HedgerowWarning, match="was fitted before") as caught:
        model.fit(ROWS, ILL)
    assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", HedgerowWarning)
        model.fit(ROWS, ILL)
        clone(model).fit(ROWS, ILL)
    with pytest.warns(HedgerowWarning, match="copies of this"):
        clone(model).fit(ROWS, ILL)


def test_an_interrupted_fit_keeps_what_it_charged_and_no_earlier_model() -> None:
    model = DPClassifier(1.0, DOMAIN).fit(ROWS, ILL)
    earlier = model.privacy_

    def interrupt(ledger: object) -> None:
        raise KeyboardInterrupt

    model._charged = interrupt
    with pytest.raises(KeyboardInterrupt), pytest.warns(HedgerowWarning):
        model.fit(ROWS, ILL)
    assert model.privacy_ is not earlier
    assert model.privacy_.total("public").epsilon == pytest.approx(1, rel=1e-3)
    assert not hasattr(model, "released_")


def test_seeded_noise_repeats_and_is_marked() -> None:
    model = DPClassifier(1.0, DOMAIN, random_state=3)
    with pytest.warns(HedgerowWarning):
        first = model.fit(ROWS, ILL).released_
    with pytest.warns(HedgerowWarning):
        assert clone(model).fit(ROWS, ILL).released_ == first
    assert not model.privacy_.total().private
