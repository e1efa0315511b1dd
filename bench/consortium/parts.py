"""The three parts of the benchmark, each as rows for its table."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.consortium.chaos import PROTOCOLS, chaos, protocol_of
from bench.consortium.load import load
from bench.consortium.parties import consortium, linked
from bench.consortium.wan import adult, wan
from bench.harness import row


def chaos_rows(runs: int = 100, seed: int = 0, limit: float = 7200.0) -> list[dict[str, Any]]:
    """Kill parties and cut their links; see `chaos`.

    `limit`: seconds for all of it, of which every protocol has its part.
    """
    seeds = {name: list[int]() for name in PROTOCOLS}
    for each in range(seed, seed + runs):
        seeds[protocol_of(each)].append(each)
    rows, begun = [], time.monotonic()
    wanted = [name for name in PROTOCOLS if seeds[name]]
    for number, name in enumerate(wanted):
        average = round(os.getloadavg()[0], 1)
        left = limit - (time.monotonic() - begun)
        found = chaos(name, seeds[name], limit=left / (len(wanted) - number), say=_say)
        rows.append(row(f"chaos: {name}", found.pop("median_s"), load=average, **found))
    _say(chaos_table(rows))
    return rows


def chaos_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return how the runs of each protocol went, as a table of Markdown."""
    lines = [
        "| protocol | runs | as undisturbed | with a number | wrong | s alone, median, longest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in rows:
        alone = each["undisturbed_s"]
        alone = max(alone.values()) if isinstance(alone, dict) else alone
        numbers = ", ".join(f"{k}: {n}" for k, n in each["ended_with_a_number"].items())
        lines.append(
            f"| {each['case'].removeprefix('chaos: ')} | {each['runs']} | "
            f"{each['finished_as_undisturbed']} | {numbers or 0} | {len(each['wrong'])} | "
            f"{alone}, {each['ours']}, {each['longest_s']} |"
        )
    return "\n".join(lines)


def load_rows(analysts: int = 50, queries: int = 10_000, each: int = 1) -> list[dict[str, Any]]:
    """Ask with many analysts; see `load`."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        average = round(os.getloadavg()[0], 1)
        with consortium(Path(folder), analysts=analysts) as town:
            found = load(town, queries, each)
    case = f"load: {analysts} analysts at once"
    rate = found.pop("queries_per_s")
    return [row(case, rate, unit="queries per s", load=average, **found)]


def wan_rows() -> list[dict[str, Any]]:
    """Train with delay; see `wan`."""
    table, domain = adult()
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        average = round(os.getloadavg()[0], 1)
        with linked(Path(folder), step=60.0, rejoin=120.0) as (town, links):
            found = wan(town, links, table, domain)
    return [row("wan: adult, depth 3", found.pop("seconds"), load=average, **found)]


PARTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "chaos": chaos_rows,
    "load": load_rows,
    "wan": wan_rows,
}
QUICK: dict[str, dict[str, Any]] = {
    "chaos": {"runs": 10},
    "load": {"analysts": 4, "queries": 60},
    "wan": {},
}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
