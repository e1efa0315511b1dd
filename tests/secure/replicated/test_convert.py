"""Conversions at the edges: every 16-bit number, every shift, every third of a batch."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring, product_ring
from tests.secure.engines import reveal, share, share_bits
from tests.secure.replicated.wires import everything


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(), everything())


@pytest.mark.parametrize("to", [Z32, Z64], ids=lambda ring: str(ring.bits))
def test_every_number_below_half_is_extended_exactly(engine: ReplicatedEngine, to: Ring) -> None:
    a = np.arange(2**15)
    assert np.array_equal(reveal(engine.extend(share(engine, a, Z16), to)), a)


def test_the_largest_number_of_32_bits_is_extended(engine: ReplicatedEngine) -> None:
    a = np.tile(np.array([0, 1, 2**31 - 1]), 100)
    assert np.array_equal(reveal(engine.extend(share(engine, a, Z32), Z64)), a)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_truncation_never_fails_at_any_shift(engine: ReplicatedEngine, ring: Ring) -> None:
    quarter = 2 ** (ring.bits - 2)
    edges = np.array([-quarter, -quarter + 1, -1, 0, 1, quarter - 2, quarter - 1])
    drawn = np.random.default_rng(0).integers(-quarter, quarter, 200)
    a = np.concatenate([np.tile(edges, 30), drawn])
    x = share(engine, a, ring)
    errors = np.concatenate(
        [
            ring.signed(reveal(engine.truncate(x, shift))) - (a >> shift)
            for shift in range(ring.bits - 1)
        ]
    )
    assert set(np.unique(errors)) == {-1, 0}


def test_the_product_travels_in_the_smallest_ring() -> None:
    assert product_ring(Z32, Z64, 0) == Z32
    assert product_ring(Z16, Z64, 0) == Z64
    assert product_ring(Z64, Z64, 16) == Z16
    assert product_ring(Z64, Z64, 17) == Z32


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 64, 65, 191, 192, 193])
def test_thirds_of_all_lengths(engine: ReplicatedEngine, n: int) -> None:
    a = np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)
    bits = a % 2 == 1
    assert np.array_equal(reveal(engine.b2a(share_bits(engine, bits), Z32)), bits)
    planes = [reveal(part) for part in engine.addends(share(engine, a, Z64), 64)]
    weights = np.uint64(1) << np.arange(64, dtype=np.uint64)[:, None]
    assert np.array_equal(sum((plane * weights).sum(axis=0) for plane in planes), a)


def test_bits_in_the_padding_do_no_harm(engine: ReplicatedEngine) -> None:
    bits = np.array([[True, False, True]])
    x = ~share_bits(engine, ~bits)
    assert np.array_equal(reveal(engine.b2a(x, Z16)), bits)
