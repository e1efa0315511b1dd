"""Random, correlated and chosen transfers and one of many, against their definitions."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import (
    ReceivedRows,
    Receiver,
    Sender,
    SentRows,
    depth,
    index_bits,
    receive_chosen,
    receive_correlated,
    receive_one_of,
    receive_random,
    send_chosen,
    send_correlated,
    send_one_of,
    send_random,
)
from hedgerow.errors import Code, HedgerowError
from tests.crypto.oblivious_transfer.plain import extend, number, numbers, set_up, tmmo

RNG = np.random.default_rng(11)
COUNTER = count()
TYPES = ["uint16", "uint32", "uint64", "bool"]


@pytest.fixture(scope="module")
def pair() -> tuple[Sender, Receiver]:
    return set_up("transfers")


@pytest.fixture
def batch(pair: tuple[Sender, Receiver]):
    """Make a batch for choices, under the next counter."""

    def make(choices: NDArray[Any]) -> tuple[SentRows, ReceivedRows]:
        return extend(pair, choices, next(COUNTER))

    return make


def values(dtype: str, *shape: int) -> NDArray[Any]:
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(np.bool_)
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def bits(n: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 2, n, dtype=np.uint8)


def hash_key(pair: tuple[Sender, Receiver]) -> bytes:
    return pair[0]._context.hash("row hash", 16)


def test_random_keys_are_hashes_of_rows(pair, batch) -> None:
    choices = bits(70)
    sent, received = batch(choices)
    counter, q, delta = sent.counter, numbers(sent._rows), number(sent.delta)
    both, mine = send_random(sent), receive_random(received)
    key = hash_key(pair)
    for j, choice in enumerate(choices):
        pads = [tmmo(key, row, counter, 0, j) for row in (q[j], q[j] ^ delta)]
        assert [number(both[b, j]) for b in (0, 1)] == pads
        assert number(mine[j]) == pads[choice]


def test_a_million_random_transfers(batch, chi_square) -> None:
    choices = bits(10**6)
    sent, received = batch(choices)
    both, mine = send_random(sent), receive_random(received)
    np.testing.assert_array_equal(both[choices, np.arange(10**6)], mine)
    assert np.unique(both[..., 0]).size == 2 * 10**6
    for data in (both[0], both[1], both[0] ^ both[1], mine):
        counts = np.bincount(data.view(np.uint8).ravel(), minlength=256)
        assert chi_square(counts, np.full(256, 1 / 256)) > 1e-4


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [None, 1, 3, 8, 300])
def test_correlated(batch, dtype: str, width: int | None, chi_square) -> None:
    n = 3_001
    choices, x = bits(n), values(dtype, n) if width is None else values(dtype, n, width)
    sent, received = batch(choices)
    y0, message = send_correlated(sent, x)
    y = receive_correlated(received, message, np.dtype(dtype), width)
    assert y.dtype == y0.dtype == x.dtype
    taken = choices.astype(bool) if width is None else choices.astype(bool)[:, None]
    if dtype == "bool":
        np.testing.assert_array_equal(y ^ y0, x & taken)
        assert message.nbytes == -(-x.size // 8)
    else:
        np.testing.assert_array_equal(y - y0, np.where(taken, x, 0))
        assert (message.dtype, message.nbytes) == (x.dtype, x.nbytes)
    for data in (y0, y):
        packed = np.packbits(data) if dtype == "bool" else data.view(np.uint8).ravel()
        counts = np.bincount(packed >> 4, minlength=16)
        assert chi_square(counts, np.full(16, 1 / 16)) > 1e-4


@pytest.mark.parametrize("dtype", ["uint64", "bool"])
def test_messages_do_not_show_what_is_correlated(batch, dtype: str, chi_square) -> None:
    for x in (np.zeros(1 << 16, dtype), np.ones(1 << 16, dtype)):
        _, message = send_correlated(batch(bits(x.size))[0], x)
        counts = np.bincount(message.view(np.uint8), minlength=256)
        assert chi_square(counts, np.full(256, 1 / 256)) > 1e-4


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [None, 2, 40])
def test_chosen(batch, dtype: str, width: int | None) -> None:
    n = 1_000
    choices, shape = bits(n), (n,) if width is None else (n, width)
    m = values(dtype, 2, *shape)
    sent, received = batch(choices)
    message = send_chosen(sent, m[0], m[1])
    got = receive_chosen(received, message, np.dtype(dtype), width)
    np.testing.assert_array_equal(got, m[choices, np.arange(n)])
    assert message.nbytes == (-(-m.size // 8) if dtype == "bool" else m.nbytes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("of", [2, 3, 8, 15, 256])
def test_one_of_many(batch, dtype: str, of: int) -> None:
    n = 150
    index, m = RNG.integers(0, of, n), values(dtype, n, of)
    index[:2] = 0, of - 1
    choices = index_bits(index, of)
    assert choices.size == n * depth(of)
    sent, received = batch(choices)
    message = send_one_of(sent, m)
    got = receive_one_of(received, index, message, of, np.dtype(dtype))
    np.testing.assert_array_equal(got, m[np.arange(n), index])


def test_pads_of_one_of_many_are_sums_over_the_bits_of_the_index(pair, batch) -> None:
    n, of = 4, 6
    index = np.array([0, 5, 3, 1])
    sent, _ = batch(index_bits(index, of))
    q, delta, counter = numbers(sent._rows), number(sent.delta), sent.counter
    message = send_one_of(sent, np.zeros((n, of), dtype=np.uint64)).reshape(n, of)
    key = hash_key(pair)
    for j in range(n):
        for v in range(of):
            pad = 0
            for level in range(3):
                at = level * n + j
                pad ^= tmmo(key, q[at] ^ (v >> level & 1) * delta, counter, v, at)
            assert int(message[j, v]) == pad & ((1 << 64) - 1)


def test_a_split_batch_serves_several_uses(pair, batch) -> None:
    choices = bits(1_000)
    sent, received = batch(choices)
    parts = [side.split([300, 0, 700]) for side in (sent, received)]
    last, q = parts[0][2], numbers(parts[0][2]._rows)
    both, mine = send_random(last), receive_random(parts[1][2])
    np.testing.assert_array_equal(both[choices[300:], np.arange(700)], mine)
    # Tweaks are those of the whole batch: no two parts have one in common.
    for j in (0, 699):
        assert number(both[0, j]) == tmmo(hash_key(pair), q[j], sent.counter, 0, 300 + j)
    x = values("uint32", 300)
    y0, message = send_correlated(parts[0][0], x)
    y = receive_correlated(parts[1][0], message, np.dtype("uint32"))
    np.testing.assert_array_equal(y - y0, x * choices[:300])
    assert [len(part) for part in parts[0]] == [300, 0, 700]
    other, _ = batch(choices)
    for sizes in ([300], [500, 501], [1_001, -1]):
        with pytest.raises(ValueError, match="sum to 1000"):
            other.split(sizes)
    assert send_random(other).shape == (2, 1_000, 2)


def test_rows_are_used_once(batch) -> None:
    sent, received = batch(bits(16))
    x = values("uint64", 16)
    _, message = send_correlated(sent, x)
    receive_random(received)
    again = (
        lambda: send_correlated(sent, x),
        lambda: send_random(sent),
        lambda: send_chosen(sent, x, x),
        lambda: send_one_of(sent, values("uint64", 8, 4)),
        lambda: sent.split([16]),
        lambda: receive_random(received),
        lambda: receive_correlated(received, message, x.dtype),
        lambda: received.split([8, 8]),
    )
    for call in again:
        with pytest.raises(HedgerowError) as refused:
            call()
        assert refused.value.code is Code.TRANSFER_USED_TWICE


def test_messages_of_another_size(batch) -> None:
    sent, received = batch(bits(12))
    x = values("uint32", 12)
    _, message = send_correlated(sent, x)
    kind = x.dtype
    calls = (
        lambda: receive_correlated(received, message[:-1], kind),
        lambda: receive_correlated(received, message, np.dtype(np.uint64)),
        lambda: receive_correlated(received, message, np.dtype(np.bool_)),
        lambda: receive_correlated(received, message, kind, 2),
        lambda: receive_chosen(received, message, kind),
        lambda: receive_one_of(received, np.zeros(4, int), message[:-1], 8, kind),
    )
    for call in calls:
        with pytest.raises(HedgerowError) as refused:
            call()
        assert refused.value.code is Code.BAD_TRANSFER_MESSAGE
    # What was refused used nothing up.
    assert receive_correlated(received, message, kind).shape == (12,)


def test_values_that_do_not_fit_their_rows(batch) -> None:
    sent, _ = batch(bits(12))
    for x in (
        values("uint32", 11),
        values("uint32", 12).astype(np.int64),
        values("bool", 12, 1, 1),
    ):
        with pytest.raises(ValueError, match="values must be"):
            send_correlated(sent, x)
    with pytest.raises(ValueError, match="same shape"):
        send_chosen(sent, values("uint32", 12), values("uint64", 12))
    for of in (1, 257):
        with pytest.raises(ValueError, match="from 2 to 256"):
            index_bits(np.zeros(3, int), of)
    for index in (np.array([3]), np.array([-1]), np.array([0.5]), np.zeros((1, 1), int)):
        with pytest.raises(ValueError, match="indices"):
            index_bits(index, 3)
