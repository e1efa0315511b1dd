"""Who waits: turns, bounds, and one query under one identifier."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.queries.waiting import Pending, RoomLimits, WaitingRoom
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.secure.replicated.outside import Dealt
from tests.parties.wire.parties_calls import refuses

PART = Dealt({}, None)


def query(
    analyst: str = "ann", id_: int = 0, n: int = 1, model: str = "m", what: str = "class", **more
) -> Pending:
    asked = Asked(QueryKey(analyst, f"{id_:032x}"), what, n, "digest")
    return Pending(asked, model, more.get("part", PART), (b"", b""), more.get("size", 10))


def room(**limits) -> WaitingRoom:
    return WaitingRoom(RoomLimits(**limits))


def test_analysts_take_turns() -> None:
    waiting = room(batch_queries=4)
    for i in range(10):
        waiting.put(query("busy", i))
    for i, name in enumerate(("ann", "bob")):
        waiting.put(query(name, 20 + i))
    first = waiting.pick()
    assert [q.key.analyst for q in first] == ["busy", "ann", "bob", "busy"]
    for one in first:
        waiting.settle(one, half=np.zeros(1, np.uint16))
    waiting.put(query("ann", 30))
    assert next(q.key.analyst for q in waiting.pick()) == "busy"
    assert len(waiting) == 9


def test_one_batch_is_about_one_model_and_one_kind_of_answer() -> None:
    waiting = room()
    waiting.put(query("ann", 1))
    waiting.put(query("bob", 2, model="other"))
    waiting.put(query("cy", 3, what="distribution"))
    waiting.put(query("dan", 4))
    seen = []
    for _ in range(3):
        batch = waiting.pick()
        assert len({(q.model, q.asked.what) for q in batch}) == 1
        seen.append({q.key.analyst for q in batch})
        for one in batch:
            waiting.settle(one)
    assert seen == [{"ann", "dan"}, {"bob"}, {"cy"}]
    assert waiting.pick() == []


def test_rows_of_a_batch_are_bounded_but_a_large_query_is_a_batch() -> None:
    waiting = room(batch_rows=100)
    for i, n in enumerate((60, 500, 30, 20)):
        waiting.put(query(f"ann{i}", i, n))
    for expected in ([60, 30], [500], [20]):
        batch = waiting.pick()
        assert sorted(q.asked.n for q in batch) == sorted(expected)
        for one in batch:
            waiting.settle(one)


def test_one_query_under_one_identifier() -> None:
    waiting = room()
    first = waiting.put(query())
    assert waiting.put(query()) is first
    for changed in (query(n=2), query(what="distribution")):
        refuses(Code.QUERY_CONFLICT, lambda q=changed: waiting.put(q))
    other = query()
    other.asked = replace(other.asked, digest="other")
    refuses(Code.QUERY_CONFLICT, lambda: waiting.put(other))
    # Of another analyst it is another query.
    assert waiting.put(query("bob")) is not first
    assert len(waiting) == 2


def test_one_to_confirm_gives_way_to_one_with_its_part() -> None:
    waiting = room()
    empty = waiting.put(query(part=None, size=0))
    full = query()
    assert waiting.put(full) is full
    assert waiting.put(query(part=None)) is full
    assert waiting.get("m", [empty.key]) == {empty.key: full}


def test_room_is_bounded_for_all_and_for_each() -> None:
    waiting = room(queries=8, each=4, octets=1000)
    waiting.put(query("ann", 1))
    waiting.put(query("ann", 2))
    refuses(Code.SERVICE_BUSY, lambda: waiting.put(query("ann", 3)))
    refuses(Code.SERVICE_BUSY, lambda: waiting.put(query("bob", 3, size=981)))
    waiting.put(query("bob", 4, size=249))
    refuses(Code.SERVICE_BUSY, lambda: waiting.put(query("bob", 5, size=2)))
    for i in range(5):
        waiting.put(query(f"cy{i}", 10 + i))
    refuses(Code.SERVICE_BUSY, lambda: waiting.put(query("dan", 20)))


def test_what_is_being_read_counts() -> None:
    waiting = room(octets=1000, each=2)
    with waiting.receiving("ann", 400):
        refuses(Code.SERVICE_BUSY, lambda: waiting.receiving("ann", 101).__enter__())
        refuses(Code.SERVICE_BUSY, lambda: waiting.put(query("ann", size=101)))
        waiting.put(query("bob", size=500))
        refuses(Code.SERVICE_BUSY, lambda: waiting.receiving("cy", 101).__enter__())
    waiting.put(query("ann", size=500))


def test_who_does_not_come_back_is_dropped() -> None:
    waiting = room(idle=0.05)
    waiting.put(query())
    time.sleep(0.06)
    assert waiting.pick() == []
    assert len(waiting) == 0


def test_a_query_that_is_put_off_comes_later() -> None:
    waiting = room()
    one = waiting.put(query())
    waiting.later(one, at_once=True)
    assert waiting.pick() == [one]
    waiting.later(one)
    assert waiting.pick() == []
    waiting.wait(5.0)
    assert waiting.pick() == [one]


def test_a_batch_waits_for_those_who_were_answered_just_now() -> None:
    """No longer than a part of the time of the last one, and for nobody else."""
    waiting = room(gather=0.5)
    first = [waiting.put(query(name)) for name in ("ann", "bob")]
    assert waiting.pick() == first
    for one in first:
        waiting.settle(one)
    waiting.put(query("ann", 1))
    begins = threading.Thread(target=waiting.wait, args=(5.0, 240.0))
    begins.start()
    waiting.put(query("cy"))
    begins.join(0.1)
    assert begins.is_alive()
    waiting.put(query("bob", 1))
    begins.join(60)
    assert not begins.is_alive()
    assert {q.key.analyst for q in waiting.pick()} == {"ann", "bob", "cy"}
    for one in list(waiting._waiting.values()):
        waiting.settle(one)
    # Time that is over, or a room that closes, is not waited out.
    waiting.put(query("ann", 2))
    waiting.wait(5.0, 0.0)
    assert len(waiting.pick()) == 1
    waiting._last = {"nobody"}
    closes = threading.Timer(0.05, waiting.close)
    closes.start()
    waiting.wait(5.0, 240.0)
    closes.join()


def test_getting_waits_for_what_is_awaited_alone() -> None:
    waiting = room(patience=5.0)
    late = query()
    begun = time.monotonic()
    assert waiting.get("m", [late.key]) == {late.key: None}
    timer = threading.Timer(0.1, lambda: waiting.put(late))
    timer.start()
    assert waiting.get("m", [late.key], [late.key]) == {late.key: late}
    assert time.monotonic() - begun < 3


def test_closing_tells_everybody() -> None:
    waiting = room()
    one = waiting.put(query())
    waiting.close()
    assert one.settled.is_set()
    assert one.error.code is Code.SERVICE_STOPPING
    refuses(Code.SERVICE_STOPPING, lambda: waiting.put(query("bob")))


@pytest.mark.parametrize("answers", [True, False])
def test_settling(answers: bool) -> None:
    waiting = room()
    one = waiting.put(query())
    error = None if answers else Code.BUDGET_EXCEEDED.error(found="x")
    half = np.ones(1, np.uint16) if answers else None
    waiting.settle(one, half=half, draw="d", error=error)
    assert one.settled.is_set()
    assert one.part is None
    assert (one.half is half, one.error is error) == (True, True)
    assert len(waiting) == 0
