import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError
from hedgerow.secure.argmax import argmax, cost_argmax, cost_max, max_
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share


def one_hot(values: np.ndarray) -> np.ndarray:
    places = np.expand_dims(values.argmax(-1), -1)
    hot = np.zeros(values.shape, dtype=int)
    np.put_along_axis(hot, places, 1, -1)
    return hot


@settings(max_examples=40, deadline=None)
@given(ring=st.sampled_from([Z16, Z32, Z64]), few=st.booleans(), data=st.data())
def test_largest_values_and_their_first_places(
    engine: Engine, ring: Ring, few: bool, data: st.DataObject
) -> None:
    shape = data.draw(npst.array_shapes(max_dims=3, max_side=9))
    limit = 2 if few else 1 << (ring.bits - 2)
    numbers = st.integers(-limit, limit - 1)
    values = data.draw(npst.arrays(f"i{ring.bytes}", shape, elements=numbers))
    bits = 3 if few else None
    x = share(engine, values, ring)
    assert np.array_equal(reveal(argmax(x, bits=bits)), one_hot(values))
    assert np.array_equal(ring.signed(reveal(max_(x, bits=bits))), values.max(-1))


@pytest.mark.parametrize("n", range(1, 14))
def test_the_lowest_index_wins_ties(engine: Engine, n: int) -> None:
    values = np.tril(np.ones((n, n), dtype=int))[::-1] * 3
    hot = reveal(argmax(share(engine, values, Z16), bits=4))
    assert np.array_equal(hot, one_hot(values))


def test_an_empty_axis_is_refused(engine: Engine) -> None:
    with pytest.raises(HedgerowError, match="one value at least"):
        max_(share(engine, np.zeros((3, 0), dtype=int), Z16))


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 2), (5, 7), (7, 5), (2, 3, 8), (8, 3, 2)])
def test_costs_are_as_declared(engine: Engine, shape: tuple[int, ...]) -> None:
    x = share(engine, np.arange(np.prod(shape)).reshape(shape), Z32)
    for function, declare in ((max_, cost_max), (argmax, cost_argmax)):
        spent = metered(engine, lambda f=function: f(x, bits=9))
        assert spent == declare(engine, shape, Z32, 9)
