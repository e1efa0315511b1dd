"""Correlated randomness: every item is right, fresh, and used once."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.mesh import Mesh
from hedgerow.net.simulator import Simulator
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.preprocessing import AND, Kind
from hedgerow.secure.additive.shuffle import Switches
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import IdealProvider, peers, share
from tests.secure.replicated.wires import Recorder, everything

MILLION = 10**6
QUICK = [(2, None), (2, Z16)]
"""Peers and ring of which a million is made by default: 5 seconds of a processor."""
RINGS = pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))


@pytest.fixture(scope="module", params=["transferred 2", "transferred 3", "dealt 3"])
def provider(request: pytest.FixtureRequest) -> Any:
    how, m = request.param.split()
    make = Transfers if how == "transferred" else IdealProvider
    engine: Any = peers(int(m), make)
    return engine.provider


def total(shares: Any) -> Any:
    return shares.sum(axis=0, dtype=shares.dtype)


def is_uniform(words: Any) -> bool:
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).reshape(-1), minlength=256)
    return stats.chisquare(counts).pvalue > 1e-6


def take(provider: Any, kind: Kind, n: int) -> Any:
    return provider.take(kind, provider.given(kind), n)


@RINGS
def test_triples(provider: Any, ring: Ring) -> None:
    a, b, c = take(provider, Kind("triples", ring), 3000)
    assert np.array_equal(total(c), total(a) * total(b))
    assert all(is_uniform(part) for shares in (a, b, c) for part in shares)


def test_triples_of_bits(provider: Any) -> None:
    a, b, c = (np.bitwise_xor.reduce(part, axis=0) for part in take(provider, AND, 1000))
    assert np.array_equal(c, a & b)
    assert is_uniform(a)
    assert is_uniform(b)


@RINGS
def test_random_bits_shared_both_ways(provider: Any, ring: Ring) -> None:
    bits, numbers = take(provider, Kind("dabits", ring), 5000)
    found = np.bitwise_xor.reduce(bits, axis=0)
    assert np.array_equal(total(numbers), found)
    assert abs(found.mean() - 0.5) < 0.04
    assert all(is_uniform(part) for part in numbers)


@pytest.mark.parametrize("shape", [(1, 5, 1), (3, 2, 5), (6, 3, 2), (1, 1, 9)])
@RINGS
def test_triples_of_matrices(provider: Any, ring: Ring, shape: tuple[int, int, int]) -> None:
    a, b, c = take(provider, Kind("matrices", ring, shape), 4)
    assert a.shape[1:] == (4, shape[0], shape[1])
    assert np.array_equal(total(c), total(a) @ total(b))


@pytest.mark.parametrize(
    ("m", "ring"),
    [
        pytest.param(m, ring, marks=[] if (m, ring) in QUICK else pytest.mark.slow)
        for m in (2, 3)
        for ring in (None, Z16, Z32, Z64)
    ],
)
def test_a_million_of_each_kind(m: int, ring: Ring | None) -> None:
    """Of a ring, or of bits."""
    provider: Any = AdditiveEngine(Simulator(m), everything()).provider
    if ring is None:
        found = take(provider, AND, MILLION // 64)
        a, b, c = (np.bitwise_xor.reduce(part, axis=0) for part in found)
        assert np.array_equal(c, a & b)
        return
    for _ in range(10):
        a, b, c = take(provider, Kind("triples", ring), MILLION // 10)
        assert np.array_equal(total(c), total(a) * total(b))
    bits, numbers = take(provider, Kind("dabits", ring), MILLION)
    assert np.array_equal(total(numbers), np.bitwise_xor.reduce(bits, axis=0))


def test_items_are_given_out_once_and_in_order(provider: Any) -> None:
    kind = Kind("triples", Z32)
    first = provider.given(kind)
    one = provider.take(kind, first, 5)
    assert provider.given(kind) == first + 5
    for again in (first, first + 4, first + 6):
        with pytest.raises(HedgerowError) as caught:
            provider.take(kind, again, 5)
        assert caught.value.code is Code.ADDRESS_USED_TWICE
    two = provider.take(kind, first + 5, 5)
    assert not np.any(one[0] == two[0])
    for look in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(HedgerowError, match="H701"):
            look(provider)


def test_stock_is_used_before_more_is_made() -> None:
    engine: Any = peers(2)
    kind = Kind("triples", Z16)
    engine.provider.prepare({kind: 10})
    ahead = engine.provider.dealt(kind, 0, 10)
    parts = [engine.provider.take(kind, first, n) for first, n in ((0, 4), (4, 6))]
    for k, array in enumerate(ahead):
        assert np.array_equal(np.concatenate([part[k] for part in parts], axis=1), array)
    a, b, c = engine.provider.take(kind, 10, 3)
    assert np.array_equal(total(c), total(a) * total(b))


def test_a_stock_is_moved_to_another_engine() -> None:
    kinds = [Kind("triples", Z64), AND, Kind("matrices", Z32, (2, 3, 1)), Kind("dabits", Z16)]
    assert [Kind.read(str(kind)) for kind in kinds] == kinds
    made, used = peers(3, Transfers).provider, peers(3, Transfers).provider
    made.prepare(dict.fromkeys(kinds, 6))
    used.load(made.unload())
    # There is nothing left of it where it was made, and its numbers are gone.
    assert not made.unload()
    before = used.core.network.meter.snapshot()
    for kind in kinds:
        assert made.given(kind) == 6
        items = used.take(kind, 0, 5)
        if kind.name == "triples":
            a, b, c = map(total, items)
            assert np.array_equal(c, a * b)
    assert used.core.network.meter.since(before).rounds == 0
    a, b, c = map(total, used.take(kinds[0], 5, 4))
    assert np.array_equal(c, a * b)
    assert used.core.network.meter.since(before).rounds > 0


def test_a_triple_that_is_used_twice_shows_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why a number is refused a second time: d = x - a and d' = x' - a differ by x - x'."""
    network, secret, known = Recorder(2), np.array([123456789, 42]), np.array([1000, 2000])
    engine: Any = AdditiveEngine(network, everything(), provider=IdealProvider)
    x, y = engine.input(secret, 0, (2,), Z64), engine.input(known, 1, (2,), Z64)
    provider, kind = engine.provider, Kind("triples", Z64)
    kept = provider.dealt(kind, 0, 2)
    monkeypatch.setattr(type(provider), "take", lambda self, kind, first, n: kept)
    seen = []
    for factor in (x, y):
        network.views[1].clear()
        engine.mul(factor, factor)
        # What peer 1 receives is the share of d that peer 0 has; its own it knows.
        d = network.views[1][0][0] + factor.data[1] - kept[0][1]
        seen.append(d)
    assert np.array_equal(seen[0] - seen[1] + known.astype(np.uint64), secret)


@pytest.mark.parametrize("kind", [AND, Kind("triples", Z64), Kind("dabits", Z32)], ids=str)
def test_items_of_one_number_are_other_items_when_they_are_made_again(kind: Kind) -> None:
    """Who asks for numbers that were there, against the rules, sees no mask a second time."""
    engine: Any = AdditiveEngine(Simulator(2), everything(), session="x", insecure_seed=b"one seed")
    one, two = (engine.provider.make(kind, 0, 200)[0] for _ in range(2))
    assert not np.array_equal(one, two)


def test_two_sessions_make_nothing_alike() -> None:
    """A new engine begins with new transfers: nothing of the old one is left."""
    kind, found = Kind("triples", Z64), []
    for session in ("first", "second", "second"):
        engine: Any = AdditiveEngine(Simulator(2), everything(), session=session)
        assert engine.provider.given(kind) == 0
        found.append(np.concatenate(take(engine.provider, kind, 20)).reshape(-1))
    assert np.unique(np.concatenate(found)).size == 3 * found[0].size


def test_sessions_differ_under_one_seed() -> None:
    found = []
    for session in ("first", "second"):
        engine: Any = AdditiveEngine(
            Simulator(2), everything(), session=session, insecure_seed=b"one seed"
        )
        found.append(np.concatenate(take(engine.provider, Kind("triples", Z64), 20)).reshape(-1))
    assert np.unique(np.concatenate(found)).size == 2 * found[0].size


def test_peers_that_do_not_use_the_same_items_are_found_out() -> None:
    mesh = Mesh(2, timeout=20.0)

    def program(skip: int) -> Any:
        def run(network: Any) -> Any:
            engine: Any = AdditiveEngine(
                network, everything(), insecure_seed=b"apart", provider=IdealProvider
            )
            engine.provider.take(Kind("triples", Z64), 0, skip)
            x = engine.public(np.arange(3), Z64)
            return x * x

        return run

    with pytest.raises(HedgerowError, match="H806"):
        mesh.run({(0,): program(2), (1,): program(3)})


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 64, 100])
def test_switches_carry_out_every_order(n: int) -> None:
    rng, switches = np.random.default_rng(n), Switches(n)
    assert switches.count == switches.size * switches.depth - switches.size // 2
    orders = [rng.permutation(n) for _ in range(20)] + [np.arange(n), np.arange(n)[::-1]]
    for order in orders:
        for inverse, wanted in ((False, order), (True, np.argsort(order))):
            rows = np.arange(switches.size)[:, None].copy()
            bits = switches.bits(order, inverse=inverse)
            for swap, (one, two) in zip(bits, switches.pairs(rows), strict=True):
                change = swap.reshape(*one.shape[:2], 1) * (two - one)
                one += change
                two -= change
            assert np.array_equal(rows[:n, 0], wanted)


def test_all_orders_are_equally_likely(chi_square: Any) -> None:
    engine: Any = peers(2)
    rows = share(engine, np.arange(3), Z16)
    seen = [
        tuple(total(engine.shuffle(rows, engine.permutation(3)).data).tolist()) for _ in range(1200)
    ]
    counts = np.array([seen.count(order) for order in set(seen)])
    assert counts.size == 6
    assert chi_square(counts, np.full(6, 1 / 6)) > 1e-3


def test_a_peer_knows_its_own_order_alone() -> None:
    mesh = Mesh(3, timeout=20.0)

    def run(network: Any) -> Any:
        engine: Any = AdditiveEngine(network, everything())
        return set(engine.permutation(5).orders)

    assert mesh.run({(p,): run for p in range(3)}) == [{0}, {1}, {2}]
