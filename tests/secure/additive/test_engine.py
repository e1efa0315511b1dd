"""The engine of peers: conformance, one peer per process, what is refused."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError, LeakageError
from hedgerow.net.launch import run_parties
from hedgerow.net.simulator import Simulator
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import Engine
from tests.net.readings import same_bytes
from tests.secure.additive.peer_programs import SEED, every_primitive, open_everything, opened
from tests.secure.conformance import Conformance
from tests.secure.engines import IdealProvider, peers, reveal
from tests.secure.replicated.wires import Recorder, everything


@pytest.fixture(
    scope="module",
    params=[2, 3, pytest.param(5, marks=pytest.mark.slow), 4, 10],
    ids=lambda m: f"{m} peers",
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Of 4, and of 10, the most that there are, randomness is dealt: transfers would take long."""
    return peers(request.param, Transfers if request.param in (2, 3, 5) else IdealProvider)


class TestAdditiveEngine(Conformance):
    """Every primitive and operator against NumPy, bytes against the declaration, both phases."""


def test_three_processes_over_tls_open_and_meter_what_the_simulator_does() -> None:
    network = Simulator(3)
    together = open_everything(network)
    ends = run_parties(open_everything, 3)
    assert len(together) > 20
    for k, wanted in together.items():
        seen = [end.value[k] for end in ends if k in end.value]
        assert len(seen) == (1 if k.startswith("flags") else 3)
        assert all(np.array_equal(array, wanted) for array in seen)
    meters = [end.meter for end in ends]
    assert same_bytes(meters[0] | meters[1] | meters[2], network.meter.snapshot())


@pytest.mark.parametrize("n", [0, 1, 11])
def test_another_number_of_peers_is_refused(n: int) -> None:
    with pytest.raises(HedgerowError, match="H501") as caught:
        AdditiveEngine(Simulator(n) if n else Simulator(1), everything())
    assert "2 to 10 peers" in str(caught.value)


def test_shares_are_one_number_for_every_peer() -> None:
    for m in (2, 10):
        engine: Any = peers(m)
        a = np.arange(50)
        x = engine.input(a, m - 1, a.shape, Z64)
        assert x.data.shape == (m, 50)
        assert np.array_equal(x.data.sum(axis=0, dtype=np.uint64), a)
        for i in range(m):
            assert not np.any(x.data[i] == a)


def test_a_seed_repeats_a_run_and_is_not_private() -> None:
    runs = []
    for _ in range(2):
        engine: Any = AdditiveEngine(Simulator(2), everything(), insecure_seed=SEED)
        assert not engine.private
        x = engine.input(np.arange(9), 0, (9,), Z64)
        runs.append((engine.truncate(x * x, 1)).data)
    assert np.array_equal(*runs)
    fresh = AdditiveEngine(Simulator(2), everything())
    assert fresh.private
    y = fresh.input(np.arange(9), 0, (9,), Z64)
    assert not np.array_equal(fresh.truncate(y * y, 1).data, runs[0])


def test_keys_are_handed_to_their_second_holder_in_one_round() -> None:
    network = Recorder(4)
    AdditiveEngine(network, everything())
    (name, plan), *others = network.plans
    assert (name, others) == ("keys", [])
    assert [(r.source, r.destination) for r in plan] == [
        (i, j) for i in range(4) for j in range(i + 1, 4)
    ]
    assert len({view.tobytes() for views in network.views.values() for view in views}) == 6


def test_transcript_shapes_do_not_depend_on_values() -> None:
    plans = []
    for seed in (0, 5):
        network = Recorder(3)
        engine = AdditiveEngine(network, opened(), provider=IdealProvider)
        every_primitive(engine, None, seed)
        plans.append(network.plans)
    assert plans[0] == plans[1]


def test_an_undeclared_opening_sends_nothing() -> None:
    network = Recorder(3)
    engine = AdditiveEngine(network, everything(("sum", "peer 1", (3,))))
    x = engine.input(np.arange(3), 0, (3,), Z32)
    before = len(network.plans), network.meter.snapshot().payload
    for name, to in (("total", "peer 1"), ("sum", "peer 0"), ("sum", "peer")):
        with pytest.raises(LeakageError):
            engine.open(x, name, to)
    with pytest.raises(HedgerowError, match="H501"):
        engine.open(x, "sum", "server 1")
    assert (len(network.plans), network.meter.snapshot().payload) == before
    assert engine.open(x, "sum", "peer 1").tolist() == [0, 1, 2]


def test_an_opening_shows_a_sum_and_nothing_of_its_parts() -> None:
    """What two peers send to a third is uniform, also of numbers that one of them holds alone."""
    network, n = Recorder(3), 4000
    engine = AdditiveEngine(network, everything(("x", "peer 2", (n,))))
    x = engine.public(np.zeros(n, np.int64), Z64)
    assert not engine.open(x, "x", "peer 2").any()
    assert network.views[0][2:] == network.views[1][2:] == []
    for view in network.views[2][-2:]:
        counts = np.bincount(view.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-5


def test_what_does_not_fit_is_refused() -> None:
    engine: Any = peers(3)
    x = engine.input(np.arange(6).reshape(2, 3), 0, (2, 3), Z32)
    for number, refused in (
        ("H702", lambda: x @ x),
        ("H702", lambda: engine.reduce(x, Z64)),
        ("H702", lambda: engine.extend(x, Z16)),
        ("H702", lambda: engine.truncate(x, 31)),
        ("H702", lambda: engine.addends(x, 33)),
        ("H702", lambda: engine.shuffle(x, engine.permutation(3))),
        ("H108", lambda: engine.input(np.arange(3), 0, (4,), Z32)),
        ("H108", lambda: engine.input(None, 1, (4,), Z32)),
        ("H501", lambda: engine.input(np.arange(3), 3, (3,), Z32)),
        ("H501", lambda: engine.cost("multiply")),
    ):
        with pytest.raises(HedgerowError, match=number):
            refused()


def test_a_finished_engine_is_not_used_again() -> None:
    network = Simulator(2)
    with AdditiveEngine(network, everything(("x", "peer", (2,)))) as engine:
        x = engine.public(np.array([1, 2]), Z64)
    for action in (
        lambda: x * x,
        lambda: engine.public(1, Z64),
        lambda: engine.open(x, "x", "peer"),
        lambda: engine.prepare(engine.cost("mul", shape=(3,), ring=Z64)),
    ):
        with pytest.raises(HedgerowError) as caught:
            action()
        assert caught.value.code is Code.NETWORK_CLOSED
    assert engine.leakage.what_was_learned("peer") == []


def test_a_sum_of_bits_in_padding_is_zero() -> None:
    engine: Any = peers(3)
    bits = engine.random_bits((5, 3))
    assert reveal(bits).shape == (5, 3)
