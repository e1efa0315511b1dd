"""What a party does for itself, against NumPy: matrix products, transposed bits, permutations."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.privacy import NoiseSource
from hedgerow.secure.kernels import add_product, order, transpose

DTYPES = ["uint16", "uint32", "uint64"]


def words(seed: int, *shape: int, dtype: str = "uint64") -> Any:
    drawn = np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)
    return drawn.astype(dtype)


SIDES = st.sampled_from([0, 1, 3, 7, 8, 9, 127, 128, 129, 255, 256, 257, 300])


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, SIDES, st.sampled_from(DTYPES), st.booleans(), st.booleans(), st.booleans())
def test_matrix_products_of_all_sides_and_strides(
    m: int, k: int, n: int, dtype: str, flip_a: bool, flip_b: bool, both: bool
) -> None:
    a = words(1, k, m, dtype=dtype).T if flip_a else words(1, m, k, dtype=dtype)
    b, d = (
        words(s, n, k, dtype=dtype).T if flip_b else words(s, k, n, dtype=dtype) for s in (2, 3)
    )
    # Nothing beside the result may be written, least of all where it is empty.
    room = words(4, m * n + 1024, dtype=dtype)
    c, before = room[512 : 512 + m * n].reshape(m, n), room.copy()
    wanted = c + a @ (b + d if both else b)
    add_product(a, b, c, d if both else None)
    assert np.array_equal(c, wanted)
    assert np.array_equal(room[:512], before[:512])
    assert np.array_equal(room[512 + m * n :], before[512 + m * n :])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([0, 1, 2, 50]), SIDES, SIDES, st.sampled_from(DTYPES), st.booleans())
def test_many_products_of_one_row(batch: int, k: int, n: int, dtype: str, both: bool) -> None:
    a, b, d = (
        words(s, batch, *side, dtype=dtype) for s, side in ((1, (1, k)), (2, (k, n)), (3, (k, n)))
    )
    c = words(4, batch, 1, n, dtype=dtype)
    wanted = c + a @ (b + d if both else b)
    add_product(a, b, c, d if both else None)
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 2, 4, 5), (5, 6)),
        ((4, 5), (3, 2, 5, 6)),
        ((3, 1, 4, 5), (1, 2, 5, 6)),
        ((0, 2, 4, 5), (5, 6)),
        ((3, 2, 4, 5), (1, 1, 5, 6)),
    ],
)
def test_stacks_of_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = words(1, *a), words(2, *b)
    wanted = np.matmul(left, right)
    out = np.zeros_like(wanted)
    add_product(left, right, out)
    assert np.array_equal(out, wanted)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1200), st.sampled_from(DTYPES), st.data())
def test_transposed_bits(n: int, dtype: str, data: Any) -> None:
    bits = data.draw(st.integers(1, 8 * np.dtype(dtype).itemsize))
    values = words(n, n, dtype=dtype)
    planes = np.empty((bits, -(-n // 64)), np.uint64)
    transpose(values, planes)
    seen = np.unpackbits(planes.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    wanted = (values[None, :] >> np.arange(bits, dtype=dtype)[:, None]) & np.dtype(dtype).type(1)
    assert np.array_equal(seen[:, :n], wanted)
    assert not seen[:, n:].any()


def test_permutations_are_uniform(chi_square: Any) -> None:
    source = NoiseSource.insecure_seeded(5)
    seen = Counter(tuple(order(source.words(8), 4)) for _ in range(24_000))
    assert len(seen) == 24
    assert chi_square(np.array(list(seen.values())), np.full(24, 1 / 24)) > 1e-3


def test_words_that_would_bias_are_rejected() -> None:
    """2**64 is 1 modulo 3, so of three rows the word 0 is thrown away."""
    spoiled = np.array([0, 5, 1, 7, 7], dtype=np.uint64)
    assert np.array_equal(order(spoiled, 3), order(spoiled[1:], 3))


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_an_order_is_a_permutation(n: int) -> None:
    found = order(words(3, n + 64), n)
    assert sorted(found) == list(range(n))
