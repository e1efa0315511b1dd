import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.divide import cost_divide, divide
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share
from tests.secure.worst_case import ERRORS, ErringEngine, spread


def bound(bits: int, fraction: int, quotient_bits: int) -> float:
    """What the documentation of `divide` states."""
    more = 2.0 ** (quotient_bits - 29) if bits > 30 - quotient_bits else 0
    return 2.0 ** (quotient_bits - 26) + 2.0**-fraction + more


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize("bits", [2, 8, 16, 30, 31, 45, 61])
def test_reciprocal_error_over_the_range(how: str, bits: int) -> None:
    x = spread(bits, 50_000)
    e = ErringEngine(how)
    for fraction in (8, 30, 61):
        got = Z64.signed(divide(1, e.public(x, Z64), bits=bits, fraction=fraction).data)
        error = np.abs(got.astype(np.longdouble) / 2.0**fraction - 1 / x.astype(np.longdouble))
        assert error.max() <= bound(bits, fraction, 0)
        if bits <= 30:
            assert (error <= 2.0**-26 / x + 2.0**-fraction).all()


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(
    ("bits", "quotient_bits", "fraction"),
    [(16, 0, 20), (20, 10, 16), (31, 29, 8), (32, 0, 30), (40, 20, 10), (61, 0, 25)],
)
def test_division_error_over_the_range(
    how: str, bits: int, quotient_bits: int, fraction: int
) -> None:
    x = spread(bits, 50_000)
    ratio = np.random.default_rng(1).uniform(-1, 1, x.size)
    a = (ratio * x.astype(np.float64) * 2.0**quotient_bits * (1 - 2**-40)).astype(np.int64)
    a[:3] = x[:3] << quotient_bits
    e = ErringEngine(how)
    got = divide(
        e.public(a, Z64),
        e.public(x, Z64),
        bits=bits,
        fraction=fraction,
        quotient_bits=quotient_bits,
    )
    exact = a.astype(np.longdouble) / x.astype(np.longdouble)
    error = np.abs(Z64.signed(got.data) / np.longdouble(2.0**fraction) - exact)
    assert error.max() <= bound(bits, fraction, quotient_bits)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_division_on_every_engine(engine: Engine, data: st.DataObject) -> None:
    quotient_bits = data.draw(st.integers(0, 29))
    bits = data.draw(st.integers(2, 61 - quotient_bits))
    fraction = data.draw(st.integers(0, 61 - quotient_bits))
    x = data.draw(st.lists(st.integers(1, 2**bits - 1), min_size=1, max_size=5))
    a = [data.draw(st.integers(-v << quotient_bits, v << quotient_bits)) for v in x]
    got = divide(
        share(engine, np.array(a), Z64),
        share(engine, np.array(x), Z64),
        bits=bits,
        fraction=fraction,
        quotient_bits=quotient_bits,
    )
    for top, bottom, result in zip(a, x, Z64.signed(reveal(got)).tolist(), strict=True):
        assert abs(result / 2**fraction - top / bottom) <= bound(bits, fraction, quotient_bits) * (
            1 + 1e-9
        )


def test_public_numerators_and_broadcasting(engine: Engine) -> None:
    x = share(engine, np.array([[1, 2], [4, 8]]), Z64)
    got = Z64.signed(reveal(divide([1, 2], x, bits=5, fraction=10, quotient_bits=1)))
    assert np.abs(got - np.array([[1024, 1024], [256, 256]])).max() <= 1
    one = share(engine, np.array(1), Z64)
    assert np.abs(Z64.signed(reveal(divide(one, x, bits=5, fraction=10)))[1, 1] - 128) <= 1


@pytest.mark.parametrize("bits", [2, 20, 40])
@pytest.mark.parametrize("shape", [(1,), (3, 30)])
def test_costs_are_as_declared(engine: Engine, bits: int, shape: tuple[int, ...]) -> None:
    x = share(engine, np.ones(shape, dtype=int), Z64)
    assert metered(engine, lambda: divide(x, x, bits=bits, fraction=16)) == cost_divide(
        engine, shape, bits=bits, fraction=16
    )
    assert metered(engine, lambda: divide(1, x, bits=bits, fraction=16)) == cost_divide(
        engine, shape, bits=bits, fraction=16, secret_numerator=False
    )


@pytest.mark.parametrize(
    "wrong", [{"bits": 1}, {"bits": 62}, {"fraction": 62}, {"quotient_bits": 30}]
)
def test_parameters_outside_their_range_are_refused(wrong: dict[str, int]) -> None:
    x = ErringEngine("never").public([1], Z64)
    with pytest.raises(HedgerowError) as caught:
        divide(x, x, **({"bits": 10, "fraction": 10} | wrong))
    assert caught.value.code is Code.BAD_PARAMETER


def test_other_rings_are_refused() -> None:
    x = ErringEngine("never").public([1], Z32)
    with pytest.raises(HedgerowError) as caught:
        divide(1, x, bits=10, fraction=10)
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT
