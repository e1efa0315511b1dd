"""Products of shares: results, fresh shares, memory."""

import tracemalloc

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import reveal, share
from tests.secure.replicated.wires import everything


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(), everything())


@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_products_large_enough_for_two_threads(engine: ReplicatedEngine, ring: Ring) -> None:
    words = np.random.default_rng(0).integers(0, 2**64, 200_001, dtype=np.uint64)
    a = words.astype(ring.dtype)
    x = share(engine, a, ring)
    assert np.array_equal(reveal(x * x), a * a)
    left, right = a[:60_000].reshape(200, 300), a[60_000:150_000].reshape(300, 300)
    product = share(engine, left, ring) @ share(engine, right, ring)
    assert np.array_equal(reveal(product), left @ right)


def test_a_product_has_fresh_shares(engine: ReplicatedEngine) -> None:
    x = share(engine, np.arange(100), Z64)
    one, two = x * x, x * x
    assert not np.any(one.data == two.data)


def test_bits_of_many_words(engine: ReplicatedEngine) -> None:
    x, y = (engine.random_bits((9, 1_000_000)) for _ in range(2))
    assert np.array_equal(reveal(x & y), reveal(x) & reveal(y))


def test_the_matrix_product_takes_little_memory_beside_its_shares(engine: ReplicatedEngine) -> None:
    x, y = (
        share(engine, np.ones((100, 4000), int), Z64),
        share(engine, np.ones((4000, 80), int), Z64),
    )
    x @ y
    tracemalloc.start()
    try:
        x @ y
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * (x.data.nbytes + y.data.nbytes)
