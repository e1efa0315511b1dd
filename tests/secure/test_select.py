import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import InputError
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from hedgerow.secure.select import cost_select, select
from tests.secure.engines import metered, reveal, share


@settings(max_examples=25, deadline=None)
@given(ring=st.sampled_from([Z16, Z32, Z64]), data=st.data())
def test_select_is_where(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=2)).input_shapes
    c = data.draw(npst.arrays(np.bool_, shapes[0]))
    a, b = (data.draw(npst.arrays(ring.dtype, shape)) for shape in shapes[1:])
    condition, x, y = share(engine, c, ring), share(engine, a, ring), share(engine, b, ring)
    for got in (
        select(condition, x, y),
        select(condition, x, b),
        select(condition, a, y),
        select(condition, a, b),
    ):
        assert np.array_equal(reveal(got), np.where(c, a, b))


def test_a_condition_of_another_ring_is_refused(engine: Engine) -> None:
    x = share(engine, np.arange(3), Z32)
    with pytest.raises(InputError, match="H702"):
        select(share(engine, np.ones(3, dtype=int), Z16), x, x)


def test_costs_are_as_declared(engine: Engine) -> None:
    c, x = share(engine, np.ones((4, 1), dtype=int), Z32), share(engine, np.arange(12), Z32)
    declared = cost_select(engine, (4, 12), Z32)
    assert metered(engine, lambda: select(c, x, 5)) == declared
    assert metered(engine, lambda: select(c, 7, 5)) == NOTHING
