"""Trees of numbers and boosted trees that stop after any stage go on as if they had not."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.checkpoint import NoCheckpoints
from hedgerow.protocols.hidden.options import plan_boosting, plan_regression
from hedgerow.protocols.registry import server_protocol
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import pad
from tests.protocols.hidden.number_runs import classes, numbers
from tests.protocols.sharing.shared_tables import shared_table
from tests.protocols.test_checkpoint import Shelf, Stopped
from tests.secure.engines import reveal

ROUNDS = 3


def trained(
    protocol: str, plan, keep, ledger: Ledger | None = None, levels: list[int] | None = None
):
    """Train on three servers that live here; return the forest."""
    of, ledger = server_protocol(protocol), Ledger() if ledger is None else ledger
    engine = ReplicatedEngine(Simulator(3), Leakage(plan.openings(), ledger=ledger))
    rows = numbers() if plan.domain.target.bounds else classes(k=plan.domain.target.n_classes)
    rows = pad(rows, plan.n_slots, entropy=np.random.default_rng(1).bytes)
    uploads = horizontal_uploads(plan.layout, [plan.n_slots])
    table = shared_table(engine, plan.layout, plan.ring, uploads, {3: rows}, plan.target_units)
    told = [] if levels is None else levels
    made = of.train(table, plan, ledger, told.append, keep)
    return of.model(engine, plan, made.shares)


def opened(forest) -> tuple[np.ndarray, np.ndarray]:
    return reveal(forest.splits), forest.ring.signed(reveal(forest.values))


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("grower", ["masks", "grouped"])
def test_a_tree_of_numbers_is_the_same_wherever_it_stopped(grower: str, stages: int) -> None:
    plan = plan_regression(numbers().domain, noise="none", depth=2, grower=grower)
    shelf = Shelf(stages)
    with pytest.raises(Stopped):
        trained("hidden-regression", plan, shelf)
    assert list(shelf.kept) == [f"level {level}" for level in range(stages)]
    (splits, values), (again, those) = (
        opened(trained("hidden-regression", plan, keep)) for keep in (NoCheckpoints(), shelf)
    )
    np.testing.assert_array_equal(again, splits)
    # Divisions on shares are off by a few units of the last of 24 bits.
    np.testing.assert_allclose(those, values, rtol=0, atol=8)


@pytest.mark.parametrize(
    ("target", "stages"),
    [("numbers", 1), ("numbers", 3), ("three classes", 2), ("random splits", 2)],
)
def test_boosted_trees_are_the_same_wherever_they_stopped(target: str, stages: int) -> None:
    domain = (classes(k=3) if target == "three classes" else numbers()).domain
    drawn = {"random_splits": True} if target == "random splits" else {}
    plan = plan_boosting(domain, noise="none", depth=2, n_rounds=ROUNDS, learning_rate=0.5, **drawn)
    shelf, levels = Shelf(stages), []
    with pytest.raises(Stopped):
        trained("hidden-boosting", plan, shelf)
    assert list(shelf.kept) == [f"round {turn}" for turn in range(stages)]
    splits, values = opened(trained("hidden-boosting", plan, NoCheckpoints()))
    again, those = opened(trained("hidden-boosting", plan, shelf, levels=levels))
    np.testing.assert_array_equal(again, splits)
    # Divisions on shares are off by a few units, and so is each sigmoid by 4.6e-5.
    room = 1e-3 * 2**plan.fraction if target == "three classes" else 64
    np.testing.assert_allclose(those, values, rtol=0, atol=room)
    assert levels == [2 * (turn + 1) for turn in range(stages)] + list(range(2 * stages + 1, 7))


@pytest.mark.parametrize("stages", [1, 2])
def test_rounds_that_were_kept_are_not_drawn_again(stages: int) -> None:
    plan = plan_boosting(numbers().domain, epsilon=0.5, depth=2, n_rounds=ROUNDS)
    shelf, ledger = Shelf(stages), Ledger()
    with pytest.raises(Stopped):
        trained("hidden-boosting", plan, shelf)
    kept = {name: dict(arrays) for name, arrays in shelf.kept.items()}
    splits, values = opened(trained("hidden-boosting", plan, shelf, ledger))
    for turn in range(stages):
        found = {k: a[:, 0].sum(axis=0, dtype=a.dtype) for k, a in kept[f"round {turn}"].items()}
        first = np.concatenate([found["choices 0"], found["choices 1"]], axis=1)
        np.testing.assert_array_equal(splits[turn], first[0])
        np.testing.assert_array_equal(values[turn, :, 0], found["values"].view(np.int32)[0])
    # Every attempt charges all of the plan; a durable ledger knows what it has recorded before.
    assert ledger.releases == tuple(plan.releases())
