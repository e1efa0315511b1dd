"""Declared rounds and bytes, offline and online, are those of the meter."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.transfers import PREPROCESSING, SETUP, Transfers
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.compare import cost_equal, cost_less_than, equal, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.divide import cost_divide, divide
from hedgerow.secure.fixed.explog import cost_log, ln
from hedgerow.secure.fixed.quotient import cost_floor_divide, floor_divide
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.sort import cost_sort_by
from tests.secure.engines import metered, reveal, share
from tests.secure.replicated.wires import everything

SIZES = [0, 1, 65, 200]


@pytest.fixture(scope="module", params=[2, 3], ids=lambda m: f"{m} peers")
def engine(request: pytest.FixtureRequest) -> AdditiveEngine:
    return AdditiveEngine(Simulator(request.param), everything())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_ring_primitives(engine: AdditiveEngine, ring: Ring, size: int) -> None:
    shape = (size,)
    x = share(engine, np.arange(size), ring)
    permutation = engine.permutation(size)
    calls: list[tuple[str, dict[str, Any], Any]] = [
        ("mul", {"ring": ring}, partial(engine.mul, x, x)),
        ("shuffle", {"ring": ring}, partial(engine.shuffle, x, permutation)),
        ("addends", {"bits": 15}, partial(engine.addends, x, 15)),
    ]
    for shift in (0, 1, ring.bits - 2):
        public = {"ring": ring, "shift": shift}
        calls.append(("truncate", public, partial(engine.truncate, x, shift)))
    calls += [
        ("extend", {"ring": to, "source": ring}, partial(engine.extend, x, to))
        for to in (Z16, Z32, Z64)
        if to.bits >= ring.bits
    ]
    for primitive, public, action in calls:
        declared = engine.cost(primitive, shape=shape, **public)
        assert metered(engine, action) == declared, (primitive, public)


@pytest.mark.parametrize("size", SIZES)
def test_bit_primitives(engine: AdditiveEngine, size: int) -> None:
    flags = np.ones((3, size), dtype=bool)
    x = engine.input_bits(flags, 0, flags.shape)
    assert metered(engine, lambda: x & x) == engine.cost("and_", shape=flags.shape)
    for ring in (Z16, Z32, Z64):
        declared = engine.cost("b2a", shape=flags.shape, ring=ring)
        assert metered(engine, partial(engine.b2a, x, ring)) == declared
        y = share(engine, np.ones((2, size), int), ring)
        declared = engine.cost("mul_bits", shape=y.shape, ring=ring, bits=3)
        assert metered(engine, partial(engine.mul_bits, y, x)) == declared


def test_divisions_by_bits(engine: AdditiveEngine) -> None:
    """What a scale of bits multiplies is divided right, and costs what is stated."""
    x, a = np.array([1, 2, 7, 999, 60_000]), np.array([3, 8, -50, 10**9, 12_345])
    shared, top = share(engine, x, Z64), share(engine, a, Z64)
    assert engine.multiplies_bits
    found: dict[str, Any] = {}
    public: dict[str, Any] = {"bits": 16, "quotient_bits": 30}
    spent = metered(engine, lambda: found.update(q=floor_divide(top, shared, **public)))
    assert spent == cost_floor_divide(engine, x.shape, **public)
    assert Z64.signed(reveal(found["q"])).tolist() == (a // x).tolist()
    for numerator, secret in ((top, True), (1, False)):
        public = {"bits": 16, "fraction": 20, "quotient_bits": 20 * secret}
        spent = metered(
            engine, lambda n=numerator, p=public: found.update(q=divide(n, shared, **p))
        )
        assert spent == cost_divide(engine, x.shape, **public, secret_numerator=secret)
        exact = (a if secret else 1) / x
        off = np.abs(Z64.signed(reveal(found["q"])) / 2.0**20 - exact)
        assert off.max() <= 2.0 ** (20 * secret - 26) * 1.2 + 2.0**-20
    public = {"bits": 16, "out": 20}
    spent = metered(engine, lambda: found.update(q=ln(shared, fraction=0, **public)))
    assert spent == cost_log(engine, x.shape, **public)
    assert np.abs(Z64.signed(reveal(found["q"])) / 2.0**20 - np.log(x)).max() <= 2.0**-18


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 5), (9, 2, 1), (2, 0, 3), (0, 2, 3)])
def test_matmul(engine: AdditiveEngine, m: int, k: int, n: int) -> None:
    x = engine.input(np.ones((2, m, k), int), 0, (2, m, k), Z32)
    y = engine.input(np.ones((k, n), int), 0, (k, n), Z32)
    declared = engine.cost("matmul", shape=(2, m, n), ring=Z32, inner=k)
    assert metered(engine, partial(engine.matmul, x, y)) == declared


@pytest.mark.parametrize("to", ["peer", "peer 0", "peer 1", "public"])
@pytest.mark.parametrize("size", [0, 65])
def test_openings(engine: AdditiveEngine, to: str, size: int) -> None:
    engine.leakage = everything(("x", to, (size,)))
    x = share(engine, np.arange(size), Z32)
    bits = engine.input_bits(np.ones(size, bool), 0, (size,))
    for value, ring in ((x, Z32), (bits, None)):
        declared = engine.cost("open", shape=(size,), ring=ring, to=to)
        assert metered(engine, partial(engine.open, value, "x", to)) == declared


def test_batches_of_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.secure.additive.transfers.AT_ONCE", 1 << 10)
    engine = AdditiveEngine(Simulator(3), everything())
    x = share(engine, np.arange(100), Z32)
    for action, declared in (
        (lambda: x * x, engine.cost("mul", shape=(100,), ring=Z32)),
        (lambda: x < 50, cost_less_than(engine, 100, Z32)),
        (
            lambda: x.reshape(2, 5, 10) @ x.reshape(2, 10, 5),
            engine.cost("matmul", shape=(2, 5, 5), ring=Z32, inner=10),
        ),
    ):
        assert metered(engine, action) == declared
    assert engine.cost("mul", shape=(100,), ring=Z32).preprocessing_rounds == 8


def test_what_is_made_ahead_is_not_sent_again(engine: AdditiveEngine) -> None:
    n = 70
    x, y = share(engine, np.arange(n), Z64), share(engine, np.arange(n)[::-1].copy(), Z64)
    table = x[:60].reshape(6, 10)
    declared = cost_less_than(engine, n, Z64) + cost_equal(engine, n, Z64)
    declared += cost_argmax(engine, (6, 10), Z64)
    ahead = engine.cost_prepare(declared)
    assert metered(engine, partial(engine.prepare, declared)) == ahead
    assert ahead.preprocessing_rounds < declared.preprocessing_rounds
    assert sum(ahead.preprocessing) < sum(declared.preprocessing)

    def work() -> None:
        less_than(x, y)
        equal(x, y)
        argmax(table)

    assert metered(engine, work) == Cost(declared.rounds, declared.bytes)
    # Stock is used up: from here on all is made on demand.
    assert metered(engine, lambda: less_than(x, y)) == cost_less_than(engine, n, Z64)
    assert metered(engine, partial(engine.prepare, Cost())) == Cost()


def test_base_transfers_take_place_once_and_are_counted_apart() -> None:
    network = Simulator(3)
    engine: Any = AdditiveEngine(network, everything())
    x = share(engine, np.arange(5), Z32)
    assert SETUP not in network.meter.snapshot().steps
    for _ in range(2):
        assert metered(engine, lambda: x * x) == engine.cost("mul", shape=(5,), ring=Z32)
    read = network.meter.snapshot().only(SETUP)
    assert isinstance(engine.provider, Transfers)
    assert Cost(read.rounds, read.payload) == engine.provider.cost_setup()
    assert PREPROCESSING in network.meter.snapshot().steps


def test_the_page_states_what_is_declared() -> None:
    """Rounds and bytes per element in the table of docs/explanation/secret-arrays.md."""
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "secret-arrays.md").read_text()
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+) / (\d+) \| ([\d.]+) / ([\d.]+) \| ([\d.]+) / ([\d.]+) \|$",
        page,
        re.M,
    )
    stated = {name: [float(number) for number in numbers] for name, *numbers in rows}
    n, keys = 1 << 16, 1 << 14

    def costs(engine: Any) -> dict[str, tuple[Cost, int]]:
        return {
            "multiplication": (engine.cost("mul", shape=(n,), ring=Z64), n),
            "conjunction of 64 bits": (engine.cost("and_", shape=(n, 64)), n),
            "less-than": (cost_less_than(engine, n, Z64), n),
            "equality": (cost_equal(engine, n, Z64), n),
            "bits to numbers": (engine.cost("b2a", shape=(n,), ring=Z64), n),
            "from 32 to 64 bits": (engine.cost("extend", shape=(n,), ring=Z64, source=Z32), n),
            "division by 2^16": (engine.cost("truncate", shape=(n,), ring=Z64, shift=16), n),
            "shuffle of rows": (engine.cost("shuffle", shape=(n,), ring=Z64), n),
            "sort of 32-bit keys": (cost_sort_by(engine, Z32, (keys,), Z32), keys),
        }

    two, three = (costs(AdditiveEngine(Simulator(m), everything())) for m in (2, 3))
    assert stated.keys() == two.keys()
    for name, figures in stated.items():
        found = [
            (cost.rounds, cost.mean_bytes / count, sum(cost.preprocessing) / m / count)
            for m, (cost, count) in ((2, two[name]), (3, three[name]))
        ]
        wanted = [value for pair in zip(*found, strict=True) for value in pair]
        assert figures == pytest.approx(wanted, rel=0.005), (name, wanted)
