"""Deals and joins: shares add up, whoever plays which role."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.core import Core
from hedgerow.secure.replicated.sharing import Deal, Join, length, thirds, write
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import reveal
from tests.secure.replicated.wires import SEED, everything


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


@pytest.mark.parametrize("owner", [0, 1, 2])
@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_every_server_can_give(owner: int, ring: Ring) -> None:
    engine = ReplicatedEngine(Simulator(), everything())
    a = np.array([[0, 1, -1], [2, -(2**15), 2**15 - 1]])
    x = engine.input(a, owner, a.shape, ring)
    assert np.array_equal(ring.signed(reveal(x)), a)
    for i in range(3):
        assert np.array_equal(x.data[i, 1], x.data[(i + 1) % 3, 0])
    bits = a > 0
    assert np.array_equal(reveal(engine.input_bits(bits, owner, bits.shape)), bits)


def test_a_second_input_of_the_same_values_looks_different() -> None:
    engine = ReplicatedEngine(Simulator(), everything(), insecure_seed=SEED)
    a = np.arange(100)
    one, two = (engine.input(a, 1, a.shape, Z64).data for _ in range(2))
    # The third share of what a server deals is 0 each time.
    assert not np.any(one[1] == two[1])
