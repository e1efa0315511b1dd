"""A training that stops after any stage goes on as if it had not."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.checkpoint import NoCheckpoints, Stage
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import Attribute, Domain, Target, encode, pad
from tests.protocols.sharing.shared_tables import shared_table
from tests.secure.engines import reveal

SIZES = (3, 4, 2, 5)
N = 120
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(SIZES)
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=N,
)


class Stopped(Exception):
    pass


class Shelf:
    """Keeps stages in memory; the power fails after some of them."""

    def __init__(self, stages: int) -> None:
        self.kept: dict[str, Stage] = {}
        self.left = stages

    def load(self, stage: str) -> Stage | None:
        return self.kept.get(stage)

    def mark(self, opening: str) -> None:
        assert opening in self.kept, "opened before it was kept"

    def save(self, stage: str, arrays: Stage) -> None:
        assert stage not in self.kept, "drawn twice"
        self.kept[stage] = {name: array.copy() for name, array in arrays.items()}
        self.left -= 1
        if self.left == 0:
            raise Stopped


def trained(plan: HiddenPlan, keep: object) -> SecretForest:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, size, N) for size in SIZES], axis=1)
    y = (rows[:, 0] + rows[:, 1] * rows[:, 2] + rng.integers(0, 2, N) > 3).astype(int)
    ledger = Ledger()
    openings = plan.openings()
    engine = ReplicatedEngine(Simulator(3), Leakage(openings, ledger=ledger))
    table = pad(encode(rows, DOMAIN, y), plan.n_slots, entropy=np.random.default_rng(1).bytes)
    uploads = horizontal_uploads(plan.layout, [plan.n_slots])
    shared = shared_table(engine, plan.layout, plan.ring, uploads, {3: table})
    return train_hidden(shared, plan, ledger, keep=keep)


PLANS = {
    "wary": {"branching": "wary"},
    "masks": {"branching": "binary", "grower": "masks"},
    "grouped": {"branching": "binary", "grower": "grouped", "criterion": "gini"},
    "forest": {"branching": "wary", "n_trees": 2},
}


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("name", PLANS)
def test_a_tree_without_noise_is_the_same_wherever_it_stopped(name: str, stages: int) -> None:
    plan = plan_hidden(DOMAIN, noise="none", depth=3, **PLANS[name])
    whole = trained(plan, NoCheckpoints())
    shelf = Shelf(stages)
    with pytest.raises(Stopped):
        trained(plan, shelf)
    assert len(shelf.kept) == stages
    again = trained(plan, shelf)
    np.testing.assert_array_equal(reveal(again.splits), reveal(whole.splits))
    np.testing.assert_array_equal(reveal(again.values), reveal(whole.values))


@pytest.mark.parametrize("sampling", ["disjoint", "poisson"])
def test_noise_that_was_kept_is_not_drawn_again(sampling: str) -> None:
    plan = plan_hidden(DOMAIN, epsilon=0.1, depth=2, branching="wary", n_trees=4, sampling=sampling)
    shelf = Shelf(2 if sampling == "poisson" else 1)
    with pytest.raises(Stopped):
        trained(plan, shelf)
    choice = shelf.kept["level 0"]["choice"]
    again = trained(plan, shelf)
    first = reveal(again.splits)[:, 0]
    np.testing.assert_array_equal(first, choice[:, 0].sum(axis=0, dtype=choice.dtype)[:, 0])
