"""Declared rounds and bytes are those of the meter: all primitives, sizes, rings and audiences."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import NoisyMax
from hedgerow.secure.compare import cost_equal, cost_less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.noise.discrete import cost_geometric, precision
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.sort import cost_sort_by
from tests.secure.engines import metered
from tests.secure.replicated.wires import SEED, everything

SIZES = [0, 1, 2, 63, 64, 65, 129, 200, 1001]
AUDIENCES = ["server", "server 0", "server 1", "server 2", "public"]


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(3), everything(), insecure_seed=SEED)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_ring_primitives(engine: ReplicatedEngine, ring: Ring, size: int) -> None:
    numbers = np.arange(size)
    shape = (size,)
    x = engine.input(numbers, 0, shape, ring)
    permutation = engine.permutation(size)
    calls: list[tuple[str, dict[str, Any], Any]] = [
        ("mul", {"ring": ring}, partial(engine.mul, x, x)),
        ("shuffle", {"ring": ring}, partial(engine.shuffle, x, permutation)),
        ("unshuffle", {"ring": ring}, partial(engine.unshuffle, x, permutation)),
    ]
    for owner in range(3):
        arguments = (numbers, owner, shape, ring)
        calls.append(("input", {"ring": ring, "owner": owner}, partial(engine.input, *arguments)))
    calls += [
        ("addends", {"bits": bits}, partial(engine.addends, x, bits)) for bits in (1, 15, ring.bits)
    ]
    for shift in (0, 1, 14, ring.bits - 2):
        public = {"ring": ring, "shift": shift}
        calls.append(("truncate", public, partial(engine.truncate, x, shift)))
    for to in (Z16, Z32, Z64):
        if to.bits >= ring.bits:
            public = {"ring": to, "source": ring}
            calls.append(("extend", public, partial(engine.extend, x, to)))
    for primitive, public, action in calls:
        declared = engine.cost(primitive, shape=shape, **public)
        assert metered(engine, action) == declared, (primitive, public)


@pytest.mark.parametrize("size", SIZES)
def test_bit_primitives(engine: ReplicatedEngine, size: int) -> None:
    flags = np.ones((3, size), dtype=bool)
    shape = flags.shape
    x = engine.input_bits(flags, 0, shape)
    assert metered(engine, lambda: x & x) == engine.cost("and_", shape=shape)
    for ring in (Z16, Z32, Z64):
        action = partial(engine.b2a, x, ring)
        assert metered(engine, action) == engine.cost("b2a", shape=shape, ring=ring)
    for owner in range(3):
        action = partial(engine.input_bits, flags, owner, shape)
        assert metered(engine, action) == engine.cost("input_bits", shape=shape, owner=owner)
    for local in (partial(engine.random_bits, shape), partial(engine.permutation, size)):
        assert metered(engine, local) == engine.cost("random_bits", shape=shape)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 5), (2, 0, 3), (0, 2, 3)])
def test_matmul(engine: ReplicatedEngine, m: int, k: int, n: int) -> None:
    for ring in (Z16, Z32, Z64):
        x = engine.input(np.ones((m, k), int), 0, (m, k), ring)
        y = engine.input(np.ones((k, n), int), 0, (k, n), ring)
        declared = engine.cost("matmul", shape=(m, n), ring=ring, inner=k)
        assert metered(engine, partial(engine.matmul, x, y)) == declared


@pytest.mark.parametrize("to", AUDIENCES)
@pytest.mark.parametrize("size", [0, 1, 65])
def test_openings(engine: ReplicatedEngine, to: str, size: int) -> None:
    shape = (size,)
    engine.leakage = everything(("x", to, shape))
    for ring in (Z16, Z32, Z64):
        x = engine.input(np.arange(size), 0, shape, ring)
        declared = engine.cost("open", shape=shape, ring=ring, to=to)
        assert metered(engine, partial(engine.open, x, "x", to)) == declared
    bits = engine.input_bits(np.ones(size, bool), 0, shape)
    declared = engine.cost("open", shape=shape, ring=None, to=to)
    assert metered(engine, partial(engine.open, bits, "x", to)) == declared


def test_the_means_that_the_design_counts_with(engine: ReplicatedEngine) -> None:
    """Bytes per element and server, in batches."""
    shape, n = (192 * 100,), 192 * 100
    per_element = {
        ("mul", "64"): engine.cost("mul", shape=shape, ring=Z64),
        ("addends", "64"): engine.cost("addends", shape=shape, bits=64),
        ("b2a", "64"): engine.cost("b2a", shape=shape, ring=Z64),
        ("extend", "32 to 64"): engine.cost("extend", shape=shape, ring=Z64, source=Z32),
        ("truncate", "64 by 16"): engine.cost("truncate", shape=shape, ring=Z64, shift=16),
        ("shuffle", "64"): engine.cost("shuffle", shape=shape, ring=Z64),
    }
    assert [(c.rounds, round(c.mean_bytes / n, 2)) for c in per_element.values()] == [
        (1, 8.0),
        (1, 2.67),
        (2, 8.0),
        (2, 6.67),
        (2, 4.67),
        (3, 10.67),
    ]


def test_the_page_states_what_is_declared(engine: ReplicatedEngine) -> None:
    """Rounds and bytes per element in the table of docs/explanation/secret-arrays.md."""
    page = Path(__file__).parents[3] / "docs" / "explanation" / "secret-arrays.md"
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| ([\d.]+)( .*)? \|$", page.read_text(), re.M)
    n, keys = 192 * 100, 100_000
    wanted = {
        "multiplication, one output of a matrix product": engine.cost("mul", shape=(n,), ring=Z64),
        "conjunction of 64 bits": engine.cost("and_", shape=(n, 64)),
        "less-than": cost_less_than(engine, n, Z64),
        "equality": cost_equal(engine, n, Z64),
        "bits to numbers": engine.cost("b2a", shape=(n,), ring=Z64),
        "shuffle of rows by a permutation that nobody knows": engine.cost(
            "shuffle", shape=(n,), ring=Z64
        ),
        "sort of 32-bit keys, per key": cost_sort_by(engine, Z32, (keys,), Z32),
        "a geometric variable, epsilon 1": cost_geometric(
            engine, n, precision(NoisyMax(1.0), 1), Z64
        ),
    }
    stated = {name: (int(rounds), float(size)) for name, rounds, size, _ in rows}
    assert stated.pop("addition, public factors, sums") == (0, 0.0)
    assert stated.keys() == wanted.keys()
    for name, (rounds, size) in stated.items():
        each = wanted[name].mean_bytes / (keys if "sort" in name else n)
        assert (wanted[name].rounds, each) == (rounds, pytest.approx(size, rel=0.005)), name
    narrow: Cost = cost_less_than(engine, n, Z32)
    assert f"(32-bit ring: {narrow.rounds} rounds, {narrow.mean_bytes / n:.1f})" in page.read_text()
