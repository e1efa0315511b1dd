import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.softmax import cost_softmax, softmax, softmax_lines
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share
from tests.secure.worst_case import ERRORS, ErringEngine

FRACTION, OUT = 20, 14


def shares_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=0))
    found: np.ndarray = e / e.sum(axis=0)
    return found


def stated(k: int, out: int = OUT) -> float:
    return (k + 3) * 2.0**-11 + 2 * 2.0**-out


def scores(k: int, n: int, seed: int = 0) -> np.ndarray:
    """Return scores of which some are equal, some far apart."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, rng.choice([0, 0.1, 1, 3, 30], n), (k, n))
    x[:, :3] = [[0.0] * 3] * k
    x[0, 1] = 150
    x[-1, 2] = -150
    return np.rint(np.clip(x, -200, 200) * 2.0**FRACTION).astype(np.int64)


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(("k", "out"), [(2, OUT), (3, OUT), (3, 9), (7, OUT), (15, OUT), (15, 4)])
def test_the_error_is_as_stated(how: str, k: int, out: int) -> None:
    x, e = scores(k, 4000), ErringEngine(how)
    p, weight = softmax(e.public(x, Z64), bits=29, fraction=FRACTION, out=out)
    exact = shares_of(x / 2.0**FRACTION)
    got, slope = (Z64.signed(found.data) for found in (p, weight))
    assert np.abs(got / 2.0**out - exact).max() <= stated(k, out)
    assert np.abs(slope / 2.0**out - exact * (1 - exact)).max() <= stated(k, out)
    assert got.min() >= 0
    assert got.max() <= 1 << out
    assert slope.min() >= 0
    assert slope.max() <= (1 << out) // 4 + 1


@pytest.mark.parametrize("addends", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("k", [2, 3, 15])
def test_no_entry_of_the_tables_is_off_by_more_than_they_may(k: int, addends: int) -> None:
    """With e off by a, and 1 / s by b, p is off by at most (k + 1) a + b."""
    exponential, inverse = softmax_lines(k, addends, FRACTION)
    off = []
    for lines, curve, most in (
        (exponential, lambda y: np.exp(-y), 64.0),
        (inverse, lambda y: 1 / (1 + y), k - 1.0),
    ):
        y = np.arange(int(most * 2.0**lines.fine))
        found = 2 * lines.values(y)[0]
        ends = [-(addends - 1) / 2, (addends + 1) / 2] if lines.drop else [0.0, 1.0]
        each = [np.abs(found - curve(np.maximum(y + s, 0) / 2.0**lines.fine)).max() for s in ends]
        off.append(max(each))
        assert found.max() < 1
    unit = 2.0**-13
    assert (k + 1) * (off[0] + unit) + off[1] + unit <= (k + 3) * 2.0**-11


@pytest.mark.parametrize("k", [3, 5])
def test_parties_agree_and_pay_what_is_stated(engine: Engine, k: int) -> None:
    x = scores(k, 60).reshape(k, 2, 30)
    shared, found = share(engine, x, Z32), []
    public = {"bits": 28, "fraction": FRACTION, "out": OUT}
    spent = metered(engine, lambda: found.extend(softmax(shared, **public)))
    assert spent == cost_softmax(engine, x.shape, Z32, **public)
    got = Z32.signed(reveal(found[0])) / 2.0**OUT
    assert np.abs(got - shares_of(x / 2.0**FRACTION)).max() <= stated(k)


def test_parameters_are_checked(engine: Engine) -> None:
    for k, wrong in ((1, {}), (16, {}), (3, {"bits": 30}), (3, {"out": 15}), (3, {"fraction": 2})):
        x = share(engine, np.zeros((k, 1), dtype=np.int64), Z32)
        with pytest.raises(HedgerowError) as caught:
            softmax(x, **({"bits": 24, "fraction": 16, "out": 10} | wrong))
        assert caught.value.code is Code.BAD_PARAMETER
