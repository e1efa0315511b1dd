"""Conversions at the edges: how often shares wrap around."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from hedgerow.secure.additive.convert import sum_bits, top_bits
from hedgerow.secure.ring import Z64
from tests.secure.engines import peers, reveal, share


def sums_of_shares(k: int, m: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Every sum of m shares of k bits, with every sum that their top t bits can have beside it.

    What m shares can be is what m - 1 can be, and one more: so all choices are counted.
    """
    one = np.arange(1 << k)
    found = np.zeros((1, 2), np.int64)
    for _ in range(m):
        pairs = found[:, None] + np.stack([one, one >> (k - t)], axis=1)[None]
        found = np.unique(pairs.reshape(-1, 2), axis=0)
    return found[:, 0], found[:, 1]


@pytest.mark.parametrize("m", range(2, 11))
def test_top_bits_tell_how_often_shares_wrap_around(m: int) -> None:
    """Every choice of shares, in rings that have hardly more bits than are looked at."""
    t = top_bits(m)
    assert t == 1 + int(np.ceil(np.log2(m - 1)))
    for k in (t, t + 1):
        total, tops = sums_of_shares(k, m, t)
        small = total % (1 << k) < 1 << (k - 1)
        wraps = (tops + m - 1) >> t
        assert np.array_equal(wraps[small], (total >> k)[small])
        assert (tops + m - 1).max() < 1 << sum_bits(m)
        # It needs both: numbers below half, and every one of the t bits.
        assert k == t or not np.array_equal(wraps, total >> k)
        total, tops = sums_of_shares(k, m, t - 1)
        small = total % (1 << k) < 1 << (k - 1)
        fewer = (tops + m - 1) >> (t - 1)
        assert not np.array_equal(fewer[small], (total >> k)[small])


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_the_carry_of_dropped_bits_is_right_or_one_less(m: int) -> None:
    """Every choice of low parts of up to 4 bits."""
    t = top_bits(m)
    for shift in range(1, 5 if m < 4 else 4):
        lows = np.array(list(product(range(1 << shift), repeat=m)))
        carry = lows.sum(axis=1) >> shift
        tops = (lows << 16 - shift) >> (16 - t)
        found = (tops % (1 << t)).sum(axis=1) >> t
        assert np.isin(found - carry, (-1, 0)).all()
        if m == 2:
            assert carry.max() <= 1


@pytest.fixture(scope="module", params=[2, 3, 4, 10], ids=lambda m: f"{m} peers")
def engine(request: pytest.FixtureRequest) -> Any:
    return peers(request.param)


def test_addends_are_the_shares_themselves(engine: Any) -> None:
    a = np.random.default_rng(3).integers(0, 2**64, 130, dtype=np.uint64)
    x = share(engine, a, Z64)
    weights = np.uint64(1) << np.arange(64, dtype=np.uint64)[:, None]
    parts = engine.addends(x, 64)
    assert len(parts) == engine.n_parties
    for peer, part in enumerate(parts):
        assert np.array_equal((reveal(part) * weights).sum(axis=0), x.data[peer])
