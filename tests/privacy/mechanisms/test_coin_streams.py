"""Bytes reach the kernels in order, more follow behind, and lanes do not depend on the machine."""

import threading
from fractions import Fraction

import numpy as np
import pytest

from hedgerow import threads
from hedgerow.privacy.mechanisms import (
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
    coin_streams,
)
from hedgerow.privacy.mechanisms import coins as coin_tables
from hedgerow.privacy.mechanisms.coin_kernels import DONE, MORE_BYTES, MORE_DIGITS
from hedgerow.privacy.mechanisms.coin_streams import feed_block, feed_rows, in_lanes
from hedgerow.privacy.mechanisms.coins import CoinTable
from hedgerow.privacy.source import NoiseSource

TABLE = CoinTable("digit", Fraction(1), 4)


def test_feed_block_extends_behind_what_was_read() -> None:
    answers = [MORE_BYTES, MORE_DIGITS, MORE_BYTES, DONE]
    calls = []

    def kernel(main, tail, constants):
        calls.append((main.copy(), tail.copy(), constants.copy()))
        return answers[len(calls) - 1]

    feed_block(NoiseSource.insecure_seeded(1), TABLE, 100, kernel)
    assert [tail.size for _, tail, _ in calls] == [67, 134, 134, 268]
    assert [constants.shape[1] for *_, constants in calls] == [16, 16, 32, 32]
    last = calls[-1]
    stream = NoiseSource.insecure_seeded(1).bytes(400 + 268)
    assert (last[0].ravel() == stream[:400]).all()
    assert (last[1] == stream[400:]).all()
    for main, tail, constants in calls:
        assert (main == last[0]).all()
        assert (tail == last[1][: tail.size]).all()
        assert (constants == last[2][:, : constants.shape[1]]).all()


def test_feed_rows_keeps_the_unread_bytes(monkeypatch) -> None:
    monkeypatch.setattr(coin_streams, "_FIRST_BYTES", 10)
    stream_of_source = NoiseSource.insecure_seeded(2).bytes(1000)
    position, seen = 0, []

    def kernel(row, stream, constants):
        nonlocal position
        assert (stream == stream_of_source[position : position + stream.size]).all()
        seen.append((row, stream.size, constants.shape[1]))
        if row == 1 and constants.shape[1] == 16:
            return 1, 0, MORE_DIGITS
        if stream.size < 25:
            return row, 0, MORE_BYTES
        position += 24
        return row + 1, 24, DONE if row == 2 else MORE_BYTES

    feed_rows(NoiseSource.insecure_seeded(2), TABLE, 3, kernel)
    assert seen[:3] == [(0, 10, 16), (0, 20, 16), (0, 40, 16)]
    assert seen[3] == (1, 32, 16)
    assert seen[4] == (1, 32, 32)
    assert seen[-1][0] == 2


def test_lanes_cover_the_rows_with_streams_of_their_own() -> None:
    parts, lock = [], threading.Lock()

    def work(start, stop, stream):
        with lock:
            parts.append((start, stop, stream.bytes(16).tobytes()))

    source = NoiseSource.insecure_seeded(1)
    in_lanes(1000, 10**4, source, work)
    parts.sort()
    assert len(parts) == 8
    assert [start for start, *_ in parts] == [0, *(stop for _, stop, _ in parts[:-1])]
    assert parts[-1][1] == 1000
    assert len({drawn for *_, drawn in parts}) == 8

    parts.clear()
    in_lanes(3, 1, source, work)
    assert [(start, stop) for start, stop, _ in parts] == [(0, 3)]


MECHANISMS = [
    TwoSidedGeometric(0.3),
    NoisyMax(0.3),
    PermuteAndFlip(0.3),
    ExponentialMechanism(0.3),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_seeded_draws_do_not_depend_on_the_number_of_processors(mechanism, monkeypatch) -> None:
    values = np.random.default_rng(0).integers(0, 50, (3000, 400))
    draws = []
    for processors in (1, 3):
        monkeypatch.setattr(threads, "available", lambda n=processors: n)
        draws.append(mechanism(values, NoiseSource.insecure_seeded(5)))
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != mechanism(values, NoiseSource.insecure_seeded(6))).any()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_draws_do_not_depend_on_where_the_constants_start(mechanism, monkeypatch) -> None:
    values = np.random.default_rng(0).integers(0, 50, (500, 10))
    draws = []
    for n_bytes in (16, 1):
        monkeypatch.setattr(coin_tables, "PREFIX_BYTES", n_bytes)
        draws.append(mechanism(values, NoiseSource.insecure_seeded(5)))
    assert (draws[0] == draws[1]).all()
