"""An opened tree that stops anywhere goes on with what was kept before it was opened."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.checkpoint import NoCheckpoints, restored
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import LEAF, OpenPlan, split_name
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.sharing.shared_tables import shared_table
from tests.protocols.test_checkpoint import DOMAIN, PLANS, N, Shelf, Stopped, trained

DEPTH = 3


def opened(plan: OpenPlan, keep, ledger: Ledger) -> tuple[Tree, list[tuple[str, np.ndarray]]]:
    """Train and open a tree; also all that was opened, in order."""
    rng = np.random.default_rng(1)
    bins = np.stack([rng.integers(0, size, N) for size in plan.domain.n_bins], axis=1)
    target = ((bins[:, 0] + bins[:, 1] + rng.integers(0, 2, N)) % 2).astype(np.uint8)
    bins = np.asfortranarray(bins, dtype=DOMAIN.dtype)
    rows = Encoded(DOMAIN, bins, target, np.ones(N, dtype=np.bool_))
    engine = ReplicatedEngine(Simulator(3), Leakage(plan.openings(), ledger=ledger))
    seen: list[tuple[str, np.ndarray]] = []
    shown = engine.open

    def watched(x, name, to):
        seen.append((name, shown(x, name, to)))
        return seen[-1][1]

    engine.open = watched
    uploads = horizontal_uploads(plan.layout, [plan.n_slots])
    table = shared_table(engine, plan.layout, plan.ring, uploads, {3: rows})
    try:
        return train_open(table, plan, ledger, keep=keep), seen
    except Stopped:
        return None, seen


def noisy(**options) -> OpenPlan:
    return plan_hidden(DOMAIN, epsilon=0.5, depth=DEPTH, branching="binary", **options).opened()


@pytest.mark.parametrize("stages", range(1, DEPTH + 2))
def test_what_was_kept_is_what_is_opened(stages: int) -> None:
    plan, shelf = noisy(), Shelf(stages)
    tree, before = opened(plan, shelf, Ledger())
    assert tree is None
    # The last of the stages was kept, and nobody has seen it.
    assert [name for name, _ in before] == [split_name(level) for level in range(stages - 1)]
    kept = {name: arrays.copy() for name, arrays in shelf.kept.items()}
    # What the first attempt has charged, a durable ledger still has.
    ledger = Ledger()
    _, _ = opened(plan, NoCheckpoints(), ledger)
    ledger._taken.clear()
    tree, after = opened(plan, shelf, ledger)
    assert tree is not None
    for (name, value), (again, same) in zip(before, after, strict=False):
        assert name == again
        np.testing.assert_array_equal(value, same)
    for name, arrays in kept.items():
        array = arrays["shown" if name == LEAF else "index"]
        secret = restored(ReplicatedEngine(Simulator(3), Leakage([])), array)
        whole = secret.data[:, 0].sum(axis=0, dtype=array.dtype)
        np.testing.assert_array_equal(dict(after)[name], whole)


@pytest.mark.parametrize("stages", range(1, DEPTH + 2))
def test_without_noise_it_is_the_same_tree(stages: int) -> None:
    plan = plan_hidden(DOMAIN, noise="none", depth=DEPTH, branching="wary").opened()
    whole, _ = opened(plan, NoCheckpoints(), Ledger())
    shelf = Shelf(stages)
    assert opened(plan, shelf, Ledger())[0] is None
    again, _ = opened(plan, shelf, Ledger())
    assert again == whole


@pytest.mark.parametrize("stages", [1, 2])
def test_public_coins_of_hidden_trees_go_on_where_they_were(stages: int) -> None:
    options = PLANS["masks"] | {"max_features": 2}
    plan = plan_hidden(DOMAIN, noise="none", depth=DEPTH, **options)
    whole = trained(plan, NoCheckpoints())
    shelf = Shelf(stages)
    with pytest.raises(Stopped):
        trained(plan, shelf)
    again = trained(plan, shelf)
    for one, other in ((whole.splits, again.splits), (whole.values, again.values)):
        np.testing.assert_array_equal(
            one.data[:, 0].sum(axis=0, dtype=one.data.dtype),
            other.data[:, 0].sum(axis=0, dtype=other.data.dtype),
        )
