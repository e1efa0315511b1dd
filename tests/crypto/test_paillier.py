"""Threshold Paillier against the textbook, what is refused, and what randomising hides."""

import pickle
import sys
from math import lcm

import numpy as np
import pytest

from hedgerow.crypto import paillier
from hedgerow.crypto.paillier import (
    Encrypted,
    KeyShare,
    PublicKey,
    Slots,
    insecure_deal,
    insecure_split,
)
from hedgerow.errors import Code, HedgerowError

P, Q = 2**61 - 1, 2**89 - 1
HOLDERS = insecure_deal(3, 256)
KEY = HOLDERS[0].key
ONE = Slots(1, KEY.room)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=object)


def plain(key: PublicKey, holders: list[KeyShare], c: np.ndarray) -> list[int]:
    found = key.combine([holder.partial(c) for holder in holders])
    return [int(x) for x in found.reshape(-1)]


def opened(x: Encrypted) -> np.ndarray:
    found = x.slots.unpack(KEY.combine([holder.partial(x.data) for holder in HOLDERS]))
    return found.astype(np.int64)


def textbook_decrypt(c: int, p: int, q: int) -> int:
    """L(c^lambda) / L(g^lambda) modulo N, with g = 1 + N."""
    n, order = p * q, lcm(p - 1, q - 1)

    def part(x: int) -> int:
        return (pow(x, order, n * n) - 1) // n

    return part(c) * pow(part(1 + n), -1, n) % n


@pytest.mark.parametrize("holders", [1, 2, 3, 10])
def test_all_holders_together_decrypt_what_the_textbook_does(holders: int) -> None:
    shares = insecure_split(P, Q, holders)
    key = shares[0].key
    values = [0, 1, 2, 999, key.modulus - 1]
    c = key.encrypt(numbers(*values))
    assert plain(key, shares, c) == values
    assert [textbook_decrypt(int(x), P, Q) for x in c] == values


def test_a_known_example() -> None:
    """N = 77, g = 5652: 42 with r = 23 is 4624."""
    assert pow(5652, 42, 77**2) * pow(23, 77, 77**2) % 77**2 == 4624
    shares = insecure_split(7, 11, 2)
    key = shares[0].key
    mpz = type(key.modulus)
    found = plain(key, shares, numbers(mpz(5652), mpz(4624)))
    assert found[0] * 42 % 77 == found[1] == textbook_decrypt(4624, 7, 11)


def test_encryption_is_that_of_the_textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """(1 + N)^x r^N for the r that was drawn."""
    key = insecure_split(P, Q, 1)[0].key
    r = key.modulus - 12345
    monkeypatch.setattr(paillier, "draw", lambda bits, shape: np.full(shape, r, dtype=object))
    n = int(key.modulus)
    wanted = [pow(1 + n, x, n * n) * pow(int(r), n, n * n) % (n * n) for x in (0, 7, n - 1)]
    assert [int(c) for c in key.encrypt(numbers(0, 7, n - 1))] == wanted


@pytest.mark.parametrize("left_out", range(3))
def test_one_holder_less_decrypts_nothing(left_out: int) -> None:
    c = KEY.encrypt(numbers(5, 6))
    partials = [h.partial(c) for i, h in enumerate(HOLDERS) if i != left_out]
    with pytest.raises(HedgerowError, match="H960"):
        KEY.combine(partials)
    other = KEY.encrypt(numbers(5, 6))
    with pytest.raises(HedgerowError, match="H960"):
        KEY.combine([*partials, HOLDERS[left_out].partial(other)])


def test_keys_have_the_bits_that_were_asked_for() -> None:
    for bits in (256, 257, 511):
        assert insecure_deal(2, bits)[0].key.bits == bits
    assert insecure_deal.__defaults__ == (2048,)
    with pytest.raises(HedgerowError, match="2,048 bits"):
        PublicKey(int(KEY.modulus))
    big = PublicKey(2**2047 + 1)
    assert (big.width, big.room) == (512, 2047)


def test_key_shares_are_uniform_and_not_shown() -> None:
    shares = [insecure_split(P, Q, 3) for _ in range(20)]
    assert len({share.to_bytes() for three in shares for share in three}) == 60
    assert repr(HOLDERS[0]) == "KeyShare()"
    with pytest.raises(TypeError):
        pickle.dumps(HOLDERS[0])


def test_sums_products_and_differences() -> None:
    x = Encrypted.of(KEY, ONE, numbers(3, 0, 250)[:, None], 250)
    y = Encrypted.of(KEY, ONE, numbers(4, 9, 250)[:, None], 250)
    assert opened(x + y).ravel().tolist() == [7, 9, 500]
    assert (x + y).most == 500
    assert opened(y.subtract(x, lift=256)).ravel().tolist() == [257, 265, 256]
    assert opened(x.subtract(x)).ravel().tolist() == [0, 0, 0]
    product = x.multiply(numbers(0, 1, 77), ONE, 77)
    assert opened(product).ravel().tolist() == [0, 0, 250 * 77]
    assert product.most == 250 * 77


def test_a_sum_of_chosen_numbers_is_a_dot_product() -> None:
    """With many vectors of 0 and 1, against powers one by one."""
    rng = np.random.default_rng(0)
    values, bits = rng.integers(0, 50, (2, 30)), rng.integers(0, 2, (5, 30))
    x = Encrypted.of(KEY, ONE, values[..., None].astype(object), 49)[..., 0]
    found = x.sums([np.flatnonzero(row) for row in bits], 30)
    assert np.array_equal(opened(found)[..., 0], values @ bits.T)
    assert found.most == 49 * 30
    square = int(KEY.square)
    for row, chosen in zip(x.data, bits, strict=False):
        slow = 1
        for c, bit in zip(row, chosen, strict=True):
            slow = slow * pow(int(c), int(bit), square) % square
        assert slow in {int(c) for c in found.data.ravel()}


def test_products_by_0_and_1_say_nothing_once_they_are_randomised() -> None:
    bits = np.array([False, True, True])
    x = Encrypted.of(KEY, ONE, numbers(8, 8, 8)[:, None], 8)[:, 0]
    assert len(set(map(int, x.data))) == 3
    bare = x.multiply(bits.astype(object) * 1, ONE, 1)
    assert [int(c) for c in bare.data] == [1, int(x.data[1]), int(x.data[2])]
    for made in (x.select(bits), bare.randomise()):
        assert opened(made).ravel().tolist() == [0, 8, 8]
        assert not {int(c) for c in made.data} & {1, *map(int, x.data)}
    empty = x.sums([np.arange(0), np.arange(1)], 1)
    assert [int(c) for c in empty.data] == [1, int(x.data[0])]
    # The same number twice, the same product twice: nothing is equal.
    again = [int(c) for _ in range(5) for c in x.select(bits).data]
    assert len(set(again)) == 15


def test_slots_come_back_as_they_went_in() -> None:
    slots = Slots(5, 20)
    values = np.random.default_rng(1).integers(0, 2**20, (4, 12))
    packed = slots.pack(values.astype(object))
    assert packed.shape == (4, 3)
    slow = [sum(int(v) << (20 * s) for s, v in enumerate(row[:5])) for row in values]
    assert packed[:, 0].tolist() == slow
    assert np.array_equal(slots.unpack(packed).reshape(4, -1)[:, :12].astype(np.int64), values)


def test_packed_numbers_add_up_slot_by_slot_and_are_gathered() -> None:
    slots = Slots(3, 20)
    rng = np.random.default_rng(2)
    values = rng.integers(0, 1000, (40, 3))
    x = Encrypted.of(KEY, slots, values.astype(object), 999)
    total = Encrypted(KEY, slots, 999, x.data.T).sums([np.arange(40), np.arange(7)], 40)
    assert np.array_equal(opened(total)[0], [values.sum(0), values[:7].sum(0)])
    factor = rng.integers(0, 9, (40, 3))
    one = Encrypted.of(KEY, ONE, values[:, :1].astype(object), 999)[:, 0]
    product = one.multiply(slots.pack(factor.astype(object))[:, 0], slots, 8)
    assert np.array_equal(opened(product), values[:, :1] * factor)
    gathered = x[:, 0].gather()
    assert gathered.slots == Slots(12, 20)
    assert gathered.data.shape == (10,)
    assert np.array_equal(opened(gathered).reshape(-1, 3), values)
    padded = x[:5, 0].gather()
    assert np.array_equal(opened(padded).reshape(-1, 3)[:5], values[:5])
    assert not opened(padded).reshape(-1, 3)[5:].any()
    assert x[:0, 0].gather().data.shape == (0,)


def test_nothing_runs_over_into_the_next_slot() -> None:
    slots = Slots(2, 10)
    x = Encrypted.of(KEY, slots, np.full((8, 2), 200, dtype=object), 200)
    assert (x + x + x + x + x).most == 1000
    refused = [
        lambda: x + x + x + x + x + x,
        lambda: x.sums([np.arange(1)], 6),
        lambda: x.multiply(numbers(*[1] * 8), slots, 6),
        lambda: x.subtract(x, lift=900),
        lambda: slots.pack(numbers(1024)),
        lambda: slots.pack(numbers(-1)),
        lambda: Encrypted.of(KEY, slots, numbers(1, 1), 1024),
        lambda: Encrypted.of(KEY, Slots(2, KEY.room), numbers(1, 1), 1),
        lambda: KEY.encrypt(numbers(KEY.modulus)),
        lambda: KEY.encrypt(numbers(-1)),
    ]
    for attempt in refused:
        with pytest.raises(HedgerowError) as caught:
            attempt()
        assert caught.value.code is Code.PLAINTEXT_OVERFLOW


def test_ciphertexts_cross_the_wire() -> None:
    c = KEY.encrypt(numbers(1, 2, 3, 4, 5, 6).reshape(2, 3))
    blob = KEY.write(c)
    assert blob.shape == (2, 3, KEY.width)
    assert (KEY.read(blob, "peer 1") == c).all()
    empty = KEY.write(c[:0])
    assert empty.shape == (0, 3, KEY.width)
    assert KEY.read(empty, "peer 1").shape == (0, 3)


def test_what_no_encryption_makes_is_refused_by_number_and_sender() -> None:
    shares = insecure_split(P, Q, 2)
    key = shares[0].key
    good = key.encrypt(numbers(*range(50)))
    for bad in (0, key.square, key.modulus, P, 5 * Q, 256**key.width - 1):
        mixed = good.copy()
        mixed[31] = type(key.modulus)(bad)
        with pytest.raises(HedgerowError, match="peer 2, ciphertext 31 of 50") as caught:
            key.read(key.write(mixed), "peer 2")
        assert caught.value.code is Code.BAD_CIPHERTEXT
    blob = key.write(good)
    for wrong in (blob[:, :-1], blob[..., None], blob.astype(np.uint16), np.zeros(0, np.uint8)):
        with pytest.raises(HedgerowError, match="H960"):
            key.read(wrong, "peer 2")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    with pytest.raises(HedgerowError, match=r"'\.\[paillier\]'") as caught:
        insecure_deal(2, 256)
    assert caught.value.code is Code.MISSING_EXTRA
