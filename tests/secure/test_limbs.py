import operator
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.secure import limbs
from hedgerow.secure.limbs import Z128

MODULUS = 2**128
EDGES = [0, 1, 2**32 - 1, 2**32, 2**64 - 1, 2**64, 2**96 - 1, 2**127, 2**128 - 2**64, 2**128 - 1]
NUMBERS = st.one_of(st.integers(0, MODULUS - 1), st.sampled_from(EDGES))


def table(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=object)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_arithmetic_is_pythons(pairs: list[tuple[int, int]]) -> None:
    a, b = (table(side) for side in zip(*pairs, strict=True))
    for ours, pythons in (
        (limbs.add, operator.add),
        (limbs.subtract, operator.sub),
        (limbs.multiply, operator.mul),
    ):
        got = ours(Z128.encode(a), Z128.encode(b))
        assert Z128.decode(got).tolist() == [v % MODULUS for v in pythons(a, b)]
    assert Z128.decode(limbs.negative(Z128.encode(a))).tolist() == [-v % MODULUS for v in a]


def test_sums_carry_between_all_halves() -> None:
    a = table([*EDGES, *[MODULUS - 1] * 70_000])
    got = limbs.summed(Z128.encode(a), partial(np.sum, axis=0))
    assert int(Z128.decode(got[None])[0]) == sum(a) % MODULUS
    running = Z128.decode(limbs.summed(Z128.encode(a), np.cumsum))
    assert np.array_equal(running, np.cumsum(a) % MODULUS)


def test_all_pairs_of_edges_broadcast() -> None:
    a = Z128.encode(table(EDGES))
    got = Z128.decode(limbs.multiply(a[:, None], a))
    assert got.tolist() == [[v * w % MODULUS for w in EDGES] for v in EDGES]


def test_results_can_replace_an_argument() -> None:
    a, b = Z128.encode(table(EDGES)), Z128.encode(table(EDGES[::-1]))
    total, difference = limbs.add(a, b), limbs.subtract(a, b)
    for out_is_left in (True, False):
        for operation, wanted in ((limbs.add, total), (limbs.subtract, difference)):
            left, right = a.copy(), b.copy()
            out = left if out_is_left else right
            assert operation(left, right, out=out) is out
            assert np.array_equal(out, wanted)


def test_single_elements_wrap_around_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        top = Z128.encode(MODULUS - 1)
        assert Z128.decode(limbs.add(top, Z128.encode(1))) == 0
        assert Z128.decode(limbs.subtract(Z128.encode(0), top)) == 1
        assert Z128.decode(limbs.multiply(top, top)) == 1


@pytest.mark.parametrize("kind", ["i1", "i8", "u8", "?"])
def test_integers_of_numpy_are_encoded(kind: str) -> None:
    a = np.array([[0, 1, 100], [-1, -100, 7]]).astype(kind)
    assert Z128.decode(Z128.encode(a)).tolist() == [[int(v) % MODULUS for v in r] for r in a]


@pytest.mark.parametrize("bad", [1.5, [0.0], [None], ["1"], np.array([1.5, 2**70], dtype=object)])
def test_what_is_no_integer_is_refused(bad: object) -> None:
    with pytest.raises(HedgerowError, match="integers"):
        Z128.encode(bad)


def test_empty_arrays() -> None:
    for empty in (np.zeros((0, 3), int), np.zeros((0, 3), object)):
        assert Z128.encode(empty).shape == (0, 3, 2)
    assert Z128.decode(np.zeros((3, 0, 2), np.uint64)).shape == (3, 0)
