"""Rows that are joined without anybody learning which: the tree of the ring, at a public cost."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import PeerTable, peer
from hedgerow.protocols.pivot.run import PivotRun, members_of, run_pivot
from hedgerow.tables import Attribute, Domain, Encoded, Target

N, SLOTS = 24, 30
RNG = np.random.default_rng(5)
BINS = RNG.integers(0, [2, 3, 5], (N, 3))
SIZES = (2, 3, 5)
CLASSES = Target(name="y", classes=("a", "b", "c"))
NUMBERS = Target(name="y", bounds=(-1.0, 3.0))


def plan_of(target: Target, align: Any, **options: Any) -> PivotPlan:
    attributes = tuple(
        Attribute(name=f"x{j}", kind="categorical", categories=tuple("vwxyz"[:size]))
        for j, size in enumerate(SIZES)
    )
    domain = Domain(attributes=attributes, target=target, capacity=SLOTS)
    return PivotOptions(max_depth=2, **options).plan(
        domain, owners=[0, 1, 1], n_peers=2, target_at=1, align=align
    )


def tables(plan: PivotPlan, lost: int) -> list[PeerTable]:
    """Return rows of two peers, in different orders; each lacks so many that the other has."""
    target: Any = (BINS[:, 0] + BINS[:, 2]) % 3
    if not plan.classes:
        there = np.ones(N, dtype=np.bool_)
        values = (BINS[:, 0] * 1.5 + BINS[:, 1] / 4 - 1).astype(np.float64)
        target = plan.units.count(Encoded(plan.domain, BINS.astype(np.uint8), values, there)).target
    made = []
    for i, rows in enumerate((np.arange(N - lost), np.arange(lost, N)[::-1])):
        bins = {j: BINS[rows, j] for j in range(3) if plan.owners[j] == i}
        made.append(PeerTable(bins, len(rows), target[rows] if i == 1 else None, ids=rows + 7))
    return made


def run(target: Target, align: Any, lost: int = 4, **options: Any) -> PivotRun:
    plan = plan_of(target, align, **options)
    ledger = Ledger(domain=plan.domain)
    plan.charge(ledger)
    return run_pivot(plan, tables(plan, lost), ledger)


@pytest.mark.parametrize("hide", ["nothing", "peers"])
@pytest.mark.parametrize("target", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_the_tree_is_that_of_the_ring(target: Target, hide: str) -> None:
    ring, hidden = (run(target, align, hide=hide).model for align in ("ring", "hidden"))
    assert (ring.shape.first_child == hidden.shape.first_child).all()
    for one, other in zip(ring.groups, hidden.groups, strict=True):
        assert (one == other).all()
    if hide == "nothing":
        assert np.abs(ring.opened - hidden.opened).max() <= (0 if target.classes else 1)
    else:
        for one, other in ((ring.choices, hidden.choices), (ring.leaves, hidden.leaves)):
            sums = [x.data.sum(axis=0, dtype=x.data.dtype).astype(np.int64) for x in (one, other)]
            # A mean is rounded at random, by one unit in the last place.
            assert np.abs(sums[0] - sums[1]).max() <= (0 if target.classes else 1)


def test_what_is_sent_does_not_depend_on_who_is_in_common() -> None:
    """The shape of the tree is opened, and decides what follows: here it is one leaf."""
    few, many = (
        run(CLASSES, "hidden", lost=lost, min_samples_split=SLOTS).traffic for lost in (1, 11)
    )
    assert few.traffic.keys() == many.traffic.keys()
    for at, one in few.traffic.items():
        assert (one.rounds, one.payload) == (many.traffic[at].rounds, many.traffic[at].payload), at


def test_more_rows_than_slots_are_refused() -> None:
    plan = replace(plan_of(CLASSES, "hidden"), capacity=10)
    ledger = Ledger(domain=plan.domain)
    plan.charge(ledger)
    with pytest.raises(HedgerowError) as caught:
        run_pivot(plan, tables(plan, 4), ledger)
    assert caught.value.code is Code.CAPACITY_EXCEEDED


@pytest.mark.parametrize("align", ["given", "ring", "hidden"])
@pytest.mark.parametrize(
    ("target", "where", "value"),
    [
        (CLASSES, 2, 7),
        (CLASSES, 2, -1),
        (CLASSES, None, 3),
        (CLASSES, None, 0.5),
        (NUMBERS, None, float(1 << 21)),
        (NUMBERS, None, np.nan),
    ],
)
def test_numbers_that_there_are_not_are_refused(
    target: Target, align: Any, where: int | None, value: float
) -> None:
    """At the peer that has them, before anything is sent; the others hear that it has stopped."""
    lost = 0 if align == "given" else 4
    plan = plan_of(target, align)
    plan = replace(plan, capacity=N) if align == "given" else plan
    rows, heard = tables(plan, lost), {}
    column = rows[1].target if where is None else rows[1].bins[where]
    wrong = column.astype(np.float64 if where is None else np.int64)
    wrong[5] = value
    rows[1] = replace(
        rows[1], **{"target": wrong} if where is None else {"bins": {1: column, 2: wrong}}
    )

    def attend(network: Network) -> None:
        (party,) = network.local
        ledger = Ledger(domain=plan.domain)
        plan.charge(ledger)
        with pytest.raises(HedgerowError) as caught:
            peer(Context(network, members_of(plan), plan, table=rows[party], ledger=ledger))
        heard[party] = caught.value, network.meter.snapshot()
        raise caught.value

    with pytest.raises(HedgerowError):
        Mesh(2, timeout=30.0).run(dict.fromkeys([(0,), (1,)], attend))
    (there, sent), (elsewhere, _) = heard[1], heard[0]
    assert there.code is Code.BAD_PARAMETER
    assert there.found == "others"
    assert sent.payload == (0,)
    assert elsewhere.code is Code.PEER_STOPPED
    assert elsewhere.found == f"it stopped with error {Code.BAD_PARAMETER.number}"


def test_rows_that_count_nowhere_may_have_any_label() -> None:
    plan = replace(plan_of(CLASSES, "given"), capacity=N)
    without, there = tables(plan, 0), np.ones(N, dtype=np.bool_)
    there[3] = False
    found = []
    for label in (0, 9):
        target = without[1].target.copy()
        target[3] = label
        rows = [without[0], replace(without[1], target=target, present=there)]
        ledger = Ledger(domain=plan.domain)
        plan.charge(ledger)
        found.append(run_pivot(plan, rows, ledger).model)
    assert (found[0].opened == found[1].opened).all()


def test_seeds_of_ciphertexts_do_not_apply() -> None:
    with pytest.raises(HedgerowError, match="linear='transfers'") as caught:
        replace(plan_of(CLASSES, "hidden"), linear="paillier")
    assert caught.value.code is Code.BAD_PARAMETER
