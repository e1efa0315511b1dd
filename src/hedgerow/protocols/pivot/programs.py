"""What a peer does, from the first message to its part of the model; and to answer with it.

All members are peers, numbered as in the plan. A peer brings the bins of its own attributes, and
one of them the target; rows are in the same order at all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.protocols.checkpoint import Stage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.aligning import align_rows
from hedgerow.protocols.pivot.columns import PeerColumns, transfers
from hedgerow.protocols.pivot.joining import JoinedColumns, JoinedTable, join_rows
from hedgerow.protocols.pivot.paillier import PaillierColumns
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.protocol import ANSWERS, PeerData, PeerModel
from hedgerow.protocols.registry import peer_protocol
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.ciphertexts import DEAL, JointKey
from hedgerow.secure.additive.punctured import PLANT, check_bins, check_whole
from hedgerow.secure.additive.transfers import PREPROCESSING, SETUP
from hedgerow.secure.secret import Secret, concatenate
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.encode import rows_within

Array = NDArray[Any]
SESSION = "pivot"
VERSION = 1
"""Of what peers send each other, and when."""
OFFLINE = (SETUP, PREPROCESSING, PLANT, DEAL)
"""Steps that need no target, and could be done ahead."""


@dataclass(frozen=True)
class PeerTable:
    """Rows of one peer: the bins (n,) of its attributes, by their numbers, and the target.

    The target is class indices or numbers in units of the plan, where the peer has it; rows (n,)
    that are not `present` there count nowhere. `ids` (n,) are int64 or str, each of them once,
    where rows are yet to be aligned.
    """

    bins: Mapping[int, Array] = field(repr=False)
    n: int
    target: Array | None = field(default=None, repr=False)
    ids: Array | None = field(default=None, repr=False)
    present: Array | None = field(default=None, repr=False)

    def rows(self, index: NDArray[np.intp]) -> PeerTable:
        """Return some rows, in this order; no more is known of their ids."""
        bins = {j: column[index] for j, column in self.bins.items()}
        target, present = (
            None if one is None else one[index] for one in (self.target, self.present)
        )
        return PeerTable(bins, len(index), target, present=present)

    def check(self, plan: PeerPlan, here: Collection[int]) -> None:
        """Refuse bins and labels of peers that live here which there are not: H108, H501.

        What was encoded under the domain has none, also where rows are absorbed: with an epsilon,
        too, no outcome depends on a row.
        """
        check_columns(plan, self.bins, self.n, here)
        if plan.target_at in here:
            present = slice(None) if self.present is None else self.present
            values = None if self.target is None else np.asarray(self.target)[present]
            n = self.n if self.present is None else int(np.count_nonzero(self.present))
            classes = plan.classes
            allowed = range(classes) if classes else plan.units.counts
            check_whole("classes" if classes else "units of the target", values, n, allowed, "iuf")

    def columns(self, plan: PeerPlan) -> Array | None:
        """Return what is summed up of the rows, (k, n), where the target is."""
        if self.target is None:
            return None
        found: Array = np.stack([np.ones(self.n, np.int64), self.target.astype(np.int64)])
        if plan.classes:
            found = (self.target == np.arange(plan.classes)[:, None]).astype(np.int64)
        return found if self.present is None else found * self.present


@dataclass(frozen=True, eq=False)
class PeerPart:
    """What a peer has of a model in the end, with what was opened and sent for it."""

    model: PeerModel = field(repr=False)
    leakage: Leakage = field(repr=False)
    traffic: Reading = field(repr=False)


class PeerTerms(Protocol):
    """What `peer` takes from a job, beside its plan; where there is none, one row will do."""

    @property
    def least_records(self) -> int:
        """Rows that all peers must have in common."""


def peer(context: Context) -> PeerPart:
    """Train with the other peers, what the plan is of; the table is a `PeerTable`.

    The ledger was charged with what the plan releases.

    Where rows are in one order already, a simulator with all peers in one process has their tables
    as one, of all attributes.
    """
    plan, table = context.plan, context.table
    undrawn = {one.name for one in plan.ring_openings()}
    leakage = Leakage(
        plan.openings(),
        ledger=context.ledger,
        # What aligning shows follows from the ids: nothing of it is drawn.
        mark=lambda name: None if name in undrawn else context.stages.mark(name),
        records=table.n,
    )
    before = context.network.meter.snapshot()
    table.check(plan, context.network.local)
    if plan.align == "ring":
        assert table.ids is not None
        terms: PeerTerms | None = context.job
        # With an epsilon for whoever sees the model, there is one whatever the rows.
        least = 0 if plan.is_private else 1 if terms is None else terms.least_records
        rows = align_rows(context.network, plan, table.ids, leakage, context.stages, least)
        if plan.is_private:
            # To end for more than fit would tell: some are left out, the same everywhere.
            every = np.ones(len(rows), np.bool_)
            rows = rows[rows_within(every, plan.capacity, AbsorbedRows(), table.ids[rows])]
        table = table.rows(rows)
    check_rows(plan, table)
    with _engine(context, leakage) as engine:
        engine.provider.load(context.prepared or {})
        data = _data(context, engine, table)
        model = peer_protocol(plan).train(
            data if context.ledger is None else replace(data, ledger=context.ledger),
            plan,
            lambda done: context.progress({"level": done}),
            context.stages,
        )
    return PeerPart(model, leakage, context.network.meter.since(before))


def prepare_stock(network: Network, plan: PeerPlan) -> dict[str, Array]:
    """Make, with the other peers, what training uses up and no rows are needed for.

    For `Provider.load` of the same peers, once.

    Reveals: nothing. Cost: `cost_prepare` of `PeerProtocol.cost_ahead`.
    """
    with AdditiveEngine(network, Leakage([]), session=SESSION) as engine:
        engine.prepare(peer_protocol(plan).cost_ahead(engine, plan))
        return engine.provider.unload()


def _data(context: Context, engine: AdditiveEngine, table: PeerTable) -> PeerData:
    """Return the rows: attributes as seeds, or shared, or masks as ciphertexts."""
    plan: PeerPlan = context.plan
    if plan.align == "hidden":
        joined = JoinedTable(plan.domain, plan.owners, plan.target_at, plan.classes, plan.capacity)
        assert table.ids is not None
        own = {
            party: joined.write(party, table.ids, table.bins, table.target, context.source)
            for party in context.network.local
        }
        columns, onehot = joined.read(join_rows(engine, joined, own, context.stages), plan.ring)
        return PeerData(
            engine, columns, lambda x: JoinedColumns(plan.layout, plan.owners, x, onehot)
        )
    shape = (plan.n_columns, table.n)
    known = table.columns(plan) if _is_here(context, plan.target_at) else None
    columns = engine.input(known, plan.target_at, shape, plan.ring)
    if isinstance(plan, PivotPlan) and plan.linear == "products":
        shared = _shared_bins(context, engine, table)
        return PeerData(
            engine, columns, lambda x: JoinedColumns(plan.layout, plan.owners, x, shared)
        )
    if isinstance(plan, PivotPlan) and plan.encrypts:
        key, packed = JointKey.insecure_dealt(engine.core), plan.linear == "paillier"
        rows_of = partial(
            PaillierColumns, owners=plan.owners, bins=table.bins, key=key, packed=packed
        )
        return PeerData(
            engine, columns, lambda x: rows_of(plan.layout, x, secret_choices=plan.hides)
        )
    seeds = plan.plant(transfers(engine), table.bins, table.n)
    return PeerData(engine, columns, lambda x: PeerColumns(plan.layout, x, seeds), seeds)


def _shared_bins(context: Context, engine: AdditiveEngine, table: PeerTable) -> Secret:
    """Have each owner share the bins of its attributes, one-hot (n, B)."""
    plan: PeerPlan = context.plan
    pieces = []
    for j, (owner, most) in enumerate(zip(plan.owners, plan.domain.n_bins, strict=True)):
        hot = None
        if _is_here(context, owner):
            hot = (table.bins[j][:, None] == np.arange(most)).astype(np.uint8)
        pieces.append(engine.input(hot, owner, (table.n, int(most)), plan.ring))
    return concatenate(pieces, axis=1)


@dataclass(frozen=True)
class PeerQuestion:
    """The job of `respond`: who asks, about how many rows, and what (`PeerProtocol.asks`)."""

    asker: int
    n: int
    what: str


@dataclass(frozen=True)
class PeerAnswers:
    """The table of `respond`: a part of a model (`PeerModel.to_state`), and bins of the rows."""

    model: Stage = field(repr=False)
    bins: Mapping[int, Array] = field(repr=False)


def respond(context: Context) -> NDArray[Any] | None:
    """Answer rows with the other peers; the plan is that of the model.

    Returns what `PeerProtocol.read_answers` reads, where the asker lives.

    The ledger was charged with `PeerPlan.answer_releases`. Reveals: the answers, to the asker.
    """
    plan, own, asked = context.plan, context.table, context.job
    protocol = peer_protocol(plan)
    opening = protocol.answers_opening(plan, asked.n, asked.what, asked.asker)
    leakage = Leakage([opening], ledger=context.ledger)
    check_columns(plan, own.bins, asked.n, context.network.local)
    with _engine(context, leakage) as engine:
        model = protocol.read(engine, plan, own.model)
        found = protocol.answers(engine, plan, model, own.bins, asked.n, asked.what)
        opened = engine.open(found, ANSWERS, f"peer {asked.asker}")
    if opened is None:
        return None
    return protocol.read_answers(plan, found.ring.signed(opened), asked.what)


def _engine(context: Context, leakage: Leakage) -> AdditiveEngine:
    insecure = None if context.seed is None else f"pivot {context.seed}".encode()
    return AdditiveEngine(context.network, leakage, session=SESSION, insecure_seed=insecure)


def _is_here(context: Context, party: int) -> bool:
    return party in context.network.local


def check_columns(plan: PeerPlan, bins: Mapping[int, Array], n: int, here: Collection[int]) -> None:
    """Refuse bins of n rows, of the attributes of peers that live here. See `check_bins`."""
    for j, (owner, most) in enumerate(zip(plan.owners, plan.domain.n_bins, strict=True)):
        if owner in here:
            check_bins(j, bins.get(j), n, int(most))


def check_rows(plan: PeerPlan, table: PeerTable) -> None:
    """Refuse rows that the others do not have, H108, or for which a ring is too small, H112."""
    if plan.align == "given" and not plan.is_noisy and table.n != plan.capacity:
        raise Code.WRONG_SHAPE.error(
            expected=f"{plan.capacity:,} rows, as many as the other peers have",
            found=f"{table.n:,}",
        )
    if table.n > plan.capacity:
        raise Code.CAPACITY_EXCEEDED.error(
            expected=f"at most {plan.capacity:,} rows, for which every number fits its ring",
            # Where nobody learns how many rows a peer has, all peers hear of this all the same.
            found="more" if plan.align == "hidden" else f"{table.n:,}",
        )
