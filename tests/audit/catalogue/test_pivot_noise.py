"""Trees with noise among peers under attack: the claims, and that the program is the peers'."""

from typing import Any

import numpy as np
import pytest

from hedgerow.audit.catalogue.hidden_numbers import SLOTS, flips_the_split
from hedgerow.audit.catalogue.pivot_noise import (
    NO_NODE,
    PeersSee,
    grow_plainly,
    seen,
    trees_of_peers,
)
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.pivot.run import run_pivot
from tests.protocols.pivot.peer_tables import encoded, plan_for, table_of

TARGETS = {target.name: target for target in trees_of_peers()}


@pytest.mark.parametrize("name", TARGETS)
def test_claims_are_those_of_the_ledger(name: str) -> None:
    target, run = TARGETS[name], TARGETS[name].run
    assert isinstance(run, PeersSee)
    ledger = Ledger()
    run.plan(7).charge(ledger)
    total = ledger.formal_total("peer 0")
    assert 0 < total.delta < target.delta
    if target.sound:
        assert total.epsilon <= target.claimed
        assert total.epsilon == pytest.approx(target.claimed, rel=1e-12)
    else:
        # The ledger of a broken one has what it draws.
        assert total.epsilon > target.claimed
        assert target.holds == pytest.approx(total.epsilon) or total.epsilon > 500


def test_a_tree_as_peers_see_it() -> None:
    _, first, _ = flips_the_split()
    run = PeersSee({"max_depth": 2, "stop_share": 0.2, "min_samples_split": SLOTS})
    found = run(first, 200, NoiseSource.insecure_seeded(1))
    assert found.shape == (200, 7)
    root, children = found[:, 0], found[:, 1:3]
    assert set(root) <= {0, 1, -1, -2}
    assert (root < 0).any()
    assert (children[root < 0] == NO_NODE).all()
    assert (children[root >= 0] != NO_NODE).all()
    grand = found[:, 3:].reshape(200, 2, 2)
    assert ((grand == NO_NODE).all(axis=2) == (children < 0)).all()


@pytest.mark.parametrize("name", ["iris", "diabetes"])
def test_with_little_noise_it_is_the_tree_of_the_peers(name: str) -> None:
    rows = encoded(name, columns=3)
    plan = plan_for(rows, 2, max_depth=2, noise="splits+leaves", epsilon=900.0)
    table = table_of(rows, plan)
    ledgers: list[Any] = [Ledger(), Ledger()]
    for ledger in ledgers:
        plan.charge(ledger)
    columns = table.columns(plan)
    assert columns is not None
    source = NoiseSource.insecure_seeded(2)
    plain = grow_plainly(plan, rows.bins.astype(np.int64), columns, ledgers[0], source)
    peers: Any = run_pivot(plan, [table, table], ledgers[1]).model
    np.testing.assert_allclose(seen(plan, plain), seen(plan, peers), atol=1)
