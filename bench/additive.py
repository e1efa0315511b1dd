"""Secret arrays of two and three peers, over TLS on loopback: offline and online apart.

What a job uses up is made ahead, and timed, then the job itself. Megabytes are payload that one
peer sends. The shares of the offline time come from a profile of peer 0.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.harness import row
from hedgerow.net.launch import run_parties
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.additive import EVERYONE, AdditiveEngine
from hedgerow.secure.additive.transfers import PREPROCESSING
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.ring import Z32, Z64, Ring
from hedgerow.secure.secret import Secret

N = 20_000
ROWS, WIDTH = 1_000, 20
PARTS = ("extend", "send_correlated", "receive_correlated", "exchange")
"""Functions whose shares of the offline time are told, the network's last."""


def jobs(engine: AdditiveEngine) -> dict[str, tuple[int, Cost, Callable[[], object]]]:
    """Build the inputs and return what is timed, by name: operations, cost, work."""
    rng = np.random.default_rng(0)
    mine = engine.network.local[0] == 0

    def secret(*shape: int, ring: Ring = Z64) -> Secret:
        values = rng.integers(0, 1 << 20, shape)
        return engine.input(values if mine else None, 0, shape, ring)

    x, y = secret(N), secret(N)
    small_x, small_y = secret(N, ring=Z32), secret(N, ring=Z32)
    scores = secret(ROWS, WIDTH)
    return {
        "multiplications, 64 bits": (N, engine.cost("mul", shape=(N,), ring=Z64), lambda: x * y),
        "multiplications, 32 bits": (
            N,
            engine.cost("mul", shape=(N,), ring=Z32),
            lambda: small_x * small_y,
        ),
        "less-thans, 64 bits": (N, cost_less_than(engine, N, Z64), lambda: less_than(x, y)),
        f"argmax over rows of {WIDTH}": (
            ROWS,
            cost_argmax(engine, (ROWS, WIDTH), Z64),
            lambda: argmax(scores),
        ),
    }


def program(network: Network) -> dict[str, dict[str, float]]:
    """Run every job at one peer: once to warm up, then ahead and online."""
    ready = Opening("ready", EVERYONE, (1,), independent="a public constant", times=10_000)
    engine = AdditiveEngine(network, Leakage([ready]))
    together = engine.public(np.zeros(1, dtype=np.int64), Z64)
    result = {}
    for name, (operations, cost, work) in jobs(engine).items():
        work()
        before = network.meter.snapshot()
        profile, seconds = cProfile.Profile(), []
        for part in (partial(profile.runcall, engine.prepare, cost), work):
            engine.open(together, "ready", EVERYONE)
            begin = time.perf_counter()
            part()
            seconds.append(time.perf_counter() - begin)
        used = network.meter.since(before)
        ahead, online = used.only(PREPROCESSING), used.without(PREPROCESSING, "open")
        result[name] = {
            "operations": operations,
            "offline": seconds[0],
            "online": seconds[1],
            "offline_mb": ahead.payload[0] / 1e6,
            "online_mb": online.payload[0] / 1e6,
            "offline_rounds": ahead.rounds,
            "rounds": online.rounds,
            **_shares(profile, seconds[0]),
        }
    engine.finish()
    return result


def _shares(profile: cProfile.Profile, total: float) -> dict[str, float]:
    """Share of the time in the extension, in pads and messages, and in the network."""
    cumulative = dict.fromkeys(PARTS, 0.0)
    for (file, _, function), figures in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if function in cumulative and ("oblivious_transfer" in file or "network.py" in file):
            cumulative[function] += figures[3]
    return {f"{name}_share": value / total for name, value in cumulative.items()}


def run() -> list[dict[str, Any]]:
    """Time every job with two and with three peers."""
    rows = []
    for m in (2, 3):
        outcomes = run_parties("bench.additive:program", m, timeout=600)
        for name, first in outcomes[0].value.items():
            slowest = {
                phase: max(o.value[name][phase] for o in outcomes)
                for phase in ("offline", "online")
            }
            notes = {k: round(v, 3) for k, v in first.items() if k not in ("offline", "online")}
            for phase, spent in slowest.items():
                notes[f"{phase}_per_second"] = round(first["operations"] / spent)
            case = f"{first['operations']:,} {name}, {m} peers"
            rows.append(row(f"{case}, offline", slowest["offline"], **notes))
            rows.append(row(f"{case}, online", slowest["online"]))
    return rows
