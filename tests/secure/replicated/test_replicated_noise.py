"""Noise and fixed-point functions: one party per process sees what the simulator shows."""

from typing import Any

import numpy as np
from wires import SEED, apart, everything

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import ROOT, Leakage, Ledger, NoisyMax, TwoSidedGeometric
from hedgerow.secure.divide import divide
from hedgerow.secure.explog import exp, ln
from hedgerow.secure.noisy_releases import Charge, add_geometric_noise, open_noisy_max
from hedgerow.secure.paper_noise import exponential, laplace
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z32, Z64

SCORES = np.arange(12).reshape(4, 3)


def declared() -> Leakage:
    return everything(
        ("counts", "server", (50,)),
        ("index", "server", (4,)),
        ("choice", "server", (4, 3)),
        ("numbers", "server", (3,)),
    )


def program(engine: ReplicatedEngine, _: int | None) -> list[Any]:
    charge = Charge(Ledger(), ROOT, "server", "a test")
    counts = engine.public(np.arange(50), Z32)
    a, b = engine.public([1, 2, 3], Z64), engine.public([4, 5, 6], Z64)
    numbers = [
        laplace(a, 1.0, 1, charge),
        divide(a, b, bits=5, fraction=16),
        ln(b, bits=5, fraction=0, out=16),
        exp(b, fraction=8, low=0, high=1, out=16),
    ]
    noisy = add_geometric_noise(counts, TwoSidedGeometric(1.0), charge)
    chosen = exponential(engine.public(SCORES, Z64), 1.0, 1, charge, bound=12)
    return [
        engine.open(noisy, "counts", "server"),
        open_noisy_max(engine.public(SCORES, Z32), NoisyMax(1.0), charge, bound=12, name="index"),
        engine.open(chosen, "choice", "server"),
        *(engine.open(x, "numbers", "server") for x in numbers),
    ]


def test_parties_apart_see_what_the_simulator_shows() -> None:
    simulator = Simulator(3)
    expected = program(ReplicatedEngine(simulator, declared(), insecure_seed=SEED), None)
    for party, (opened, meter) in enumerate(apart(3, program, declared)):
        assert all(np.array_equal(x, y) for x, y in zip(opened, expected, strict=True))
        together = simulator.meter.snapshot().total(party)
        alone = meter.total(party)
        assert (alone.rounds, alone.payload) == (together.rounds, together.payload)
