"""Products with what one peer knows: equal to sums in the clear, and why nothing is used twice."""

from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.secure.additive import AdditiveEngine, punctured
from hedgerow.secure.additive.bit_products import cost_times_bits, times_bits
from hedgerow.secure.additive.punctured import LOOK_UP, PLANT, SUMS, WEIGHTED, PuncturedBins
from hedgerow.secure.ring import Z16, Z32, Z64, Ring

OWNERS, BINS, N = (0, 1, 1, -1, 0), (8, 2, 1, 5, 256), 301


def an_engine(m: int, network: Simulator | None = None) -> AdditiveEngine:
    return AdditiveEngine(network or Simulator(m), Leakage([]))


def planted(engine: AdditiveEngine, n: int = N) -> tuple[PuncturedBins, dict[int, Any]]:
    rng = np.random.default_rng(engine.n_parties)
    owners = [owner % engine.n_parties for owner in OWNERS]
    bins = {j: rng.integers(0, width, n) for j, width in enumerate(BINS)}
    engine.provider.begin()
    return PuncturedBins(engine.provider, owners, BINS, bins, n), bins


def shares(m: int, shape: tuple[int, ...], ring: Ring) -> Any:
    rng = np.random.default_rng(7)
    return rng.integers(0, 1 << 63, (m, *shape), dtype=np.uint64).astype(ring.dtype)


@pytest.mark.parametrize(("m", "ring"), [(2, Z16), (2, Z64), (3, Z32), (5, Z32)])
def test_sums_are_those_of_the_clear(m: int, ring: Ring) -> None:
    engine = an_engine(m)
    seeds, bins = planted(engine)
    before = engine.network.meter.snapshot()
    x = shares(m, (5, N), ring)
    found = seeds.sums(x, ring).sum(axis=0, dtype=ring.dtype)
    clear = x.sum(axis=0, dtype=ring.dtype)
    for j, width in enumerate(BINS):
        for b in range(width):
            expected = clear[:, bins[j] == b].sum(axis=1, dtype=ring.dtype)
            np.testing.assert_array_equal(found[:, seeds.offsets[j] + b], expected)
    used, cost = engine.network.meter.since(before), seeds.cost_sums(5, ring)
    assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)


RECORDS = [None, slice(0, N), slice(17, 90)]


@pytest.mark.parametrize("records", RECORDS[1:])
def test_sums_of_some_records(records: slice) -> None:
    engine = an_engine(3)
    seeds, bins = planted(engine)
    n = records.stop - records.start
    x = shares(3, (2, n), Z32)
    before = engine.network.meter.snapshot()
    found = seeds.sums(x, Z32, records).sum(axis=0, dtype=np.uint32)
    used, cost = engine.network.meter.since(before), seeds.cost_sums(2, Z32, n)
    assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
    clear = x.sum(axis=0, dtype=np.uint32)
    hot = bins[3][records] == np.arange(BINS[3])[:, None]
    np.testing.assert_array_equal(found[:, seeds.offsets[3] : seeds.offsets[4]], clear @ hot.T)


@pytest.mark.parametrize(("m", "ring", "c"), [(2, Z64, 1), (3, Z32, 3), (3, Z64, 1), (5, Z64, 2)])
def test_weighted_sums_are_those_of_the_clear(m: int, ring: Ring, c: int) -> None:
    engine = an_engine(m)
    seeds, bins = planted(engine)
    rng = np.random.default_rng(2)
    those = {0: 1, 1: 2, 2: 1, 3: 5}
    x = {j: shares(m, (q, c), ring) * ring.dtype.type(j + 1) for j, q in those.items()}
    weights = {j: ring.encode(rng.integers(-99, 99, (q, BINS[j]))) for j, q in those.items()}
    for records in RECORDS:
        some = records or slice(0, N)
        before = engine.network.meter.snapshot()
        found = seeds.weighted(x, weights, ring, records).sum(axis=0, dtype=ring.dtype)
        used = engine.network.meter.since(before)
        widths = {j: q * c for j, q in those.items()}
        cost = seeds.cost_weighted(widths, ring, some.stop - some.start)
        assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
        expected = sum(
            weights[j][:, bins[j][some]].T @ x[j].sum(axis=0, dtype=ring.dtype) for j in those
        )
        np.testing.assert_array_equal(found, np.asarray(expected).T)


def test_shares_of_one_peer_are_not_the_sums() -> None:
    engine = an_engine(3)
    seeds, bins = planted(engine)
    x = np.zeros((3, 1, N), dtype=np.uint32)
    x[1] = 1
    found = seeds.sums(x, Z32)
    width = BINS[0]
    for peer in range(3):
        assert (found[peer, 0, :width] != np.bincount(bins[0], minlength=width)).all()


@pytest.mark.parametrize("m", [2, 3, 5])
def test_look_ups_are_those_of_the_clear(m: int) -> None:
    engine = an_engine(m)
    seeds, bins = planted(engine)
    rng = np.random.default_rng(1)
    counts = {0: 3, 1: 2, 2: 1, 3: 17, 4: 2}
    tables = {j: rng.integers(0, 2, (m, q, BINS[j])).astype(np.uint8) for j, q in counts.items()}
    before = engine.network.meter.snapshot()
    found = seeds.look_up(tables)
    used, cost = engine.network.meter.since(before), seeds.cost_look_up(counts)
    assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
    for j, table in tables.items():
        clear = np.bitwise_xor.reduce(table, axis=0)
        np.testing.assert_array_equal(np.bitwise_xor.reduce(found[j], axis=0), clear[:, bins[j]])


@pytest.mark.parametrize("m", [2, 3])
def test_planting_costs_what_it_says(m: int) -> None:
    engine = an_engine(m)
    engine.provider.begin()
    before = engine.network.meter.snapshot()
    seeds, _ = planted(engine)
    used, cost = engine.network.meter.since(before), seeds.cost_plant()
    assert (used.rounds, used.payload) == (cost.preprocessing_rounds, cost.preprocessing)
    assert used.steps == [PLANT]


def test_many_records_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = an_engine(3)
    monkeypatch.setattr(punctured, "_SENT", 4096)
    monkeypatch.setattr(punctured, "_CHUNK", 64)
    monkeypatch.setattr(punctured, "KEPT", 1 << 14)
    seeds, bins = planted(engine)
    x = shares(3, (2, N), Z32)
    before = engine.network.meter.snapshot()
    found = seeds.sums(x, Z32).sum(axis=0, dtype=np.uint32)
    assert engine.network.meter.since(before).rounds == seeds.cost_sums(2, Z32).rounds > 1
    clear = x.sum(axis=0, dtype=np.uint32)
    expected = [clear[:, bins[0] == b].sum(axis=1, dtype=np.uint32) for b in range(BINS[0])]
    np.testing.assert_array_equal(found[:, : BINS[0]], np.stack(expected, axis=1))
    one, weights = shares(3, (1, 1), Z32), np.arange(BINS[0], dtype=np.uint32)[None]
    weighed = seeds.weighted({0: one}, {0: weights}, Z32).sum(axis=0, dtype=np.uint32)
    np.testing.assert_array_equal(weighed[0], weights[0][bins[0]] * one.sum(dtype=np.uint32))


@pytest.mark.parametrize(("few", "times"), [(1 << 20, 1), (0, 2)])
def test_seeds_of_a_batch_are_grown_once(
    few: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(punctured, "KEPT", 0)
    monkeypatch.setattr(punctured, "FEW", few)
    engine = an_engine(2)
    seeds, bins = planted(engine)
    grown: list[slice] = []
    for trees in seeds._sent.values():
        monkeypatch.setattr(
            trees, "seeds", lambda part, own=trees.seeds: grown.append(part) or own(part)
        )
    x, one = shares(2, (1, 40), Z64), shares(2, (1, 1), Z64)
    weights = {j: np.arange(width, dtype=np.uint64)[None] for j, width in enumerate(BINS)}
    for records in (slice(0, 40), slice(40, 80), slice(0, 40)):
        weighed = seeds.weighted(dict.fromkeys(weights, one), weights, Z64, records)
        found = seeds.sums(x, Z64, records).sum(axis=0, dtype=np.uint64)[0]
        clear = sum(weights[j][0][bins[j][records]] for j in weights) * one.sum(dtype=np.uint64)
        np.testing.assert_array_equal(weighed.sum(axis=0, dtype=np.uint64)[0], clear)
        hot = bins[0][records] == np.arange(BINS[0])[:, None]
        expected = hot.astype(np.uint64) @ x.sum(axis=0, dtype=np.uint64)[0]
        np.testing.assert_array_equal(found[: BINS[0]], expected)
    # 256 bins are grown 16 records at a time.
    assert len(grown) == times * 3 * (3 + 3)


class Heard(Simulator):
    """Keeps what is sent by peer 1 to peer 0."""

    def __init__(self) -> None:
        super().__init__(2)
        self.kept: list[Any] = []

    def _move(self, step: str, plan: Any, outbox: Any) -> Any:
        received = super()._move(step, plan, outbox)
        if step in (SUMS, WEIGHTED, LOOK_UP):
            self.kept += [array.copy() for k, array in received.items() if plan[k].source == 1]
        return received


def two_peers(n: int = 400) -> tuple[PuncturedBins, Any, Heard]:
    network = Heard()
    engine = an_engine(2, network)
    engine.provider.begin()
    bins = np.random.default_rng(0).integers(0, 8, n)
    return PuncturedBins(engine.provider, [0], [8], {0: bins}, n), bins, network


def test_what_is_sent_is_uniform_whatever_is_held() -> None:
    """Of 8,000 words no bit of any place is more often set than chance allows."""
    seeds, _, network = two_peers(4000)
    for value in (0, 2**32 - 1):
        x = np.full((2, 2, 4000), value, dtype=np.uint32)
        network.kept.clear()
        seeds.sums(x, Z32)
        seeds.weighted({0: x[:, :, :1]}, {0: np.ones((2, 8), np.uint32)}, Z32)
        for sent in network.kept:
            ones = np.unpackbits(sent.reshape(-1, 1).view(np.uint8), axis=1).mean(axis=0)
            assert abs(ones - 0.5).max() < 6 * 0.5 / np.sqrt(sent.size)


def test_an_address_that_repeats_shows_differences_so_it_is_refused() -> None:
    seeds, _, network = two_peers()
    core = seeds._core
    first, second = shares(2, (1, 400), Z32), shares(2, (1, 400), Z32) * np.uint32(3)
    seeds.sums(first, Z32)
    core.steps -= 1
    with pytest.raises(HedgerowError) as caught:
        seeds.sums(second, Z32)
    assert caught.value.code is Code.ADDRESS_USED_TWICE
    # Without the refusal: the owner takes one message from the other.
    core.steps -= 1
    seeds._address = -1
    seeds.sums(second, Z32)
    one, two = (kept[0, :, 0] for kept in network.kept)
    np.testing.assert_array_equal(one - two, first[1, 0] - second[1, 0])
    # With addresses of their own there is nothing to take.
    seeds.sums(second, Z32)
    assert (network.kept[2][0, :, 0] != two).all()


def test_who_had_the_missing_seed_would_know_everything() -> None:
    """The owner, given s_v of its own bins by the other peer, computes that peer's share."""
    seeds, bins, network = two_peers()
    x = shares(2, (1, 400), Z32)
    seeds.sums(x, Z32)
    (sent,) = network.kept
    trees = seeds._sent[(1, 0), 0]
    leaked = trees.seeds()
    r = trees.stream(leaked, seeds._address, 0).view(np.uint32)[..., 0]
    np.testing.assert_array_equal(sent[0, :, 0] + r.sum(axis=1, dtype=np.uint32), x[1, 0])
    # And which seed the owner lacks is its bin.
    own = seeds._received[(1, 0), 0].seeds()
    np.testing.assert_array_equal((own == leaked).all(axis=2).argmin(axis=1), bins)


@pytest.mark.parametrize(
    ("n_bins", "bins", "code"),
    [
        (257, np.zeros(4, np.int64), Code.BAD_PARAMETER),
        (8, np.array([0, 1, 2, 8]), Code.BAD_PARAMETER),
        (8, np.array([0, 1, 2]), Code.WRONG_SHAPE),
        (8, np.array([0.0, 1, 2, 3]), Code.WRONG_SHAPE),
    ],
)
def test_bins_that_cannot_be(n_bins: int, bins: Any, code: Code) -> None:
    engine = an_engine(2)
    with pytest.raises(HedgerowError) as caught:
        PuncturedBins(engine.provider, [0], [n_bins], {0: bins}, 4)
    assert caught.value.code is code


STAGES: list[Any] = [
    [{0: slice(0, 100)}],
    [{0: slice(0, 40), 1: slice(40, 100)}],
    [{0: slice(0, 100)}, {1: slice(0, 100)}, {2: slice(0, 100)}],
]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("at_once", [64, 1 << 20])
def test_bit_products(stages: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.secure.additive.bit_products.AT_ONCE", at_once)
    engine = an_engine(3)
    engine.provider.begin()
    rng = np.random.default_rng(3)
    bits = np.zeros((3, 100), dtype=np.uint8)
    for stage in stages:
        for peer, rows in stage.items():
            bits[peer, rows] = rng.integers(0, 2, 100)[rows]
    x = shares(3, (100, 3), Z32)
    before = engine.network.meter.snapshot()
    found = times_bits(engine.provider, bits, x, Z32, stages).sum(axis=0, dtype=np.uint32)
    used, cost = engine.network.meter.since(before), cost_times_bits(3, 100, 3, Z32, stages)
    assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
    clear = x.sum(axis=0, dtype=np.uint32) * np.bitwise_xor.reduce(bits, axis=0)[:, None]
    np.testing.assert_array_equal(found, clear)
