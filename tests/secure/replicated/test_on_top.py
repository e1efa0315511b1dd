"""What is written on top runs alike on three servers apart and in the simulator."""

from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure import sort
from hedgerow.secure.argmax import argmax, max_
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32
from tests.secure.replicated.wires import SEED, Recorder, apart

ROWS, COLUMNS, BITS = 24, 7, 6
SHAPES = {"largest": (ROWS,), "hot": (ROWS, COLUMNS), "sorted": (ROWS, 7)}


def table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-20, 20, (ROWS, COLUMNS))


def declared() -> Leakage:
    seen = [Opening(name, "server", shape, independent="a test") for name, shape in SHAPES.items()]
    return Leakage(seen + sort.openings(ROWS, sort.passes(BITS), "server"))


def program(engine: ReplicatedEngine, party: int | None, seed: int = 0) -> list[Any]:
    """Find the largest of each row, sort rows."""
    rows = table(seed)
    x = engine.input(rows if party in (None, 1) else None, 1, rows.shape, Z32)
    largest, hot = max_(x, bits=BITS + 1), argmax(x, bits=BITS + 1)
    ordered = sort.sort_by(x[:, 0], x, bits=BITS)
    found = {"largest": largest, "hot": hot, "sorted": ordered}
    return [engine.open(value, name, "server") for name, value in found.items()]


def test_parties_apart_compute_what_the_simulator_computes() -> None:
    simulated = ReplicatedEngine(Simulator(), declared(), insecure_seed=SEED)
    wanted = program(simulated, None)
    parts = apart(3, program, declared)
    for opened, _ in parts:
        for got, value in zip(opened, wanted, strict=True):
            assert np.array_equal(got, value)
    meter = simulated.network.meter.snapshot()
    assert [reading.payload for _, reading in parts] == [(sent,) for sent in meter.payload]
    assert {reading.rounds for _, reading in parts} == {meter.rounds}
    rows = table(0)
    assert np.array_equal(Z32.signed(wanted[0]), rows.max(1))
    assert np.array_equal(wanted[1].argmax(1), rows.argmax(1))
    assert np.array_equal(Z32.signed(wanted[2]), rows[np.argsort(rows[:, 0], kind="stable")])


def test_transcripts_have_one_shape_for_all_tables() -> None:
    plans = []
    for seed in range(3):
        network = Recorder()
        program(ReplicatedEngine(network, declared(), insecure_seed=SEED), None, seed)
        plans.append(network.plans)
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("server", range(3))
def test_what_a_server_receives_is_uniform(server: int, chi_square: Any) -> None:
    network = Recorder()
    engine = ReplicatedEngine(network, Leakage([]), insecure_seed=SEED)
    x = engine.input(np.zeros((3000, 4), dtype=int), 0, (3000, 4), Z16)
    network.views[server].clear()
    argmax(x)
    received = network.received(server)
    assert received.size > 50_000
    assert chi_square(np.bincount(received, minlength=256), np.full(256, 1 / 256)) > 1e-4
