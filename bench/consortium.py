"""A consortium of real daemons on loopback: chaos, load and a wide-area network.

``python -m bench consortium`` runs all three parts in full, about a quarter of an hour.
``python -m bench.consortium chaos|load|wan [--quick]`` runs one of them; see its ``--help``.

Chaos: 30 runs without noise (and 10 with it), in each of which a server and its worker get SIGKILL
at a random moment. Load: 50 analysts ask 10,000 rows of a model whose budget is just that. WAN:
adult at depth 3 with 40 ms of delay for a round trip. `wrong` lists whatever should not have
happened; `load` is the machine's load when a part begins.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.consortium_chaos import chaos
from bench.consortium_load import load
from bench.consortium_parties import Consortium, consortium
from bench.consortium_wan import Relays, adult, wan
from bench.harness import row


def chaos_rows(runs: int = 30, noisy: int = 10, limit: float = 3600.0) -> list[dict[str, Any]]:
    """Kill servers; see `chaos`."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        average = round(os.getloadavg()[0], 1)
        with consortium(Path(folder)) as town:
            found = chaos(town, runs, noisy, limit=limit, say=_say)
    return [row("chaos: a run with a kill, median", found.pop("median_s"), load=average, **found)]


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
        town = Consortium(Path(folder), step=60.0, rejoin=120.0)
        ports = [port for server in town.parties["north"].servers for port in server.ports]
        with Relays(ports) as relays:
            town.reroute(relays.doors)
            try:
                town.start()
                found = wan(town, relays, table, domain)
            finally:
                town.stop()
    return [row("wan: adult, depth 3", found.pop("seconds"), load=average, **found)]


PARTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "chaos": chaos_rows,
    "load": load_rows,
    "wan": wan_rows,
}
QUICK: dict[str, dict[str, Any]] = {
    "chaos": {"runs": 3, "noisy": 1},
    "load": {"analysts": 4, "queries": 60},
    "wan": {},
}


def run() -> list[dict[str, Any]]:
    """Run all parts in full."""
    return [each for part in PARTS.values() for each in part()]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(prog="python -m bench.consortium", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="a few runs or queries only")
    numbers = {"runs": int, "noisy": int, "limit": float, "analysts": int, "queries": int}
    for name, kind in (numbers | {"each": int}).items():
        parser.add_argument(f"--{name}", type=kind)
    given = vars(parser.parse_args())
    part, quick = given.pop("part"), given.pop("quick")
    options = {name: value for name, value in given.items() if value is not None}
    rows = PARTS[part](**(QUICK[part] if quick else {}) | options)
    print(json.dumps(rows, indent=1))
    sys.exit(1 if any(each["wrong"] for each in rows) else 0)


if __name__ == "__main__":
    main()
