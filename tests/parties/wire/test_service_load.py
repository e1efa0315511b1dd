"""Many callers, large payloads and a stop in the middle: nothing is lost, memory stays flat."""

import hashlib
import os
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, Verb
from hedgerow.parties.wire.requests import Body, Fields, Payload
from tests.parties.wire.parties_calls import BOTH, Town, head, refuses, town_in


class Numbered(RequestFields):
    k: int


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with town_in(tmp_path) as made:
        yield made


def test_fifty_clients_at_once(town: Town, tmp_path: Path) -> None:
    """None is lost and none answered twice."""
    served, lock = Counter(), threading.Lock()

    def count(caller: Caller, fields: Numbered, payload: Incoming) -> tuple[Fields, Payload]:
        data = payload.read()
        time.sleep(0.01)
        with lock:
            served[caller.name, fields.k] += 1
        return {"caller": caller.name, "k": fields.k}, hashlib.sha256(data).digest()

    clients = {f"c{i}": town.member(f"c{i}", "analyst") for i in range(50)}
    answers: Counter[tuple[str, int]] = Counter()
    failures = []

    def work(name: str) -> None:
        for k in range(20):
            data = f"{name}-{k}".encode() * 500
            try:
                reply = town.call("count", {"k": k}, data, by=clients[name], timeout=120.0)
            except Exception as error:
                failures.append(error)
                continue
            assert reply.fields == {"caller": name, "k": k}
            assert reply.payload == hashlib.sha256(data).digest()
            with lock:
                answers[name, k] += 1

    verbs = {"count": Verb(("analyst",), count, Numbered, largest=1 << 20)}
    # Fewer places than clients: some of them have to come again.
    with town.open(verbs, members=8):
        begun = time.monotonic()
        threads = [threading.Thread(target=work, args=(name,)) for name in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begun
    assert failures == []
    assert set(served.values()) == set(answers.values()) == {1}
    assert len(served) == len(answers) == 1000
    busy = len(town.log.events(outcome="H879"))
    assert busy > 0
    print(f"1000 calls in {seconds:.1f} s: {1000 / seconds:.0f} a second; {busy} found it busy")


def test_places_of_a_member_are_bounded(town: Town) -> None:
    free = threading.Event()

    def wait(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        free.wait(20)
        return {}, None

    verbs = {"wait": Verb(BOTH, wait)}
    with town.open(verbs, per_member=2, members=3):
        threads = [threading.Thread(target=town.call, args=("wait",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(town.service.gate._working) < 2:
            time.sleep(0.01)
        begun = time.monotonic()
        refuses(Code.SERVICE_BUSY, lambda: town.call("wait", timeout=2.0))
        assert time.monotonic() - begun < 10
        other = threading.Thread(target=town.call, args=("wait",), kwargs={"by": town.owner})
        other.start()
        while len(town.service.gate._working) < 3:
            time.sleep(0.01)
        refuses(Code.SERVICE_BUSY, lambda: town.call("wait", by=town.owner, timeout=2.0))
        # A request that comes again and again is let in as soon as there is a place.
        late = threading.Thread(target=town.call, args=("wait",))
        late.start()
        time.sleep(0.3)
        free.set()
        for thread in (*threads, other, late):
            thread.join(20)
            assert not thread.is_alive()


SIZE = 200 << 20


def test_a_large_payload_needs_no_memory(town: Town, tmp_path: Path) -> None:
    """Both sides are in this process, so both are measured."""
    block = os.urandom(1 << 20)

    def store(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        with (tmp_path / "stored").open("wb") as file:
            payload.save(file)
        return {}, None

    verbs = {"store": Verb(("owner",), store, largest=SIZE)}
    with town.open(verbs):
        town.call("store", None, [block], by=town.owner)
        begun = time.monotonic()
        town.call("store", None, Body(SIZE, (block for _ in range(200))), by=town.owner)
        seconds = time.monotonic() - begun
        tracemalloc.start()
        try:
            town.call("store", None, Body(SIZE, (block for _ in range(200))), by=town.owner)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (tmp_path / "stored").stat().st_size == SIZE
    assert (tmp_path / "stored").read_bytes()[-(1 << 20) :] == block
    print(f"200 MB in {seconds:.1f} s: {200 / seconds:.0f} MB/s; {peak / 2**20:.1f} MB of memory")
    assert peak < 8 << 20


def test_what_is_in_flight_is_finished(town: Town) -> None:
    begun, free, results = threading.Event(), threading.Event(), []

    def wait(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        begun.set()
        free.wait(20)
        return {"done": True}, payload.read()

    with town.open({"wait": Verb(BOTH, wait, largest=1 << 20)}) as service:
        first = threading.Thread(
            target=lambda: results.append(town.call("wait", None, b"x" * 300_000))
        )
        first.start()
        assert begun.wait(10)
        # Connected before the stop, asks after it.
        line = town.line()
        stopper = threading.Thread(target=lambda: results.append(service.stop(20)))
        stopper.start()
        while not service.gate._stopping:
            time.sleep(0.01)
        line.send(head("wait"))
        assert line.refusal().code is Code.SERVICE_STOPPING
        line.close()
        refuses(Code.SERVICE_UNREACHABLE, lambda: town.call("wait"))
        assert results == []
        free.set()
        first.join(20)
        stopper.join(20)
        reply = next(r for r in results if r is not True)
        assert True in results
        assert reply.fields == {"done": True}
        assert len(reply.payload) == 300_000


def test_a_stop_does_not_wait_for_ever(town: Town) -> None:
    free = threading.Event()

    def wait(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        free.wait(20)
        return {}, None

    failed = []
    with town.open({"wait": Verb(BOTH, wait)}) as service:
        line = town.line()
        caller = threading.Thread(
            target=lambda: failed.append(refuses(Code.REQUEST_CUT_OFF, lambda: town.call("wait")))
        )
        caller.start()
        while not service.gate._working:
            time.sleep(0.01)
        begun = time.monotonic()
        assert not service.stop(1.5)
        assert time.monotonic() - begun < 10
        caller.join(10)
        assert failed
        free.set()
        line.close()
