import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.privacy import Leakage
from hedgerow.secure import groups, sort
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import metered, reveal, share, share_bits

RINGS = st.sampled_from([Z16, Z32, Z64])


@settings(max_examples=30, deadline=None)
@given(ring=RINGS, data=st.data())
def test_every_row_gets_the_sum_of_its_group(
    engine: Engine, ring: Ring, data: st.DataObject
) -> None:
    shape = data.draw(npst.array_shapes(max_dims=2, max_side=12))
    values = data.draw(npst.arrays(ring.dtype, shape))
    first = data.draw(npst.arrays(np.bool_, shape[0]))
    engine.leakage = Leakage(sort.openings(shape[0], groups.OPENINGS))
    got = groups.group_sum(share(engine, values, ring), share_bits(engine, first))
    number = np.cumsum(first | (np.arange(shape[0]) == 0)) - 1
    wanted = np.zeros((number[-1] + 1, *shape[1:]), dtype=ring.dtype)
    np.add.at(wanted, number, values)
    assert np.array_equal(reveal(got), wanted[number])
    assert all(row["equal"] for row in engine.leakage.compare())


@settings(max_examples=20, deadline=None)
@given(ring=RINGS, data=st.data())
def test_sums_by_membership(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    n, columns, n_groups = (data.draw(st.integers(1, 6)) for _ in range(3))
    values = data.draw(npst.arrays(ring.dtype, (n, columns)))
    member = data.draw(npst.arrays(np.bool_, (n_groups, n)))
    got = groups.group_sums(share(engine, values, ring), share(engine, member, ring))
    assert np.array_equal(reveal(got), np.matmul(member.astype(ring.dtype), values))


@pytest.mark.parametrize("shape", [(70,), (9, 4)])
def test_costs_are_as_declared(engine: Engine, shape: tuple[int, ...]) -> None:
    n = shape[0]
    x = share(engine, np.arange(np.prod(shape)).reshape(shape), Z32)
    first = share_bits(engine, np.arange(n) % 3 == 0)
    engine.leakage = Leakage(sort.openings(n, groups.OPENINGS))
    spent = metered(engine, lambda: groups.group_sum(x, first))
    assert spent == groups.cost_group_sum(engine, shape, Z32)
    rows, member = x.reshape(n, -1), share(engine, np.ones((2, n), dtype=int), Z32)
    spent = metered(engine, lambda: groups.group_sums(rows, member))
    assert spent == groups.cost_group_sums(engine, (2, rows.shape[1]), Z32)
