"""The three-server engine: conformance, one party per process, secrecy of what arrives."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError, LeakageError
from hedgerow.net.launch import run_parties
from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.net.readings import same_bytes
from tests.secure.conformance import Conformance
from tests.secure.engines import reveal
from tests.secure.replicated.three_server_programs import (
    declared,
    every_primitive,
    open_everything,
    values,
)
from tests.secure.replicated.wires import SEED, Recorder, apart, everything


@pytest.fixture(scope="module")
def engine() -> Engine:
    return ReplicatedEngine(Simulator(), everything(), insecure_seed=SEED)


class TestReplicatedEngine(Conformance):
    """Every primitive and operator against NumPy, bytes against the declaration."""


def test_parties_apart_open_what_the_simulator_opens() -> None:
    network = Simulator()
    together = every_primitive(ReplicatedEngine(network, declared(), insecure_seed=SEED), None)
    parts = apart(3, every_primitive, declared)
    for k, wanted in enumerate(together):
        seen = [opened[k] for opened, _ in parts if opened[k] is not None]
        assert seen
        assert all(np.array_equal(array, wanted) for array in seen)
    meter = network.meter.snapshot()
    assert tuple(reading.payload[0] for _, reading in parts) == meter.payload
    assert all(reading.rounds == meter.rounds for _, reading in parts)


def test_three_processes_over_tls_open_and_meter_what_the_simulator_does() -> None:
    network = Simulator()
    together = open_everything(network)
    ends = run_parties(open_everything, 3)
    for k, wanted in together.items():
        seen = [end.value[k] for end in ends if k in end.value]
        assert seen
        assert all(np.array_equal(array, wanted) for array in seen)
    meters = [end.meter for end in ends]
    joined = meters[0] | meters[1] | meters[2]
    assert same_bytes(joined, network.meter.snapshot())


def test_shares_are_consistent_and_two_servers_hold_all() -> None:
    engine = ReplicatedEngine(Simulator(), everything(), insecure_seed=SEED)
    a = values(Z64, 50)
    x = engine.input(a, 0, a.shape, Z64)
    product = x * x
    for i in range(3):
        ours, next_ours = product.data[i], product.data[(i + 1) % 3]
        assert np.array_equal(ours[1], next_ours[0])
        assert np.array_equal(ours[0] + ours[1] + next_ours[1], a * a)
        assert not np.any(ours[0] + ours[1] == a * a)


def uniform(view: Any) -> float:
    """P-value of bytes against the uniform law."""
    return float(stats.chisquare(np.bincount(view, minlength=256)).pvalue)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda r: str(r.bits))
@pytest.mark.parametrize("fill", ["zeros", "ones", "random"])
def test_what_a_server_receives_is_uniform(ring: Ring, fill: str) -> None:
    """Also when all inputs are 0 or -1, where an unmasked value would stand out."""
    n = 3000
    random = values(ring, n)
    a = {"zeros": random * 0, "ones": random | ring.dtype.type(-1 % 2**ring.bits), "random": random}
    network = Recorder()
    engine = ReplicatedEngine(network, everything(), insecure_seed=SEED)
    x = engine.input(a[fill], 2, (n,), ring)
    y = engine.input(a[fill], 0, (n,), ring)
    bits = engine.input_bits(a[fill] != 0, 1, (n,))
    permutation = engine.permutation(n)
    actions = {
        "input": lambda: [engine.input(a[fill], p, (n,), ring) for p in range(3)],
        "input bits": lambda: [
            engine.input_bits(np.tile(a[fill] != 0, (8, 1)), p, (8, n)) for p in range(3)
        ],
        "mul": lambda: x * y,
        "public": lambda: engine.public(a[fill], ring) * engine.public(a[fill], ring),
        "matmul": lambda: x.reshape(60, 50) @ y.reshape(50, 60),
        "and": lambda: [bits & bits for _ in range(16)],
        "addends": lambda: engine.addends(x, ring.bits),
        "b2a": lambda: engine.b2a(bits, ring),
        "truncate": lambda: engine.truncate(x, 5),
        "extend": lambda: engine.extend(x, Z64) if ring != Z64 else x * y,
        "shuffle": lambda: engine.shuffle(x, permutation),
        "unshuffle": lambda: engine.unshuffle(x, permutation),
    }
    p_values = []
    for name, action in actions.items():
        network.views = {p: [] for p in range(3)}
        action()
        for server in range(3):
            view = network.received(server)
            assert view.size > 1000, (name, server)
            p_values.append(uniform(view))
    # With 36 tests, the smallest p-value is below 1e-5 by chance in one of 3,000 seeds.
    assert min(p_values) > 1e-5, dict(zip(actions, np.reshape(p_values, (-1, 3)), strict=True))


def test_one_server_does_not_see_which_input_it_was() -> None:
    """Inputs that differ in every bit give views that agree in half of theirs, key by key."""
    n = 4000
    views = []
    for fill in (0, 2**64 - 1):
        network = Recorder()
        engine = ReplicatedEngine(network, everything(), insecure_seed=str(fill).encode())
        x = engine.input(np.full(n, fill, np.uint64), 2, (n,), Z64)
        network.views = {p: [] for p in range(3)}
        engine.b2a((engine.addends(x * x, 64)[0])[:1], Z64)
        views.append([network.received(server) for server in range(3)])
    for one, other in zip(*views, strict=True):
        agree = np.unpackbits(one ^ other).mean()
        assert abs(agree - 0.5) < 6 * 0.5 / np.sqrt(8 * one.size)


def test_transcript_shapes_do_not_depend_on_values() -> None:
    plans = []
    for seed in (0, 5):
        network = Recorder()
        engine = ReplicatedEngine(network, declared())
        every_primitive(engine, None, seed)
        plans.append(network.plans)
    assert plans[0] == plans[1]


def test_an_undeclared_opening_sends_nothing() -> None:
    network = Recorder()
    engine = ReplicatedEngine(network, everything(("sum", "server 1", (3,))))
    x = engine.input(np.arange(3), 0, (3,), Z32)
    before = len(network.plans), engine.network.meter.snapshot().payload
    for name, to in (("total", "server 1"), ("sum", "server 0"), ("sum", "server 2")):
        with pytest.raises(LeakageError):
            engine.open(x, name, to)
    assert (len(network.plans), engine.network.meter.snapshot().payload) == before


def test_a_seed_repeats_a_run_and_is_not_private() -> None:
    data = []
    for _ in range(2):
        engine = ReplicatedEngine(Simulator(), everything(), insecure_seed=SEED)
        assert not engine.private
        data.append(engine.random_bits((4, 100)).data)
    assert np.array_equal(*data)
    fresh = ReplicatedEngine(Simulator(), everything())
    assert fresh.private
    assert not np.array_equal(fresh.random_bits((4, 100)).data, data[0])


def test_what_does_not_fit_is_refused() -> None:
    engine = ReplicatedEngine(Simulator(), everything())
    x = engine.input(np.arange(6).reshape(2, 3), 0, (2, 3), Z32)
    for refused in (
        lambda: x @ x,
        lambda: engine.reduce(x, Z64),
        lambda: engine.extend(x, Z16),
        lambda: engine.truncate(x, 31),
        lambda: engine.addends(x, 33),
        lambda: engine.shuffle(x, engine.permutation(3)),
        lambda: engine.local_matmul(x.data, np.zeros((4, 1), np.uint32)),
        lambda: engine.input(np.arange(3), 0, (4,), Z32),
        lambda: engine.input(None, 1, (4,), Z32),
        lambda: engine.input(np.arange(3), 3, (3,), Z32),
        lambda: engine.cost("multiply"),
        lambda: ReplicatedEngine(Simulator(2), everything()),
    ):
        with pytest.raises(HedgerowError):
            refused()


def test_padding_of_bits_is_not_opened() -> None:
    network = Recorder()
    engine = ReplicatedEngine(network, everything())
    bits = engine.random_bits((5, 3))
    network.views = {p: [] for p in range(3)}
    reveal(bits)
    for view in network.views.values():
        assert all(np.all(array >> np.uint64(3) == 0) for array in view)


def test_a_finished_engine_is_not_used_again() -> None:
    network = Simulator()
    with ReplicatedEngine(network, everything(("x", "server", (2,)))) as engine:
        x = engine.public(np.array([1, 2]), Z64)
        before = network.meter.snapshot()
        engine.finish()
    after = network.meter.snapshot()
    assert (after.rounds, after.payload) == (before.rounds + 2, before.payload)
    engine.finish()
    assert network.meter.snapshot().rounds == after.rounds
    for action in (
        lambda: x * x,
        lambda: engine.public(1, Z64),
        lambda: engine.open(x, "x", "server"),
    ):
        with pytest.raises(HedgerowError) as caught:
            action()
        assert caught.value.code is Code.NETWORK_CLOSED
    assert engine.leakage.what_was_learned("server") == []
    assert engine.private


def test_an_error_leaves_the_engine_unfinished() -> None:
    network = Simulator()
    engine = ReplicatedEngine(network, everything())
    rounds = network.meter.snapshot().rounds
    with pytest.raises(ZeroDivisionError), engine:
        raise ZeroDivisionError
    assert network.meter.snapshot().rounds == rounds


def test_engines_follow_each_other_over_one_network() -> None:
    network = Simulator()
    for _ in range(3):
        with ReplicatedEngine(network, everything(("x", "server", ()))) as engine:
            x = engine.input(np.array(6), 2, (), Z64)
            assert engine.open(x * x, "x", "server") == 36
