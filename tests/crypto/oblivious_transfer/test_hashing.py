"""The hash of rows is the published one, and keeps values apart that differ by Delta."""

import numpy as np
import pytest

from hedgerow.crypto.oblivious_transfer.hashing import TweakableHash
from tests.crypto.oblivious_transfer.plain import numbers, tmmo

KEY = bytes(range(16))
RNG = np.random.default_rng(7)


def blocks(*shape: int) -> np.ndarray:
    return RNG.integers(0, 1 << 64, (*shape, 2), dtype=np.uint64)


@pytest.mark.parametrize(("n", "k", "wide"), [(7, 1, 1), (5, 3, 3), (5, 3, 1), (3, 5000, 1)])
def test_is_tmmo_block_by_block(n: int, k: int, wide: int) -> None:
    x, nodes = blocks(n, wide), RNG.integers(0, 1 << 24, k)
    made = TweakableHash(KEY)(x, (1 << 64) - 3, (1 << 40) - n, nodes)
    assert made.shape == (n, k, 2)
    for j in range(n):
        for h in {0, k // 2, k - 1}:
            plain = int(x[j, h % wide, 0]) | int(x[j, h % wide, 1]) << 64
            expected = tmmo(KEY, plain, (1 << 64) - 3, int(nodes[h]), (1 << 40) - n + j)
            assert numbers(made[j])[h] == expected


def test_nodes_may_differ_from_transfer_to_transfer() -> None:
    x, nodes = blocks(10_000, 1), RNG.integers(0, 256, (10_000, 1))
    made = TweakableHash(KEY)(x, 5, 11, nodes)
    for j in (0, 4_095, 4_096, 9_999):
        assert numbers(made[j]) == [tmmo(KEY, *numbers(x[j]), 5, int(nodes[j, 0]), 11 + j)]


def test_tweaks_and_keys_are_apart() -> None:
    x = np.broadcast_to(blocks(1, 1), (50, 1, 2))
    made = [
        TweakableHash(key)(x, counter, first, np.arange(4))
        for key in (KEY, KEY[::-1])
        for counter, first in ((0, 0), (1, 0), (0, 50))
    ]
    # 1,200 values of 128 bits of one input: all tweaks differ.
    assert len(set(numbers(np.concatenate(made).reshape(-1, 2)))) == 1_200


@pytest.mark.parametrize("weight", [1, 64])
def test_values_apart_by_delta_look_independent(weight: int, chi_square) -> None:
    delta = np.zeros(2, dtype=np.uint64)
    delta[0] = (1 << weight) - 1
    x = blocks(1 << 15, 1)
    # Rows that a receiver might choose: counters instead of random words.
    x[:, 0, 0], x[:, 0, 1] = np.arange(len(x)), 0
    hashing, node = TweakableHash(KEY), np.zeros(1, dtype=np.int64)
    one, other = hashing(x, 1, 0, node), hashing(x ^ delta, 1, 0, node)
    for values in (one, other, one ^ other, one ^ other ^ delta):
        counts = np.bincount(values.view(np.uint8).ravel(), minlength=256)
        assert chi_square(counts, np.full(256, 1 / 256)) > 1e-4


def test_nothing_gives_nothing() -> None:
    assert TweakableHash(KEY)(blocks(0, 1), 0, 0, np.arange(3)).shape == (0, 3, 2)
