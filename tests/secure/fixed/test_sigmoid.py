import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.sigmoid import (
    MOST_KNOTS,
    cost_logistic,
    cost_sigmoid,
    logistic,
    logistic_lines,
    sigmoid,
)
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share
from tests.secure.worst_case import ERRORS, ErringEngine

KNOTS = range(1, MOST_KNOTS + 1)


def stated(knots: int) -> float:
    return 0.0118 / 4.0**knots


def exactly(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = 1 / (1 + np.exp(-x))
    return p, p * (1 - p)


def numbers(fraction: int) -> np.ndarray:
    x = np.concatenate([np.linspace(-40, 40, 20_001), [0, 8, -8, 16, -16, 1e-9, -1e-9]])
    return np.rint(x * 2.0**fraction).astype(np.int64)


@pytest.mark.parametrize("knots", KNOTS)
@pytest.mark.parametrize("addends", [1, 2, 3, 4, 5, 8, 9, 10])
def test_no_number_is_off_by_more_than_stated(knots: int, addends: int) -> None:
    """Every entry of the table, at both ends of the numbers that it may stand for."""
    lines = logistic_lines(knots, addends, 26)
    y = np.arange(1 << (lines.span + lines.fine + 1))
    found = lines.values(y)
    for shift in (-(addends - 1) / 2, 0.5, (addends + 1) / 2):
        p, slope = exactly((y + shift) / 2.0**lines.fine)
        assert np.abs(found[0] + 0.5 - p).max() <= stated(knots)
        assert np.abs(found[1] - slope).max() <= stated(knots)
    assert found.min() >= 0
    assert found[0].max() < 0.5
    assert found[1].max() <= 0.25
    # Beyond the table all is as at its end, and the function hardly moves any more.
    assert np.all(found[:, -1] == lines.values(y[-1:] << 8)[:, 0])


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize("knots", [2, 4])
@pytest.mark.parametrize(("fraction", "out"), [(24, 17), (20, 14), (16, 10), (16, 0)])
def test_the_error_is_as_stated(how: str, knots: int, fraction: int, out: int) -> None:
    x, e = numbers(fraction), ErringEngine(how)
    given = e.public(x, Z64)
    found = sigmoid(given, bits=fraction + 6, fraction=fraction, out=out, knots=knots)
    for got, exact, most in zip(
        found, exactly(x / 2.0**fraction), (1 << out, (1 << out) // 4 + 1), strict=True
    ):
        numbers_ = Z64.signed(got.data)
        assert np.abs(numbers_ / 2.0**out - exact).max() <= stated(knots) + 2.0**-out
        assert numbers_.min() >= 0
        assert numbers_.max() <= most


@pytest.mark.parametrize("knots", [2, 4])
@pytest.mark.parametrize("fraction", [4, 8, 13])
def test_coarse_numbers_are_rounded_by_half_a_step(knots: int, fraction: int) -> None:
    x, e = numbers(fraction), ErringEngine("never")
    found = sigmoid(e.public(x, Z64), bits=fraction + 6, fraction=fraction, out=20, knots=knots)
    for got, exact in zip(found, exactly(x / 2.0**fraction), strict=True):
        off = np.abs(Z64.signed(got.data) / 2.0**20 - exact).max()
        assert off <= stated(knots) + 2.0**-20 + 2.0 ** -(fraction + 3)


@pytest.mark.parametrize("ring", [Z32, Z64], ids=lambda ring: str(ring.bits))
@pytest.mark.parametrize(("bits", "knots"), [(26, 2), (29, 2), (29, 4)])
def test_parties_agree_and_pay_what_is_stated(engine: Engine, ring, bits: int, knots: int) -> None:
    x = numbers(20)[::100][:200].reshape(2, 100)
    shared, found = share(engine, x, ring), []
    public = {"bits": bits, "fraction": 20, "out": 14, "knots": knots}
    spent = metered(engine, lambda: found.extend(sigmoid(shared, **public)))
    assert spent == cost_sigmoid(engine, x.shape, ring, **public)
    for got, exact in zip(found, exactly(x / 2.0**20), strict=True):
        off = np.abs(ring.signed(reveal(got)) / 2.0**14 - exact).max()
        assert off <= stated(knots) + 2.0**-14


@pytest.mark.parametrize("bits", [26, 58])
def test_the_function_alone_costs_less(engine: Engine, bits: int) -> None:
    x = numbers(20)[::100][:200].reshape(2, 100)
    shared, found = share(engine, x, Z64), []
    public = {"bits": bits, "fraction": 20, "out": 14}
    spent = metered(engine, lambda: found.append(logistic(shared, **public)))
    assert spent == cost_logistic(engine, x.shape, Z64, **public)
    both = cost_sigmoid(engine, x.shape, Z64, **public)
    assert sum(spent.bytes) < sum(both.bytes) or not sum(both.bytes)
    off = np.abs(Z64.signed(reveal(found[0])) / 2.0**14 - exactly(x / 2.0**20)[0]).max()
    assert off <= stated(2) + 2.0**-14


def test_parameters_are_checked(engine: Engine) -> None:
    x = share(engine, np.zeros(1, dtype=np.int64), Z32)
    refused = [{"bits": 31}, {"fraction": 1}, {"fraction": 29}, {"out": 31}, {"knots": 5}]
    for wrong in refused:
        with pytest.raises(HedgerowError) as caught:
            sigmoid(x, **({"bits": 24, "fraction": 20, "out": 10} | wrong))
        assert caught.value.code is Code.BAD_PARAMETER
