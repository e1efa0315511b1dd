import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.scan import exclusive_sum, prefix_sum, public_group_sums, suffix_sum
from tests.secure.engines import metered, reveal, share


@settings(max_examples=25, deadline=None)
@given(ring=st.sampled_from([Z16, Z32, Z64]), data=st.data())
def test_scans(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    values = data.draw(npst.arrays(ring.dtype, npst.array_shapes(max_dims=3, max_side=5)))
    axis = data.draw(st.integers(-values.ndim, values.ndim - 1))
    x, running = share(engine, values, ring), values.cumsum(axis, dtype=ring.dtype)
    back = np.flip(np.flip(values, axis).cumsum(axis, dtype=ring.dtype), axis)
    assert np.array_equal(reveal(prefix_sum(x, axis)), running)
    assert np.array_equal(reveal(exclusive_sum(x, axis)), running - values)
    assert np.array_equal(reveal(suffix_sum(x, axis)), back)


@settings(max_examples=25, deadline=None)
@given(ring=st.sampled_from([Z16, Z32, Z64]), data=st.data())
def test_sums_over_public_groups(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    shapes = npst.array_shapes(max_dims=2, max_side=9, min_side=0)
    values = data.draw(npst.arrays(ring.dtype, shapes))
    n_groups = data.draw(st.integers(1, 5))
    group = data.draw(npst.arrays(np.int64, len(values), elements=st.integers(0, n_groups - 1)))
    wanted = np.zeros((n_groups, *values.shape[1:]), dtype=ring.dtype)
    np.add.at(wanted, group, values)
    got = public_group_sums(share(engine, values, ring), group, n_groups)
    assert np.array_equal(reveal(got), wanted)


def test_groups_out_of_range_are_refused(engine: Engine) -> None:
    x = share(engine, np.arange(3), Z32)
    for group in ([0, 1, 2], [0, -1, 1], [0, 1]):
        with pytest.raises(HedgerowError, match="a group from 0 to 1"):
            public_group_sums(x, group, 2)


def test_nothing_is_sent(engine: Engine) -> None:
    x = share(engine, np.arange(6), Z32)
    for action in (prefix_sum, exclusive_sum, suffix_sum):
        assert metered(engine, lambda f=action: f(x)) == NOTHING
    assert metered(engine, lambda: public_group_sums(x, [0, 1, 0, 1, 1, 1], 2)) == NOTHING
