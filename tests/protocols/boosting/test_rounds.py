"""Private boosting: sensitivities by brute force, budgets, and models that learn."""

import json
import math
from dataclasses import replace
from typing import Any

import dp_accounting
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import roc_auc_score

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource, rho_for
from hedgerow.privacy.accounting import tightest
from hedgerow.protocols.boosting.marginals import read_marginals
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.boosting.plan import COUNT_UNITS, BoostPlan
from hedgerow.protocols.boosting.rounds import (
    Shapes,
    assemble,
    boost,
    draw,
    shares,
    step_of,
)
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.counts.boosting import LocalBoostCounts

DELTA = 1e-6


def domain_for(X: np.ndarray, target: Target, capacity: int = 1_000) -> Domain:
    """Bundled data are public: their ranges are too."""
    attributes = tuple(
        Attribute(
            name=f"x{i}", kind="numeric", bounds=(float(column.min()), float(column.max())), bins=16
        )
        for i, column in enumerate(X.T)
    )
    return Domain(attributes=attributes, target=target, capacity=capacity)


def table(X: np.ndarray, y: np.ndarray, target: Target) -> Encoded:
    return encode(X, domain_for(X, target), y)


CANCER = table(*load_breast_cancer(return_X_y=True), Target(name="y", classes=(0, 1)))
WINE = table(*load_wine(return_X_y=True), Target(name="y", classes=(0, 1, 2)))
DIABETES = table(*load_diabetes(return_X_y=True), Target(name="y", bounds=(0, 400)))


def planned(encoded: Encoded, epsilon: float = 1.0, **more: Any) -> BoostPlan:
    return BoostOptions(epsilon=epsilon, delta=DELTA, **more).plan(encoded.domain)


def trained(encoded: Encoded, plan: BoostPlan, seed: int = 1) -> Boosted:
    counts = LocalBoostCounts([plan.batch(encoded)])
    source = NoiseSource.insecure_seeded(seed)
    return boost(counts, plan, ledger=Ledger(delta=DELTA), source=source)


@pytest.mark.parametrize(
    ("epsilon", "least"), [(0.01, 1.18), (0.1, 1.18), (1.0, 1.14), (10.0, 1.08)]
)
def test_a_plan_uses_the_room_of_the_exact_curve(epsilon: float, least: float) -> None:
    plan = planned(CANCER, epsilon)
    rho = sum(release.rho * release.times for release in plan.releases())
    assert rho > least * rho_for(epsilon, DELTA)
    # No noise of this rho could do with less.
    assert rho < 1 / (2 * dp_accounting.get_sigma_gaussian(epsilon, DELTA) ** 2)
    found = tightest(plan.releases(), DELTA)
    assert found.method == "Gaussian curve"
    assert epsilon * (1 - 1e-5) < found.epsilon <= epsilon
    assert plan.marginals_rho == pytest.approx(0.3 * rho)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_plan_with_samples_uses_the_room_of_their_losses(rate: float) -> None:
    plan = planned(CANCER, 1.0, subsample=rate, n_estimators=100)
    found = tightest(plan.releases(), DELTA)
    assert found.method == "Gaussian losses (PLD)"
    assert 0.99 < found.epsilon <= 1.0
    # Moments allow for less.
    unknown = [replace(release, sensitivity=1e-9) for release in plan.releases()]
    assert tightest(unknown, DELTA).epsilon > 1.05


@pytest.mark.parametrize("encoded", [CANCER, WINE, DIABETES], ids=["two", "three", "number"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_ledger_never_shows_more_than_epsilon(encoded: Encoded, epsilon: float) -> None:
    plan = planned(encoded, epsilon)
    ledger = Ledger(budget=(epsilon, DELTA), delta=DELTA)
    ledger.charge(*plan.releases())
    assert 0.999 * epsilon < ledger.total("public").epsilon <= epsilon
    assert ledger.total("public").delta == DELTA


@pytest.mark.parametrize("encoded", [CANCER, WINE, DIABETES], ids=["two", "three", "number"])
def test_one_record_moves_the_releases_as_far_as_declared(encoded: Encoded) -> None:
    plan = planned(encoded, n_estimators=3)
    whole = LocalBoostCounts([plan.batch(encoded)])
    n_bins = plan.domain.n_bins.tolist()
    scale = np.array([COUNT_UNITS, 1]) if plan.n_classes is None else np.ones(1, np.int64)
    noisy = [histogram * scale for histogram in whole.marginals(n_bins, plan.n_classes)]
    marginals = read_marginals(plan, noisy)
    whole.begin(plan.gradients, marginals.start)
    shape = Shapes(plan, marginals).at(0)
    furthest = 0
    for gone in range(0, encoded.n_slots, 7):
        kept = encoded.rows(np.delete(np.arange(encoded.n_slots), gone))
        rest = LocalBoostCounts([plan.batch(kept)])
        without = [histogram * scale for histogram in rest.marginals(n_bins, plan.n_classes)]
        moved = sum(int(((a - b) ** 2).sum()) for a, b in zip(noisy, without, strict=True))
        assert moved <= plan.marginals.sensitivity_squared
        rest.begin(plan.gradients, marginals.start)
        step = whole.sums(shape, None) - rest.sums(shape, None)
        furthest = max(furthest, int((step**2).sum()))
    assert 0 < furthest <= plan.sums.sensitivity_squared


def test_models_learn_where_there_is_budget() -> None:
    model = trained(CANCER, planned(CANCER, 20.0))
    assert roc_auc_score(CANCER.target, model.distribution(CANCER.bins)[:, 1]) > 0.97
    wine = trained(WINE, planned(WINE, 20.0))
    assert (wine.predict_class(WINE.bins) == WINE.target).mean() > 0.8
    diabetes = trained(DIABETES, planned(DIABETES, 20.0))
    error = np.mean((diabetes.decide(DIABETES.bins)[:, 0] - DIABETES.target) ** 2)
    assert error < 0.75 * DIABETES.target.var()


def test_the_model_is_the_mean_of_the_last_iterates() -> None:
    plan = planned(CANCER, 8.0, n_estimators=10)
    counts = LocalBoostCounts([plan.batch(CANCER)])
    drawn = draw(counts, plan, NoiseSource.insecure_seeded(4))
    seen = []
    for n in (8, 9, 10):
        part = drawn._replace(rounds=drawn.rounds[:n])
        marginals = read_marginals(plan, part.histograms)
        again = LocalBoostCounts([plan.batch(CANCER)])
        again.begin(plan.gradients, marginals.start)
        for shape, sums in part.rounds:
            again.add(shape, step_of(plan, marginals, shape, sums))
        seen.append(again._scores[0].copy())
    model = assemble(plan, drawn)
    raw, mean = model.raw(CANCER.bins)[:, 0], np.mean(seen, axis=0)[:, 0]
    # But for what is kept of it, which moves no record past another.
    kept, start = np.polyfit(mean, raw, 1)
    assert 0.8 < kept <= 1
    assert np.allclose(raw, start + kept * mean, atol=1e-12)


def test_batches_make_the_same_model_and_seeds_the_same_noise() -> None:
    plan = planned(CANCER, n_estimators=20)
    halves = [
        plan.batch(CANCER.rows(np.arange(300)), 0),
        plan.batch(CANCER.rows(np.arange(300, 569)), 1),
    ]
    source = NoiseSource.insecure_seeded(1)
    ledger = Ledger(delta=DELTA)
    cut = boost(LocalBoostCounts(halves), plan, ledger=ledger, source=source)
    assert cut == trained(CANCER, plan)
    assert cut != trained(CANCER, plan, seed=2)
    assert ledger.not_private
    assert Boosted.from_json(cut.to_json(privacy=json.loads(ledger.to_json()))) == cut


def test_samples_give_each_round_more() -> None:
    plain, sampled = (
        planned(CANCER, n_estimators=50),
        planned(CANCER, n_estimators=50, subsample=0.2),
    )
    assert sampled.round_rho > 5 * plain.round_rho
    ledger = Ledger(delta=DELTA)
    ledger.charge(*sampled.releases())
    assert 0.99 < ledger.total().epsilon <= 1.0
    assert isinstance(trained(CANCER, sampled), Boosted)


def test_shares_of_leaves_add_up() -> None:
    plan = planned(DIABETES, 5.0, n_estimators=30)
    exact = LocalBoostCounts([plan.batch(DIABETES)]).marginals(plan.domain.n_bins.tolist(), None)
    marginals = read_marginals(plan, [histogram * [COUNT_UNITS, 1] for histogram in exact])
    assert marginals.records == pytest.approx(442)
    pairs = 0
    shapes = Shapes(plan, marginals)
    for at in range(plan.rounds):
        shape = shapes.at(at)
        assert shares(shape, marginals).sum() == pytest.approx(1)
        pairs += len(shape.features) == 2
    assert pairs == math.floor(0.7 * 30)


def test_bounds_as_wide_as_floats_go_are_counted_and_too_narrow_ones_are_refused() -> None:
    wide = DIABETES.domain.model_copy(
        update={"target": Target(name="y", bounds=(-1.5e308, 1.5e308))}
    )
    plan = BoostOptions(epsilon=1.0, delta=DELTA).plan(wide)
    batch = plan.batch(encode(np.zeros((2, 10)), wide, np.array([1.5e308, -1.5e308])))
    assert batch.target.tolist() == [plan.gradients.half, -plan.gradients.half]
    narrow = wide.model_copy(update={"target": Target(name="y", bounds=(0.0, 5e-324))})
    with pytest.raises(HedgerowError) as caught:
        BoostOptions(epsilon=1.0, delta=DELTA).plan(narrow)
    assert caught.value.code is Code.BAD_TARGET


def test_refusals() -> None:
    none = Domain(attributes=CANCER.domain.attributes, target=None)
    bare = Domain(attributes=CANCER.domain.attributes, target=CANCER.domain.target)
    for domain, code in ((none, Code.BAD_TARGET), (bare, Code.MISSING_CAPACITY)):
        with pytest.raises(HedgerowError) as caught:
            BoostOptions(epsilon=1.0, delta=DELTA).plan(domain)
        assert caught.value.code is code
    with pytest.raises(HedgerowError) as caught:
        planned(CANCER).batch(WINE)
    assert caught.value.code is Code.BAD_DOMAIN
    ledger, plan = Ledger(delta=DELTA), planned(CANCER)
    with pytest.raises(HedgerowError) as caught:
        boost(
            LocalBoostCounts([plan.batch(CANCER)]),
            plan,
            ledger=ledger,
            source=NoiseSource.system(),
            capacity=100,
        )
    assert caught.value.code is Code.CAPACITY_EXCEEDED
    assert not ledger.entries
