from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.explog import (
    EXP2,
    LN,
    LOG2,
    cost_exp,
    cost_exp2,
    cost_log,
    exp,
    exp2,
    ln,
    log2,
    log_of_bits,
)
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share, share_bits
from tests.secure.worst_case import ERRORS, ErringEngine, spread

N = 50_000
POLYNOMIALS = [
    (EXP2, lambda u: 2 ** ((u + 1) / 2), 0.6),
    (LOG2, lambda u: np.log2((u + 3) / 4), 0.6),
    (LN, lambda u: np.log((u + 3) / 4), 1.2),
]


def grid(low: int, high: int, fraction: int, *, last: int) -> np.ndarray:
    """Numbers of a range with both ends: all of them if few, else evenly spread."""
    first, last = low << fraction, (high << fraction) - last
    return np.unique(np.linspace(first, last, min(N, last - first + 1)).astype(np.int64))


@pytest.mark.parametrize(("coefficients", "function", "units"), POLYNOMIALS)
def test_polynomials_interpolate_at_chebyshev_nodes(
    coefficients: tuple[int, ...], function: Callable[..., np.ndarray], units: float
) -> None:
    fitted = np.polynomial.chebyshev.chebinterpolate(function, len(coefficients) - 1)
    wanted = np.polynomial.chebyshev.cheb2poly(fitted) * 2**30
    assert np.abs(wanted - np.array(coefficients)).max() < 0.51
    u = np.linspace(-1, 1, 200_001)
    values = np.polynomial.polynomial.polyval(u, np.array(coefficients) / 2**30)
    assert np.abs(values - function(u)).max() * 2**30 < units


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(
    ("fraction", "low", "high", "out"),
    [
        *((16, -16, 0, 20), (30, 0, 31, 0), (30, 0, 1, 58), (0, -10, 20, 30)),
        *((20, -30, 1, 30), (25, -31, -1, 60)),
    ],
)
def test_exp2_error_over_the_range(how: str, fraction: int, low: int, high: int, out: int) -> None:
    x, e = grid(low, high, fraction, last=1), ErringEngine(how)
    got = exp2(e.public(x, Z64), fraction=fraction, low=low, high=high, out=out)
    exact = 2.0 ** (x.astype(np.longdouble) / 2.0**fraction)
    error = np.abs(Z64.signed(got.data) / np.longdouble(2.0**out) - exact)
    assert (error <= 2.0**-26 * exact + 2.0**-out).all()


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(
    ("fraction", "low", "high", "out"),
    [
        *((16, -5, 0, 20), (20, 0, 20, 29), (20, -20, 0, 58), (20, -30, -10, 60)),
        *((0, 10, 30, 14), (16, -3, 17, 30), (8, 2, 2, 40)),
    ],
)
def test_exp_error_over_the_range(how: str, fraction: int, low: int, high: int, out: int) -> None:
    x, e = grid(low, high, fraction, last=0), ErringEngine(how)
    got = exp(e.public(x, Z64), fraction=fraction, low=low, high=high, out=out)
    exact = np.exp(x.astype(np.longdouble) / 2.0**fraction)
    error = np.abs(Z64.signed(got.data) / np.longdouble(2.0**out) - exact)
    assert (error <= 2.0**-25 * exact + 2.0**-out).all()


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(("bits", "fraction"), [(2, 0), (16, 16), (30, 10), (31, 31), (61, 20)])
@pytest.mark.parametrize(("function", "numpys"), [(log2, np.log2), (ln, np.log)])
def test_log_error_over_the_range(how: str, bits: int, fraction: int, function, numpys) -> None:
    x, e = spread(bits, N), ErringEngine(how)
    exact = numpys(x.astype(np.longdouble) / 2.0**fraction)
    for out in (8, 30):
        got = function(e.public(x, Z64), bits=bits, fraction=fraction, out=out)
        error = np.abs(Z64.signed(got.data) / np.longdouble(2.0**out) - exact)
        assert error.max() <= 2.0**-25 + 2.0**-out


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_functions_on_every_engine(engine: Engine, data: st.DataObject) -> None:
    low = data.draw(st.integers(-20, 10))
    high = low + data.draw(st.integers(1, 20))
    fraction = data.draw(st.integers(0, 20))
    inside = st.integers(low << fraction, (high << fraction) - 1)
    values = np.array(data.draw(st.lists(inside, min_size=1, max_size=6)))
    x, real = share(engine, values, Z64), values / 2.0**fraction
    kwargs = {"fraction": fraction, "low": low, "high": high, "out": 12}
    for function, numpys in ((exp2, np.exp2), (exp, np.exp)):
        got = Z64.signed(reveal(function(x, **kwargs))) / 2.0**12
        exact = numpys(real)
        assert (np.abs(got - exact) <= 2.0**-25 * exact + 2.0**-12).all()
    positive = np.abs(values) + 1
    y = share(engine, positive.reshape(1, -1), Z64)
    for function, numpys in ((log2, np.log2), (ln, np.log)):
        got = Z64.signed(reveal(function(y, bits=30, fraction=fraction, out=20))) / 2.0**20
        exact = numpys(positive / 2.0**fraction)
        assert np.abs(got - exact).max() <= 2.0**-25 + 2.0**-20


def test_log_of_shared_bits(engine: Engine) -> None:
    values = np.array([1, 3, 1000])
    bits = share_bits(engine, (values >> np.arange(12)[:, None]) & 1)
    got = log_of_bits(share(engine, values, Z64), bits, fraction=2, out=20)
    assert np.abs(Z64.signed(reveal(got)) / 2**20 - np.log2(values / 4)).max() < 2**-19


@pytest.mark.parametrize("shape", [(1,), (2, 40)])
def test_costs_are_as_declared(engine: Engine, shape: tuple[int, ...]) -> None:
    x = share(engine, np.ones(shape, dtype=int), Z64)
    kwargs = {"fraction": 16, "low": -5, "high": 1, "out": 16}
    assert metered(engine, lambda: exp2(x, **kwargs)) == cost_exp2(engine, shape, **kwargs)
    assert metered(engine, lambda: exp(x, **kwargs)) == cost_exp(engine, shape, **kwargs)
    for bits in (8, 40):
        for function in (log2, ln):
            spent = metered(engine, lambda f=function, b=bits: f(x, bits=b, fraction=8, out=16))
            assert spent == cost_log(engine, shape, bits=bits, out=16)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: exp2(x, fraction=31, low=0, high=1, out=0),
        lambda x: exp2(x, fraction=8, low=0, high=32, out=0),
        lambda x: exp2(x, fraction=8, low=0, high=10, out=51),
        lambda x: exp(x, fraction=21, low=0, high=1, out=0),
        lambda x: exp(x, fraction=8, low=0, high=21, out=0),
        lambda x: exp(x, fraction=8, low=-31, high=-20, out=0),
        lambda x: log2(x, bits=62, fraction=0, out=8),
        lambda x: ln(x, bits=10, fraction=0, out=31),
    ],
)
def test_parameters_outside_their_range_are_refused(call: Callable[..., object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        call(ErringEngine("never").public([1], Z64))
    assert caught.value.code is Code.BAD_PARAMETER
