"""Connections that are kept: one handshake for many requests, and none that is stale."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.wire import lines as module
from hedgerow.parties.wire.lines import Lines
from hedgerow.parties.wire.requests import Body
from hedgerow.parties.wire.service import Service
from tests.parties.wire.parties_calls import Town, refuses, town_in


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with town_in(tmp_path) as made:
        yield made


@pytest.fixture
def lines(town: Town) -> Iterator[Lines]:
    made = Lines(town.analyst, town.server.pem)
    yield made
    made.close()


@pytest.fixture
def shaken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count handshakes."""
    count: list[int] = []
    before = Service._recognise

    def counted(self: Service, exchange: Any) -> Any:
        count.append(1)
        return before(self, exchange)

    monkeypatch.setattr(Service, "_recognise", counted)
    return count


def test_one_handshake_for_many_requests(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        for k in range(20):
            reply = town.call("echo", {"k": k}, b"x" * k, lines=lines)
            assert (reply.fields["got"], reply.payload) == ({"k": k}, b"x" * k)
        assert len(shaken) == 1
        assert len(town.log.events(verb="echo", outcome="ok")) >= 19
        town.call("echo")
        assert len(shaken) == 2


def test_a_refusal_ends_the_connection(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        town.call("echo", lines=lines)
        refuses(Code.UNKNOWN_VERB, lambda: town.call("nothing", lines=lines))
        town.call("echo", lines=lines)
        assert len(shaken) == 2


def test_payload_that_was_not_read_ends_it(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        for _ in range(2):
            assert town.call("ignore", {}, b"x" * 100_000, lines=lines).fields["left"] == 100_000
        assert len(shaken) == 2


def test_a_service_that_has_started_again(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open() as first:
        town.call("echo", lines=lines)
        address = first.address
    with town.open() as second:
        # As if it had its old address, with a connection of which only one side knows the end.
        assert address != second.address
        reply = town.call("echo", {}, b"abc", lines=lines)
        assert reply.payload == b"abc"
        assert len(shaken) == 2


def test_one_that_ends_under_the_request(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open() as service:
        town.call("echo", lines=lines)
        lines.take = lambda take=lines.take: _cut(service, take())  # type: ignore[method-assign]
        assert town.call("echo", {}, b"abc", lines=lines).payload == b"abc"
        assert len(shaken) == 2
        # What can be sent only once is not sent a second time.
        body = Body(3, iter([b"abc"]))
        assert town.call("echo", {}, body, lines=lines).payload == b"abc"
        assert len(shaken) == 3


def _cut(service: Service, link: Any) -> Any:
    end = time.monotonic() + 5
    while not service._gate._resting and time.monotonic() < end:
        time.sleep(0.01)
    for other in list(service._gate._resting):
        other.cut()
    return link


def test_a_connection_ends_after_a_while(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open(idle=0.1):
        town.call("echo", lines=lines)
        ((_, link),) = lines._kept
        # The end arrives.
        assert link.speaks(20.0)
        town.call("echo", lines=lines)
        assert len(shaken) == 2
    with town.open(requests=3):
        for _ in range(6):
            town.call("echo", lines=lines)
        assert len(shaken) == 4


def test_old_ones_are_not_used(
    town: Town, lines: Lines, shaken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    with town.open():
        for _ in range(2):
            town.call("echo", lines=lines)
        assert len(shaken) == 2


def test_who_is_a_member_no_more(town: Town, lines: Lines) -> None:
    with town.open() as service:
        town.call("echo", lines=lines)
        service._members = {p: c for p, c in service._members.items() if c.name != "ann"}
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", lines=lines))


def test_resting_connections_do_not_hold_up_the_end(town: Town, lines: Lines) -> None:
    with town.open() as service:
        town.call("echo", lines=lines)
        begun = time.monotonic()
        assert service.stop(patience=60.0)
        assert time.monotonic() - begun < 30.0


def test_resting_connections_are_bounded(town: Town) -> None:
    every = [Lines(town.analyst, town.server.pem) for _ in range(5)]
    with town.open(members=3) as service:
        for one in every:
            town.call("echo", lines=one)
        end = time.monotonic() + 5
        while len(service._gate._resting) > 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(service._gate._resting) <= 3
        for one in every:
            town.call("echo", lines=one)
            one.close()
