"""Regression, boosting and opened trees under attack: what is broken is caught, the rest is not."""

from typing import Any

import numpy as np
import pytest

from hedgerow.audit import audit, verdict
from hedgerow.audit.catalogue.hidden_numbers import (
    Boosting,
    OpenTrees,
    numbers_and_opened_trees,
    shared,
)
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.hidden.boosting import train_boosting
from hedgerow.protocols.hidden.open_id3 import open_openings, train_open
from hedgerow.protocols.hidden.regression import train_regression
from hedgerow.secure.clear import ClearEngine

TARGETS = {target.name: target for target in numbers_and_opened_trees()}
# Enough to catch what is broken; what sound targets reach takes their own number of runs.
RUNS = 2_000


@pytest.mark.parametrize("name", TARGETS)
def test_verdicts(name: str) -> None:
    target = TARGETS[name]
    result = audit(target, RUNS, NoiseSource.insecure_seeded(3))
    assert verdict(result) == ("not refuted" if target.sound else "caught")
    assert (0.0 if target.sound else target.claimed) < result.attacked <= target.holds
    assert result.ceiling > target.claimed
    assert target.kind == "protocol"


@pytest.mark.parametrize("name", [name for name in TARGETS if "broken" not in name])
def test_claims_are_those_of_the_ledger(name: str) -> None:
    target = TARGETS[name]
    run: Any = target.run
    plan, opened = run.plan(), isinstance(run, OpenTrees)
    ledger = Ledger()
    leakage = Leakage(open_openings(plan) if opened else [], ledger=ledger)
    engine = ClearEngine(leakage, NoiseSource.insecure_seeded(4))
    train = train_open if opened else train_regression
    if isinstance(run, Boosting):
        train = train_boosting
    train(shared(engine, plan, target.pairs[0][1]), plan, ledger)
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
