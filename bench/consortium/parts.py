"""The three parts of the benchmark, each as rows for its table."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.consortium.chaos import chaos
from bench.consortium.links import Links
from bench.consortium.load import load
from bench.consortium.parties import Consortium, consortium
from bench.consortium.wan import adult, wan
from bench.harness import row


@contextmanager
def linked(folder: Path, **timeouts: Any) -> Iterator[tuple[Consortium, Links]]:
    """Yield a consortium whose servers are up, and the links through which they are called."""
    town = Consortium(folder, **timeouts)
    with Links(town.ports, list(town.parties)) as links:
        town.reroute(links.doors)
        try:
            town.start()
            yield town, links
        finally:
            town.stop()


def chaos_rows(runs: int = 30, seed: int = 0, limit: float = 3600.0) -> list[dict[str, Any]]:
    """Kill parties and cut their links; see `chaos`."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        average = round(os.getloadavg()[0], 1)
        with linked(Path(folder), step=8.0, rejoin=20.0, connect=5.0) as (town, links):
            found = chaos(town, links, range(seed, seed + runs), limit=limit, say=_say)
    return [row("chaos: a run with a fault, median", found.pop("median_s"), load=average, **found)]


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
    "chaos": {"runs": 3},
    "load": {"analysts": 4, "queries": 60},
    "wan": {},
}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
