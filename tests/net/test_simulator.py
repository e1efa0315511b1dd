"""The simulator moves copies and counts what would be sent."""

import numpy as np

from hedgerow.net.frames import wire_bytes
from hedgerow.net.network import Route
from hedgerow.net.simulator import Simulator
from tests.net.net_parties import PLANS, all_plans


def test_all_routes_arrive() -> None:
    network = Simulator(3)
    all_plans(network)
    reading = network.meter.snapshot()
    assert reading.rounds == len(PLANS) + 1
    plans = [*PLANS.values(), PLANS["ring"]]
    sent = [sum(r.nbytes for plan in plans for r in plan if r.source == p) for p in range(3)]
    assert list(reading.payload) == sent


def test_what_arrives_is_a_copy() -> None:
    network = Simulator(2)
    sent = np.arange(6, dtype=np.uint32).reshape(2, 3).T
    got = network.exchange("a", [Route(0, 1, (3, 2), "uint32")], {0: sent})[0]
    got[0, 0] = 99
    assert sent[0, 0] == 0
    assert got.flags.c_contiguous
    assert got.flags.owndata


def test_one_exchange_is_one_round_for_all() -> None:
    network = Simulator(4)
    network.exchange("a", [Route(0, 1, (2,), "uint64")], {0: np.zeros(2, np.uint64)})
    reading = network.meter.snapshot()
    assert [reading.total(p).rounds for p in range(4)] == [1, 1, 1, 1]
    assert reading.payload == (16, 0, 0, 0)
    assert reading.wire == (wire_bytes([16]), 0, 0, 0)
