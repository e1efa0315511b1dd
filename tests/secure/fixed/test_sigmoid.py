import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.sigmoid import LIMIT, cost_sigmoid, sigmoid
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share
from tests.secure.worst_case import ERRORS, ErringEngine

STATED = 4.6e-5


def numbers(fraction: int) -> np.ndarray:
    x = np.concatenate([np.linspace(-40, 40, 20_001), [0, LIMIT, -LIMIT, 1e-9, -1e-9]])
    return np.rint(x * 2.0**fraction).astype(np.int64)


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(("fraction", "out"), [(20, 30), (20, 14), (8, 10), (0, 0)])
def test_the_error_is_as_stated(how: str, fraction: int, out: int) -> None:
    x = numbers(fraction)
    e = ErringEngine(how)
    got = Z64.signed(sigmoid(e.public(x, Z64), bits=fraction + 6, fraction=fraction, out=out).data)
    exact = 1 / (1 + np.exp(-x / 2.0**fraction))
    assert np.abs(got / 2.0**out - exact).max() <= STATED + 2.0**-out
    assert got.min() >= 0
    assert got.max() <= 1 << out


def test_three_servers_agree_and_pay_what_is_stated(engine: Engine) -> None:
    x = numbers(20)[::200][:100].reshape(2, 50)
    shared = share(engine, x, Z64)
    found = []
    spent = metered(engine, lambda: found.append(sigmoid(shared, bits=26, fraction=20, out=20)))
    assert spent == cost_sigmoid(engine, x.shape, bits=26, fraction=20, out=20)
    got = Z64.signed(reveal(found[0])) / 2.0**20
    assert np.abs(got - 1 / (1 + np.exp(-x / 2.0**20))).max() <= STATED + 2.0**-20


def test_parameters_are_checked(engine: Engine) -> None:
    x = share(engine, np.zeros(1, dtype=np.int64), Z64)
    for wrong in ({"bits": 59}, {"fraction": 21}, {"out": 31}):
        with pytest.raises(HedgerowError) as caught:
            sigmoid(x, **({"bits": 20, "fraction": 10, "out": 10} | wrong))
        assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        sigmoid(share(engine, np.zeros(1, dtype=np.int64), Z32), bits=20, fraction=10, out=10)
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT
