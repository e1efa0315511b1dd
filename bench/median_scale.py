"""`MedianForestClassifier` on 10 million rows of 20 attributes in Parquet: seconds, peak memory.

The table is written by a process of its own, into a temporary folder that is deleted afterwards.
Fits run in processes of their own too, so that each has its own peak.
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
from hedgerow import Attribute, Batches, Domain, MedianForestClassifier, Target
path, rows, columns, cache = sys.argv[1], *map(int, sys.argv[2:5])
domain = Domain(
    attributes=tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=256) for i in range(columns)
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=rows,
)
start = time.perf_counter()
model = MedianForestClassifier(1.0, domain).fit(Batches(path, domain, cache_bytes=cache))
print(json.dumps({
    "seconds": time.perf_counter() - start,
    # Kibibytes on Linux.
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "trees": len(model.forest_.trees),
    "depth": model.plan_.depth,
}))
"""


def run() -> list[dict[str, Any]]:
    """Rows without a peer: none is known that fits such a forest without holding the table."""
    return cases(ROWS, COLUMNS)


def cases(n_rows: int, n_columns: int) -> list[dict[str, Any]]:
    """Fit with all encoded rows kept, and with a cache that holds about a quarter of them."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        _python(WRITE, path, n_rows, n_columns, CHUNK)
        size = path.stat().st_size
        for name, cache in (("kept", 1 << 30), ("a quarter kept", n_rows * n_columns // 4)):
            done = json.loads(_python(FIT, path, n_rows, n_columns, cache))
            case = f"{n_rows:,} rows x {n_columns}, {size / 2**20:.0f} MiB of Parquet, {name}"
            more = {"trees": done["trees"], "depth": done["depth"]}
            rows.append(row(f"{case}: fit", done["seconds"], unit="s", **more))
            rows.append(row(f"{case}: peak memory", done["peak_mib"], unit="MiB"))
    return rows


def _python(code: str, path: Path, *numbers: int) -> str:
    command = [sys.executable, "-c", code, str(path), *map(str, numbers)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
