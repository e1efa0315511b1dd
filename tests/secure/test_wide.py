import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError, InputError, LeakageError, SecretError
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.adder import a2b, cost_a2b
from hedgerow.secure.engine import Engine
from hedgerow.secure.limbs import Z128
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.wide import (
    SecretWide,
    cost_equal_wide,
    cost_extend_wide,
    cost_less_than_wide,
    cost_mul_wide,
    equal_wide,
    extend_wide,
    less_than_wide,
    mul_wide,
    reduce_wide,
)
from tests.secure.engines import metered, reveal, share

MODULUS = 2**128
EDGES = [0, 1, 2**63, 2**64 - 1, 2**64, 2**127 - 1, 2**127, MODULUS - 1]
NUMBERS = st.one_of(st.integers(0, MODULUS - 1), st.sampled_from(EDGES))


def wide(engine: Engine, values: np.ndarray) -> SecretWide:
    return engine.input_wide(values, 0, np.shape(values))


def signed(values: np.ndarray, bits: int = 128) -> np.ndarray:
    half = 2 ** (bits - 1)
    return np.asarray((values + half) % 2**bits - half, dtype=object)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    a, b = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))[0]
    return tuple(draw(npst.arrays(object, s, elements=NUMBERS)) for s in (a, b))  # type: ignore[return-value]


def same(x: SecretWide, wanted: object) -> bool:
    return np.array_equal(reveal(x), np.asarray(wanted, dtype=object) % MODULUS)


@settings(max_examples=25, deadline=None)
@given(drawn=pairs(), factor=st.integers(-(2**130), 2**130))
def test_arithmetic_is_pythons(engine: Engine, drawn: tuple, factor: int) -> None:
    a, b = drawn
    x, y = wide(engine, a), wide(engine, b)
    assert same(x, a)
    for got, wanted in (
        (x + y, a + b),
        (x - y, a - b),
        (-x, -a),
        (x * y, a * b),
        (x * b, a * b),
        (b * x, a * b),
        (x * factor, a * factor),
        (x + b, a + b),
        (b - x, b - a),
        (x - factor, a - factor),
    ):
        assert got.shape == np.shape(wanted)
        assert same(got, wanted)
    assert np.array_equal(reveal(reduce_wide(x)), np.asarray(a % 2**64, dtype=np.uint64))
    assert np.array_equal(reveal(reduce_wide(x, Z16)), np.asarray(a % 2**16, dtype=np.uint16))


@settings(max_examples=15, deadline=None)
@given(drawn=pairs(), bits=st.sampled_from([1, 2, 63, 64, 65, 97, 127, 128]))
def test_order_is_the_sign_of_the_difference(engine: Engine, drawn: tuple, bits: int) -> None:
    a, b = drawn
    x, y = wide(engine, a), wide(engine, b)
    got = less_than_wide(x, y, bits=bits, ring=Z32)
    assert got.ring == Z32
    assert np.array_equal(reveal(got), signed(a - b, bits) < 0)


@settings(max_examples=10, deadline=None)
@given(drawn=pairs())
def test_operators_compare_signed_numbers(engine: Engine, drawn: tuple) -> None:
    a, b = (signed(side // 4 * 2, 127) for side in drawn)
    x, y = wide(engine, a % MODULUS), wide(engine, b % MODULUS)
    for got, wanted in ((x < y, a < b), (x <= y, a <= b), (x > b, a > b), (x >= y, a >= b)):
        assert np.array_equal(reveal(got), wanted)


@settings(max_examples=10, deadline=None)
@given(drawn=pairs(), bits=st.sampled_from([None, 1, 64, 65, 127]))
def test_equality_is_of_all_bits_or_the_lowest(
    engine: Engine, drawn: tuple, bits: int | None
) -> None:
    a, b = drawn
    x, y = wide(engine, a), wide(engine, b)
    got = equal_wide(x, y, bits=bits, ring=Z32)
    assert got.ring == Z32
    assert np.array_equal(reveal(got), (a - b) % 2 ** (bits or 128) == 0)
    assert np.array_equal(reveal(x == b), a == b)
    assert np.array_equal(reveal(x != y), a != b)
    assert reveal(x == a).all()


def test_numbers_that_differ_in_one_bit_are_not_equal(engine: Engine) -> None:
    a = np.array([1 << j for j in range(128)], dtype=object)
    x = wide(engine, a)
    assert not reveal(x == 0).any()
    assert reveal(x + MODULUS == a).all()
    assert np.array_equal(reveal(x[:, None] == a), np.eye(128))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_sums_along_axes_are_pythons(engine: Engine, data: st.DataObject) -> None:
    shapes = npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
    a = data.draw(npst.arrays(object, shapes, elements=NUMBERS))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    x = wide(engine, a)
    for got, wanted in (
        (x.sum(), a.sum()),
        (x.sum(axis), a.sum(axis)),
        (x.sum(axis, keepdims=True), a.sum(axis, keepdims=True)),
        (x.cumsum(axis), a.cumsum(axis)),
        (x.cumsum(), a.cumsum(0)),
    ):
        assert got.shape == np.shape(wanted)
        assert same(got, wanted)
    with pytest.raises(np.exceptions.AxisError):
        x.sum(a.ndim)


def test_sums_carry_out_of_every_word(engine: Engine) -> None:
    a = np.full(1000, MODULUS - 1, dtype=object)
    x = wide(engine, a)
    assert same(x.sum(), -1000)
    assert same(x.cumsum(), -np.arange(1, 1001))


def test_inputs_that_do_not_fit_are_refused(engine: Engine) -> None:
    for values in (None, np.arange(3)):
        with pytest.raises(InputError, match="H108"):
            engine.input_wide(values, 0, (2,))
    assert same(engine.input_wide(np.array([-1, 5]), 0, (2,)), [-1, 5])
    assert same(engine.input_wide(-(2**100), 0, ()), -(2**100))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_fractions_are_compared_exactly(engine: Engine, data: st.DataObject) -> None:
    """a / b against fractions of 62 bits that equal it or lie as close as such fractions can."""
    whole = st.integers(1, 2**31 - 1)
    a, b, k = (data.draw(npst.arrays(np.int64, (9,), elements=whole)) for _ in range(3))
    off = data.draw(npst.arrays(np.int64, (2, 9), elements=st.integers(0, 1)))
    c, d = a * k + off[0], b * k + off[1]
    p, q, r, s = (extend_wide(share(engine, side, Z64)) for side in (a, b, c, d))
    terms = zip(*(side.tolist() for side in (a, b, c, d)), strict=True)
    signs = [Fraction(*t[:2]) - Fraction(*t[2:]) for t in terms]
    assert reveal(less_than_wide(p * s, r * q, bits=94)).tolist() == [v < 0 for v in signs]
    assert reveal(less_than_wide(r * q, p * s)).tolist() == [v > 0 for v in signs]


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
def test_numbers_are_extended_exactly(engine: Engine, ring: Ring) -> None:
    top = 2 ** (ring.bits - 1)
    drawn = np.random.default_rng(0).integers(0, top, 200)
    a = np.concatenate([np.tile([0, 1, top // 2, top - 1], 50), drawn]).reshape(20, 20)
    assert same(extend_wide(share(engine, a, ring)), a.astype(object))


def test_all_128_bits(engine: Engine) -> None:
    a = np.array(EDGES, dtype=object)
    planes = reveal(a2b(wide(engine, a)))
    assert [sum(int(bit) << j for j, bit in enumerate(p)) for p in planes.T] == EDGES


def test_shapes_are_numpys(engine: Engine) -> None:
    a = np.arange(24).reshape(2, 3, 4)
    x, a = extend_wide(share(engine, a, Z64)), a.astype(object)
    for index in (0, (..., 1), (slice(None), 2), (1, ..., 0), [1, 0, 1], (0, [2, 1]), (..., None)):
        assert same(x[index], a[index])
    assert same(x.reshape(6, -1), a.reshape(6, 4))
    assert same(x[0, 0].broadcast_to((5, 4)), np.broadcast_to(a[0, 0], (5, 4)))
    assert (x.ndim, x.size, len(x)) == (3, 24, 2)
    with pytest.raises(IndexError):
        x[0, 0, 0, 0]


def test_costs_are_as_declared(engine: Engine) -> None:
    n = 71
    for ring in (Z16, Z32, Z64):
        x = share(engine, np.arange(n), ring)
        assert metered(engine, lambda x=x: extend_wide(x)) == cost_extend_wide(engine, n, ring)
    w = extend_wide(x)
    assert metered(engine, lambda: mul_wide(w, w)) == cost_mul_wide(engine, n)
    assert metered(engine, lambda: [w + w, w - 1, -w, w * 3, reduce_wide(w)]).rounds == 0
    for bits in (None, 1, 64, 65, 97):
        for ring in (Z16, Z64):
            spent = metered(engine, lambda b=bits, r=ring: less_than_wide(w, w, bits=b, ring=r))
            assert spent == cost_less_than_wide(engine, n, bits, ring)
            spent = metered(engine, lambda b=bits, r=ring: equal_wide(w, w, bits=b, ring=r))
            assert spent == cost_equal_wide(engine, n, bits, ring)
    assert metered(engine, lambda: a2b(w)) == cost_a2b(engine, n, Z128)
    assert metered(engine, lambda: [w.sum(), w.cumsum()]).rounds == 0
    spent = metered(engine, lambda: wide(engine, np.arange(n)))
    assert spent == engine.cost("input_wide", shape=(n,), owner=0)
    declared = engine.cost("open", shape=(n,), ring=Z128, to="server")
    assert metered(engine, lambda: reveal(w)) == declared


def test_nothing_looks_at_a_value(engine: Engine) -> None:
    x = extend_wide(share(engine, np.arange(3), Z64))
    assert repr(x) == f"{x}" == "<SecretWide (3,) over Z_2^128>"
    for look in (bool, int, float, list, np.asarray, pickle.dumps):
        with pytest.raises(SecretError):
            look(x)
    with pytest.raises(TypeError):
        hash(x)


def test_only_declared_values_open(engine: Engine) -> None:
    x = extend_wide(share(engine, np.arange(3), Z64))
    with pytest.raises(LeakageError):
        engine.open(x, "secret", "server")
    before = engine.leakage
    engine.leakage = Leakage([Opening("seen", "server", (2,), independent="a test looks")])
    try:
        with pytest.raises(LeakageError):
            engine.open(x, "seen", "server")
    finally:
        engine.leakage = before


def test_what_does_not_fit_is_refused(engine: Engine) -> None:
    narrow = share(engine, np.arange(3), Z64)
    x = extend_wide(narrow)
    for bad in (lambda: x + narrow, lambda: x * narrow, lambda: less_than_wide(x, narrow)):
        with pytest.raises(InputError, match="H702"):
            bad()
    with pytest.raises(HedgerowError):
        narrow + x
    with pytest.raises(HedgerowError, match="128"):
        less_than_wide(x, x, bits=129)
    with pytest.raises(HedgerowError, match="integers"):
        x * 0.5


def test_secrets_of_two_engines_are_refused(engine: Engine) -> None:
    other = type(engine).__new__(type(engine))
    x = extend_wide(share(engine, np.arange(3), Z64))
    with pytest.raises(InputError, match="H702"):
        x + SecretWide(other, x.data)
