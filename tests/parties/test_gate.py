"""Places are bounded: for strangers, for each member and for all of them."""

import contextlib
import threading
import time

import pytest
from parties_calls import refuses

from hedgerow.errors import Code
from hedgerow.parties import gate as module
from hedgerow.parties.gate import Gate


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


def test_the_oldest_stranger_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.2)
    gate, links = Gate(2, 9, 9), [Fake() for _ in range(4)]
    begun = time.monotonic()
    for link in links:
        gate.admit(link)
    assert [link.was_cut for link in links] == [True, True, False, False]
    assert 0.1 < time.monotonic() - begun < 2
    gate.forget(links[2])
    gate.admit(Fake())
    assert not links[3].was_cut


def test_members_are_bounded() -> None:
    gate = Gate(50, 3, 2)
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
    gate, working, waiting, shaking = Gate(9, 9, 9), Fake(), Fake(), Fake()
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
    gate, working = Gate(9, 9, 9), Fake()
    stack = entered(gate, working, "a")
    gate.begin(working)
    assert not gate.stop(0.2)
    assert working.was_cut
    stack.close()


def test_who_has_rested_longest_goes_first() -> None:
    gate, links = Gate(9, 2, 9), [Fake() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        assert all(stack.enter_context(gate.rest(link)) for link in links)  # type: ignore[arg-type]
        assert [link.was_cut for link in links] == [True, False, False]
        gate.stop(1.0)
        assert all(link.was_cut for link in links)
        assert not stack.enter_context(gate.rest(Fake()))  # type: ignore[arg-type]
    assert not gate._resting
