"""One copy is bit for bit what training makes, and copies know nothing of each other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.audit.catalogue.copies import boosters, opened_trees, regressions
from hedgerow.audit.catalogue.hidden_numbers import (
    CLASSES,
    NUMBERS,
    Boosting,
    OpenTrees,
    Regression,
    alone_in_its_leaf,
    flips_the_split,
    shared,
)
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.hidden.boosting import train_boosting
from hedgerow.protocols.hidden.open_id3 import open_openings, train_open
from hedgerow.protocols.hidden.regression import train_regression
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.engine import Engine
from hedgerow.secure.replicated import ReplicatedEngine
from tests.secure.engines import reveal

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
        model = train(shared(engine, plan, WITH_ONE_MORE), plan, ledger)
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
        model = train(shared(engine, plan, WITH_ONE_MORE), plan, ledger)
        found.append((reveal(model.splits), reveal(model.values), ledger.releases))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("criterion", ["max", "gini"])
def test_one_copy_is_the_tree_that_is_opened(name: str, criterion: str) -> None:
    plan = OpenTrees({"criterion": criterion}).plan()
    engine, ledger = seeded(name, open_openings(plan))
    tree = train_open(shared(engine, plan, WITH_ONE_MORE), plan, ledger)
    openings = [
        type(one)(one.name, one.audience, (1, *one.shape), release=one.release)
        for one in open_openings(plan)
    ]
    engine, again = seeded(name, openings)
    split, counts = opened_trees(shared(engine, plan, WITH_ONE_MORE), plan, again, 1)
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
