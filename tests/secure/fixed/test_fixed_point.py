import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.fixed_point import (
    FRACTION,
    ONE,
    check_range,
    check_ring,
    cost_normalise,
    cost_polynomial,
    cost_power_of_two,
    cost_rescale,
    normalise,
    polynomial,
    power_of_two,
    rescale,
)
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share, share_bits


def planes(numbers: np.ndarray, bits: int) -> np.ndarray:
    return (numbers.astype(np.uint64) >> np.arange(bits, dtype=np.uint64)[:, None]) & 1 == 1


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(-(2**61), 2**61), min_size=1), shift=st.integers(1, 60))
def test_rescale_is_within_a_unit(engine: Engine, values: list[int], shift: int) -> None:
    got = Z64.signed(reveal(rescale(share(engine, np.array(values), Z64), shift)))
    for value, result in zip(values, got.tolist(), strict=True):
        assert -(1 << shift) < (result << shift) - value <= 1 << shift


def test_a_negative_shift_is_exact(engine: Engine) -> None:
    x = share(engine, np.array([-3, 5]), Z64)
    assert Z64.signed(reveal(rescale(x, -4))).tolist() == [-48, 80]
    assert Z64.signed(reveal(rescale(x, 0))).tolist() == [-3, 5]


@pytest.mark.parametrize("terms", range(3, 14))
def test_polynomial(engine: Engine, terms: int) -> None:
    coefficients = np.random.default_rng(terms).uniform(-1, 1, terms) / (1 + np.arange(terms))
    whole = np.round(coefficients * ONE).astype(int)
    u = np.linspace(-1, 1, 301)
    x = share(engine, np.round(u * ONE).astype(int), Z64)
    got = Z64.signed(reveal(polynomial(x, whole.tolist())))
    depth = (terms - 1).bit_length()
    error = np.abs(got - np.polynomial.polynomial.polyval(u, coefficients) * ONE)
    assert error.max() <= 3 * 2**depth


def test_power_of_two(engine: Engine) -> None:
    for k in range(1, 7):
        exponents = np.arange(min(2**k, 64))
        digits = share(engine, (exponents >> np.arange(k)[:, None]) & 1, Z64)
        assert reveal(power_of_two(digits)).tolist() == [2**e for e in exponents.tolist()]


@settings(max_examples=60, deadline=None)
@given(bits=st.integers(2, 61), data=st.data())
def test_normalise(engine: Engine, bits: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(1, 2**bits - 1), min_size=1, max_size=9))
    values = np.array([*numbers, 1, 2**bits - 1])
    z, scale = normalise(share(engine, values, Z64), share_bits(engine, planes(values, bits)))
    shifts, digits = [bits - int(v).bit_length() for v in values], scale.digits()
    ones = share(engine, np.ones(len(values), dtype=int), Z64)
    assert reveal(scale.times(ones)).tolist() == [1 << s for s in shifts]
    weights = 1 << np.arange(len(digits))
    assert (reveal(digits) * weights[:, None].astype(np.uint64)).sum(axis=0).tolist() == shifts
    for v, s, got in zip(values.tolist(), shifts, Z64.signed(reveal(z)).tolist(), strict=True):
        exact = (v << s) * 2.0 ** (FRACTION - bits)
        assert abs(got - exact) <= (0 if bits <= FRACTION else 1)


def test_zero_is_normalised_to_zero(engine: Engine) -> None:
    zero = np.zeros(3, dtype=int)
    z, _ = normalise(share(engine, zero, Z64), share_bits(engine, planes(zero, 20)))
    assert reveal(z).tolist() == [0, 0, 0]


@pytest.mark.parametrize("n", [1, 70])
def test_costs_are_as_declared(engine: Engine, n: int) -> None:
    x = share(engine, np.ones(n, dtype=int), Z64)
    for shift in (-1, 0, 5, 40):
        spent = metered(engine, lambda s=shift: rescale(x, s))
        assert spent == cost_rescale(engine, (n,), shift)
    for terms in (3, 8, 12):
        spent = metered(engine, lambda t=terms: polynomial(x, [1] * t))
        assert spent == cost_polynomial(engine, n, terms)
    for k in (1, 5, 6):
        digits = share(engine, np.ones((k, n), dtype=int), Z64)
        spent = metered(engine, lambda d=digits: power_of_two(d))
        assert spent == cost_power_of_two(engine, k, n)
    for bits in (2, 20, 61):
        given_bits = share_bits(engine, np.zeros((bits, n), dtype=bool))
        spent = metered(engine, lambda b=given_bits: normalise(x, b))
        assert spent == cost_normalise(engine, bits, n)


def test_other_rings_and_ranges_are_refused(engine: Engine) -> None:
    with pytest.raises(HedgerowError) as caught:
        check_ring(share(engine, np.zeros(2, dtype=int), Z32))
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT
    with pytest.raises(HedgerowError) as caught:
        check_range("bits", 62, 2, 61)
    assert caught.value.code is Code.BAD_PARAMETER
