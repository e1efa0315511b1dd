"""Median forest and boosting on 10 million rows of 20 attributes in Parquet: seconds, peak memory.

The table is written by a process of its own, into a temporary folder that is deleted afterwards.
Fits run in processes of their own too, so that each has its own peak; with Dask, the peak is the
sum of those of the two workers and of the process that asks them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import row

ROWS = 10_000_000
COLUMNS = 20
CHUNK = 500_000

WRITE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
path, rows, columns, chunk = sys.argv[1], *map(int, sys.argv[2:5])
names = [f"x{i}" for i in range(columns)]
schema = pa.schema([(name, pa.float32()) for name in names] + [("y", pa.int8())])
with pq.ParquetWriter(path, schema, use_dictionary=False, compression="lz4") as writer:
    for start in range(0, rows, chunk):
        rng = np.random.default_rng([7, start])
        x = rng.random((columns, min(chunk, rows - start)), dtype=np.float32)
        label = (x[0] + x[1] * x[2] + rng.normal(0, 0.2, x.shape[1]) > 0.8).astype(np.int8)
        writer.write_table(pa.table([*x, label], schema=schema), row_group_size=chunk)
"""

FIT = """
import json, resource, sys, time
import hedgerow
from hedgerow import Attribute, Batches, Domain, Target

def peak(dask_worker=None):
    # Kibibytes on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def main():
    model, path, rows, columns, cache = *sys.argv[1:3], *map(int, sys.argv[3:6])
    domain = Domain(
        attributes=tuple(
            Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=256)
            for i in range(columns)
        ),
        target=Target(name="y", classes=(0, 1)),
        capacity=rows,
    )
    estimator = getattr(hedgerow, model)(1.0, domain)
    start = time.perf_counter()
    workers = []
    if cache < 0:
        import dask.dataframe as dd, distributed
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster, distributed.Client(cluster) as client:
            start = time.perf_counter()
            estimator.fit(dd.read_parquet(path, split_row_groups=True), "y")
            took = time.perf_counter() - start
            workers = list(client.run(peak).values())
    else:
        estimator.fit(Batches(path, domain, cache_bytes=cache))
        took = time.perf_counter() - start
    print(json.dumps({
        "seconds": took,
        "peak_mib": peak() + sum(workers),
        "plan": getattr(estimator.plan_, "depth", None) or estimator.plan_.rounds,
    }))

if __name__ == "__main__":
    main()
"""


def run() -> list[dict[str, Any]]:
    """Rows without a peer: none is known that fits such models without holding the table."""
    return cases(ROWS, COLUMNS)


def cases(n_rows: int, n_columns: int) -> list[dict[str, Any]]:
    """Fit with all encoded rows kept, with room for a quarter of them, and on two Dask workers."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path, script = Path(folder) / "table.parquet", Path(folder) / "fit.py"
        script.write_text(FIT)
        _python("-c", WRITE, path, n_rows, n_columns, CHUNK)
        size = path.stat().st_size
        for model in ("MedianForestClassifier", "DPBoostingClassifier"):
            for name, cache in (
                ("kept", 1 << 30),
                ("a quarter kept", n_rows * n_columns // 4),
                ("two Dask workers", -1),
            ):
                done = json.loads(_python(script, model, path, n_rows, n_columns, cache))
                case = f"{model}, {n_rows:,} rows x {n_columns}, {name}"
                more = {"parquet_mib": round(size / 2**20), "depth_or_rounds": done["plan"]}
                rows.append(row(f"{case}: fit", done["seconds"], unit="s", **more))
                rows.append(row(f"{case}: peak memory", done["peak_mib"], unit="MiB"))
    return rows


def _python(*arguments: object) -> str:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
