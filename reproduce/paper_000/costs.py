"""Paper 000's figure 5: seconds and bytes of training, hidden and opened, over the depth.

Bytes are the meter's, of the three servers simulated in one process: those of hidden trees follow
from public numbers, and processes over TLS send the same (`megabytes_over_tls`, to compare);
those of opened trees depend on the opened splits too. Seconds are those of three server processes
over mutual TLS on this machine, after the upload, for as many settings as
`Extent.timed` has.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.net.launch import run_parties
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.plan import HiddenPlan, OpenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.protocols.sharing.uploaded import deal_uploads, held_table
from hedgerow.secure.replicated import SERVERS, ReplicatedEngine
from reproduce.paper_000.study import Extent, Record, mechanism_of, paper_plan, part_of

EPSILON = 1.0
METHODS = (
    "leaves laplace",
    "leaves exponential",
    "open laplace",
    "open exponential",
    "splits+leaves",
)


def program(network: Network, name: str, jobs: list[dict[str, Any]]) -> list[Any]:
    """Train, job after job; every server runs this, and has its part of the table from a seed.

    Returns what each training cost the servers that live here.
    """
    return [train(network, name, f"job {at}", **job) for at, job in enumerate(jobs)]


def train(network: Network, name: str, session: str, method: str, plan: dict[str, Any]) -> Any:
    """Train once, on what the servers hold of a table that was dealt before."""
    opened, ledger = method.startswith("open"), Ledger()
    planned = (OpenPlan if opened else HiddenPlan).from_dict(plan)
    leakage = Leakage(planned.openings(), ledger=ledger)
    engine = ReplicatedEngine(network, leakage, session=session)
    uploads = horizontal_uploads(planned.layout, [planned.n_slots])
    tables = {uploads[0].party: part_of(name, 0).slots(planned.n_slots)}
    # Every process deals the same parts, as if an owner had sent them.
    held = deal_uploads(planned.layout, uploads, tables, keyed(bytes(KEY_BYTES)))
    table = held_table(engine, planned.layout, planned.ring, held)
    before, start = network.meter.snapshot(), time.perf_counter()
    (train_open if opened else train_hidden)(table, planned, ledger)
    spent = network.meter.snapshot() - before
    return {
        "seconds": time.perf_counter() - start,
        "bytes": [spent.total(party).payload for party in network.local],
        "rounds": spent.rounds,
    }


def costs(extent: Extent) -> list[Record]:
    """Measure all settings, one after the other: they are timed.

    Every data set has one meeting of processes; what is timed is trained there twice at the lowest
    depth, so that the first training, which loads compiled code, does not count.
    """
    rows = []
    timed = dict(extent.timed)
    for name in extent.names:
        settings = [(depth, method) for depth in extent.depths for method in METHODS]
        jobs = {setting: _job(name, *setting) for setting in settings}
        found = {setting: _simulated(name, job) for setting, job in jobs.items()}
        chosen = [setting for setting in settings if setting[0] in timed.get(name, ())]
        over_tls = dict(zip(chosen, _in_processes(name, [jobs[s] for s in chosen]), strict=True))
        for depth, method in settings:
            rows.append(
                {"method": method, "data": name, "depth": depth, "epsilon": EPSILON}
                | found[depth, method]
                | over_tls.get((depth, method), {})
            )
    return rows


def _job(name: str, depth: int, method: str) -> dict[str, Any]:
    plan = paper_plan(part_of(name, 0), EPSILON, depth, **mechanism_of(method))
    return {"method": method, "plan": plan.to_dict()}


def _simulated(name: str, job: dict[str, Any]) -> Record:
    with Simulator(SERVERS) as network:
        (found,) = program(network, name, [job])
    return {"megabytes": statistics.mean(found["bytes"]) / 1e6, "rounds": found["rounds"]}


def _in_processes(name: str, jobs: list[dict[str, Any]]) -> list[Record]:
    if not jobs:
        return []
    first = jobs[: len(METHODS)]
    ends = run_parties(program, SERVERS, [name, first + jobs], timeout=900, limit=3_600)
    rows = []
    for at in range(len(first), len(first) + len(jobs)):
        servers = [end.value[at] for end in ends]
        sent = statistics.mean(server["bytes"][0] for server in servers) / 1e6
        seconds = max(server["seconds"] for server in servers)
        rows.append({"seconds": seconds, "megabytes_over_tls": sent})
    return rows
