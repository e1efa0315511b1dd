"""Runs of DP-TopDown: owners here, and servers on plain numbers, simulated, or in processes.

Only who computes and who carries the bytes differs, so that the same seeds give the same tree.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any, Protocol

import numpy as np

from hedgerow.crypto.sealed import SealingKey
from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.run import LIMIT, EngineName, check_alike
from hedgerow.protocols.topdown.coordinator import Coordinator, CoordinatorTraffic, Dropouts
from hedgerow.protocols.topdown.options import read_plan
from hedgerow.protocols.topdown.owner import SecureOwner
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.server import Computed, SecureServers
from hedgerow.protocols.topdown.splits import SecureCounts
from hedgerow.protocols.topdown.wire import SERVER_NAMES
from hedgerow.secure.replicated.core import EVERYONE, SERVERS
from hedgerow.tables import Encoded
from hedgerow.trees.counts.leaves import LeafCounts
from hedgerow.trees.tree import Tree

COORDINATOR = SERVERS
"""Party of the coordinator, with the owners, where servers are processes of their own."""
KEY, ASK, ANSWER = "sealing key", "ask", "answer"
"""Steps of mail between a server and the coordinator."""
_PATIENCE = 3600.0
"""Seconds for which a server waits for a question: owners may have much to count."""


@dataclass(frozen=True)
class SecureRun:
    """A tree, and how it came about.

    `traffic` is between the coordinator and all others, `meter` among the servers; the ledger is
    charged for the worst case of all owners; `learned` is what the public and the servers learned;
    `seconds` are without the start of processes; `left_out` has round and number of the error.
    """

    tree: Tree
    traffic: CoordinatorTraffic
    ledger: Ledger = field(repr=False)
    learned: Mapping[str, list[dict[str, Any]]] = field(repr=False)
    meter: Reading = field(repr=False)
    seconds: float
    left_out: Sequence[tuple[int, str, str]]


def run_secure(
    plan: TopDownPlan,
    tables: Mapping[str, Encoded],
    engine: EngineName = "simulate",
    *,
    seed: int | None = None,
) -> SecureRun:
    """Grow a tree from the tables of several owners, by name, on secret counts.

    `engine` "clear" is one process on plain numbers, from which nothing is hidden; "simulate" has
    the three servers in this process; "processes" has each in its own, and the owners with the
    coordinator in a fourth, over mutual TLS. A `seed` makes the noise repeatable, recorded as not
    private. H211 if the servers' records differ.
    """
    check_option("engine", engine, EngineName)
    if engine == "processes":
        return _in_processes(plan, tables, seed)
    start = time.perf_counter()
    keys = {server: SealingKey() for server in range(SERVERS)}
    computed: Computed = "clear" if engine == "clear" else "replicated"
    with Simulator(SERVERS) as network:
        servers = SecureServers(plan, keys, lambda: network, computed=computed, seed=seed)
        public = [keys[server].public for server in range(SERVERS)]
        coordinator = grow_secure(plan, _owners(plan, tables, public), servers)
        meter = network.meter.snapshot()
    return SecureRun(
        coordinator.tree(),
        coordinator.traffic,
        servers.ledger,
        _learned(servers),
        meter,
        time.perf_counter() - start,
        left_out_of(coordinator),
    )


def grow_secure(
    plan: TopDownPlan,
    owners: Mapping[str, SecureOwner],
    servers: SecureServers,
    *,
    dropouts: Dropouts = "go on",
) -> Coordinator:
    """Grow a tree with all owners and all three servers in this process."""
    coordinator = Coordinator(plan, list(owners), dropouts=dropouts)
    while asks := coordinator.asks():
        if set(asks) == set(SERVER_NAMES):
            answers = servers.answers(asks)
        else:
            answers = {name: owners[name].answer(ask) for name, ask in asks.items()}
        for name, answer in answers.items():
            coordinator.hear(name, answer)
    return coordinator


def left_out_of(coordinator: Coordinator) -> list[tuple[int, str, str]]:
    """Return the owners whose counts could not be used, with round and number of the error."""
    split = coordinator.split
    assert isinstance(split, SecureCounts)
    return list(split.left_out)


def topdown_program(
    network: Network, job: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Be a server of a run in processes, or the coordinator with all owners (`own`).

    1. Every server makes its sealing key and sends the public half to the coordinator's party,
       over the connection that both have authenticated.
    2. The coordinator sends every server its question, and gets its answer; an empty question
       ends the run.

    Reveals: as `hedgerow.protocols.topdown.splits.SecureCounts`.
    Cost: that, and the sealing keys.
    """
    plan = read_plan(dict(job["plan"]))
    (party,) = network.local
    if party != COORDINATOR:
        return _serve(network, plan, party, job["seed"])
    assert own is not None
    public = [network.receive(KEY, COORDINATOR, [server])[1] for server in range(SERVERS)]
    tables = {
        name: Encoded(plan.domain, np.asfortranarray(one["bins"]), one["target"], one["present"])
        for name, one in own["tables"].items()
    }
    owners = _owners(plan, tables, public)
    coordinator = Coordinator(plan, list(owners))
    while asks := coordinator.asks():
        if set(asks) <= set(SERVER_NAMES):
            for name, ask in asks.items():
                network.post(ASK, COORDINATOR, SERVER_NAMES.index(name), ask)
            for name in asks:
                at = SERVER_NAMES.index(name)
                coordinator.hear(name, network.receive(ANSWER, COORDINATOR, [at])[1])
        else:
            for name, ask in asks.items():
                coordinator.hear(name, owners[name].answer(ask))
    for server in range(SERVERS):
        network.post(ASK, COORDINATOR, server, b"")
    traffic = coordinator.traffic
    return {
        "tree": coordinator.tree().to_dict(),
        "traffic": [traffic.rounds, traffic.sent, traffic.received],
        "left_out": left_out_of(coordinator),
    }


def _serve(network: Network, plan: TopDownPlan, server: int, seed: int | None) -> dict[str, Any]:
    key = SealingKey()
    network.post(KEY, server, COORDINATOR, key.public)
    servers = SecureServers(plan, {server: key}, lambda: network, seed=seed)
    while ask := network.receive(ASK, server, [COORDINATOR])[1]:
        network.post(ANSWER, server, COORDINATOR, servers.answer(ask))
    return {"ledger": servers.ledger.to_json(), "learned": _learned(servers)}


def _in_processes(plan: TopDownPlan, tables: Mapping[str, Encoded], seed: int | None) -> SecureRun:
    job = {"plan": plan.to_dict(), "seed": seed}
    data = {
        name: {"bins": table.bins, "target": table.target, "present": table.present}
        for name, table in tables.items()
    }
    ends = run_parties(
        topdown_program,
        SERVERS + 1,
        [job],
        own={COORDINATOR: [{"tables": data}]},
        timeout=_PATIENCE,
        limit=LIMIT,
    )
    servers, found = [end.value for end in ends[:SERVERS]], ends[COORDINATOR].value
    check_alike(servers, ("ledger", "learned"))
    return SecureRun(
        Tree.from_dict(found["tree"]),
        CoordinatorTraffic(*found["traffic"]),
        Ledger.from_json(servers[0]["ledger"], plan.domain),
        servers[0]["learned"],
        reduce(
            or_,
            [end.meter.without(KEY, ASK, ANSWER) for end in ends[:SERVERS] if end.meter],
        ),
        max(end.seconds for end in ends),
        [(int(number), owner, why) for number, owner, why in found["left_out"]],
    )


def _owners(
    plan: TopDownPlan, tables: Mapping[str, Encoded | LeafCounts], keys: Sequence[bytes]
) -> dict[str, SecureOwner]:
    return {
        name: SecureOwner(table, plan, name=name, source=NoiseSource.system(), server_keys=keys)
        for name, table in tables.items()
    }


def _learned(servers: SecureServers) -> dict[str, list[dict[str, Any]]]:
    return {audience: servers.what_was_learned(audience) for audience in ("public", EVERYONE)}


class Party(Protocol):
    """Whoever answers the coordinator's questions, such as an `Owner`."""

    def answer(self, ask: bytes) -> bytes:
        """Answer a question."""


def grow_topdown(
    plan: TopDownPlan, owners: Mapping[str, Party], others: Mapping[str, Party] | None = None
) -> tuple[Tree, CoordinatorTraffic]:
    """Grow a tree with all owners, by name and in order, in this process."""
    parties = {**owners, **(others or {})}
    coordinator = Coordinator(plan, tuple(owners))
    while asks := coordinator.asks():
        for name, ask in asks.items():
            coordinator.hear(name, parties[name].answer(ask))
    return coordinator.tree(), coordinator.traffic
