"""128 bits on three servers: threads, fresh shares, parties apart, and what each of them sees."""

from typing import Any

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.wide import extend_wide, less_than_wide
from tests.secure.engines import reveal, share
from tests.secure.replicated.wires import Recorder, apart, everything


@pytest.fixture(scope="module")
def engine() -> ReplicatedEngine:
    return ReplicatedEngine(Simulator(), everything())


def test_products_large_enough_for_two_threads(engine: ReplicatedEngine) -> None:
    """An odd number of elements, so that half of the words would cut one in two."""
    a = np.random.default_rng(0).integers(0, 2**63, 70_001)
    x = extend_wide(share(engine, a, Z64))
    assert np.array_equal(reveal(x * x), a.astype(object) ** 2)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 64, 65])
def test_thirds_of_all_lengths(engine: ReplicatedEngine, n: int) -> None:
    a = np.random.default_rng(n).integers(0, 2**63, n)
    x = extend_wide(share(engine, a, Z64))
    assert np.array_equal(reveal(x), a.astype(object))
    assert np.array_equal(reveal(less_than_wide(x * x, x * 2**62)), a < 2**62)


def test_a_product_has_fresh_shares(engine: ReplicatedEngine) -> None:
    x = extend_wide(share(engine, np.arange(100), Z64))
    one, two = x * x, x * x
    assert not np.any(one.data == two.data)


def test_the_engine_extends_64_bits_only(engine: ReplicatedEngine) -> None:
    with pytest.raises(InputError, match="H702"):
        engine.extend_wide(share(engine, np.arange(3), Z32))


def _program(engine: ReplicatedEngine, party: int) -> list[Any]:
    a = np.array([3, 2**63 - 1, 0, 2**40, 5])
    x = extend_wide(engine.input(a if party == 0 else None, 0, a.shape, Z64))
    product = x * x - 7
    smaller = less_than_wide(x * 9, x * x + 1, bits=128)
    return [
        engine.open(product, "product", "server"),
        engine.open(product, "answer", "analyst"),
        engine.open(smaller, "order", "server"),
    ]


def test_parties_apart_agree_and_an_analyst_gets_the_number() -> None:
    def leakage() -> Any:
        return everything(
            ("product", "server", (5,)), ("answer", "analyst", (5,)), ("order", "server", (5,))
        )

    numbers = [3, 2**63 - 1, 0, 2**40, 5]
    wanted = [(v * v - 7) % 2**128 for v in numbers]
    results = [result for result, _ in apart(4, _program, leakage)]
    for server in range(3):
        product, answer, order = results[server]
        assert product.tolist() == wanted
        assert answer is None
        assert order.tolist() == [9 * v < v * v + 1 for v in numbers]
    assert results[3][0] is None
    assert results[3][1].tolist() == wanted


@pytest.mark.parametrize("fill", [0, 2**63 - 1])
def test_servers_receive_uniform_bytes(fill: int, chi_square: Any) -> None:
    network = Recorder(3)
    engine = ReplicatedEngine(network, everything(), insecure_seed=f"wide {fill}".encode())
    n = 3000
    x = engine.input(np.full(n, fill, np.uint64), 0, (n,), Z64)
    w = extend_wide(x)
    for action in (
        lambda: extend_wide(x),
        lambda: w * w,
        lambda: less_than_wide(w, w * 2),
        lambda: engine.addends(w, 128),
    ):
        network.views = {p: [] for p in range(3)}
        action()
        for server in range(3):
            counts = np.bincount(network.received(server), minlength=256)
            assert counts.sum() > 1000
            assert chi_square(counts, np.full(256, 1 / 256)) > 1e-5
