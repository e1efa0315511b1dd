"""Deals and joins: shares add up, whoever plays which role."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated.core import Core
from hedgerow.secure.replicated.sharing import Deal, Join, length, thirds, write
from tests.secure.replicated.wires import SEED


@given(st.integers(0, 10**6))
def test_thirds_cover_everything_and_are_even(n: int) -> None:
    runs = thirds(n)
    assert [run.start for run in runs] == [0, runs[0].stop, runs[1].stop]
    assert runs[2].stop == n
    assert max(map(length, runs)) - min(map(length, runs)) <= 1


def opened(out: np.ndarray, xor: bool = False) -> np.ndarray:
    """Check that both holders of a share agree, and combine the three."""
    for i in range(3):
        assert np.array_equal(out[i, 1], out[(i + 1) % 3, 0])
    a, b, c = out[:, 0]
    return a ^ b ^ c if xor else a + b + c


@pytest.mark.parametrize("t", [0, 1, 2])
@pytest.mark.parametrize("xor", [False, True])
def test_a_deal_shares_what_one_server_knows(t: int, xor: bool) -> None:
    core = Core(Simulator(), "a", SEED)
    step, value = core.step("deal"), np.arange(5, dtype=np.uint32) - np.uint32(2)
    deal = Deal(step, "v", t, (5,), np.uint32, value, xor=xor)
    step.exchange()
    out = core.shares((5,), np.uint32)
    write(core, deal, out)
    assert np.array_equal(opened(out, xor), value)
    assert core.network.meter.snapshot().payload == tuple(20 * (i == t) for i in range(3))


@pytest.mark.parametrize("t", [0, 1, 2])
def test_a_join_adds_what_two_servers_know(t: int) -> None:
    core = Core(Simulator(), "a", SEED)
    step, u, v = core.step("join"), np.arange(5, dtype=np.uint64), np.arange(5, 10, dtype=np.uint64)
    join = Join(step, "v", t, (5,), np.uint64, u.copy(), v.copy())
    step.exchange()
    out = core.shares((5,), np.uint64)
    write(core, join, out)
    assert np.array_equal(opened(out), u + v)
    assert core.network.meter.snapshot().payload == tuple(40 * (i != t) for i in range(3))
