"""Timing, the machine's description, and rows of the shape every benchmark prints.

A row is ``{"case", "ours", "peer", "ratio", "unit", ...}`` with ratio = peer / ours for costs
(larger is better for us); peer and ratio are absent where there is no peer.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def seconds(
    function: Callable[[], object],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Median time of `function` after one warm-up call (compilation excluded).

    By the clock on the wall, or by `time.process_time`, which other processes change less.
    """
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return statistics.median(times)


def row(
    case: str, ours: float, peer: float | None = None, unit: str = "s", **more: Any
) -> dict[str, Any]:
    """One result; with a peer, the ratio peer / ours."""
    result: dict[str, Any] = {"case": case, "ours": ours}
    if peer is not None:
        result |= {"peer": peer, "ratio": peer / ours}
    return result | {"unit": unit} | more


def machine() -> dict[str, Any]:
    """Describe the machine by what bears on speed, without its name."""
    model = platform.processor() or platform.machine()
    memory = None
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((ln.split(":", 1)[1].strip() for ln in lines if "model name" in ln), model)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": model,
        "cores": cores,
        "memory_bytes": memory,
        "python": platform.python_version(),
        **{name: version(name) for name in ("hedgerow", "numpy", "numba", "scikit-learn")},
    }


def print_table(result: dict[str, Any]) -> None:
    """Print the rows for a person."""
    console = Console()
    console.print(", ".join(f"{key} {value}" for key, value in result["machine"].items()))
    table = Table(title=f"bench {result['name']} (ratio = peer / ours: above 1 we are ahead)")
    for column in ("case", "ours", "peer", "ratio", "unit", "notes"):
        table.add_column(column, justify="left" if column in ("case", "unit", "notes") else "right")
    known = {"case", "ours", "peer", "ratio", "unit"}
    for item in result["rows"]:
        figures = [f"{item[k]:.4g}" if k in item else "" for k in ("ours", "peer", "ratio")]
        notes = ", ".join(f"{k} {v}" for k, v in item.items() if k not in known)
        table.add_row(item["case"], *figures, item["unit"], notes)
    console.print(table)
