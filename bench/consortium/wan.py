"""A wide-area network: all servers behind links that hold every byte back for a while."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from bench.consortium.links import Links
from bench.consortium.parties import OWNER, SERVERS, Consortium
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.meters import read_meter
from hedgerow.tables import Domain
from reproduce.paper_000.data import DATA

DELAY = 0.02
"""Seconds one way: a round trip takes two of them."""
DEPTH = 3


def adult() -> tuple[pa.Table, Domain]:
    """Return the table of the census with its target."""
    found = DATA["adult"]()
    target = found.domain.target
    assert target is not None
    return found.frame.append_column(target.name, pa.array(found.target.tolist())), found.domain


def wan(town: Consortium, links: Links, table: pa.Table, domain: Domain) -> dict[str, Any]:
    """Train without and with the delay; return figures.

    The consortium calls its servers through the links. A round, in which all servers send at
    once, takes the delay one way: half of a round trip.
    """
    links.delay = 0.0
    upload_s = town.upload(table, domain)
    near = _trained(town, "near", domain)
    links.delay = DELAY
    far = _trained(town, "far", domain)
    delayed = far["rounds"] * DELAY
    return {
        "rows": table.num_rows,
        "depth": DEPTH,
        "round_trip_ms": 2000 * DELAY,
        "upload_s": round(upload_s, 1),
        "attempts": far["attempt"],
        "rounds": far["rounds"],
        "rounds_by_stage": far["by_stage"],
        "megabytes_per_server": round(far["bytes"] / 1e6, 1),
        "seconds_without_delay": near["seconds"],
        "seconds": far["seconds"],
        "delay_per_round_ms": round(1000 * (far["seconds"] - near["seconds"]) / far["rounds"], 1),
        "rounds_one_way_s": round(delayed, 1),
        "share_of_rounds": round(delayed / far["seconds"], 2),
        "wrong": [] if near["rounds"] == far["rounds"] else ["other rounds with the delay"],
    }


def _trained(town: Consortium, name: str, domain: Domain) -> dict[str, Any]:
    """Train, and return what server 0 has told about it."""
    job = town.job(name, domain, noise="splits+leaves", epsilon=1.0, max_depth=DEPTH)
    client, told = RunClient(town.parties[OWNER]), {}
    levels: dict[int, tuple[int, float]] = {}
    client.post(job)
    end = time.monotonic() + 500
    while True:
        shown = client.show(job.run_id)
        found = shown[SERVERS[0]]
        if isinstance(found, dict):
            told = {**found, **(found.get("progress") or {})}
            if told.get("level", -1) >= 0:
                levels.setdefault(told["level"], (told["rounds"], told["seconds"]))
            states = {s.get("state") if isinstance(s, dict) else "?" for s in shown.values()}
            if states == {"done"}:
                break
            if "failed" in states or time.monotonic() > end:
                raise RuntimeError(f"{job.run_id}: {shown}")
        time.sleep(0.05)
    meter = read_meter(open_store(town.parties[SERVERS[0]].state), job.run_id)
    assert meter is not None
    rounds = meter.rounds
    marks = {"the table": 0} | {f"level {k}": levels[k][0] for k in sorted(levels)}
    names, at = list(marks), [*marks.values(), rounds]
    by_stage = {("leaves" if k > DEPTH else names[k]): at[k + 1] - at[k] for k in range(len(names))}
    return {**told, "rounds": rounds, "by_stage": by_stage}
