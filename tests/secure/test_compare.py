import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError, InputError
from hedgerow.secure.compare import cost_equal, cost_less_than, equal, less_than
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share

RINGS = st.sampled_from([Z16, Z32, Z64])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Ring, np.ndarray, np.ndarray]:
    """Signed numbers of k - 1 bits, often close to one another, whose shapes broadcast."""
    ring = draw(RINGS)
    a, b = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4))[0]
    limit = 1 << (ring.bits - 2)
    numbers = st.one_of(st.integers(-limit, limit - 1), st.integers(-2, 2))
    signed = f"i{ring.bytes}"
    return (
        ring,
        draw(npst.arrays(signed, a, elements=numbers)),
        draw(npst.arrays(signed, b, elements=numbers)),
    )


@settings(max_examples=25, deadline=None)
@given(drawn=pairs())
def test_comparisons_are_numpys(engine: Engine, drawn: tuple) -> None:
    ring, a, b = drawn
    x, y = share(engine, a, ring), share(engine, b, ring)
    for got, wanted in (
        (x < y, a < b),
        (x <= y, a <= b),
        (x > y, a > b),
        (x >= y, a >= b),
        (x == y, a == b),
        (x != y, a != b),
        (x < b, a < b),
        (a < y, a < b),
        (a >= y, a >= b),
        (a == y, a == b),
        (x != b, a != b),
    ):
        assert got.ring == ring
        assert np.array_equal(reveal(got), wanted)


@settings(max_examples=25, deadline=None)
@given(ring=RINGS, data=st.data())
def test_wide_differences_wrap_around(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    a, b = (data.draw(npst.arrays(ring.dtype, (9,))) for _ in range(2))
    x, y = share(engine, a, ring), share(engine, b, ring)
    assert np.array_equal(reveal(less_than(x, y)), ring.signed(a - b) < 0)
    assert np.array_equal(reveal(equal(x, y)), a == b)


@pytest.mark.parametrize("bits", [2, 5, 6])
def test_small_numbers_compare_by_their_lowest_bits(engine: Engine, bits: int) -> None:
    a, b = np.mgrid[0 : 1 << (bits - 1), 0 : 1 << (bits - 1)]
    for shift in (0, -(1 << (bits - 2))):
        x, y = share(engine, a + shift, Z32), share(engine, b + shift, Z32)
        assert np.array_equal(reveal(less_than(x, y, bits=bits)), a < b)
        assert np.array_equal(reveal(equal(x, y, bits=bits)), a == b)


def test_equality_looks_at_the_lowest_bits_only(engine: Engine) -> None:
    x = share(engine, np.array([0, 1, 2, 3, 4]), Z16)
    assert reveal(equal(x, 0, bits=1)).tolist() == [1, 0, 1, 0, 1]
    assert reveal(equal(x, 0, bits=2)).tolist() == [1, 0, 0, 0, 1]


def test_two_public_sides_and_other_rings_are_refused(engine: Engine) -> None:
    with pytest.raises(HedgerowError, match="public"):
        less_than(1, 2)
    with pytest.raises(InputError, match="H702"):
        less_than(share(engine, np.arange(3), Z16), share(engine, np.arange(3), Z32))


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
@pytest.mark.parametrize("bits", [None, 1, 2, 11])
def test_costs_are_as_declared(engine: Engine, ring: Ring, bits: int | None) -> None:
    x, y = share(engine, np.arange(70), ring), share(engine, np.arange(70)[::-1], ring)
    for function, declare in ((less_than, cost_less_than), (equal, cost_equal)):
        spent = metered(engine, lambda f=function: f(x, y, bits=bits))
        assert spent == declare(engine, 70, ring, bits)
