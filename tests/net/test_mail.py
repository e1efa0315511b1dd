"""Mail between two parties: in order, bounded, metered, and every fault has its number."""

import threading
from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.launch import run_parties
from hedgerow.net.mesh import Mesh
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network, Route
from hedgerow.net.simulator import Simulator
from tests.net.faults import Fault, Kind, run_spoilt
from tests.net.net_parties import (
    Club,
    exchange_all,
    faulty_mail,
    in_threads,
    mail_around,
    mesh,
    sent_by_mail,
)
from tests.net.readings import same_bytes
from tests.net.test_faults import CAUSES, FAULTY, GRACE, timed_here

Everywhere = Callable[..., list[Any]]


@pytest.fixture(params=["mesh", "tls"])
def everywhere(request: pytest.FixtureRequest, tmp_path) -> Everywhere:
    """Run a program at n parties, in this process or over TLS: values, or the numbered errors."""

    def run(program: Callable[[Network], Any], n: int = 3, timeout: float = 20.0) -> list[Any]:
        if request.param == "tls":
            return Club(tmp_path, n).run(program, timeout=timeout)
        made = Mesh(n, timeout=timeout)
        return in_threads({made.at([party]): program for party in range(n)})

    return run


def content(source: int, destination: int, number: int, size: int) -> bytes:
    return bytes([source, destination, number % 256]) + bytes(size)


def posted(script: list[tuple[int, int, int]], network: Network) -> bool:
    """Post all of a script, then receive all: in order per sender, whatever comes first."""
    (me,) = network.local
    due: dict[int, list[bytes]] = {}
    for number, (source, destination, size) in enumerate(script):
        what = content(source, destination, number, size)
        if source == me:
            network.post("letters", me, destination, what)
        if destination == me:
            due.setdefault(source, []).append(what)
    while due:
        sender, data = network.receive("letters", me, sorted(due))
        assert data == due[sender].pop(0)
        if not due[sender]:
            del due[sender]
    return True


letters = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.sampled_from([0, 1, 90, 16_325, 16_326, 400_000])
    ).filter(lambda one: one[0] != one[1]),
    max_size=25,
)


@given(letters)
@settings(max_examples=60, deadline=None)
def test_mail_keeps_its_order_in_process(script: list[tuple[int, int, int]]) -> None:
    made = Mesh(3)
    networks = {made.at([p]): lambda network: posted(script, network) for p in range(3)}
    assert in_threads(networks) == [True] * 3


@given(letters)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_mail_keeps_its_order_over_tls(shared_club, script: list[tuple[int, int, int]]) -> None:
    shared_club.open()
    assert shared_club.run(lambda network: posted(script, network)) == [True] * 3


@pytest.fixture
def shared_club(tmp_path) -> Club:
    return Club(tmp_path)


@given(letters)
@settings(max_examples=30, deadline=None)
def test_mail_keeps_its_order_one_program_at_a_time(script: list[tuple[int, int, int]]) -> None:
    programs = {(p,): lambda network: posted(script, network) for p in range(3)}
    assert Mesh(3).run(programs) == [True] * 3


def test_two_may_post_at_once(everywhere: Everywhere) -> None:
    # Far more than sockets buffer: two parties that only send would wait for each other for ever.
    def program(network) -> bool:
        (me,) = network.local
        network.post("large", me, 1 - me, bytes(24 << 20))
        return network.receive("large", me, [1 - me])[1] == bytes(24 << 20)

    assert everywhere(program, 2) == [True] * 2


def test_the_first_of_several_senders(everywhere: Everywhere) -> None:
    def program(network) -> list[int]:
        (me,) = network.local
        if me == 2:
            first = network.receive("ready", 2, [0, 1])[0]
            network.post("go", 2, 0, b"")
            return [first, network.receive("ready", 2, [0, 1])[0]]
        if me == 0:
            network.receive("go", 0, [2])
        network.post("ready", me, 2, b"")
        return []

    assert everywhere(program)[2] == [1, 0]


def test_bytes_are_those_of_tls() -> None:
    """Servers in lock-step, two others by mail: real processes, and three endpoints in this one."""
    ends = run_parties(sent_by_mail, 5)
    apart = reduce(or_, [Reading.from_json(end.value) for end in ends])
    made = Mesh(5)
    networks = {made.at(seats): sent_by_mail for seats in ([0, 1, 2], [3], [4])}
    here = reduce(or_, map(Reading.from_json, in_threads(networks)))
    assert same_bytes(apart, here)
    assert here.at("question", 4).payload == 3 * 400
    assert here.at("question", 4).rounds == 0
    assert here.without("question", "answer").payload == (2 * 10, 2 * 10, 2 * 10, 0, 0)


def test_wire_bytes_of_mail_are_those_of_the_socket(tmp_path) -> None:
    def program(network) -> tuple[int, int]:
        before = sum(c.stream.sent for c in network._channels.values())
        for size in (0, 300, 16_328, 16_329, 400_000):
            mail_around(network, "letters", size)
        after = sum(c.stream.sent for c in network._channels.values())
        return after - before, network.meter.snapshot().total(network.party).wire

    for sent, metered in Club(tmp_path).run(program):
        assert sent == metered > 0


def test_endpoints_with_several_parties_in_lock_step() -> None:
    plan = [*mesh(5), Route(0, 1, (3,), "uint64")]
    made = Mesh(3)
    networks = [made.at([0, 1]), made.at([2])]
    in_threads({network: lambda one: exchange_all(one, "all", plan) for network in networks})
    simulator = Simulator(3)
    exchange_all(simulator, "all", plan)
    here = networks[0].meter.snapshot() | networks[1].meter.snapshot()
    assert same_bytes(here, simulator.meter.snapshot())


@pytest.mark.parametrize("first", ["steps", "mail"])
def test_a_pair_uses_one_of_the_two(everywhere: Everywhere, first: str) -> None:
    plan = [Route(0, 1, (2,), "uint8"), Route(1, 0, (2,), "uint8")]

    def mail(network) -> None:
        (me,) = network.local
        network.post("letter", me, 1 - me, b"x")
        network.receive("letter", me, [1 - me])

    def program(network) -> None:
        steps = [lambda: exchange_all(network, "steps", plan), lambda: mail(network)]
        for step in steps if first == "steps" else reversed(steps):
            step()

    errors = everywhere(program, 2)
    assert {error.code for error in errors} <= {Code.BAD_FRAME, Code.PEER_STOPPED, Code.PEER_GONE}
    assert any(error.code is Code.BAD_FRAME for error in errors)
    assert all("party" in str(error) and "step" in str(error) for error in errors)


def test_a_peer_that_mails_in_lock_step(everywhere: Everywhere) -> None:
    def program(network) -> None:
        if network.local == (0,):
            network.post("letter", 0, 1, b"xy")
            network.receive("letter", 0, [1])
        else:
            network.exchange("steps", [Route(0, 1, (2,), "uint8")], {})

    errors = everywhere(program, 2)
    assert errors[1].code is Code.BAD_FRAME
    assert "party 0 in step 'steps'" in str(errors[1])
    assert errors[0].code in {Code.PEER_STOPPED, Code.PEER_GONE}


def test_mail_of_another_step(everywhere: Everywhere) -> None:
    def program(network) -> None:
        if network.local == (0,):
            network.post("question", 0, 1, b"xy")
            network.receive("answer", 0, [1])
        else:
            network.receive("answer", 1, [0])

    errors = everywhere(program, 2)
    assert errors[1].code is Code.BAD_FRAME
    assert "party 0 in step 'answer'" in str(errors[1])


def test_the_longest_mail(everywhere: Everywhere) -> None:
    def program(network) -> int:
        (me,) = network.local
        network.most_mail = 1000 if me else 1001
        if me == 0:
            network.post("letter", 0, 1, bytes(1000))
            network.post("letter", 0, 1, bytes(1001))
            network.receive("letter", 0, [1])
        network.receive("letter", 1, [0])
        with pytest.raises(HedgerowError) as caught:
            network.post("letter", 1, 0, bytes(1001))
        assert caught.value.code is Code.BAD_PLAN
        network.receive("letter", 1, [0])
        return 0

    errors = everywhere(program, 2)
    assert errors[1].code is Code.BAD_FRAME
    assert "1001" in str(errors[1])
    assert "party 0 in step 'letter'" in str(errors[1])


def test_what_nobody_reads_stays_with_its_sender(tmp_path) -> None:
    """A peer cannot fill another's memory: above the bound its bytes wait in the sockets."""
    read = threading.Event()

    def program(network) -> int:
        network.most_mail = 100_000
        if network.party == 0:
            for _ in range(400):
                network.post("letters", 0, 1, bytes(50_000))
            return 0
        network.post("hello", 1, 2, b"") if network.party == 1 else None
        if network.party == 2:
            network.receive("hello", 2, [1])
            read.wait(20)
            network.post("hello", 2, 1, b"")
            return 0
        network.receive("letters", 1, [0])
        read.set()
        network.receive("hello", 1, [2])
        held = len(network._channels[0].inbox)
        for _ in range(399):
            network.receive("letters", 1, [0])
        return held

    assert Club(tmp_path).run(program)[1] <= 2


def test_waiting_names_everybody_who_is_waited_for(everywhere: Everywhere) -> None:
    over = threading.Event()

    def program(network) -> None:
        if network.local == (2,):
            try:
                network.receive("late", 2, [0, 1], timeout=0.3)
            finally:
                over.set()
        over.wait(20)

    error = everywhere(program)[2]
    assert error.code is Code.PEER_TIMEOUT
    assert "receive from party 0 or party 1 in step 'late'" in str(error)


def test_one_of_several_senders_may_leave(everywhere: Everywhere) -> None:
    def program(network) -> Any:
        (me,) = network.local
        if me == 0:
            return None
        if me == 1:
            network.receive("go", 1, [2])
            network.post("last", 1, 2, b"x")
            return None
        network.post("go", 2, 1, b"")
        assert network.receive("last", 2, [0, 1]) == (1, b"x")
        with pytest.raises(HedgerowError) as caught:
            network.receive("last", 2, [0, 1])
        return caught.value.code, "step 'last'" in str(caught.value)

    assert everywhere(program)[2] == (Code.PEER_GONE, True)


def test_an_error_of_one_ends_those_who_wait_for_another(everywhere: Everywhere) -> None:
    def program(network) -> None:
        (me,) = network.local
        if me == 0:
            network.receive("ready", 0, [2])
            raise Code.BAD_EPSILON.error(found="-1")
        if me == 2:
            network.post("ready", 2, 0, b"")
        network.receive("never", me, [3 - me])

    errors = everywhere(program)
    assert errors[0].code is Code.BAD_EPSILON
    assert {errors[1].code, errors[2].code} <= {Code.PEER_STOPPED, Code.PEER_GONE}
    assert any("H201" in str(error) for error in errors[1:])


@pytest.mark.parametrize("kind", CAUSES)
def test_every_fault_of_mail_ends_all_three(kind: Kind, tmp_path) -> None:
    assert set(CAUSES) == set(get_args(Kind))
    timeout = 1.0 if CAUSES[kind] is Code.PEER_TIMEOUT else 10.0
    fault = Fault(kind, "faulty", seconds=timeout + 0.5)
    if CAUSES[kind] is Code.PEER_GONE:
        ends = run_spoilt(faulty_mail, {FAULTY: fault}, args=[timeout])
        assert not any("Traceback" in end.log or end.value for end in ends)
        found = [(end.error, end.seconds) for end in ends]
    else:
        found = timed_here(Club(tmp_path), faulty_mail, fault, timeout)
    for party, (error, seconds) in enumerate(found):
        assert error is not None, party
        assert seconds < 2 * timeout + GRACE
        if (kind, party) != ("die", FAULTY):
            assert "party " in str(error)
            assert "step '" in str(error)
    causes = [str(error) for error, _ in found if error.code is CAUSES[kind]]
    assert any(f"party {FAULTY}" in text for text in causes), [str(error) for error, _ in found]


def test_misuse_is_refused_at_once() -> None:
    network = Mesh(3).at([0, 1])
    for action in (
        lambda: network.post("a", 2, 0, b""),
        lambda: network.post("a", 0, 0, b""),
        lambda: network.post("a", 0, 3, b""),
        lambda: network.receive("a", 2, [0]),
        lambda: network.receive("a", 0, []),
        lambda: network.receive("a", 0, [0]),
    ):
        with pytest.raises(HedgerowError) as caught:
            action()
        assert caught.value.code is Code.BAD_PLAN
    network.close()
    for action in (lambda: network.post("a", 0, 1, b""), lambda: network.receive("a", 0, [1])):
        with pytest.raises(HedgerowError) as caught:
            action()
        assert caught.value.code is Code.NETWORK_CLOSED


def test_local_parties_mail_each_other_and_do_not_wait_for_themselves() -> None:
    network = Simulator(2)
    network.post("a", 0, 1, b"x")
    assert network.receive("a", 1, [0]) == (0, b"x")
    with pytest.raises(HedgerowError) as caught:
        network.receive("a", 1, [0])
    assert caught.value.code is Code.PEER_TIMEOUT


def test_the_error_that_came_first_is_raised() -> None:
    def fails(network) -> None:
        raise ZeroDivisionError

    def waits(network) -> None:
        network.receive("never", 0, [1])

    with pytest.raises(ZeroDivisionError):
        Mesh(2).run({(0,): waits, (1,): fails})


def test_programs_that_wait_for_each_other_say_so_at_once() -> None:
    def waits(network) -> None:
        (me,) = network.local
        network.receive("never", me, [(me + 1) % 3])

    with pytest.raises(HedgerowError) as caught:
        Mesh(3, timeout=3600.0).run({(party,): waits for party in range(3)})
    assert caught.value.code is Code.PEER_TIMEOUT
    # Also where the last one that could have helped is done.
    with pytest.raises(HedgerowError) as caught:
        Mesh(3, timeout=3600.0).run({(0,): waits, (1,): waits, (2,): lambda network: None})
    assert caught.value.code is Code.PEER_GONE


def test_programs_run_in_an_order_that_is_always_the_same() -> None:
    def program(network, order: list[int]) -> None:
        (me,) = network.local
        for turn in range(3):
            order.append(me)
            for other in range(4):
                if other != me:
                    network.post("go", me, other, bytes([turn]))
            for _ in range(3):
                network.receive("go", me, [other for other in range(4) if other != me])

    orders = []
    for _ in range(20):
        order: list[int] = []
        seats = [(party,) for party in range(4)]
        Mesh(4).run(dict.fromkeys(seats, partial(program, order=order)))
        orders.append(order)
    assert len(orders[0]) == 12
    assert all(order == orders[0] for order in orders)


def test_arrays_are_not_mail() -> None:
    made = Mesh(2)
    one, other = made.at([0]), made.at([1])
    one.exchange("s", [Route(0, 1, (1,), "uint8")], {0: np.zeros(1, np.uint8)})
    with pytest.raises(HedgerowError) as caught:
        other.receive("s", 1, [0])
    assert caught.value.code is Code.BAD_FRAME
