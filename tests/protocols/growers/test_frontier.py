"""Trees grow on rows however they are kept, and among as many parties as the engine has."""

import numpy as np
import pytest

from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.growers.frontier import DEEP, choose_grower
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.protocols.sharing.uploaded import expand_table, planes_of
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.secret import Engine
from hedgerow.tables.encode import Encoded
from tests.protocols.hidden.hidden_runs import domain, make_slots
from tests.secure.engines import peers, reveal, share_bits

PUBLIC = domain(capacity=60)


def given(engine: Engine, slots: Encoded, plan: HiddenPlan) -> SecretTable:
    """Make a table of what a party of the engine gives."""
    uploads = horizontal_uploads(plan.layout, [slots.n_slots], 0)
    planes = {0: share_bits(engine, planes_of(slots))}
    return expand_table(engine, plan.layout, plan.ring, uploads, planes)


class NoShuffle(ClearEngine):
    can_shuffle = False


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("grower", ["masks", "grouped"])
def test_peers_train_the_tree_of_a_clear_engine(grower: str, n: int) -> None:
    plan = plan_hidden(PUBLIC, noise="none", depth=3, grower=grower)
    slots = make_slots(PUBLIC, 3, plan.n_slots)
    found = []
    for engine in (ClearEngine(Leakage([])), peers(n)):
        openings = plan.openings(engine.everyone)
        leakage = engine.leakage = Leakage(openings)
        model = train_hidden(given(engine, slots, plan), plan, Ledger())
        learned = {one["name"] for one in leakage.what_was_learned(engine.everyone)}
        assert learned == {opening.name for opening in openings}
        found.append([reveal(model.splits), reveal(model.values)])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_peers_open_the_tree_of_a_clear_engine() -> None:
    plan = plan_hidden(PUBLIC, noise="none", depth=2, branching="wary").opened()
    slots = make_slots(PUBLIC, 4, plan.n_slots)
    trees = []
    for engine in (ClearEngine(Leakage([])), peers(3)):
        ledger = Ledger()
        engine.leakage = Leakage(plan.openings(engine.everyone), ledger=ledger)
        trees.append(train_open(given(engine, slots, plan), plan, ledger))
    assert trees[0].to_dict() == trees[1].to_dict()


def test_deep_trees_are_grouped_where_the_engine_can_shuffle() -> None:
    assert choose_grower("auto", DEEP, ClearEngine) == "grouped"
    assert choose_grower("auto", DEEP - 1, ClearEngine) == "masks"
    assert choose_grower("auto", DEEP, ClearEngine, groupable=False) == "masks"
    assert choose_grower("auto", DEEP, NoShuffle) == "masks"
    assert choose_grower("grouped", 2, ClearEngine) == "grouped"
