"""Three parties over TLS: what arrives, what is metered, and how a session ends."""

import re
import threading
import time

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meter import Reading
from hedgerow.net.network import Route
from hedgerow.net.simulator import Simulator
from tests.net.net_parties import Club, all_plans, exchange_all, metered, ring
from tests.net.readings import same_bytes


@pytest.fixture
def club(tmp_path) -> Club:
    return Club(tmp_path)


def test_same_program_same_meter_as_the_simulator(club: Club) -> None:
    readings = [Reading.from_json(text) for text in club.run(metered)]
    simulator = Simulator(3)
    all_plans(simulator)
    assert same_bytes(readings[0] | readings[1] | readings[2], simulator.meter.snapshot())


def test_wire_bytes_are_those_of_the_sockets(club: Club) -> None:
    def program(network) -> tuple[int, int]:
        before = sum(c.stream.sent for c in network._channels.values())
        all_plans(network)
        after = sum(c.stream.sent for c in network._channels.values())
        return after - before, network.meter.snapshot().total(network.party).wire

    for sent, metered_bytes in club.run(program):
        assert sent == metered_bytes


def test_large_messages_both_ways_at_once(club: Club) -> None:
    # Far more than sockets buffer: two parties that only send would wait for each other for ever.
    size = 24 << 20
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    plan = [Route(a, b, (size // 8,), "uint64") for a, b in pairs]

    def program(network) -> bool:
        array = np.arange(size // 8, dtype=np.uint64)
        ours = {k: array + np.uint64(k) for k, r in enumerate(plan) if r.source == network.party}
        got = network.exchange("all to all", plan, ours)
        return all((v - array == k).all() for k, v in got.items()) and len(got) == 2

    assert club.run(program) == [True] * 3


def test_strided_arrays_are_sent_in_order(club: Club) -> None:
    def program(network):
        mine = np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2].T
        plan = [Route(0, 1, mine.shape, "uint16")]
        return network.exchange("strided", plan, {0: mine} if network.party == 0 else {}).get(0)

    got = club.run(program)[1]
    np.testing.assert_array_equal(got, [[0, 4, 8], [2, 6, 10]])


def test_a_party_with_nothing_to_do_may_leave_first(club: Club) -> None:
    def program(network) -> int:
        for i in range(20):
            exchange_all(
                network, f"pair {i}", [Route(0, 1, (3,), "uint8"), Route(1, 0, (3,), "uint8")]
            )
        return network.meter.snapshot().rounds

    assert club.run(program) == [20] * 3


def test_early_frames_wait_for_their_step(club: Club) -> None:
    # Party 0 runs ahead: its frames to 2 arrive while 2 waits for 1, which is late.
    def program(network) -> bool:
        for i in range(5):
            exchange_all(network, "ahead", [Route(0, 2, (40_000,), "uint8")])
            exchange_all(
                network, "behind", [Route(1, 2, (3,), "uint8"), Route(2, 1, (i,), "uint8")]
            )
            exchange_all(network, "around", ring(2))
        return True

    assert club.run(program) == [True] * 3


def test_different_plans_end_the_session(club: Club) -> None:
    def program(network) -> None:
        exchange_all(network, "fine", ring(2))
        exchange_all(network, "differs", ring(2 if network.party else 3))
        exchange_all(network, "after", ring(2))

    errors = club.run(program)
    assert {e.code for e in errors} <= {Code.BAD_FRAME, Code.PEER_STOPPED, Code.PEER_GONE}
    assert Code.BAD_FRAME in {e.code for e in errors}
    # A party that lags behind learns of the end in an earlier step.
    assert all(re.search("step '(fine|differs|after)'", str(e)) for e in errors)


def test_an_error_of_one_program_ends_all(club: Club) -> None:
    def program(network) -> None:
        exchange_all(network, "fine", ring(2))
        if network.party == 1:
            raise Code.BAD_EPSILON.error(found="-1")
        exchange_all(network, "next", ring(2))
        exchange_all(network, "after", ring(2))

    errors = club.run(program)
    assert errors[1].code is Code.BAD_EPSILON
    for party in (0, 2):
        assert errors[party].code in {Code.PEER_STOPPED, Code.PEER_GONE}
        assert "step" in str(errors[party])
    assert any("H201" in str(errors[party]) for party in (0, 2))


def test_timeout_names_peer_and_step(club: Club) -> None:
    over = threading.Event()

    def program(network) -> None:
        exchange_all(network, "fine", ring(2))
        # One alone is in a hurry, else it is chance whose patience ends first.
        network.timeout = 0.3 if network.party == 0 else 30.0
        if network.party == 2:
            over.wait(60)
        try:
            exchange_all(network, "slow", ring(2))
            exchange_all(network, "after", ring(2))
        finally:
            if network.party == 0:
                over.set()

    errors = club.run(program)
    assert errors[0].code is Code.PEER_TIMEOUT
    assert "receive from party 2 in step 'slow'" in str(errors[0])
    assert all(isinstance(e, HedgerowError) for e in errors)


def test_a_failed_session_is_not_used_again(club: Club) -> None:
    def program(network) -> Code:
        with pytest.raises(HedgerowError):  # noqa: PT012
            exchange_all(network, "differs", ring(2 + network.party))
            exchange_all(network, "after", ring(2))
        with pytest.raises(HedgerowError) as caught:
            exchange_all(network, "again", ring(2))
        return caught.value.code

    assert club.run(program) == [Code.NETWORK_CLOSED] * 3


def test_waiting_is_metered(club: Club) -> None:
    def program(network) -> float:
        if network.party == 1:
            time.sleep(0.05)
        exchange_all(network, "late", [Route(1, 2, (1,), "uint8")])
        return network.meter.snapshot().at("late", network.party).waiting

    waited = club.run(program)
    assert waited[2] > 0
    assert waited[0] == 0


def test_a_key_is_not_used_for_too_much(club: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.net.channel.MAX_KEY_BYTES", 1 << 16)

    def program(network) -> None:
        for i in range(5):
            exchange_all(network, f"step {i}", ring(4096))

    assert Code.TOO_MUCH_FOR_ONE_KEY in {e.code for e in club.run(program)}


def test_session_length(club: Club) -> None:
    with pytest.raises(HedgerowError) as caught:
        club.join(0, session=b"short")
    assert caught.value.code is Code.SESSION_MISMATCH


def test_parties_that_agree_on_something_else_are_found_out(club: Club) -> None:
    def program(network) -> None:
        network.agreed = "step 2" if network.party == 1 else "step 1"
        exchange_all(network, "open", ring(2))
        exchange_all(network, "after", ring(2))

    errors = club.run(program)
    assert Code.BAD_FRAME in {e.code for e in errors}
    assert all(isinstance(e, HedgerowError) for e in errors)


def test_farewell_waits_for_the_listed_parties_alone(tmp_path) -> None:
    late = threading.Event()

    def program(network) -> bool:
        if network.party == 3:
            # It is not waited for; even without the call.
            return True
        if network.party == 1:
            time.sleep(0.2)
            late.set()
        network.farewell([0, 1, 2])
        return late.is_set()

    assert Club(tmp_path, 4).run(program) == [True] * 4


def test_farewell_ends_those_who_were_done(club: Club) -> None:
    """Party 2 fails in a step of its own, after the last exchange of the others."""

    def program(network) -> None:
        exchange_all(network, "last", ring(2))
        if network.party == 2:
            raise Code.BAD_EPSILON.error(found="-1")
        network.farewell([0, 1, 2])

    errors = club.run(program)
    assert errors[2].code is Code.BAD_EPSILON
    for party in (0, 1):
        assert errors[party].code in {Code.PEER_STOPPED, Code.PEER_GONE}
        assert re.search("step '(last|farewell)'", str(errors[party]))


def test_farewell_is_metered_as_in_the_simulator(club: Club) -> None:
    def program(network) -> str:
        network.farewell([0, 2])
        return network.meter.snapshot().to_json()

    readings = [Reading.from_json(text) for text in club.run(program)]
    simulator = Simulator(3)
    simulator.farewell([0, 2])
    assert same_bytes(readings[0] | readings[1] | readings[2], simulator.meter.snapshot())
