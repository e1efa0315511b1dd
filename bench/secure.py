"""Secret arrays on three servers, over TLS on loopback, beside MPyC with three parties.

Ours run whole; MPyC runs a part of each job and is scaled by the number of elementary operations
(`scaled` says by how much). Bytes are payload per operation, as a mean over the servers, beside the
least that the protocol could send. The shares of the time come from a profile of server 0.
"""

from __future__ import annotations

import cProfile
import math
import pstats
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.environment import run_peer
from bench.harness import row
from hedgerow.net.launch import run_parties
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, NoisyMax, Opening
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.noise.discrete import geometric, precision
from hedgerow.secure.replicated import EVERYONE, ReplicatedEngine
from hedgerow.secure.ring import Z32, Z64, Ring
from hedgerow.secure.secret import Secret
from hedgerow.secure.sort import openings, passes, sort_by

MILLION = 10**6
REPEATS = 3
M, K, N = 200, 30_000, 100
ROWS, WIDTH = 1_000, 100
DRAWS = 10**5
KEYS, KEY_BITS = 10**5, 32
PEER = ["mpyc==0.11", "numpy", "gmpy2"]
# What MPyC is asked to do; each is scaled to the whole job.
PEER_JOB = {
    "mul": {"n": MILLION},
    "less_than": {"n": 1_000},
    "matmul": {"m": M, "k": K // 2, "n": N},
    "argmax": {"rows": 10, "n": WIDTH},
    "geometric": {"n": 50, "coins": 6, "bits": 60},
    "sort": {"n": 128},
}


def jobs(engine: ReplicatedEngine) -> dict[str, Callable[[], object]]:
    """Build the inputs and return what is timed, by name."""
    rng = np.random.default_rng(0)
    mine = engine.network.local[0] == 0

    def secret(*shape: int, ring: Ring = Z64, high: int = 1 << 20) -> Secret:
        values = rng.integers(0, high, shape)
        return engine.input(values if mine else None, 0, shape, ring)

    x, y = secret(MILLION), secret(MILLION)
    small_x, small_y = secret(MILLION, ring=Z32), secret(MILLION, ring=Z32)
    a, b = secret(M, K), secret(K, N)
    scores = secret(ROWS, WIDTH)
    drawn = precision(NoisyMax(1.0), m=1)
    keys = secret(KEYS, ring=Z32, high=1 << 31)
    return {
        "mul": lambda: x * y,
        "less_than": lambda: less_than(x, y),
        "less_than_32": lambda: less_than(small_x, small_y),
        "matmul": lambda: a @ b,
        "argmax": lambda: argmax(scores),
        "geometric": lambda: geometric(engine, (DRAWS,), drawn, Z64),
        "sort": lambda: sort_by(keys, keys, bits=KEY_BITS),
    }


def declared() -> Leakage:
    """Declare the openings of the sorts; nothing else is opened."""
    times = (REPEATS + 2) * passes(KEY_BITS)
    return Leakage(
        [
            *openings(KEYS, times, EVERYONE),
            Opening("ready", EVERYONE, (1,), independent="a public constant", times=10_000),
        ]
    )


def program(network: Network) -> dict[str, dict[str, float]]:
    """Run every job at one server: warm up, time, then once more under the profiler."""
    engine = ReplicatedEngine(network, declared())
    together = engine.public(np.zeros(1, dtype=np.int64), Z64)
    result = {}
    for name, work in jobs(engine).items():
        work()
        times, before = [], network.meter.snapshot()
        for _ in range(REPEATS):
            engine.open(together, "ready", EVERYONE)
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        used = network.meter.since(before)
        result[name] = {
            "seconds": statistics.median(times),
            "bytes": sum(used.payload) / REPEATS,
            "rounds": used.rounds / REPEATS - 1,
            **_shares(network, work),
        }
    return result


def matmul_alone(network: Network) -> dict[str, float]:
    """Measure how much memory the matrix product takes at one server."""
    engine = ReplicatedEngine(network, declared())
    mine = network.local[0] == 0
    warm = [
        engine.input(np.ones(s, dtype=np.int64) if mine else None, 0, s, Z64) for s in [(2, 2)] * 2
    ]
    _ = warm[0] @ warm[1]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ones = [np.ones(s, dtype=np.int64) if mine else None for s in ((M, K), (K, N))]
    a, b = (engine.input(v, 0, s, Z64) for v, s in zip(ones, ((M, K), (K, N)), strict=True))
    del ones
    _ = a @ b
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"beyond_start": float(peak - before), "shares": float(a.data.nbytes + b.data.nbytes)}


def _shares(network: Network, work: Callable[[], object]) -> dict[str, float]:
    """Share of the time in the generator, in TLS, in waiting, and in the rest: local arithmetic."""
    profile, before = cProfile.Profile(), network.meter.snapshot()
    begin = time.perf_counter()
    profile.runcall(work)
    total = time.perf_counter() - begin
    waiting = max(network.meter.since(before).waiting)
    cumulative = {"fill": 0.0, "exchange": 0.0}
    for (file, _, function), figures in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if function in cumulative and ("prg.py" in file or "network.py" in file):
            cumulative[function] += figures[3]
    prg, net = cumulative["fill"], cumulative["exchange"]
    parts = {"prg": prg, "tls": max(0.0, net - waiting), "waiting": waiting}
    local = max(0.0, total - prg - net)
    return {f"{name}_share": value / total for name, value in (parts | {"local": local}).items()}


def run() -> list[dict[str, Any]]:
    """Time ours and MPyC, and compare bytes with the least possible."""
    outcomes = run_parties("bench.secure:program", 3, timeout=300)
    ours = {
        name: {
            "seconds": max(o.value[name]["seconds"] for o in outcomes),
            "bytes": statistics.mean(o.value[name]["bytes"] for o in outcomes),
            **{k: v for k, v in outcomes[0].value[name].items() if k not in ("seconds", "bytes")},
        }
        for name in outcomes[0].value
    }
    peer = run_peer("mpyc", PEER, "mpyc_arrays.py", PEER_JOB)
    sort_scale = _comparators(KEYS) / _comparators(PEER_JOB["sort"]["n"])
    matmul_part = math.prod(PEER_JOB["matmul"].values())
    cases: list[tuple[str, str, float, int, float | None]] = [
        ("mul", "10^6 multiplications", MILLION / PEER_JOB["mul"]["n"], MILLION, 8.0),
        (
            "less_than",
            "10^6 less-thans, 64 bits",
            MILLION / PEER_JOB["less_than"]["n"],
            MILLION,
            40.0,
        ),
        ("matmul", f"matrix product {M} x {K} x {N}", M * K * N / matmul_part, M * N, 8.0),
        (
            "argmax",
            f"argmax over {ROWS} rows of {WIDTH}",
            ROWS / PEER_JOB["argmax"]["rows"],
            ROWS,
            None,
        ),
        ("geometric", "10^5 geometric draws", DRAWS / PEER_JOB["geometric"]["n"], DRAWS, None),
        ("sort", "sort of 10^5 keys of 32 bits", sort_scale, KEYS, None),
    ]
    rows = [
        _row(case, ours[name], operations, bound, peer[name] * scale, scale)
        for name, case, scale, operations, bound in cases
    ]
    rows.append(_row("10^6 less-thans, 32 bits", ours["less_than_32"], MILLION, 20.0))
    memory = [o.value for o in run_parties("bench.secure:matmul_alone", 3, timeout=300)]
    worst = max(memory, key=lambda m: m["beyond_start"])
    rows.append(
        row(
            "memory of one server beyond its start, matrix product",
            worst["beyond_start"],
            unit="bytes",
            shares=worst["shares"],
            over_shares=round(worst["beyond_start"] / worst["shares"], 2),
        )
    )
    return rows


def _row(
    case: str,
    ours: dict[str, float],
    operations: int,
    bound: float | None,
    peer: float | None = None,
    scale: float | None = None,
) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "bytes_per_operation": round(ours["bytes"] / operations, 2),
        "rounds": ours["rounds"],
        **{k: round(v, 2) for k, v in ours.items() if k.endswith("_share")},
    }
    if bound is not None:
        notes["bytes_bound"] = bound
    if scale is not None:
        notes["scaled"] = round(scale)
    return row(case if peer is None else f"{case}, MPyC", ours["seconds"], peer, "s", **notes)


def _comparators(n: int) -> float:
    """Return the size of Batcher's sorting network, which is what MPyC runs."""
    depth = math.ceil(math.log2(n))
    return n / 4 * depth * (depth - 1) + n
