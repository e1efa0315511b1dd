"""Places are bounded: for strangers, for each member and for all of them."""

import contextlib
import threading
import time

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.wire import gate as module
from hedgerow.parties.wire.gate import Gate, Replays, Throttle
from hedgerow.parties.wire.handlers import ServiceLimits
from tests.parties.wire.parties_calls import refuses


class Fake:
    """A link that only remembers that it was cut."""

    def __init__(self) -> None:
        self.was_cut = False

    def cut(self) -> None:
        self.was_cut = True


def entered(gate: Gate, link: Fake, member: str) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    gate.admit(link)
    stack.enter_context(gate.place(link, member))
    return stack


def test_silent_strangers_make_room_at_once() -> None:
    """Nobody waits for them, and who has spoken is not cut for their sake."""
    gate, links = Gate(ServiceLimits(strangers=3)), [Fake() for _ in range(5)]
    begun = time.monotonic()
    for link in links:
        assert gate.admit(link)
        if link is links[1]:
            gate.spoke(link)
    assert [link.was_cut for link in links] == [True, False, True, False, False]
    assert time.monotonic() - begun < 1


def test_strangers_of_one_address_are_bounded() -> None:
    """However many come from there, others find a place; those who speak keep theirs."""
    gate = Gate(ServiceLimits(strangers=9, per_address=3))
    crowd, other = [Fake() for _ in range(20)], Fake()
    assert gate.admit(other, "b")
    assert all(gate.admit(link, "a") for link in crowd)
    assert len(gate._shaking) == 4
    assert not other.was_cut
    assert [link.was_cut for link in crowd] == [True] * 17 + [False] * 3
    for link in crowd[17:]:
        gate.spoke(link)
    # One more is sent away without a word, at once, and not from elsewhere.
    late = Fake()
    assert not gate.admit(late, "a")
    assert gate.admit(late, "c")
    # A crowd of many addresses takes the places of those who are silent first.
    many = [Fake() for _ in range(20)]
    assert all(gate.admit(link, f"d{i}") for i, link in enumerate(many))
    assert not any(link.was_cut for link in crowd[17:])


def test_the_oldest_stranger_that_has_spoken_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.2)
    gate, links = Gate(ServiceLimits(strangers=2)), [Fake() for _ in range(4)]
    begun = time.monotonic()
    for link in links:
        gate.admit(link)
        gate.spoke(link)
    assert [link.was_cut for link in links] == [True, True, False, False]
    assert 0.1 < time.monotonic() - begun < 2
    gate.forget(links[2])
    gate.admit(Fake())
    assert not links[3].was_cut


def test_payloads_are_bounded() -> None:
    gate = Gate(ServiceLimits(octets=100, octets_per_member=60))
    with contextlib.ExitStack() as stack:
        stack.enter_context(gate.hold("a", 50))
        with gate.hold("b", 50), gate.hold("c", 0):
            refuses(Code.SERVICE_BUSY, lambda: stack.enter_context(gate.hold("c", 1)))
        refuses(Code.SERVICE_BUSY, lambda: stack.enter_context(gate.hold("a", 11)))
        refuses(Code.PAYLOAD_TOO_LARGE, lambda: stack.enter_context(gate.hold("c", 61)))
        stack.enter_context(gate.hold("a", 10))
    assert gate._held.total() == 0


def test_members_are_bounded() -> None:
    gate = Gate(ServiceLimits(strangers=50, members=3, per_member=2))
    a = [entered(gate, Fake(), "a") for _ in range(2)]
    refuses(Code.SERVICE_BUSY, lambda: entered(gate, Fake(), "a"))
    b = entered(gate, Fake(), "b")
    refuses(Code.SERVICE_BUSY, lambda: entered(gate, Fake(), "b"))
    a[0].close()
    with entered(gate, Fake(), "b"):
        pass
    a[1].close()
    b.close()
    assert gate._counts.total() == 0
    assert not gate._waiting


def test_a_stop_waits_for_what_has_begun() -> None:
    gate, working, waiting, shaking = (
        Gate(ServiceLimits(strangers=9, members=9, per_member=9)),
        Fake(),
        Fake(),
        Fake(),
    )
    stack = entered(gate, working, "a")
    gate.begin(working)
    idle = entered(gate, waiting, "b")
    gate.admit(shaking)
    ends = []
    thread = threading.Thread(target=lambda: ends.append(gate.stop(20)))
    thread.start()
    while not gate._stopping:
        time.sleep(0.01)
    refuses(Code.SERVICE_STOPPING, lambda: gate.begin(waiting))
    refuses(Code.SERVICE_STOPPING, lambda: entered(gate, Fake(), "c"))
    time.sleep(1.3)
    assert (working.was_cut, waiting.was_cut, shaking.was_cut) == (False, True, True)
    assert ends == []
    stack.close()
    thread.join(5)
    assert ends == [True]
    idle.close()


def test_a_stop_runs_out_of_patience() -> None:
    gate, working = Gate(ServiceLimits(strangers=9, members=9, per_member=9)), Fake()
    stack = entered(gate, working, "a")
    gate.begin(working)
    assert not gate.stop(0.2)
    assert working.was_cut
    stack.close()


def test_who_has_rested_longest_goes_first() -> None:
    gate, links = (
        Gate(ServiceLimits(strangers=9, members=2, per_member=9)),
        [Fake() for _ in range(3)],
    )
    with contextlib.ExitStack() as stack:
        assert all(stack.enter_context(gate.rest(link)) for link in links)  # type: ignore[arg-type]
        assert [link.was_cut for link in links] == [True, False, False]
        gate.stop(1.0)
        assert all(link.was_cut for link in links)
        assert not stack.enter_context(gate.rest(Fake()))  # type: ignore[arg-type]
    assert not gate._resting


def test_an_identifier_is_used_up() -> None:
    memory = Replays(10, 100)
    memory.take("a", "x", time.time())
    refuses(Code.REQUEST_REPLAYED, lambda: memory.take("a", "x", time.time()))
    memory.take("b", "x", time.time())


def test_it_is_forgotten_when_its_time_alone_would_refuse_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, start = Replays(10, 2), time.monotonic()
    now = [start]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    memory.take("a", "x", time.time())
    now[0] = start + 15
    memory.take("a", "y", time.time())
    refuses(Code.REQUEST_REPLAYED, lambda: memory.take("a", "x", time.time()))
    # No room: refused, and not forgotten before its time.
    refuses(Code.SERVICE_BUSY, lambda: memory.take("a", "z", time.time()))
    memory.take("b", "z", time.time())
    now[0] = start + 21
    memory.take("a", "z", time.time())
    assert list(memory._seen["a"]) == ["y", "z"]


def test_clocks() -> None:
    memory = Replays(10, 100)
    memory.check_clock(time.time() + 9)
    memory.check_clock(time.time() - 9)
    for off in (11, -11, 1e300, -1e300):
        refuses(Code.CLOCKS_DIFFER, lambda off=off: memory.check_clock(time.time() + off))
    refuses(Code.CLOCKS_DIFFER, lambda: memory.take("a", "x", memory._started - 0.1))


def test_of_many_at_once_one_gets_through() -> None:
    memory, taken = Replays(10, 100), []

    def take() -> None:
        try:
            memory.take("a", "x", time.time())
        except HedgerowError:
            return
        taken.append(1)

    threads = [threading.Thread(target=take) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == [1]


def test_a_few_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [600.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    throttle = Throttle(2)
    assert [throttle.passes() for _ in range(5)] == [0, 0, None, None, None]
    now[0] += 60
    assert [throttle.passes() for _ in range(3)] == [3, 0, None]
