"""Noise on three servers: its laws, also when one server gives zeros; fixed-point functions.

One party per process sees what the simulator shows.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    Leakage,
    Ledger,
    NoisyMax,
    Partition,
    TwoSidedGeometric,
    part,
)
from hedgerow.secure.fixed.divide import divide
from hedgerow.secure.fixed.explog import exp, ln
from hedgerow.secure.noise.discrete import geometric, precision, two_sided_geometric
from hedgerow.secure.noise.paper import exponential, laplace
from hedgerow.secure.noise.releases import (
    Charge,
    add_geometric_noise,
    noisy_max,
    open_noisy_max,
)
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z32, Z64
from tests.privacy.mechanisms.coin_laws import masses_of
from tests.secure.engines import reveal, three_servers
from tests.secure.replicated.wires import SEED, apart, everything

SCORES = np.arange(12).reshape(4, 3)
DRAWS, CHUNK = 1_000_000, 25_000


class Zeros:
    """A stream of a key that a server chose badly."""

    def fill(self, address: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return np.zeros(shape, dtype)

    def forget(self) -> None:
        """It has no memory to begin with."""


@pytest.fixture(params=[None, 0, 1, 2], ids=["fair", "zeros 0", "zeros 1", "zeros 2"])
def servers(request: pytest.FixtureRequest) -> Any:
    """Three servers of which one may draw a key that gives zeros, to itself and its neighbour."""
    engine: Any = three_servers()
    if request.param is not None:
        engine.core._streams[request.param] = Zeros()
    return engine


def test_law_of_geometric(servers: Any, chi_square: Any) -> None:
    drawn = precision(NoisyMax(1.0), 100)
    law = masses_of(drawn.variable, drawn.t)
    counts = np.zeros(law.size)
    for _ in range(DRAWS // CHUNK):
        values = reveal(geometric(servers, (CHUNK,), drawn, Z32)).astype(np.int64)
        counts += np.bincount(values, minlength=law.size)
    assert counts.sum() == DRAWS
    assert chi_square(counts, law) > 1e-4


def test_law_of_two_sided_geometric(servers: Any, chi_square: Any) -> None:
    drawn = precision(TwoSidedGeometric(1.0), DRAWS)
    one = masses_of(drawn.variable, drawn.t)
    law = np.convolve(one, one[::-1])
    reach, counts = law.size // 2, np.zeros(law.size)
    for _ in range(DRAWS // CHUNK):
        noise = reveal(two_sided_geometric(servers, (CHUNK,), drawn, Z64))
        counts += np.bincount(Z64.signed(noise) + reach, minlength=law.size)
    assert counts.sum() == DRAWS
    assert chi_square(counts, law) > 1e-4


def test_law_of_noisy_max(servers: Any, chi_square: Any) -> None:
    mechanism, scores = NoisyMax(1.0), np.array([2, 0, 3])
    runs = ROOT / part(Partition("runs", By.SLOT), EACH)
    charge = Charge(Ledger(), runs, "analyst", "a test")
    counts = np.zeros(3)
    table = servers.public(np.broadcast_to(scores, (CHUNK, 3)), Z32)
    for _ in range(DRAWS // CHUNK):
        counts += reveal(noisy_max(table, mechanism, charge, bound=3)).sum(axis=0)
    assert counts.sum() == DRAWS
    assert chi_square(counts, mechanism.law(scores)) > 1e-4


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
