"""Inputs by servers and by owners outside."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import reveal
from tests.secure.replicated.wires import SEED, Recorder, apart, everything


def test_an_outside_owner_sends_seeds_and_one_correction_twice() -> None:
    network = Recorder(4)
    engine = ReplicatedEngine(network, everything(), insecure_seed=SEED)
    before = network.meter.snapshot()
    engine.input(np.arange(1000), 3, (1000,), Z64)
    spent = network.meter.snapshot() - before
    assert spent.rounds == 2
    assert spent.payload == (64, 64, 64, 4 * 16 + 2 * 8000)


class Forger(Recorder):
    """An owner that gives the holders of one part different versions."""

    def __init__(self, route: int) -> None:
        super().__init__(4)
        self.route = route

    def exchange(self, step, plan, outbox):
        found = super().exchange(step, plan, outbox)
        if step == "input":
            found[self.route].reshape(-1)[0] ^= 1
        return found


@pytest.mark.parametrize("route", range(6))
def test_servers_notice_an_owner_that_gives_them_different_parts(route: int) -> None:
    engine = ReplicatedEngine(Forger(route), everything(), insecure_seed=SEED)
    with pytest.raises(HedgerowError) as caught:
        engine.input_bits(np.arange(100) % 2 == 0, 3, (100,))
    assert caught.value.code is Code.SHARES_DIFFER
    assert "party 3" in str(caught.value)


@pytest.mark.parametrize("owner", [0, 1, 2, 3])
@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_every_party_can_give(owner: int, ring: Ring) -> None:
    engine = ReplicatedEngine(Recorder(4), everything())
    a = np.array([[0, 1, -1], [2, -(2**15), 2**15 - 1]])
    x = engine.input(a, owner, a.shape, ring)
    assert np.array_equal(ring.signed(reveal(x)), a)
    for i in range(3):
        assert np.array_equal(x.data[i, 1], x.data[(i + 1) % 3, 0])
    bits = a > 0
    assert np.array_equal(reveal(engine.input_bits(bits, owner, bits.shape)), bits)


def test_a_second_input_of_the_same_values_looks_different() -> None:
    network = Recorder(4)
    engine = ReplicatedEngine(network, everything(), insecure_seed=SEED)
    a = np.arange(100)
    one, two = (engine.input(a, 3, a.shape, Z64).data for _ in range(2))
    assert not np.any(one == two)


def test_an_owner_apart_holds_no_shares() -> None:
    def program(engine: ReplicatedEngine, party: int) -> tuple[int, ...]:
        x = engine.input(np.arange(5) if party == 3 else None, 3, (5,), Z32)
        assert x.shape == (5,)
        return x.data.shape

    parts = apart(4, program, everything)
    assert [shape for shape, _ in parts] == [(1, 2, 5)] * 3 + [(0, 2, 5)]
