"""The histogram learner beside scikit-learn's decision tree, on the same bins, at depth 8.

Categories are numbered and taken as ordered, so that both grow the same tree. scikit-learn gets
its float32 matrix ready-made, with contiguous columns, which is the faster layout for it. The two
are timed in turn. Memory is measured in a process of its own for each of them: the table and the
largest growth of the resident set while the tree grows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.tree import DecisionTreeClassifier

from bench.data import load
from bench.harness import row
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees import Limits, Tree, grow_cart

DEPTH = 8
CASES = {
    "adult": ("adult_train", "income"),
    "kddcup99": ("kddcup99_10percent", "label"),
    "skin": ("skin_segmentation", "y"),
}


def table(name: str) -> Encoded:
    """Read and bin one data set, at most 255 bins per column."""
    file, target = CASES[name]
    whole = load(file)
    columns = {}
    for column in whole.column_names:
        values = whole[column].combine_chunks()
        if pa.types.is_string(values.type):
            values = values.dictionary_encode().indices
        columns[column] = values.cast(pa.float64())
    label = whole[target].to_numpy()
    del columns[target]
    frame = pa.table(columns)
    domain = Domain.suggest(frame, label, max_bins=255, task="classification", quiet=True)
    return encode(frame, domain, label)


def peer_data(encoded: Encoded) -> tuple[np.ndarray, np.ndarray]:
    """Return the same bins as scikit-learn wants them."""
    assert encoded.target is not None
    return encoded.bins.astype(np.float32, order="F"), encoded.target


def ours(encoded: Encoded) -> Tree:
    """Fit our tree."""
    return grow_cart(encoded, limits=Limits(max_depth=DEPTH))


def peer(data: tuple[np.ndarray, np.ndarray]) -> DecisionTreeClassifier:
    """Fit scikit-learn's tree."""
    return DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(*data)


def side_by_side(
    first: Callable[[], object], second: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Median times of both, run in turn after one warm-up each."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for function, taken in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            if turn:
                taken.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def peak(fit: Callable[[Any], object], few: Any, all_rows: Any) -> dict[str, int]:
    """Largest growth in bytes during a fit: resident set, and what NumPy asked for.

    Compiled and warmed up on a few rows, so that no memory of an earlier fit is lying ready.
    """
    fit(few)
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # starts the high-water mark afresh
    before = status("VmRSS")
    fit(all_rows)
    resident = max(0, status("VmHWM") - before)
    tracemalloc.start()
    fit(all_rows)
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"resident": resident, "traced": traced}


def status(name: str) -> int:
    """Read a figure of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def probe(name: str, who: str) -> dict[str, int]:
    """Measure one learner in this process."""
    encoded = table(name)
    few = encoded.rows(np.arange(0, encoded.n_slots, 100))
    if who == "ours":
        return peak(ours, few, encoded) | {"table": encoded.bins.nbytes}
    data, few_data = peer_data(encoded), peer_data(few)
    del encoded
    return peak(peer, few_data, data) | {"table": data[0].nbytes}


def probe_apart(name: str, who: str) -> dict[str, int]:
    """Measure one learner in a process of its own."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "bench.trees", name, who],
        cwd=root,
        env=os.environ,
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def run() -> list[dict[str, Any]]:
    """Fit times in seconds, then memory in bytes."""
    rows = []
    for name in CASES:
        encoded = table(name)
        data = peer_data(encoded)
        our_time, peer_time = side_by_side(partial(ours, encoded), partial(peer, data), repeats=7)
        right = (ours(encoded).predict_class(encoded.bins) == encoded.target).mean()
        rows.append(
            row(
                f"{name}: fit at depth {DEPTH}",
                our_time,
                peer_time,
                rows=encoded.n_slots,
                columns=encoded.n_features,
                bins=int(encoded.domain.n_bins.sum()),
                accuracy=round(float(right), 4),
                peer_accuracy=round(float(peer(data).score(*data)), 4),
            )
        )
    if sys.platform != "linux":
        return rows
    for name in CASES:
        our_peak, peer_peak = (probe_apart(name, who) for who in ("ours", "peer"))
        beyond = max(our_peak["resident"], our_peak["traced"])
        rows.append(
            row(
                f"{name}: table and peak memory of the fit",
                our_peak["table"] + beyond,
                peer_peak["table"] + max(peer_peak["resident"], peer_peak["traced"]),
                unit="bytes",
                encoded_table=our_peak["table"],
                beyond_table=beyond,
                over_table=round(1 + beyond / our_peak["table"], 2),
            )
        )
    return rows


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], sys.argv[2])))
