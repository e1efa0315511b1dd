"""Run the programs of DP-TopDown on this machine: in one process, or in one for each member.

Only who computes and who carries the bytes differs, so that the same seeds give the same tree.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.contract import Computed, Context
from hedgerow.protocols.run import (
    LIMIT,
    EngineName,
    check_alike,
    joined_meters,
    run_side_by_side,
)
from hedgerow.protocols.topdown.coordinator import CoordinatorTraffic, Dropouts
from hedgerow.protocols.topdown.options import read_plan
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.programs import (
    MAIL,
    GrownTree,
    ServerRecord,
    coordinator_seat,
    program_of,
)
from hedgerow.protocols.topdown.wire import SERVER_NAMES
from hedgerow.tables import Encoded
from hedgerow.trees.counts.leaves import LeafCounts
from hedgerow.trees.tree import Tree

Tables = Mapping[str, Encoded | LeafCounts]
_PATIENCE = 3600.0
"""Seconds for which a member waits for another, which may have much to count."""


@dataclass(frozen=True)
class Owners:
    """Terms of a run on this machine."""

    owners: tuple[str, ...]
    dropouts: Dropouts = "wait"
    least_owners: int = 1


@dataclass(frozen=True)
class TopDownRun:
    """A tree, and how it came about.

    `traffic` is between the coordinator and all others, `meter` among the servers, and `sent` what
    all members have sent; the servers' ledger, if there are any, is charged for the worst case of
    all owners; `learned` is what the public and the servers learned; `seconds` are without the
    start of processes; `left_out` has round and number of the error.
    """

    tree: Tree
    traffic: CoordinatorTraffic
    ledger: Ledger | None = field(repr=False)
    learned: Mapping[str, list[dict[str, Any]]] = field(repr=False)
    meter: Reading = field(repr=False)
    seconds: float
    left_out: Sequence[tuple[int, str, str]]
    sent: Reading = field(default_factory=lambda: Reading((), {}), repr=False)


def run_topdown(
    plan: TopDownPlan,
    tables: Tables,
    engine: EngineName = "simulate",
    *,
    sources: Mapping[str, NoiseSource] | None = None,
    seed: int | None = None,
) -> TopDownRun:
    """Grow a tree from the tables of owners, by name; the ledgers of owners are the caller's.

    `engine` "simulate" has all members in this process; "clear" too, with servers that compute on
    plain numbers, from which nothing is hidden; "processes" has each in its own, over mutual TLS.
    A `seed` makes the noise repeatable, recorded as not private; where owners draw it, `sources`
    may give each its own, in one process. H211 if the servers' records differ.
    """
    check_option("engine", engine, EngineName)
    first = coordinator_seat(plan)
    members = (*SERVER_NAMES[:first], "coordinator", *tables)
    if engine == "processes":
        return _in_processes(plan, tables, members, seed)
    computed: Computed = "clear" if engine == "clear" else "replicated"
    settings: dict[str, Any] = {
        "plan": plan,
        "job": Owners(tuple(tables)),
        "seed": seed,
        "engine": computed,
    }
    drawn = sources or {name: _source(plan, seed, i) for i, name in enumerate(tables)}

    def attend(network: Network) -> Any:
        party = network.local[0]
        own: dict[str, Any] = {}
        if party > first:
            own = {"table": tables[members[party]], "source": drawn[members[party]]}
        return program_of(plan, party)(Context(network, members, **settings, **own))

    start = time.perf_counter()
    ends, sent = run_side_by_side(len(members), first, attend)
    grown, record = ends[0], ends[-1]
    return TopDownRun(
        grown.tree,
        grown.traffic,
        record.ledger if first else None,
        record.learned if first else {},
        sent[-1].without(*MAIL) if first else Reading((), {}),
        time.perf_counter() - start,
        grown.left_out,
        joined_meters(sent),
    )


def _source(plan: TopDownPlan, seed: int | None, number: int) -> NoiseSource:
    """Return the noise of an owner; on secret counts servers draw it, and owners draw shares."""
    if seed is None or plan.method == "secure-counts":
        return NoiseSource.system()
    return NoiseSource.insecure_seeded(seed + number)


def topdown_member(
    network: Network, public: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Be one member of a run in processes; an owner has its table as `own`."""
    plan, seed, members = read_plan(dict(public["plan"])), public["seed"], tuple(public["members"])
    (party,), first = network.local, coordinator_seat(plan)
    context = Context(network, members, plan, job=Owners(members[first + 1 :]), seed=seed)
    if own is not None:
        bins = np.asfortranarray(own["bins"])
        table = Encoded(plan.domain, bins, own["target"], own["present"])
        source = _source(plan, seed, party - first - 1)
        context = replace(context, table=table, source=source)
    found = program_of(plan, party)(context)
    if isinstance(found, ServerRecord):
        return {"ledger": found.ledger.to_json(), "learned": found.learned}
    if isinstance(found, GrownTree):
        traffic = [found.traffic.rounds, found.traffic.sent, found.traffic.received]
        return {"tree": found.tree.to_json(), "traffic": traffic, "left_out": found.left_out}
    return {"tree": found.decode()}


def _in_processes(
    plan: TopDownPlan, tables: Tables, members: Sequence[str], seed: int | None
) -> TopDownRun:
    first = coordinator_seat(plan)
    own: dict[int, list[Any]] = {}
    for party, table in enumerate(tables.values(), first + 1):
        assert isinstance(table, Encoded)
        own[party] = [{"bins": table.bins, "target": table.target, "present": table.present}]
    ends = run_parties(
        topdown_member,
        len(members),
        [{"plan": plan.to_dict(), "seed": seed, "members": list(members)}],
        own=own,
        timeout=_PATIENCE,
        limit=LIMIT,
        # Nobody calls an owner, and no owner another.
        dial_out=own,
    )
    servers, found = [end.value for end in ends[:first]], ends[first].value
    check_alike(servers, ("ledger", "learned"))
    return TopDownRun(
        Tree.from_json(found["tree"]),
        CoordinatorTraffic(*found["traffic"]),
        Ledger.from_json(servers[0]["ledger"], plan.domain) if servers else None,
        servers[0]["learned"] if servers else {},
        joined_meters(end.meter for end in ends[:first]).without(*MAIL),
        max(end.seconds for end in ends),
        [(int(number), name, why) for number, name, why in found["left_out"]],
        joined_meters(end.meter for end in ends),
    )
