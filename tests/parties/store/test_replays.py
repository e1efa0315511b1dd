"""Identifiers are used up, for as long as it takes and within bounds."""

import threading
import time

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store import replays
from hedgerow.parties.store.replays import Replays
from tests.parties.wire.parties_calls import refuses


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
    monkeypatch.setattr(replays.time, "monotonic", lambda: now[0])
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
