"""Addressed streams: repeatable, apart, uniform, and the published cipher."""

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hedgerow.crypto.prg import Prg
from hedgerow.errors import Code, HedgerowError

KEY = bytes(range(16))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_is_aes_in_counter_mode_under_a_key_of_the_address(dtype: str) -> None:
    digest = hashlib.blake2b(b"mul/7", key=KEY, person=b"hedgerow/prg/v1", digest_size=32).digest()
    shape = (3, 50_000)
    got = Prg(KEY).fill("mul/7", shape, dtype)
    stream = Cipher(algorithms.AES(digest[:16]), modes.CTR(digest[16:])).encryptor()
    expected = stream.update(bytes(got.nbytes))
    assert got.shape == shape
    assert got.dtype == np.dtype(dtype)
    assert got.astype(got.dtype.newbyteorder("<")).tobytes() == expected


def test_nothing_depends_on_what_was_drawn_before() -> None:
    first, second = Prg(KEY), Prg(KEY)
    second.fill("other", 1000, np.uint64)
    a, b = first.fill("a", (4, 5), np.uint32), second.fill(b"a", (4, 5), np.uint32)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.fill("a", 30, np.uint32)[:20], a.ravel())


def test_addresses_and_keys_are_apart() -> None:
    streams = [
        Prg(key).fill(address, 64, np.uint64)
        for key in (KEY, KEY[::-1])
        for address in ("a", "b", "aa", "", "a" * 500)
    ]
    # 640 words of 64 bits: a repetition among them has probability below 2**-45.
    assert np.unique(np.concatenate(streams)).size == 640


def test_words_are_uniform(chi_square) -> None:
    draws = Prg(KEY).fill("uniform", 1 << 18, np.uint8)
    assert chi_square(np.bincount(draws, minlength=256), np.full(256, 1 / 256)) > 1e-4
    top = Prg(KEY).fill("uniform", 1 << 18, np.uint64) >> np.uint64(56)
    assert (
        chi_square(np.bincount(top.astype(np.int64), minlength=256), np.full(256, 1 / 256)) > 1e-4
    )


def test_a_mask_is_not_drawn_twice_where_asked() -> None:
    prg = Prg(KEY, once=True)
    prg.fill("a", 3, np.uint64)
    prg.fill("b", 3, np.uint64)
    with pytest.raises(HedgerowError) as caught:
        prg.fill(b"a", 1, np.uint8)
    assert caught.value.code is Code.ADDRESS_USED_TWICE
    free = Prg(KEY)
    np.testing.assert_array_equal(free.fill("a", 3, np.uint64), free.fill("a", 3, np.uint64))


def test_empty_and_scalar_shapes() -> None:
    assert Prg(KEY).fill("a", (0, 4), np.uint16).shape == (0, 4)
    assert Prg(KEY).fill("a", (), np.uint16).shape == ()


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(32)])
def test_key_length(key: bytes) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Prg(key)


def test_only_unsigned_words() -> None:
    for dtype in (np.int64, np.float64, np.bool_):
        with pytest.raises(ValueError, match="dtype"):
            Prg(KEY).fill("a", 3, dtype)


def test_the_key_is_not_printed() -> None:
    assert KEY.hex() not in repr(Prg(KEY))
    assert repr(KEY) not in repr(Prg(KEY))
