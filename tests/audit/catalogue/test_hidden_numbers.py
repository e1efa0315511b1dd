"""Regression, boosting and opened trees under attack: what is broken is caught, the rest is not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.audit.catalogue.hidden_numbers import (
    CLASSES,
    NUMBERS,
    Boosting,
    OpenTrees,
    Regression,
    alone_in_its_leaf,
    boosters,
    flips_the_split,
    numbers_and_opened_trees,
    opened_trees,
    regressions,
    share_audit_table,
)
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.hidden.boosting import train_boosting
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.regression import train_regression
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import Engine
from tests.secure.engines import reveal

TARGETS = {target.name: target for target in numbers_and_opened_trees()}


@pytest.mark.parametrize("name", [name for name in TARGETS if "broken" not in name])
def test_claims_are_those_of_the_ledger(name: str) -> None:
    target = TARGETS[name]
    run: Any = target.run
    plan, opened = run.plan(), isinstance(run, OpenTrees)
    ledger = Ledger()
    leakage = Leakage(plan.openings() if opened else [], ledger=ledger)
    engine = ClearEngine(leakage, NoiseSource.insecure_seeded(4))
    train = train_open if opened else train_regression
    if isinstance(run, Boosting):
        train = train_boosting
    train(share_audit_table(engine, plan, target.pairs[0][1]), plan, ledger)
    total = ledger.formal_total("public" if opened else "analyst")
    assert total.epsilon == pytest.approx(target.claimed, rel=1e-12)
    assert total.epsilon <= target.claimed
    assert 0 < total.delta < target.delta


def test_what_is_broken_claims_less_than_it_costs() -> None:
    leaves = TARGETS["hidden-regression/broken-leaves-alone@1"]
    half = TARGETS["hidden-regression/broken-half-sensitivity@1"]
    assert leaves.holds == np.inf
    assert half.claimed == 1.0
    assert half.holds == pytest.approx(0.1 + 0.9 * (2 * 0.9 + 0.1))


ChiSquare = Callable[..., float]

WITH_ONE_MORE = flips_the_split()[2]
ENGINES = ("clear", "three servers")


def seeded(name: str, openings: Any = ()) -> tuple[Engine, Ledger]:
    ledger = Ledger()
    leakage = Leakage(openings, ledger=ledger)
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(4)), ledger
    return ReplicatedEngine(Simulator(5), leakage, insecure_seed=bytes(32)), ledger


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("options", [{}, {"noise": "leaves"}, {"depth": 2}])
def test_one_copy_is_the_regression_tree_that_is_trained(name: str, options: Any) -> None:
    plan = Regression(options).plan()
    found = []
    for train in (train_regression, lambda *given: regressions(*given, 1)):
        engine, ledger = seeded(name)
        model = train(share_audit_table(engine, plan, WITH_ONE_MORE), plan, ledger)
        found.append((reveal(model.splits), reveal(model.values), ledger.releases))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("options", [{"n_rounds": 2}, {"n_rounds": 3, "depth": 2}])
@pytest.mark.parametrize("domain", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_one_copy_is_the_booster_that_is_trained(name: str, options: Any, domain: Any) -> None:
    plan = Boosting(options, domain=domain).plan()
    found = []
    for train in (train_boosting, lambda *given: boosters(*given, 1)):
        engine, ledger = seeded(name)
        model = train(share_audit_table(engine, plan, WITH_ONE_MORE), plan, ledger)
        found.append((reveal(model.splits), reveal(model.values), ledger.releases))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("criterion", ["max", "gini"])
def test_one_copy_is_the_tree_that_is_opened(name: str, criterion: str) -> None:
    plan = OpenTrees({"criterion": criterion}).plan()
    engine, ledger = seeded(name, plan.openings())
    tree = train_open(share_audit_table(engine, plan, WITH_ONE_MORE), plan, ledger)
    openings = [
        type(one)(one.name, one.audience, (1, *one.shape), release=one.release)
        for one in plan.openings()
    ]
    engine, again = seeded(name, openings)
    split, counts = opened_trees(share_audit_table(engine, plan, WITH_ONE_MORE), plan, again, 1)
    # One candidate for each attribute.
    assert split[0] == tree.feature[0]
    np.testing.assert_array_equal(counts[0], tree.value[1:])
    assert ledger.releases == again.releases


def test_copies_draw_noise_of_their_own(chi_square: ChiSquare) -> None:
    run, n = OpenTrees({"criterion": "max"}), 6_000
    plan = run.plan()
    seen = run(alone_in_its_leaf()[2], n, NoiseSource.insecure_seeded(5))
    # All 16 are right if a2 is chosen, and 15 if a1.
    law = plan.split_mechanism.law(np.array([15, 16]))
    assert chi_square(np.bincount(seen[:, 0], minlength=2), law) > 1e-4
    truth = np.array([[15, 1, 0, 0], [15, 0, 0, 1]])[seen[:, 0]]
    noise = (seen[:, 1:] - truth).ravel()
    reach = np.arange(-30, 31)
    expected = plan.count_mechanism.law(reach)
    counted = np.bincount(np.clip(noise, -30, 30) + 30, minlength=61)
    assert chi_square(counted, expected / expected.sum()) > 1e-4
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(noise.size)
