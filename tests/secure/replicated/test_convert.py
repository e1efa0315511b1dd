"""Conversions at the edges: the smallest ring, every third of a batch."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, product_ring
from tests.secure.engines import reveal, share, share_bits
from tests.secure.replicated.wires import everything


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(), everything())


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
