import numpy as np
import pytest

from hedgerow.protocols.growers.gradients import Labels, gradients, prior
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden.options import plan_boosting
from hedgerow.secure.ring import Z32
from hedgerow.secure.secret import Engine
from tests.protocols.hidden.number_runs import classes, numbers
from tests.secure.engines import ENGINES, reveal, share

SOME = ["clear", "three servers"]
N = 60


def labels(plan: BoostingPlan, engine: Engine) -> tuple[Labels, np.ndarray, np.ndarray]:
    """Return secret labels, and presence and targets (scores, n) as they are."""
    rng = np.random.default_rng(1)
    present = (rng.random(N) < 0.7).astype(np.int64)
    most = 1 if plan.loss == "logistic" else 1 << plan.unit_bits
    target = rng.integers(0 if most == 1 else -most, most + 1, (plan.n_scores, N)) * present
    made = Labels(share(engine, present, Z32), share(engine, target, Z32))
    return made, present, target


def seen(x) -> np.ndarray:
    return Z32.signed(reveal(x)).astype(np.float64)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("k", [2, 3])
def test_logistic_gradients(name: str, k: int) -> None:
    engine = ENGINES[name]()
    plan = plan_boosting(classes(k=k).domain, noise="none")
    made, present, target = labels(plan, engine)
    score = np.random.default_rng(2).uniform(-15, 15, (plan.n_scores, N))
    shared = share(engine, np.rint(score * 2.0**plan.fraction).astype(np.int64), Z32)
    gradient, weight = gradients(made, shared, plan)
    assert weight is not None
    most, p = 1 << plan.unit_bits, 1 / (1 + np.exp(-score))
    assert np.abs(seen(gradient) - present * (target - p) * most).max() <= 1 + 4.6e-5 * most
    assert np.abs(seen(weight) - present * p * (1 - p) * most).max() <= 3 + 4.6e-5 * most
    assert seen(weight).min() >= 0
    assert seen(weight).max() <= plan.quotient.heaviest


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("noise", ["none", "splits+leaves"])
def test_residuals_are_clipped(name: str, noise: str) -> None:
    engine = ENGINES[name]()
    plan = plan_boosting(numbers().domain, noise=noise, n_rounds=40)  # type: ignore[arg-type]
    made, present, target = labels(plan, engine)
    score = np.random.default_rng(2).uniform(-1.6, 1.6, (1, N))
    shared = share(engine, np.rint(score * 2.0**plan.fraction).astype(np.int64), Z32)
    gradient, weight = gradients(made, shared, plan)
    assert weight is None
    most = 1 << plan.unit_bits
    residual = (target / most - score) / 2.0**plan.widening * most
    assert np.abs(seen(gradient) - present * np.clip(residual, -most, most)).max() <= 1
    assert np.abs(seen(gradient)).max() <= most


@pytest.mark.parametrize("name", SOME)
def test_priors(name: str) -> None:
    engine = ENGINES[name]()
    for table in (classes(), classes(k=3), numbers()):
        plan = plan_boosting(table.domain, noise="none")
        made, present, target = labels(plan, engine)
        found = seen(prior(made, plan))[:, 0] / 2.0**plan.fraction
        if plan.loss == "squared":
            expected = target.sum(axis=1) / present.sum() / (1 << plan.unit_bits)
        else:
            ones = target.sum(axis=1)
            expected = np.log(ones / (present.sum() - ones))
        assert np.abs(found - expected).max() < 2e-6
        noisy = plan_boosting(table.domain)
        assert np.all(seen(prior(made, noisy)) == 0)
