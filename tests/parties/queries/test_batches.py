"""Turns of the three servers, one after the other, with queries put into their rooms by hand."""

import shutil
import threading
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries import batches
from hedgerow.parties.queries.batches import (
    DONE,
    HELD,
    HERE,
    MISSING,
    ONLY_HELD,
    PRINT_BYTES,
    Announcement,
    BatchSession,
    Row,
    announcement_bytes,
    verdict,
)
from hedgerow.parties.queries.inquiry import Inquiry, read_inquiry, write_part
from hedgerow.parties.queries.waiting import Pending, WaitingRoom
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.query_log import QueryKey, QueryLog
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal, join_halves
from hedgerow.secure.secret import pack
from hedgerow.tables import encode
from tests.parties.queries.answer_towns import DOMAIN, QUICK, SERVERS, Town, table
from tests.parties.wire.parties_calls import refuses

MEMBERS = ["alder", "ann", "bob"]
ONE, TWO = b"1" * 16, b"2" * 16


def test_announcements_have_one_size_and_come_back() -> None:
    empty = Announcement.nothing(ONE)
    keys = (QueryKey("bob", "ab" * 16), QueryKey("ann", "cd" * 16))
    full = Announcement(TWO, "distribution", "m" * 63, b"t" * 16, keys)
    for said in (empty, full):
        data = said.pack(MEMBERS, 4)
        assert len(data) == announcement_bytes(4)
        assert Announcement.parse(data, MEMBERS) == said


@pytest.mark.parametrize(("at", "octet"), [(16, 9), (17, 4), (18, 1), (20, 47), (100, 7)])
def test_announcements_that_nobody_writes(at: int, octet: int) -> None:
    data = bytearray(
        Announcement(ONE, "class", "m", ONE, (QueryKey("ann", "ab" * 16),)).pack(MEMBERS, 4)
    )
    data[at] = octet
    refuses(Code.BAD_FRAME, lambda: Announcement.parse(bytes(data), MEMBERS))


def test_a_query_is_announced_once() -> None:
    twice = (QueryKey("ann", "ab" * 16), QueryKey("bob", "ab" * 16), QueryKey("ann", "ab" * 16))
    data = Announcement(ONE, "class", "m", ONE, twice).pack(MEMBERS, 4)
    error = refuses(Code.BAD_FRAME, lambda: Announcement.parse(data, MEMBERS))
    assert "twice" in error.found
    data = Announcement(ONE, "class", "m", ONE, twice[:2]).pack(MEMBERS, 4)
    assert Announcement.parse(data, MEMBERS).keys == twice[:2]


def test_rows_come_back() -> None:
    rows = [Row(HERE, ONE, 70_000, 2 * TWO), Row(DONE, TWO, 1, 2 * ONE)]
    assert Row.parse_all(b"".join(row.pack() for row in rows)) == rows


def test_digests_of_shares_are_long_enough_against_collisions() -> None:
    # Who has sent the shares has drawn them: half of the bits is what protects.
    assert PRINT_BYTES * 8 >= 256
    print_ = bytes(range(PRINT_BYTES))
    (row,) = Row.parse_all(Row(HERE, ONE, 1, print_).pack())
    assert row.print == print_


def rows(*statuses: int, draws=(ONE, ONE, ONE), n=(3, 3, 3)) -> list[Row]:
    return [Row(s, d, k, b"") for s, d, k in zip(statuses, draws, n, strict=True)]


def test_verdicts() -> None:
    assert verdict(rows(HERE, HERE, HERE)) == "run"
    assert verdict(rows(HELD, HERE, HERE)) == "run"
    assert verdict(rows(HELD, HELD, HELD, draws=(ONE, TWO, ONE))) == "run"
    assert verdict(rows(HELD, HELD, HELD)) == "commit"
    assert verdict(rows(DONE, HELD, ONLY_HELD)) == "commit"
    assert verdict(rows(DONE, DONE, DONE)) == "commit"
    assert verdict(rows(DONE, HERE, HERE)) == "lost"
    assert verdict(rows(DONE, HELD, HELD, draws=(ONE, TWO, TWO))) == "lost"
    assert verdict(rows(ONLY_HELD, HERE, HERE)) == "later"
    assert verdict(rows(HERE, MISSING, HERE, n=(3, 0, 3))) == "later"
    assert verdict(rows(HERE, HERE, HERE, n=(3, 4, 3))) == "conflict"


def test_what_may_have_left_is_never_drawn_again() -> None:
    every = (MISSING, HERE, HELD, ONLY_HELD, DONE)
    for statuses in product(every, repeat=3):
        for draws in ((ONE, ONE, ONE), (ONE, TWO, ONE)):
            found = verdict(rows(*statuses, draws=draws))
            if DONE in statuses:
                assert found != "run"
            if found == "run":
                assert set(statuses) <= {HERE, HELD}
            if found == "commit":
                assert set(statuses) <= {HELD, ONLY_HELD, DONE}
                assert len(set(draws)) == 1


class Payload:
    def __init__(self, pieces: list[bytes]) -> None:
        self.data = b"".join(pieces)
        self.length = len(self.data)

    def read(self) -> bytes:
        return self.data


class Hall:
    """Three servers, each with a room and a library, whose turns are taken together."""

    def __init__(self, town: Town, plan) -> None:
        self.town, self.plan = town, plan
        configs = [town.configs[name] for name in SERVERS]
        self.keys = [operator_key(config.folder) for config in configs]
        self.libraries = [Library(c.state, self.keys[s], s) for s, c in enumerate(configs)]
        self.rooms = [WaitingRoom(QUICK) for _ in SERVERS]

    def put(self, number: int, n: int, at=(0, 1, 2), rows_at_1: int | None = None) -> list[Pending]:
        """Put a query of n rows into the rooms of some servers."""
        planes = query_planes(self.plan.layout, encode(table(n)[0], DOMAIN))
        parts = deal(pack(planes), xor=True)
        made = []
        for server in at:
            inquiry = Inquiry(model="m", id=f"{number:032x}", n=n, what="class")
            layout, payload = self.plan.layout, Payload(write_part(parts[server]))
            part = read_inquiry(inquiry, layout, server, payload, self.keys[server])
            asked = inquiry.asked_by(f"ann{number}", part.digest)
            query = Pending(asked, "m", part.dealt, part.prints, payload.length)
            if server == 1 and rows_at_1:
                query.asked = type(asked)(asked.key, asked.what, rows_at_1, asked.digest)
            made.append(self.rooms[server].put(query))
        return made

    def turns(self) -> list[list[int] | HedgerowError]:
        """Take three turns in a session of their own; return how they ended at every server."""
        found: list = [None] * 3

        def attend(server: int) -> None:
            config = self.town.configs[SERVERS[server]]
            roster, policy = config.server_endpoints, self.town.policies[server]
            members = [member.name for member in config.members]
            try:
                with TLSNetwork(
                    server, roster, config.identity, session=bytes(16), program=b"", timeout=10.0
                ) as network:
                    seat = BatchSession(
                        network, self.libraries[server], self.rooms[server], policy, members
                    )
                    found[server] = [seat.turn() for _ in range(3)]
            except HedgerowError as error:
                found[server] = error

        threads = [threading.Thread(target=attend, args=(server,)) for server in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def forget(self, server: int) -> None:
        """Let a server stand where it stood before the first query, and all have an empty room."""
        config = self.town.configs[SERVERS[server]]
        self.libraries[server].close()
        shutil.rmtree(config.state.path("queries"))
        store = open_store(config.state)
        for name in ("questions", "query_logs"):
            store._base.execute(f"DELETE FROM {name}")
        self.libraries[server] = Library(config.state, self.keys[server], server)
        self.rooms = [WaitingRoom(QUICK) for _ in SERVERS]

    def close(self) -> None:
        for library in self.libraries:
            library.close()

    def state(self, server: int, key: QueryKey) -> tuple[str, str]:
        found = self.log(server).find([key])[key]
        return found.state, found.draw

    def log(self, server: int):
        return self.libraries[server].book("m").log


def hall_of(tmp_path: Path, analysts: int = 4, **options) -> Hall:
    town = Town(tmp_path, analysts=analysts)
    return Hall(town, town.train("m", **options))


def test_queries_are_answered_together_and_a_missing_one_later(tmp_path: Path) -> None:
    hall = hall_of(tmp_path)
    here, also = hall.put(0, 3), hall.put(1, 5)
    late = hall.put(2, 2, at=(0, 2))
    found = hall.turns()
    assert found[0][0] == found[1][0] == found[2][0] == 2
    assert all(query.settled.is_set() for query in (*here, *also))
    assert join_halves(here[0].half, here[1].half).shape == (3,)
    assert here[2].half is None
    assert not any(query.settled.is_set() for query in late)
    assert [hall.log(s).rows for s in range(3)] == [8] * 3
    assert late[0].tries == 1
    hall.close()


def test_a_query_announced_twice_leaves_the_journals_whole(tmp_path: Path, monkeypatch) -> None:
    """Server 0 deviates; what the others have written down can be read, and goes on."""
    hall = hall_of(tmp_path)
    hall.put(0, 2)
    assert [sum(found) for found in hall.turns()] == [1, 1, 1]
    again = hall.put(1, 3)
    with monkeypatch.context() as deviating:
        pick = hall.rooms[0].pick
        deviating.setattr(hall.rooms[0], "pick", lambda: 2 * pick())
        refusals = hall.turns()[1:]
    assert all(isinstance(found, HedgerowError) for found in refusals)
    # Who hears that the other one has left may not come to read it.
    assert Code.BAD_FRAME in {found.code for found in refusals}
    for server in (1, 2):
        config = hall.town.configs[SERVERS[server]]
        hall.libraries[server].close()
        hall.libraries[server] = Library(config.state, hall.keys[server], server)
        assert hall.log(server).rows == 2
    hall.rooms[0] = WaitingRoom(QUICK)
    hall.rooms[0].put(again[0])
    assert [sum(found) for found in hall.turns()] == [1, 1, 1]
    assert [hall.log(s).rows for s in range(3)] == [5] * 3
    hall.close()


def test_what_fits_by_itself_waits_for_those_before_it(tmp_path: Path) -> None:
    hall = hall_of(tmp_path, noise="votes", n_trees=3, epsilon=5.0, queries=5)
    first, second, third = (hall.put(i, 3) for i in range(3))
    found = hall.turns()
    # Of the first turn one is answered; the others are refused in the next, not before.
    assert found[0] == found[1] == found[2] == [1, 0, 0]
    assert [query.error for query in first] == [None] * 3
    for query in (*second, *third):
        assert query.error.code is Code.BUDGET_EXCEEDED
        assert "2 left" in query.error.found
    assert [hall.log(s).rows for s in range(3)] == [3] * 3
    hall.close()


def test_a_refusal_of_one_server_gives_room_to_the_next_query(tmp_path: Path) -> None:
    hall = hall_of(tmp_path, noise="votes", n_trees=3, epsilon=5.0, queries=4)
    policy = hall.town.policies[2]
    hall.town.policies[2] = policy.model_copy(update={"allowed_analysts": ("ann1",)})
    first, second = hall.put(0, 3), hall.put(1, 4)
    found = hall.turns()
    assert found[0] == [0, 1, 0]
    assert [query.error.code for query in first] == [
        Code.QUERY_REFUSED_ELSEWHERE,
        Code.QUERY_REFUSED_ELSEWHERE,
        Code.POLICY_REFUSES,
    ]
    assert all(query.error is None for query in second)
    hall.close()


def test_another_number_of_rows_at_another_server(tmp_path: Path) -> None:
    hall = hall_of(tmp_path)
    odd, good = hall.put(0, 3, rows_at_1=4), hall.put(1, 3)
    found = hall.turns()
    assert found[1][0] == 1
    assert {query.error.code for query in odd} == {Code.QUERY_CONFLICT}
    assert all(query.error is None for query in good)
    hall.close()


@pytest.mark.parametrize("server", [0, 1, 2])
def test_halves_leave_when_all_servers_hold_theirs(
    tmp_path: Path, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that falls in the farewell leaves the others with what they may not give away."""
    hall = hall_of(tmp_path, noise="votes", n_trees=3, epsilon=0.1, queries=50)
    queries = hall.put(0, 20)
    finish, key = ReplicatedEngine.finish, QueryKey("ann0", "0" * 32)
    farewell = threading.Barrier(3)

    def fail(engine: ReplicatedEngine) -> None:
        # Not before all have come to it: a line that is gone must not end the steps before.
        farewell.wait(60)
        if engine.network.local == (server,):
            raise Code.PEER_GONE.error(found="the power")
        finish(engine)

    monkeypatch.setattr(ReplicatedEngine, "finish", fail)
    found = hall.turns()
    assert all(isinstance(one, HedgerowError) for one in found)
    assert not any(query.settled.is_set() for query in queries)
    held = {hall.state(s, key) for s in range(3)}
    assert len(held) == 1
    assert held.pop()[0] == "held"
    kept = hall.state(0, key)[1]
    monkeypatch.setattr(ReplicatedEngine, "finish", finish)
    found = hall.turns()
    assert found[0][0] == found[1][0] == found[2][0] == 1
    # The draw that all hold is the answer: nothing is drawn again.
    assert {query.draw for query in queries} == {kept}
    assert [hall.log(s).rows for s in range(3)] == [20] * 3
    hall.close()


@pytest.mark.parametrize("held_at", [0, 2])
def test_a_server_that_denies_an_answer_it_has_given_gets_no_other_draw(
    tmp_path: Path, held_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One honest server may have let go of its half; the other one knows only that it holds it."""
    liar, honest = 1, 2 - held_at
    hall = hall_of(tmp_path, noise="votes", n_trees=3, epsilon=0.1, queries=50)
    hall.put(0, 20)
    finish, key = QueryLog.finish, QueryKey("ann0", "0" * 32)
    gave = threading.Event()

    def fail(log: QueryLog, keys) -> None:
        if log is hall.log(held_at):
            # Not before the other has let go: its farewell must not meet a line that is gone.
            assert gave.wait(60)
            raise Code.PEER_GONE.error(found="a line that was cut in the farewell")
        finish(log, keys)
        if log is hall.log(honest):
            gave.set()

    monkeypatch.setattr(QueryLog, "finish", fail)
    hall.turns()
    monkeypatch.setattr(QueryLog, "finish", finish)
    before = {server: hall.state(server, key) for server in (honest, held_at)}
    assert [state for state, _ in before.values()] == ["done", "held"]
    for _ in range(2):
        hall.forget(liar)
        again = hall.put(0, 20)
        hall.turns()
        assert again[honest].error.code is Code.QUERY_CONFLICT
        assert {server: hall.state(server, key) for server in before} == before
    assert hall.log(honest).rows == 20
    hall.close()


def test_a_defect_does_not_come_back_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = hall_of(tmp_path)
    queries = hall.put(0, 3)

    def fail(*_: object) -> None:
        raise Code.WRONG_SHAPE.error(found="a defect")

    monkeypatch.setattr(batches, "answer_batch", fail)
    # Who hears first that another has failed does not count it as its own failure.
    sessions = 0
    while not any(q.settled.is_set() for q in queries) and sessions < 60:
        sessions += 1
        hall.turns()
    assert sessions >= batches.MOST_FAILURES
    # Its server tells the analyst; the others drop it when nobody comes for it.
    gone = [query for query in queries if query.settled.is_set()]
    assert {query.error.code for query in gone} == {Code.SERVICE_FAILED}
    assert np.all([hall.log(s).rows == 3 for s in range(3)])
    hall.close()


def test_shares_of_another_training_are_not_mixed(tmp_path: Path) -> None:
    hall = hall_of(tmp_path)
    queries = hall.put(0, 3)
    book = hall.libraries[1].book("m")
    other = replace(book, manifest=replace(book.manifest, tag="of another training"))
    hall.libraries[1]._books["m"] = other
    assert hall.turns()[0] == [0, 0, 0]
    assert not any(query.settled.is_set() for query in queries)
    hall.libraries[1]._books["m"] = book
    time.sleep(0.1)
    assert hall.turns()[0][0] == 1
    hall.close()
