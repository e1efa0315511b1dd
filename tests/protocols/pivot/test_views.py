"""What all peers but one see together: sizes by public numbers, and bits that say nothing.

The last peer's rows differ between two tables, labels as well where it has them and leaves are
hidden, and the opened tree does not. Every message that it sends is looked at, over repeated runs.
"""

from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.pivot.columns import PeerColumns, transfers
from hedgerow.protocols.pivot.growth import PeerTrees, grow_trees
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.predict import answer
from hedgerow.protocols.pivot.protocol import ANSWERS
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.tables import Attribute, Domain, Target

PEERS, N, RUNS = 3, 24, 3
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="numeric", bounds=(0, 4), bins=4) for name in "abcd"
    ),
    target=Target(name="y", classes=("n", "p")),
)
OWNERS = (0, 1, 2, 2)
SIGMAS = 6.0


class FromLast(Simulator):
    """Keeps what the last peer sends, in order."""

    def __init__(self) -> None:
        super().__init__(PEERS)
        self.sent: list[tuple[str, int, Any]] = []

    def _move(self, step: str, plan: Any, outbox: Any) -> Any:
        received = super()._move(step, plan, outbox)
        self.sent += [
            (step, plan[k].destination, array.copy())
            for k, array in received.items()
            if plan[k].source == PEERS - 1
        ]
        return received


def rows_of(target_at: int, *, other: bool) -> tuple[dict[int, Any], Any]:
    """Return bins and target: peer 0's attribute tells the class, those of the last do not.

    Of the `other` table the last peer has constant attributes and, where it has the target, the
    other class of every row: all that the others have is the same.
    """
    rng = np.random.default_rng(5)
    bins = {j: rng.integers(0, 4, N) for j in range(4)}
    target = bins[0] >= 2
    if other:
        bins[2], bins[3] = np.zeros(N, np.int64), np.full(N, 3)
        target = target ^ (target_at == PEERS - 1)
    return bins, target.astype(np.int64)


def runs(plan: PivotPlan, *, other: bool) -> tuple[list[list[Any]], PeerTrees]:
    """Grow and ask several times on one engine; the messages of each run."""
    network, (bins, target) = FromLast(), rows_of(plan.target_at, other=other)
    declared = [
        Opening(one.name, one.audience, one.shape, independent="a test", times=RUNS)
        for one in plan.openings()
    ]
    asked = Opening(ANSWERS, "peer 0", (N,), independent="a test", times=RUNS)
    engine = AdditiveEngine(network, Leakage([*declared, asked]))
    transfers(engine).begin()
    found = []
    hot = np.stack([1 - target, target])
    for _ in range(RUNS):
        network.sent.clear()
        columns = engine.input(hot, plan.target_at, (2, N), plan.ring)
        seeds = PuncturedBins(transfers(engine), OWNERS, [4] * 4, bins, N)
        tree = grow_trees(PeerColumns(plan.layout, columns[None], seeds), plan)
        engine.open(answer(engine, plan, tree, bins, N), ANSWERS, "peer 0")
        found.append(list(network.sent))
    return found, tree


@pytest.mark.parametrize(
    ("hide", "target_at"),
    # A tree that is seen says which labels the leaves have: then they cannot be others.
    [("nothing", 0), pytest.param("thresholds", 2, marks=pytest.mark.slow), ("peers", 2)],
)
def test_messages_say_nothing(hide: Any, target_at: int) -> None:
    plan = PivotOptions(max_depth=2, hide=hide).plan(
        DOMAIN, N, owners=OWNERS, n_peers=PEERS, target_at=target_at
    )
    shapes, every = [], []
    for other in (False, True):
        sent, tree = runs(plan, other=other)
        shapes.append(tree.shape.first_child.tolist())
        every.append(sent)
    assert shapes[0] == shapes[1]
    say_nothing(every)


def say_nothing(every: list[list[list[Any]]]) -> None:
    """Compare the messages of several runs on one table with those of as many on another."""
    runs_each = [one for sent in every for one in sent]
    sizes = [[(step, to, a.shape, a.dtype) for step, to, a in one] for one in runs_each]
    bits = [
        [np.unpackbits(array.reshape(-1).view(np.uint8)) for _, _, array in one]
        for one in runs_each
    ]
    assert all(one == sizes[0] for one in sizes)
    for place, found in enumerate(zip(*bits, strict=True)):
        # Padding is the same in all runs, whatever the rows; nothing else is, but by chance.
        several = np.stack(found)
        several = several[:, (several != several[0]).any(axis=0)]
        for half in (several[:RUNS], several[RUNS:]):
            if not half.size:
                # A message of a bit or two is often the same a few times.
                assert found[0].size <= 64, sizes[0][place]
                continue
            off = abs(half.mean() - 0.5) * 2 * np.sqrt(half.size)
            assert off < SIGMAS, (sizes[0][place], off)
