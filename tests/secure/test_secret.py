import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError, InputError, SecretError
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Secret, SecretBits, concatenate, pack, stack, unpack, words
from tests.secure.engines import clear, reveal, share, share_bits


@given(npst.arrays(np.bool_, npst.array_shapes(max_dims=3, min_side=0, max_side=70)))
def test_packing_can_be_undone(bits: np.ndarray) -> None:
    packed = pack(bits)
    assert packed.dtype == np.uint64
    assert packed.shape == (*bits.shape[:-1], words(bits.shape[-1]))
    assert np.array_equal(unpack(packed, bits.shape[-1]), bits)


def test_the_first_bit_is_the_lowest_of_the_first_word() -> None:
    bits = np.zeros(130, dtype=bool)
    bits[[1, 64, 129]] = True
    assert pack(bits).tolist() == [2, 1, 2]


def test_a_secret_shows_its_shape_only() -> None:
    engine = clear()
    assert repr(share(engine, np.arange(6).reshape(2, 3), Z64)) == "<Secret (2, 3) over Z_2^64>"
    assert repr(share_bits(engine, np.zeros((2, 70), dtype=bool))) == "<SecretBits (2, 70)>"


def test_a_secret_cannot_decide_a_branch() -> None:
    x = share(clear(), np.array(1), Z32)
    with pytest.raises(SecretError, match="truth value"):
        assert x < 2
    with pytest.raises(SecretError, match="H701"):
        max(x, x)
    with pytest.raises(TypeError):
        len(x)


def test_secrets_of_two_engines_or_rings_do_not_fit() -> None:
    one, other = clear(), clear()
    x, bits = share(one, np.arange(3), Z32), share_bits(one, np.zeros((2, 3), dtype=bool))
    for wrong in (share(other, np.arange(3), Z32), share(one, np.arange(3), Z64)):
        for action in (
            lambda y: x + y,
            lambda y: x - y,
            lambda y: x * y,
            lambda y: x @ y,
            lambda y: x < y,
            lambda y: x == y,
            lambda y: concatenate([x, y]),
            lambda y: stack([x, y]),
        ):
            with pytest.raises(InputError, match="H702"):
                action(wrong)
    for wrong_bits in (share_bits(other, np.zeros((2, 3))), share_bits(one, np.zeros((2, 4)))):
        for action in (lambda y: bits ^ y, lambda y: bits & y, lambda y: concatenate([bits, y])):
            with pytest.raises(InputError, match="H702"):
                action(wrong_bits)


def test_only_integers_join_secrets() -> None:
    x = share(clear(), np.arange(3), Z32)
    for action in (lambda: x + 0.5, lambda: x * [1.0, 2.0, 3.0], lambda: x == None):  # noqa: E711
        with pytest.raises(HedgerowError, match="integers"):
            action()


def test_bits_are_indexed_and_joined_along_leading_axes() -> None:
    values = np.arange(3 * 2 * 5).reshape(3, 2, 5) % 3 == 0
    x = share_bits(clear(), values)
    for index in (0, slice(1, None), [2, 0], (1, 1), (None, 0), np.array([True, False, True])):
        assert np.array_equal(reveal(x[index]), values[index])
    assert np.array_equal(reveal(concatenate([x, x[:1]])), values[[0, 1, 2, 0]])
    assert np.array_equal(reveal(stack([x, x], axis=1)), np.stack([values, values], axis=1))
    for wrong in (..., (0, 0, 0), np.zeros((3, 2, 5), dtype=bool)):
        with pytest.raises(InputError, match="H702"):
            x[wrong]
    for join in (concatenate, stack):
        with pytest.raises(InputError, match="H702"):
            join([x, x], axis=-1)


def test_data_of_another_type_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Secret(clear(), Z32, np.zeros(3, dtype=np.uint64))
    with pytest.raises(AssertionError):
        SecretBits(clear(), 65, np.zeros(1, dtype=np.uint64))
