"""Declared rounds and bytes are those of the meter: all primitives, sizes, rings and audiences."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import metered
from tests.secure.replicated.wires import SEED, everything

SIZES = [0, 1, 2, 63, 64, 65, 129, 200, 1001]
AUDIENCES = ["server", "server 0", "server 1", "server 2", "owner 0", "owner", "analyst", "public"]


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(5), everything(), insecure_seed=SEED)


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
    for owner in range(5):
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
    for owner in range(5):
        action = partial(engine.input_bits, flags, owner, shape)
        assert metered(engine, action) == engine.cost("input_bits", shape=shape, owner=owner)
    for local in (partial(engine.random_bits, shape), partial(engine.permutation, size)):
        assert metered(engine, local) == engine.cost("random_bits", shape=shape)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 5), (2, 0, 3), (0, 2, 3)])
def test_matmul(engine: ReplicatedEngine, m: int, k: int, n: int) -> None:
    for ring in (Z16, Z32, Z64):
        x = engine.input(np.ones((m, k), int), 0, (m, k), ring)
        y = engine.input(np.ones((k, n), int), 0, (k, n), ring)
        declared = engine.cost("matmul", shape=(m, n), ring=ring)
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
