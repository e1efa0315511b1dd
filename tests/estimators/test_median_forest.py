"""Median forests: what they refuse, what they charge, and that they learn."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from hedgerow import (
    Attribute,
    Domain,
    Ledger,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators.median_forest import show_progress
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.tables import encode
from hedgerow.trees import Forest
from hedgerow.trees.counts.forest import ForestCounts, LocalCounts

ATTRIBUTES = (
    Attribute(name="age", kind="numeric", bounds=(0, 100), bins=50),
    Attribute(name="ward", kind="categorical", categories=("a", "b", "c"), missing="own bin"),
    Attribute(name="town", kind="categorical", categories=tuple(range(20))),
)
CLASSES = Domain(
    attributes=ATTRIBUTES, target=Target(name="ill", classes=("no", "yes")), capacity=2000
)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 200)), capacity=2000)
ROWS = pd.DataFrame(
    {
        "age": np.arange(2000) % 100,
        "ward": np.array(["a", "b", "c", None], dtype=object)[np.arange(2000) // 7 % 4],
        "town": np.arange(2000) // 3 % 20,
    }
)
ILL = np.where(ROWS.age > 60, "yes", "no")
COST = 2.0 * ROWS.age.to_numpy()
VARIANTS = ["base", "exp", "flip", "max", "random"]


def code_of(function, *args, **kwargs) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args, **kwargs)
    return caught.value.code


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, None, "1", True])
def test_epsilon_must_be_positive_and_finite(epsilon: object) -> None:
    assert code_of(MedianForestClassifier(epsilon, CLASSES).fit, ROWS, ILL) is Code.BAD_EPSILON


def test_a_domain_is_needed_and_the_rows_decide_nothing_about_a_refusal() -> None:
    assert code_of(MedianForestClassifier().fit, None, None) is Code.MISSING_DOMAIN
    assert code_of(MedianForestClassifier(1.0, "domain.toml").fit, None, None) is (
        Code.BAD_PARAMETER
    )
    draft = CLASSES.model_copy(update={"provenance": "read from data"})
    assert code_of(MedianForestClassifier(1.0, draft).fit, None, None) is (
        Code.DOMAIN_READ_FROM_DATA
    )
    bare = CLASSES.model_copy(update={"capacity": None})
    assert code_of(MedianForestClassifier(1.0, bare).fit, None, None) is Code.MISSING_CAPACITY
    assert code_of(MedianForestClassifier(1.0, NUMBERS).fit, ROWS, ILL) is Code.BAD_TARGET
    assert code_of(MedianForestRegressor(1.0, CLASSES).fit, ROWS, COST) is Code.BAD_TARGET


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_estimators": 0},
        {"n_estimators": 2001, "partition": True},
        {"max_depth": 0},
        {"max_depth": "deep"},
        {"max_depth": 40},
        {"variant": "best"},
        {"max_features": 0},
        {"max_features": 4},
        {"max_features": "sqrt"},
        {"split_share": 0.0},
        {"split_share": 1.0},
        {"partition": "rows"},
        {"accounting": "loose"},
        {"depth_budget": "steep"},
        {"shrinkage": 1},
        {"public_seed": -1},
        {"random_state": -1},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    fit = MedianForestClassifier(1.0, CLASSES, **parameters).fit
    assert code_of(fit, ROWS, ILL) is Code.BAD_PARAMETER


def test_bad_rows_are_refused_for_the_eyes_of_their_owner() -> None:
    fit = MedianForestClassifier(1.0, CLASSES).fit
    assert code_of(fit, ROWS.assign(ward="z"), ILL) is Code.UNKNOWN_CATEGORY
    assert code_of(fit, ROWS.assign(age=np.nan), ILL) is Code.MISSING_VALUE
    assert code_of(fit, ROWS, np.full(2000, "perhaps")) is Code.UNKNOWN_CLASS
    small = CLASSES.model_copy(update={"capacity": 1999})
    assert code_of(MedianForestClassifier(1.0, small).fit, ROWS, ILL) is Code.CAPACITY_EXCEEDED
    fit = MedianForestRegressor(1.0, NUMBERS).fit
    assert code_of(fit, ROWS, np.full(2000, np.nan)) is Code.MISSING_VALUE
    strict = NUMBERS.model_copy(
        update={"target": Target(name="cost", bounds=(0, 150), outside="error")}
    )
    assert code_of(MedianForestRegressor(1.0, strict).fit, ROWS, COST) is Code.OUTSIDE_BOUNDS


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, math.pi])
def test_the_ledger_never_exceeds_epsilon(variant: str, partition: bool, epsilon: float) -> None:
    options = {"variant": variant, "partition": partition, "max_features": 3, "max_depth": 3}
    for model in (
        MedianForestClassifier(epsilon, CLASSES, n_estimators=3, **options).fit(ROWS, ILL),
        MedianForestRegressor(epsilon, NUMBERS, n_estimators=3, **options).fit(ROWS, COST),
    ):
        total = model.privacy_.total("public")
        assert total.epsilon <= epsilon
        assert total.epsilon == pytest.approx(epsilon, rel=1e-12)
        assert total.delta < 2**-54
        assert len(model.forest_.trees) == 3
        planned = Ledger(domain=model.domain_)
        planned.charge(*model.plan(model.domain_).releases())
        assert planned.total("public") == total


def test_the_papers_figure_stands_beside_what_holds() -> None:
    options = {"accounting": "paper", "max_depth": 4, "max_features": 3, "split_share": 0.5}
    ledger = MedianForestClassifier(1.0, CLASSES, **options).fit(ROWS, ILL).privacy_
    assert ledger.claimed_total() == pytest.approx(1.0)
    # Three medians per node at 0.0625 each, on four levels, where the paper counts one of them.
    assert ledger.total().epsilon == pytest.approx(1.0 + 4 * 2 * 0.0625)
    ledger = MedianForestRegressor(1.0, NUMBERS, **options).fit(ROWS, COST).privacy_
    assert ledger.claimed_total() == pytest.approx(1.0)
    assert ledger.total().epsilon == math.inf
    assert "mean of each leaf" in ledger.total().why
    base = MedianForestClassifier(1.0, CLASSES, **options | {"variant": "base"}).fit(ROWS, ILL)
    assert base.privacy_.total().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("variant", VARIANTS[:4])
@pytest.mark.parametrize("partition", [True, False])
def test_with_much_budget_it_learns_the_rule(variant: str, partition: bool) -> None:
    options = {"variant": variant, "partition": partition, "max_features": 3, "max_depth": 7}
    model = MedianForestClassifier(1e5, CLASSES, n_estimators=3, **options)
    score = model.fit(ROWS, ILL).score(ROWS, ILL)
    # One attribute of three at random needs luck to meet the age often enough.
    assert score > (0.85 if variant == "base" else 0.95)
    assert np.argmax(model.feature_importances_) == 0
    reals = MedianForestRegressor(1e5, NUMBERS, n_estimators=3, **options).fit(ROWS, COST)
    assert reals.score(ROWS, COST) > (0.7 if variant == "base" else 0.95)
    assert np.argmax(reals.feature_importances_) == 0


def test_answers_are_probabilities_and_within_the_bounds() -> None:
    model = MedianForestClassifier(0.05, CLASSES, n_estimators=3).fit(ROWS, ILL)
    shares = model.predict_proba(ROWS)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0).all()
    for options in ({}, {"shrinkage": False}, {"accounting": "paper"}):
        model = MedianForestRegressor(0.05, NUMBERS, n_estimators=3, **options).fit(ROWS, COST)
        found = model.predict(ROWS)
        assert ((found >= 0) & (found <= 200)).all()


def test_a_seed_makes_it_repeatable_and_not_private() -> None:
    model = MedianForestClassifier(1.0, CLASSES, random_state=3)
    with pytest.warns(HedgerowWarning, match="not private"):
        first = model.fit(ROWS, ILL).forest_
    with pytest.warns(HedgerowWarning, match="not private"):
        assert model.fit(ROWS, ILL).forest_ == first
    assert model.privacy_.total().epsilon == math.inf
    one, other = (MedianForestClassifier(1.0, CLASSES).fit(ROWS, ILL) for _ in range(2))
    assert one.forest_ != other.forest_


def test_shrinkage_costs_nothing_and_helps_where_noise_is_large() -> None:
    errors = []
    for shrinkage in (True, False):
        found = []
        for seed in range(5):
            options = {"max_depth": 8, "max_features": 3, "partition": True}
            model = MedianForestRegressor(
                1.0, NUMBERS, n_estimators=2, shrinkage=shrinkage, **options
            )
            model._noise = NoiseSource.insecure_seeded(seed)
            found.append(np.mean((model.fit(ROWS, COST).predict(ROWS) - COST) ** 2))
            assert len(model.privacy_.releases) == 18
        errors.append(np.mean(found))
    assert errors[0] < 0.6 * errors[1]


def test_the_model_file_carries_the_ledger() -> None:
    model = MedianForestClassifier(1.0, CLASSES).fit(ROWS, ILL)
    document = json.loads(model.to_json())
    ledger = Ledger.from_json(json.dumps(document["privacy"]))
    assert ledger.total().epsilon == model.privacy_.total().epsilon
    assert Forest.from_json(model.to_json()) == model.forest_


def test_accuracy_on_breast_cancer() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    domain = Domain.from_toml(Path(__file__).parents[2] / "examples" / "breast_cancer.toml")
    areas = []
    for seed in range(5):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
        model = MedianForestClassifier(1.0, domain)
        model._noise = NoiseSource.insecure_seeded(seed)
        shares = model.fit(X_train, y_train).predict_proba(X_test)
        areas.append(roc_auc_score(y_test == model.classes_[1], shares[:, 1]))
    assert np.mean(areas) > 0.9


PLAN = MedianForestClassifier(1.0, CLASSES, n_estimators=2, max_depth=3, max_features=2).plan()


def grow_watched(verbose: int, console: Console):
    counts = LocalCounts([PLAN.batch(encode(ROWS, CLASSES, ILL))])
    with show_progress(counts, PLAN.depth, verbose, console) as watched:
        assert isinstance(watched, ForestCounts)
        source = NoiseSource.insecure_seeded(3)
        return grow_median_forest(watched, PLAN, ledger=Ledger(), source=source)


def test_levels_are_shown_and_change_nothing() -> None:
    screens = [io.StringIO(), io.StringIO()]
    consoles = [Console(file=screen, force_terminal=True, width=80) for screen in screens]
    assert grow_watched(0, consoles[0]) == grow_watched(1, consoles[1])
    quiet, text = (screen.getvalue() for screen in screens)
    assert quiet == ""
    assert "leaves" in text


def test_the_line_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda self, task, **what: seen.append(what)
    )
    grow_watched(1, Console(file=io.StringIO()))
    done = [what["completed"] for what in seen if "completed" in what]
    assert done == [1, 2, 3, 4, 5]
    texts = [what["description"] for what in seen if "description" in what]
    assert texts[0] == "level 1 of 3: medians"
    assert "level 3 of 3: choosing attributes" in texts
    assert texts[-1] == "leaves"
