"""Plans: the most rho that a guarantee allows, by the ledger's own accountant; and their text."""

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import (
    Attribute,
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
from hedgerow.errors import Code, HedgerowError, PrivacyError
from hedgerow.privacy import Ledger, noise_for_rate, rho_for
from hedgerow.privacy.accounting import tightest
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import ROOT
from tests.privacy.release_strategies import release


def gaussian(rho: float, **changes: object) -> Release:
    given_ = {"rho": rho, **changes}
    return Release("discrete gaussian", math.inf, 0.0, 1, ROOT, "public", "sums", **given_)  # type: ignore[arg-type]


@given(st.floats(1e-3, 50), st.sampled_from([1e-12, 1e-6, 1e-3, 0.1]))
@settings(max_examples=25)
def test_rho_is_the_largest_that_fits(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert tightest([gaussian(rho)], delta).epsilon <= epsilon
    # However little the values move: a sensitivity allows for more.
    more = replace(gaussian(rho * (1 + 1e-9)), sensitivity=1e-9)
    assert tightest([more], delta).epsilon > epsilon
    # In pieces as well, and the ledger takes them.
    ledger = Ledger(budget=(epsilon, delta))
    ledger.charge(*[gaussian(rho / 7) for _ in range(7)])
    if delta > 2**-40:
        assert ledger.total().epsilon <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-5), (3.0, 1e-9), (10.0, 1e-6)]
)
def test_rho_next_to_dp_accounting(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    peer = RdpAccountant()
    peer.compose(dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho))))
    # By the same bound on moments, on another grid of orders.
    assert epsilon * (1 - 1e-3) <= peer.get_epsilon(delta) <= epsilon * 1.05
    # The exact figure of one continuous Gaussian allows more, and not much more.
    exact = 1 / (2 * dp_accounting.get_sigma_gaussian(epsilon, delta) ** 2)
    assert 0.8 * exact < rho < exact


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "rounds"),
    [(1.0, 1e-6, 0.1, 100), (0.5, 1e-5, 0.5, 50), (8.0, 1e-6, 0.05, 300)],
)
def test_noise_of_sampled_rounds(epsilon: float, delta: float, rate: float, rounds: int) -> None:
    rho = noise_for_rate(epsilon, delta, rate, rounds)
    release = gaussian(rho, times=rounds, sample_rate=rate)
    found = tightest([replace(release, sensitivity=1e-9)], delta)
    assert found.method == "RDP"
    assert epsilon * (1 - 1e-6) <= found.epsilon <= epsilon
    assert tightest([replace(release, sensitivity=1e4)], delta).epsilon < 0.95 * epsilon
    assert rho > 2 * rho_for(epsilon, delta) / rounds
    peer = RdpAccountant()
    event = dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho)))
    peer.compose(dp_accounting.PoissonSampledDpEvent(rate, event), rounds)
    assert epsilon * 0.98 <= peer.get_epsilon(delta) <= epsilon * 1.02


def test_without_a_sample_rounds_share_the_rho() -> None:
    assert noise_for_rate(1.0, 1e-6, 1.0, 40) == pytest.approx(rho_for(1.0, 1e-6) / 40, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1", None])
def test_odd_epsilons_are_refused(epsilon: object) -> None:
    with pytest.raises(HedgerowError, match="H201"):
        rho_for(epsilon, 1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1, -1e-6, math.nan, "1", None, True])
def test_odd_deltas_are_refused(delta: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        rho_for(1.0, delta)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "rounds"), [(0, 1), (1.1, 1), (0.5, 0), (0.5, 1.5)])
def test_odd_rates_and_rounds_are_refused(rate: float, rounds: float) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        noise_for_rate(1.0, 1e-6, rate, rounds)  # type: ignore[arg-type]


ATTRIBUTES = tuple(
    Attribute(name=f"attribute {i}", kind="numeric", bounds=(0, 100), bins=20) for i in range(300)
)
CLASSES = Domain(attributes=ATTRIBUTES, target=Target(name="ill", classes=(0, 1)), capacity=5_000)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 9)), capacity=5_000)
MODELS = [
    (DPTreeClassifier(1.5, CLASSES, max_depth=3), ("classification", "1 tree", "depth 3")),
    (
        MedianForestClassifier(1.5, CLASSES, n_estimators=3, max_depth=2, max_features=5),
        ("classification", "3 trees", "depth 2", "K = 5"),
    ),
    (MedianForestRegressor(1.5, NUMBERS, n_estimators=1), ("regression", "1 tree,")),
    (
        DPBoostingClassifier(1.5, CLASSES, n_estimators=77, max_leaves=5),
        ("classification", "77 rounds", "5 leaves"),
    ),
    (DPBoostingRegressor(1.5, NUMBERS), ("regression", "70% of them on two attributes")),
    (DPClassifier(1.5, CLASSES), ("classification", "rounds")),
    (DPClassifier(1.5, CLASSES, model="tree"), ("classification", "1 tree")),
    (DPRegressor(1.5, NUMBERS, model="median-forest"), ("regression", "4 trees")),
]


@pytest.mark.parametrize(("model", "said"), MODELS, ids=lambda value: type(value).__name__)
def test_plans_are_short_and_say_what_they_cost(model, said) -> None:
    plan = model.plan()
    for text in (str(plan), repr(plan)):
        assert all(word in text for word in said), text
        assert "epsilon 1.5" in text
        assert "attribute 7" not in text
    assert len(repr(plan)) < 200
    assert "\n" not in repr(plan)
    for each in plan.releases():
        assert each.reason in str(plan)
        figure = each.epsilon if each.rho is None else each.rho
        assert f"{figure:.6g}" in str(plan)


@pytest.mark.parametrize("model", [model for model, _ in MODELS], ids=lambda m: type(m).__name__)
def test_a_plan_is_for_the_domain_of_the_estimator_unless_another_is_given(model) -> None:
    assert model.plan().domain is model.domain
    other = Domain(attributes=ATTRIBUTES[:6], target=model.domain.target, capacity=900)
    assert model.plan(other).domain is other
    without = type(model)(1.0)
    assert without.plan(other).domain is other
    for domain, code in ((None, Code.MISSING_DOMAIN), ("domain.toml", Code.WRONG_TYPE)):
        with pytest.raises(HedgerowError) as caught:
            without.plan(domain)
        assert caught.value.code is code


def test_totals_of_plans() -> None:
    releases = [release(0.25, times=2), release(0.5)]
    assert plan_total(releases).epsilon == 1.0
    assert plan_text("a model", releases).splitlines()[0] == "a model"
    assert "total: epsilon 1," in plan_text("a model", releases)
    assert cost_text(plan_total(releases)) == "epsilon 1"
