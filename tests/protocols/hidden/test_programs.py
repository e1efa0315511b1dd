"""The programs of all parties, in one process."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.programs import COLLUSION, ledger_of, train_program
from hedgerow.protocols.sharing.integrate import Integrated
from hedgerow.trees import grow_id3
from tests.protocols.hidden.hidden_jobs import DOMAIN, encoded, owners, plan


def job_of(of: HiddenPlan, made: Integrated, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "trees",
        "plan": of.to_dict(),
        "uploads": [asdict(upload) for upload in made.uploads],
        "engine": "replicated",
        "domain_is_public": True,
        "marks": [],
        "seed": None,
    } | changes


def trained(of: HiddenPlan, made: Integrated, **changes: Any) -> dict[str, Any]:
    own = {str(party): data for party, data in made.own().items()}
    return train_program(Simulator(3 + len(own)), job_of(of, made, **changes), own)


def test_shares_of_the_servers_add_up_to_the_tree_in_the_clear() -> None:
    of = plan(branching="wary")
    made = owners(of, encoded(), 2)
    found = trained(of, made)
    assert sorted(found) == ["0", "1", "2"]
    shares = [found[server]["shares"]["splits"] for server in "012"]
    assert all(share.shape[:2] == (1, 2) for share in shares)
    for server in range(3):
        # What server i holds second, server i+1 holds first.
        np.testing.assert_array_equal(shares[server][0, 1], shares[(server + 1) % 3][0, 0])
    whole = shares[0][0, 0] + shares[1][0, 0] + shares[2][0, 0]
    clear = trained(of, made, engine="clear")
    assert sorted(clear) == ["0"]
    np.testing.assert_array_equal(whole, clear["0"]["shares"]["splits"])
    tree = grow_id3(encoded(), criterion="max", max_depth=2)
    assert int(np.flatnonzero(whole[0, 0])[0]) == tree.feature[0]


def test_no_two_trainings_have_the_same_shares() -> None:
    of = plan()
    made = owners(of, encoded())
    first, second = (trained(of, made)["0"]["shares"]["splits"] for _ in range(2))
    assert (first != second).any()
    seeded = [trained(of, made, seed=7)["0"] for _ in range(2)]
    np.testing.assert_array_equal(seeded[0]["shares"]["splits"], seeded[1]["shares"]["splits"])
    assert "seeded noise" in Ledger.from_json(seeded[0]["ledger"]).total("server 0").why


def test_a_ledger_opens_with_what_is_known_before() -> None:
    of = plan()
    job = job_of(of, owners(of, encoded()), marks=[["a test", ["owner 0"]]])
    ledger = ledger_of(job, of)
    assert ledger.total("server 1").epsilon == 0
    assert ledger.total("owner 1").epsilon == 0
    assert ledger.total("owner 0").why == "a test"
    for pair in ([0, 1], [1, 2], [0, 2]):
        both = ledger.coalition([f"server {i}" for i in pair])
        assert both.why == COLLUSION
        assert both.epsilon == np.inf
    assert ledger.domain == DOMAIN
    assert ledger_of(job | {"domain_is_public": False}, of).domain is None


def test_a_table_at_a_party_that_does_not_own_it_is_refused() -> None:
    of = plan()
    made = owners(of, encoded(), 2)
    own = {str(party): data for party, data in made.own().items() if party == 3}
    with pytest.raises(HedgerowError) as caught:
        train_program(Simulator(5), job_of(of, made), own)
    assert caught.value.code is Code.WRONG_SHAPE


@pytest.mark.parametrize("grower", ["masks", "grouped"])
@pytest.mark.parametrize("noise", ["none", "leaves", "splits+leaves"])
def test_training_opens_what_it_declares(noise: str, grower: str) -> None:
    of = plan(noise=noise, grower=grower, epsilon=2.0)
    found = trained(of, owners(of, encoded()))
    for server in found.values():
        ledger = Ledger.from_json(server["ledger"])
        leakage = Leakage.from_json(server["leakage"], ledger)
        assert all(row["equal"] for row in leakage.compare())
        assert leakage.what_was_learned("analyst") == []
        assert bool(leakage.what_was_learned("server")) == (grower == "grouped")
