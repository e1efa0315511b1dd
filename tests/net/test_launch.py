"""Programs at parties in processes of their own."""

import os

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from tests.net.net_parties import all_plans, metered
from tests.net.readings import same_bytes


def report(network: Network, array: np.ndarray, factor: int) -> dict:
    metered(network)
    return {"pid": os.getpid(), "party": network.local, "array": array * factor}


def given(network: Network, common: int, own: dict | None = None) -> dict:
    return {"common": common, "own": own}


def broken(network: Network) -> None:
    if network.local == (2,):
        raise ZeroDivisionError("a defect")
    all_plans(network)


def test_three_processes_and_the_simulator_meter_the_same() -> None:
    array = np.arange(6, dtype=np.uint64).reshape(2, 3)
    ends = run_parties(report, args=[array, 3])
    assert len({os.getpid(), *(end.value["pid"] for end in ends)}) == 4
    assert [end.value["party"] for end in ends] == [[0], [1], [2]]
    for end in ends:
        np.testing.assert_array_equal(end.value["array"], array * 3)
        assert end.peak_bytes > 1 << 20
        assert end.seconds > 0
        assert isinstance(end.meter, Reading)
    simulator = Simulator(3)
    all_plans(simulator)
    joined = ends[0].meter | ends[1].meter | ends[2].meter
    assert same_bytes(joined, simulator.meter.snapshot())


def test_a_party_alone_gets_what_is_its_own() -> None:
    secret = np.arange(3, dtype=np.uint8)
    ends = run_parties(given, args=[7], own={1: [{"secret": secret}]})
    assert [end.value["common"] for end in ends] == [7, 7, 7]
    assert ends[0].value["own"] is ends[2].value["own"] is None
    np.testing.assert_array_equal(ends[1].value["own"]["secret"], secret)


def test_processes_end_at_the_limit() -> None:
    ends = run_parties(all_plans, limit=0.0, check=False)
    assert [end.error.code for end in ends] == [Code.PARTY_FAILED] * 3


def test_the_first_cause_is_raised() -> None:
    with pytest.raises(HedgerowError) as caught:
        run_parties(broken, timeout=20)
    assert caught.value.code is Code.PARTY_FAILED
    assert "ZeroDivisionError: a defect" in str(caught.value)
