"""Coins, uniform indices and geometric variables have their laws; running short changes nothing."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from hedgerow.privacy.mechanisms.coin_kernels import (
    DONE,
    HEADS,
    MORE_BYTES,
    MORE_DIGITS,
    TAILS,
    below,
    flip,
    geometric,
    rejecting_choice,
)
from hedgerow.privacy.mechanisms.coins import CoinTable, Geometric
from hedgerow.privacy.source import NoiseSource
from tests.privacy.mechanisms.coin_laws import masses_of


@njit
def _flips(stream, probability, n):
    at, heads = 0, 0
    for _ in range(n):
        at, side = flip(stream, at, probability)
        heads += side
    return heads


@njit
def _belows(stream, bound, out):
    at = 0
    for k in range(out.size):
        at, out[k] = below(stream, at, bound)


def test_flip_reads_as_far_as_needed() -> None:
    half = np.array([128, 0, 7], dtype=np.uint8)
    for stream, expected in (
        ([127], (1, HEADS)),
        ([129], (1, TAILS)),
        ([128, 1], (2, TAILS)),
        ([128, 0, 6], (3, HEADS)),
        ([128, 0], (2, MORE_BYTES)),
        ([], (0, MORE_BYTES)),
        ([128, 0, 7, 99], (3, MORE_DIGITS)),
    ):
        assert flip(np.array(stream, dtype=np.uint8), 0, half) == expected


@pytest.mark.parametrize(("family", "a"), [("digit", 0.3), ("power", 0.3), ("power", 6.0)])
def test_flip_has_its_probability(family: str, a: float, chi_square) -> None:
    table = CoinTable(family, Fraction(a), 2)
    stream = NoiseSource.insecure_seeded(1).bytes(2_100_000)
    for i in range(2):
        power = np.exp(-a * 2**i)
        p = power / (1 + power) if family == "digit" else power
        heads = _flips(stream, table.prefix(16)[i], 2_000_000)
        assert chi_square([heads, 2_000_000 - heads], [p, 1 - p]) > 1e-4


@pytest.mark.parametrize(("bound", "cells"), [(1, 1), (2, 2), (3, 3), (10, 10), (3 << 30, 3)])
def test_below_is_uniform(bound: int, cells: int, chi_square) -> None:
    out = np.empty(10**6, dtype=np.int64)
    _belows(NoiseSource.insecure_seeded(bound).bytes(6_000_000), bound, out)
    assert out.min() >= 0
    assert out.max() < bound
    counts = np.bincount(out * cells // bound, minlength=cells)
    assert chi_square(counts, np.full(cells, 1 / cells)) > 1e-4


def test_below_asks_for_more() -> None:
    assert below(np.zeros(3, dtype=np.uint8), 0, 3) == (0, MORE_BYTES)


@pytest.mark.parametrize(("a", "length"), [(0.05, 10), (0.7, 6), (2.0, 4), (20.0, 2)])
def test_geometric_has_its_law(a: float, length: int, chi_square) -> None:
    variable = Geometric(Fraction(a), length)
    source, n = NoiseSource.insecure_seeded(length), 10**6
    out = np.empty(n, dtype=np.int64)
    main = source.bytes(length * n).reshape(length, n)
    tail = source.bytes(length * n // 64)
    assert geometric(main, tail, variable.coins.prefix(16), out) == DONE
    assert chi_square(np.bincount(out, minlength=2**length), masses_of(variable)) > 1e-4


def test_pairs_of_geometric_variables_are_independent(chi_square) -> None:
    variable = Geometric(Fraction(0.9), 3)
    source, n = NoiseSource.insecure_seeded(3), 10**6
    out = np.empty(n, dtype=np.int64)
    main, tail = source.bytes(3 * n).reshape(3, n), source.bytes(n // 10)
    assert geometric(main, tail, variable.coins.prefix(16), out) == DONE
    pairs = np.bincount(8 * out[::2] + out[1::2], minlength=64)
    assert chi_square(pairs, np.outer(masses_of(variable), masses_of(variable)).ravel()) > 1e-4


def test_running_short_changes_no_geometric_draw() -> None:
    coins = Geometric(Fraction(0.2), 8).coins
    source, n = NoiseSource.insecure_seeded(6), 5000
    main, tail = source.bytes(8 * n).reshape(8, n), source.bytes(n)
    wanted, out = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    assert geometric(main, tail, coins.prefix(16), wanted) == DONE
    statuses = [geometric(main, tail[:k], coins.prefix(16), out) for k in range(0, 400, 20)]
    assert statuses[0] == MORE_BYTES
    assert statuses[-1] == DONE
    assert set(statuses) == {DONE, MORE_BYTES}
    assert (out == wanted).all()
    assert geometric(main, tail, coins.prefix(1), out) == MORE_DIGITS
    assert geometric(main, tail, coins.prefix(5), out) == DONE
    assert (out == wanted).all()


@pytest.mark.parametrize("replace", [False, True])
def test_running_short_changes_no_choice(replace: bool) -> None:
    coins = CoinTable("power", Fraction(0.3), 63)
    stream = NoiseSource.insecure_seeded(8).bytes(10**5)
    scores = np.tile(np.array([0, 5, 2, 9]), (300, 1))
    valid = np.zeros((0, 0), dtype=np.bool_)
    wanted, out = np.empty(300, dtype=np.int64), np.full(300, -1)

    def run(row, into, stream, prefix):
        return rejecting_choice(scores, valid, replace, into, row, stream, prefix)

    row, used, status = run(0, wanted, stream, coins.prefix(16))
    assert (row, status) == (300, DONE)
    # Byte by byte, from the first byte of the row that was interrupted.
    row, start, stop, status = 0, 0, 0, MORE_BYTES
    n_bytes = 1
    while row < 300:
        row, read, status = run(row, out, stream[start:stop], coins.prefix(n_bytes))
        start += read
        stop += status == MORE_BYTES
        n_bytes = n_bytes + 1 if status == MORE_DIGITS else n_bytes
    assert start == used
    assert n_bytes > 1
    assert (out == wanted).all()
