"""Run the programs of Pivot on this machine: all peers in one process, or each in its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.options import check_option
from hedgerow.privacy import Leakage, Ledger, Release
from hedgerow.protocols.checkpoint import Stage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.programs import (
    OFFLINE,
    PeerAnswers,
    PeerPart,
    PeerQuestion,
    PeerTable,
    peer,
    respond,
)
from hedgerow.protocols.pivot.protocol import PeerModel
from hedgerow.protocols.registry import PEER_PROTOCOLS, peer_protocol
from hedgerow.protocols.run import LIMIT, check_alike, joined_meters, run_side_by_side
from hedgerow.secure.additive import AdditiveEngine

Place = Literal["simulate", "processes"]
_PATIENCE = 600.0


@dataclass(frozen=True)
class PivotRun:
    """A model among peers, and how it came about; `model` has the shares of all of them.

    What each peer learned differs where they have aligned their rows. That, and `traffic`, tell the
    number of rows: `without_sizes` is what others may see of a model with an epsilon.
    """

    model: PeerModel = field(repr=False)
    leakages: tuple[Leakage, ...] = field(repr=False)
    traffic: Reading | None = field(repr=False)

    def without_sizes(self, plan: PeerPlan) -> PivotRun:
        """Return the run without what would tell the number of rows."""
        ring = {one.name for one in plan.ring_openings()}
        leakages = tuple(leakage.without(ring) for leakage in self.leakages)
        return replace(self, leakages=leakages, traffic=None)

    @property
    def leakage(self) -> Leakage:
        """What the first peer learned."""
        return self.leakages[0]

    @property
    def offline(self) -> Reading | None:
        """What needed no target: base transfers, seeds, triples."""
        return None if self.traffic is None else self.traffic.only(*OFFLINE)

    @property
    def online(self) -> Reading | None:
        """All the rest."""
        return None if self.traffic is None else self.traffic.without(*OFFLINE)


def run_pivot(
    plan: PeerPlan,
    tables: Sequence[PeerTable],
    ledger: Ledger,
    place: Place = "simulate",
    *,
    seed: int | None = None,
    network: Network | None = None,
) -> PivotRun:
    """Train a model among peers; the ledger was charged with what the plan releases.

    "simulate" has all peers in this process, where the same steps work on the shares of all, unless
    rows are yet to be aligned, which each does for itself; "processes" has each in its own, over
    mutual TLS. A seed makes masks repeatable. "simulate" with rows in one order runs on a `network`
    of one's own, if it is given.
    """
    check_option("engine", place, Place)
    if place == "processes":
        return _in_processes(plan, tables, ledger, seed)
    if plan.align != "given":
        return _side_by_side(plan, tables, ledger, seed)
    network = network or Simulator(plan.n_peers)
    context = Context(network, members_of(plan), plan, table=joined(tables), ledger=ledger)
    found = peer(replace(context, seed=seed))
    return PivotRun(found.model, (found.leakage,) * plan.n_peers, found.traffic)


def ask_peers(
    plan: PeerPlan,
    model: PeerModel,
    bins: Mapping[int, NDArray[Any]],
    n: int,
    ledger: Ledger,
    *,
    asker: int = 0,
    proba: bool = False,
    what: str | None = None,
    seed: int | None = None,
) -> NDArray[Any]:
    """Have a peer ask for n rows, of which each peer knows its own bins; all in this process.

    Returns class indices, values, or probabilities; or `what` else a protocol answers. What is due
    for it is charged first.
    """
    ledger.charge(*answers_due(plan, ledger, asker))
    network = Simulator(plan.n_peers)
    job = PeerQuestion(asker, n, what or peer_protocol(plan).asks(plan, proba))
    table = PeerAnswers(model.to_state(), bins)
    context = Context(network, members_of(plan), plan, job, table, ledger, seed=seed)
    found = respond(context)
    assert found is not None
    return found


def answers_due(plan: PeerPlan, ledger: Ledger, asker: int) -> list[Release]:
    """Return what a question costs that this ledger was not charged with yet."""
    due = plan.answer_releases(asker)
    return [one for one in due if not ledger.charged(one.reason, one.audience)]


def members_of(plan: PeerPlan) -> tuple[str, ...]:
    """Return how peers are named where nobody has given them names."""
    return tuple(f"peer {i}" for i in range(plan.n_peers))


def joined(tables: Sequence[PeerTable]) -> PeerTable:
    """Put the tables of all peers together, for a process in which all of them live."""
    bins = {j: own for table in tables for j, own in table.bins.items()}
    holder = next((table for table in tables if table.target is not None), tables[0])
    return PeerTable(bins, tables[0].n, holder.target, present=holder.present)


def pivot_member(
    network: Network, public: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Be one peer of a run in processes."""
    plan = PEER_PROTOCOLS[public["protocol"]].plan_type.from_dict(dict(public["plan"]))
    ledger = Ledger.from_json(public["ledger"])
    bins = {int(j): np.asarray(column) for j, column in own["bins"].items()}
    table = PeerTable(bins, own["n"], own["target"], own["ids"], own["present"])
    context = Context(network, members_of(plan), plan, table=table, ledger=ledger)
    found = peer(replace(context, seed=public["seed"]))
    record = {"ledger": ledger.to_json(), "leakage": found.leakage.to_json()}
    return record | {"model": found.model.to_state()}


def _side_by_side(
    plan: PeerPlan, tables: Sequence[PeerTable], ledger: Ledger, seed: int | None
) -> PivotRun:
    text = ledger.to_json()

    def attend(network: Network) -> PeerPart:
        own = Ledger.from_json(text)
        (party,) = network.local
        context = Context(network, members_of(plan), plan, table=tables[party], ledger=own)
        return peer(replace(context, seed=seed))

    parts: list[PeerPart] = run_side_by_side(plan.n_peers, 0, attend)[0]
    return PivotRun(
        _joined_model([part.model.to_state() for part in parts], plan),
        tuple(part.leakage for part in parts),
        joined_meters(part.traffic for part in parts),
    )


def _in_processes(
    plan: PeerPlan, tables: Sequence[PeerTable], ledger: Ledger, seed: int | None
) -> PivotRun:
    own = {
        i: [
            {"bins": {str(j): b for j, b in t.bins.items()}}
            | {name: getattr(t, name) for name in ("n", "target", "present", "ids")}
        ]
        for i, t in enumerate(tables)
    }
    protocol = next(name for name, one in PEER_PROTOCOLS.items() if one is peer_protocol(plan))
    public = {
        "protocol": protocol,
        "plan": plan.to_dict(),
        "ledger": ledger.to_json(),
        "seed": seed,
    }
    ends = run_parties(
        pivot_member, plan.n_peers, [public], own=own, timeout=_PATIENCE, limit=LIMIT
    )
    values = [end.value for end in ends]
    check_alike(values, ("ledger", "leakage") if plan.align == "given" else ("ledger",))
    model = _joined_model([value["model"] for value in values], plan)
    # What was opened is checked against the charges of the ledger that went along.
    leakages = tuple(
        Leakage.from_json(value["leakage"], Ledger.from_json(value["ledger"])) for value in values
    )
    return PivotRun(model, leakages, joined_meters(end.meter for end in ends))


def _joined_model(states: Sequence[Stage], plan: PeerPlan) -> PeerModel:
    """Put the shares of all peers together, as a process has them in which all of them live."""
    protocol = peer_protocol(plan)
    shares: Stage = {
        name: np.concatenate([state[name] for state in states])
        for name in protocol.shares
        if name in states[0]
    }
    # It holds the shares and computes nothing: no key is drawn.
    engine = AdditiveEngine(Simulator(plan.n_peers), Leakage([]), insecure_seed=b"held")
    return protocol.read(engine, plan, {**states[0], **shares})
