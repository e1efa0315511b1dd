"""Places are bounded: for strangers, for each member and for all of them."""

import asyncio
import contextlib
import math
import time

import pytest

from hedgerow.errors import Code
from hedgerow.parties.wire import gate as module
from hedgerow.parties.wire.gate import Gate, Throttle
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
    assert gate.admit(link) == 0
    gate.forget(link)
    gate.rest(link, member, is_new=True)
    stack.enter_context(gate.place(link, member))
    return stack


def test_silent_strangers_make_room_at_once() -> None:
    """Nobody waits for them, and who has spoken is not cut for their sake."""
    gate, links = Gate(ServiceLimits(strangers=3)), [Fake() for _ in range(5)]
    begun = time.monotonic()
    for link in links:
        assert gate.admit(link) == 0
        if link is links[1]:
            gate.spoke(link)
    assert [link.was_cut for link in links] == [True, False, True, False, False]
    assert time.monotonic() - begun < 1


def test_strangers_of_one_address_are_bounded() -> None:
    """However many come from there, others find a place; those who speak keep theirs."""
    gate = Gate(ServiceLimits(strangers=9, per_address=3))
    crowd, other = [Fake() for _ in range(20)], Fake()
    assert gate.admit(other, "b") == 0
    assert all(gate.admit(link, "a") == 0 for link in crowd)
    assert len(gate._shaking) == 4
    assert not other.was_cut
    assert [link.was_cut for link in crowd] == [True] * 17 + [False] * 3
    for link in crowd[17:]:
        gate.spoke(link)
    # One more is sent away without a word, at once, and not from elsewhere.
    late = Fake()
    assert gate.admit(late, "a") == math.inf
    assert gate.admit(late, "c") == 0
    # A crowd of many addresses takes the places of those who are silent first.
    many = [Fake() for _ in range(20)]
    assert all(gate.admit(link, f"d{i}") == 0 for i, link in enumerate(many))
    assert not any(link.was_cut for link in crowd[17:])


def test_the_oldest_stranger_that_has_spoken_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [600.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    gate, links = Gate(ServiceLimits(strangers=2)), [Fake() for _ in range(4)]
    for link in links[:2]:
        assert gate.admit(link) == 0
        gate.spoke(link)
    # A handshake may still be under way: who comes now tries again when it cannot be any more.
    for late in links[2:]:
        seconds = gate.admit(late)
        assert 0 < seconds <= module._GRACE_SECONDS
        assert not any(link.was_cut for link in links[:2])
    now[0] += module._GRACE_SECONDS + 0.001
    for late in links[2:]:
        assert gate.admit(late) == 0
        gate.spoke(late)
    assert [link.was_cut for link in links] == [True, True, False, False]
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
    limits = ServiceLimits(strangers=9, members=9, per_member=9)
    gate, working, waiting, shaking = Gate(limits), Fake(), Fake(), Fake()
    resting, silent = Fake(), Fake()

    async def stop() -> None:
        stack = entered(gate, working, "a")
        gate.begin(working)
        idle = entered(gate, waiting, "b")
        gate.admit(shaking)
        gate.rest(resting, "c")
        gate.rest(silent, "d", is_new=True)
        stopping = asyncio.create_task(gate.stop(20))
        await asyncio.sleep(0)
        # Who rests goes at once; who has not asked yet is told, and has a moment for it.
        assert (resting.was_cut, silent.was_cut) == (True, False)
        refuses(Code.SERVICE_STOPPING, lambda: gate.begin(waiting))
        refuses(Code.SERVICE_STOPPING, lambda: gate.place(Fake(), "c").__enter__())
        late = Fake()
        gate.rest(late, "a")
        assert late.was_cut
        while not shaking.was_cut:
            await asyncio.sleep(0.01)
        assert (working.was_cut, waiting.was_cut, silent.was_cut) == (False, True, True)
        assert not stopping.done()
        stack.close()
        assert await stopping
        idle.close()

    asyncio.run(stop())


def test_a_stop_runs_out_of_patience() -> None:
    gate, working = Gate(ServiceLimits(strangers=9, members=9, per_member=9)), Fake()
    stack = entered(gate, working, "a")
    gate.begin(working)
    assert not asyncio.run(gate.stop(0.2))
    assert working.was_cut
    stack.close()


def test_who_has_rested_longest_goes_first() -> None:
    gate, links = (
        Gate(ServiceLimits(strangers=9, members=2, per_member=9)),
        [Fake() for _ in range(3)],
    )
    for link in links:
        gate.rest(link, "a")
    assert [link.was_cut for link in links] == [True, False, False]
    asyncio.run(gate.stop(1.0))
    assert all(link.was_cut for link in links)
    assert not gate._resting


def test_a_member_with_many_connections_ends_its_own() -> None:
    """However many it opens, or leaves in the middle of a header, others keep theirs."""
    limits = ServiceLimits(members=9, per_member=3, strangers=8, per_address=4)
    for is_new, most in ((False, 3), (True, 4)):
        gate, others = Gate(limits), [Fake(), Fake()]
        gate.rest(others[0], "b", is_new=False)
        gate.rest(others[1], "b", is_new=True)
        many = [Fake() for _ in range(30)]
        for link in many:
            gate.rest(link, "a", is_new=is_new)
        assert [link.was_cut for link in many] == [True] * (30 - most) + [False] * most
        assert not any(link.was_cut for link in others)
        # And many of them together, no more than there is room for.
        for k in range(30):
            gate.rest(Fake(), f"c{k}", is_new=is_new)
        assert len(gate._resting) == (limits.strangers if is_new else limits.members) + 1


def test_a_few_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [600.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    throttle = Throttle(2)
    assert [throttle.passes() for _ in range(5)] == [0, 0, None, None, None]
    now[0] += 60
    assert [throttle.passes() for _ in range(3)] == [3, 0, None]
