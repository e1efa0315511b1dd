"""The expected noise beside what it hides: from public numbers, and right about who drowns."""

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from hedgerow import (
    Attribute,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPTreeClassifier,
    HiddenBoostingRegressor,
    HiddenForestClassifier,
    HiddenTreeClassifier,
    HiddenTreeRegressor,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
    TopDownTreeClassifier,
)
from hedgerow.errors import HedgerowWarning
from hedgerow.privacy import NoisyMax, TwoSidedGeometric
from hedgerow.protocols.forecast import NoiseForecast, forecast
from hedgerow.secure.noise.releases import NOBODY
from tests.protocols.record_count import RECORDS, CountOptions, CountPlan

CLASSES, NUMBER = Target(name="y", classes=(0, 1)), Target(name="y", bounds=(0, 100))


def domain_of(capacity: int | None, target: Target = CLASSES) -> Domain:
    attributes = tuple(
        Attribute(name=f"a{i}", kind="numeric", bounds=(0, 1), bins=16) for i in range(10)
    )
    return Domain(attributes=attributes, target=target, capacity=capacity)


def seen(estimator, capacity: int, target: Target = CLASSES, **parameters) -> NoiseForecast:
    domain = domain_of(capacity, target)
    return forecast(estimator(domain=domain, **parameters).plan(domain))


ALL = [
    (DPTreeClassifier, CLASSES, {}),
    (MedianForestClassifier, CLASSES, {}),
    (MedianForestRegressor, NUMBER, {}),
    (DPBoostingClassifier, CLASSES, {"delta": 1e-9}),
    (DPBoostingRegressor, NUMBER, {"delta": 1e-9}),
    (TopDownTreeClassifier, CLASSES, {}),
    (HiddenTreeClassifier, CLASSES, {}),
    (HiddenForestClassifier, CLASSES, {}),
    (HiddenTreeRegressor, NUMBER, {}),
    (HiddenBoostingRegressor, NUMBER, {}),
]


@pytest.mark.parametrize(("estimator", "target", "more"), ALL)
def test_every_private_plan_has_a_forecast(estimator, target, more) -> None:
    assert seen(estimator, 2000, target, epsilon=0.001, **more).drowns
    assert not seen(estimator, 10**6, target, epsilon=100.0, **more).drowns


def test_the_figures_are_those_of_the_mechanisms() -> None:
    domain = domain_of(750)
    plan = DPTreeClassifier(1.0, domain, max_depth=3).plan()
    split, leaf = forecast(plan).expected
    assert leaf.noise == pytest.approx(math.sqrt(plan.count.variance))
    assert leaf.size == pytest.approx(750 / 8)
    # Noisy max over 150 candidates, sensitivity 1, monotone.
    assert split.noise == pytest.approx(math.log(150) * 3 / 0.7)
    assert split.size == pytest.approx(750 / 4)
    rng = np.random.default_rng(3)
    p = math.exp(-0.7 / 3)
    drawn = (rng.geometric(1 - p, (4000, 150)) - 1).max(axis=1)
    assert drawn.mean() == pytest.approx(split.noise, rel=0.2)


def test_the_regression_that_drowned_is_told_before() -> None:
    domain = domain_of(750, NUMBER)
    foreseen = forecast(HiddenTreeRegressor(1.0, domain).plan(domain))
    assert foreseen.drowns
    assert "a narrower one drowns sooner" in str(foreseen)
    assert not seen(HiddenTreeRegressor, 7500, NUMBER, epsilon=1.0).drowns
    rng = np.random.default_rng(0)
    X = rng.random((1500, 10))
    y = 30 + 15 * X[:, 0] + 8 * X[:, 1] + rng.normal(0, 2, 1500)
    with pytest.warns(HedgerowWarning, match="the noise will drown this model"):
        HiddenTreeRegressor(1.0, domain, engine="clear").fit(X[:750], y[:750])
    # It does, here with noise that is the same each time: hardly better than the mean, which is 0.
    fits = (HiddenTreeRegressor(1.0, domain, engine="clear", random_state=k) for k in range(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = [model.fit(X[:750], y[:750]).score(X[750:], y[750:]) for model in fits]
    assert np.median(scores) < 0.2


@pytest.mark.parametrize("rows", [20, 60])
def test_the_warning_follows_from_public_numbers_alone(rows: int) -> None:
    domain = domain_of(60)
    X = np.full((rows, 10), 0.5)
    said = []
    for y in (np.zeros(rows, int), np.arange(rows) % 2):
        with pytest.warns(HedgerowWarning) as caught:
            DPTreeClassifier(0.05, domain, max_depth=2).fit(X, y)
        said.append([str(w.message) for w in caught])
    assert (
        said[0] == said[1] == [forecast(DPTreeClassifier(0.05, domain, max_depth=2).plan()).warning]
    )


def test_a_fit_that_promises_nothing_is_not_warned_of_its_budget() -> None:
    domain = domain_of(60)
    X, y = np.full((60, 10), 0.5), np.arange(60) % 2
    with pytest.warns(HedgerowWarning) as caught:
        DPTreeClassifier(0.05, domain, max_depth=2, random_state=1).fit(X, y)
    assert not any("drown" in str(w.message) for w in caught)


def test_without_noise_or_capacity_there_is_nothing_to_say() -> None:
    assert seen(HiddenTreeClassifier, 600, epsilon=1.0, noise="none").expected == ()
    plan = DPTreeClassifier(1.0, domain_of(None), max_depth=2, criterion="max").plan()
    assert forecast(plan) == NoiseForecast(())


def test_votes_are_set_beside_the_trees_that_vote() -> None:
    votes = {"noise": "votes", "n_estimators": 20, "queries": 10}
    (found,) = seen(HiddenForestClassifier, 2000, epsilon=20.0, **votes).expected
    assert (found.noise, found.size) == (pytest.approx(1.0), 10)
    assert not found.drowns


def test_as_plain_values() -> None:
    foreseen = seen(DPTreeClassifier, 60, epsilon=0.05)
    data = json.loads(json.dumps(foreseen.to_dict()))
    assert data["drowns"] is True
    assert [row["what"] for row in data["expected"]] == [e.what for e in foreseen.expected]
    assert str(foreseen).count("DROWNED") == sum(row["drowns"] for row in data["expected"])


def test_a_plan_without_a_rule_of_its_own() -> None:
    """Noisy counts are compared with evenly divided records, and what else there is is named."""
    plan = CountOptions(epsilon=0.5).plan(domain_of(1000))
    (expected,) = forecast(plan).expected
    assert (expected.what, expected.size) == (RECORDS, 1000)
    assert expected.noise == pytest.approx(math.sqrt(TwoSidedGeometric(0.5).variance))
    assert forecast(CountOptions(epsilon=0.0001).plan(domain_of(1000))).drowns

    class Choosing(CountPlan):
        def releases(self):
            charge = replace(self.charge_of(NOBODY), reason="choice of a bin")
            return (*super().releases(), charge.release(NoisyMax(1.0), 8))

    foreseen = forecast(Choosing(**vars(plan)))
    assert foreseen.expected == (expected,)
    assert "no forecast of choice of a bin" in str(foreseen)
