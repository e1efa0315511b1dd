"""Queries over real TLS: right answers, exact budgets, one draw per identifier, recovery."""

import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.queries.inquiry import Inquiry, write_part
from hedgerow.parties.store.query_log import QueryKey, QueryLog
from hedgerow.parties.wire.client import Reply, wait_for
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.protocols.votes import votes
from hedgerow.secure.replicated.outside import deal, join_halves
from hedgerow.secure.secret import pack
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, QUICK, SERVERS, Town, encoded, table
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def town(tmp_path: Path):
    return Town(tmp_path)


def expected(rows: np.ndarray, depth: int = 3) -> list[str]:
    tree = grow_id3(encoded(), criterion="max", max_depth=depth)
    return [DOMAIN.target.classes[i] for i in tree.predict_class(encode(rows, DOMAIN).bins)]


class Question:
    """A request by hand, which can be made as often as one likes."""

    def __init__(self, town: Town, plan, rows, model: str = "m", what: str = "class") -> None:
        self.analyst = town.analyst()
        self.inquiry = Inquiry(model=model, id=secrets.token_hex(16), n=len(rows), what=what)
        planes = query_planes(plan.layout, encode(rows, DOMAIN))
        self.parts = [write_part(part) for part in deal(pack(planes), xor=True)]
        self.key = QueryKey(self.analyst.config.name, self.inquiry.id)

    def ask(self, **changes) -> dict[int, Reply | HedgerowError]:
        fields = self.inquiry.model_copy(update=changes).model_dump()
        until = time.monotonic() + self.analyst.timeout
        return wait_for(self.analyst._all("query", fields, self.parts, until=until))

    def one(self, server: int, fields: dict | None = None, parts: list | None = None) -> Reply:
        fields = self.inquiry.model_dump() | (fields or {})
        to = self.analyst.config.servers[server]
        part = parts or self.parts[server]
        return wait_for(self.analyst._ask(to, "query", fields, part, 20.0))


def answered(question: Question, *, again: bool = False) -> dict[int, Reply]:
    """Ask until no server says "waiting", as it may on a loaded machine and as analysts do."""
    found = question.ask(again=again)
    for _ in range(10):
        if all(reply.fields["state"] == "answered" for reply in found.values()):
            break
        found = question.ask(again=True)
    return found


def value(found: dict[int, Reply]) -> np.ndarray:
    first, second = (np.frombuffer(found[s].payload, found[s].fields["dtype"]) for s in (0, 1))
    assert found[0].fields["draw"] == found[1].fields["draw"]
    return join_halves(first, second)


def test_answers_are_those_of_the_tree(town: Town) -> None:
    town.train("m")
    rows, _ = table(300, seed=5)
    with town.open():
        answers = town.analyst().ask("m", rows)
        assert answers.labels == expected(rows)
        assert [town.log(s, "m").rows for s in range(3)] == [300] * 3
        assert town.analyst().find("m").left == 10**6 - 300


@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_distributions_are_given_where_counts_are_released(town: Town, branching: str) -> None:
    town.train("m", noise="splits+leaves", epsilon=1000.0, branching=branching)
    town.train("exact")
    rows, _ = table(70, seed=3)
    with town.open():
        found = town.analyst().ask("m", rows, proba=True)
        np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
        assert found.labels == town.analyst().ask("m", rows).labels
        refuses(Code.BAD_PARAMETER, lambda: town.analyst().ask("exact", rows, proba=True))


def test_many_analysts_share_batches(tmp_path: Path) -> None:
    town = Town(tmp_path, analysts=12)
    town.train("m")
    found: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        rows, _ = table(number + 1, seed=number)
        found[number] = town.analyst(number).ask("m", rows).labels

    with town.open():
        together(ask, range(12))
    for number in range(12):
        assert found[number] == expected(table(number + 1, seed=number)[0])


def test_a_budget_of_votes_is_spent_to_the_last_answer_and_not_beyond(tmp_path: Path) -> None:
    town, budget = Town(tmp_path, analysts=20), 9
    town.train("m", noise="votes", n_trees=3, epsilon=5.0, queries=budget)
    answered, refused = [], []

    def ask(number: int) -> None:
        analyst = town.analyst(number)
        try:
            answered.append(analyst.ask(known, table(1, seed=number)[0]).labels)
        except HedgerowError as error:
            refused.append(error)

    with town.open():
        known = town.analyst().find("m")
        assert known.left == budget
        together(ask, range(20))
        assert len(answered) == budget
        assert len(refused) == 20 - budget
        assert {error.code for error in refused} == {Code.BUDGET_EXCEEDED}
        assert all("0 left" in error.found for error in refused)
        for server in range(3):
            assert town.log(server, "m").rows == budget
            assert votes.answers_left(town.up[server][1].library.book("m").ledger) == 0
        assert town.analyst().find("m").left == 0


def test_an_identifier_is_charged_and_drawn_once_also_after_a_restart(town: Town) -> None:
    plan = town.train("m", noise="votes", n_trees=3, epsilon=0.1, queries=40)
    with town.open():
        question = Question(town, plan, table(20)[0])
        first = answered(question)
        again = answered(question, again=True)
        np.testing.assert_array_equal(value(first), value(again))
        assert [town.log(s, "m").rows for s in range(3)] == [20] * 3
    with town.open():
        after = answered(question, again=True)
        np.testing.assert_array_equal(value(first), value(after))
        assert first[0].payload == after[0].payload
        assert [town.log(s, "m").rows for s in range(3)] == [20] * 3
        assert votes.answers_left(town.up[0][1].library.book("m").ledger) == 20
        # Other noise would show in 20 answers of which each is nearly a coin.
        fresh = Question(town, plan, table(20)[0])
        assert (value(answered(fresh)) != value(first)).any()
        refused = Question(town, plan, table(1)[0]).ask()
        assert all(r.code is Code.BUDGET_EXCEEDED for r in refused.values())


def test_other_content_under_an_identifier_is_refused(town: Town) -> None:
    plan = town.train("m")
    with town.open():
        question = Question(town, plan, table(3)[0])
        question.ask()
        other = Question(town, plan, table(3, seed=9)[0])
        for server in range(3):
            refuses(Code.QUERY_CONFLICT, lambda s=server: question.one(s, parts=other.parts[s]))
        assert town.log(0, "m").rows == 3


def test_parts_that_do_not_belong_together_are_not_answered(town: Town) -> None:
    """Answers to such parts would tell the shares of the model, one after the other."""
    plan = town.train("m")
    with town.open():
        for server in range(3):
            question = Question(town, plan, table(3)[0])
            other = Question(town, plan, table(3, seed=9)[0])
            question.parts[server] = other.parts[server]
            found = question.ask()
            codes = {r.code for r in found.values()}
            assert Code.QUERY_CONFLICT in codes
            assert codes <= {Code.QUERY_CONFLICT, Code.QUERY_REFUSED_ELSEWHERE}
        assert [town.log(s, "m").rows for s in range(3)] == [0] * 3
        good = Question(town, plan, table(3)[0])
        good.parts[1] = [*good.parts[1][:1], good.parts[1][1] * 1]
        assert len(value(good.ask())) == 3


def test_malformed_requests(town: Town) -> None:
    plan = town.train("m", analysts=["ann0"])
    town.train("closed", analysts=[])
    with town.open():
        question = Question(town, plan, table(3)[0])
        for code, changes in (
            (Code.BAD_NAME, {"model": "../m"}),
            (Code.BAD_NAME, {"model": "m/../../keys"}),
            (Code.UNKNOWN_MODEL, {"model": "unknown"}),
            (Code.CALLER_NOT_ALLOWED, {"model": "closed"}),
            (Code.BAD_REQUEST, {"id": "../../x"}),
            (Code.BAD_REQUEST, {"n": 0}),
            (Code.BAD_REQUEST, {"n": -3}),
            (Code.BAD_REQUEST, {"n": True}),
            (Code.BAD_REQUEST, {"n": 10**9}),
            (Code.BAD_REQUEST, {"n": 65}),
            (Code.BAD_REQUEST, {"what": "shares"}),
            (Code.BAD_PARAMETER, {"what": "distribution"}),
            (Code.BAD_REQUEST, {"again": 1}),
            (Code.BAD_REQUEST, {"more": 1}),
        ):
            refuses(code, lambda c=changes: question.one(1, c))
        refuses(Code.BAD_REQUEST, lambda: question.one(1, parts=[question.parts[1][0]]))
        refuses(Code.BAD_REQUEST, lambda: question.one(0, parts=[*question.parts[1]]))
        owner = town.configs["north"]
        question.analyst.config = owner
        refuses(Code.CALLER_NOT_ALLOWED, lambda: question.one(0))
        refuses(Code.BAD_NAME, lambda: town.analyst().find("../m"))
        refuses(Code.UNKNOWN_MODEL, lambda: town.analyst().find("unknown"))
        assert [town.log(s, "m").rows for s in range(3)] == [0] * 3
        assert len(town.up[0][1].room) == 0


def test_policies_of_all_servers_hold(tmp_path: Path) -> None:
    town = Town(tmp_path, analysts=2)
    town.train("m")
    town.policies[2] = town.policies[2].model_copy(update={"queries_per_analyst": 5})
    town.policies[1] = town.policies[1].model_copy(update={"queries_per_model": 8})
    with town.open():
        known = town.analyst().find("m")
        assert known.left == 5
        known = replace(known, left=10**6)
        error = refuses(Code.POLICY_REFUSES, lambda: town.analyst().ask(known, table(6)[0]))
        assert error.party == "cedar"
        town.analyst().ask(known, table(5)[0])
        refuses(Code.POLICY_REFUSES, lambda: town.analyst().ask(known, table(1)[0]))
        refuses(Code.BUDGET_EXCEEDED, lambda: town.analyst().ask("m", table(1)[0]))
        error = refuses(Code.POLICY_REFUSES, lambda: town.analyst(1).ask(known, table(4)[0]))
        assert error.party == "birch"
        assert town.analyst(1).ask(known, table(3)[0]).labels == expected(table(3)[0])
        assert [town.log(s, "m").rows for s in range(3)] == [8] * 3


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_a_server_that_falls_in_the_middle_of_a_batch_comes_back(
    town: Town, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has charged and computed, and falls before or after its half is on the disk."""
    town.train("m", noise="votes", n_trees=3, epsilon=5.0, queries=10)
    falls = iter(["before", "after"])
    hold = QueryLog.hold

    def fail(log, draw, keys, halves):
        if log._server == dead and (when := next(falls, None)):
            if when == "after":
                hold(log, draw, keys, halves)
            raise Code.PEER_GONE.error(found="the power")
        hold(log, draw, keys, halves)

    monkeypatch.setattr(QueryLog, "hold", fail)
    with town.open():
        answers = town.analyst().ask("m", table(4)[0])
        assert len(answers.labels) == 4
        assert next(falls, None) is None
        assert [town.log(s, "m").rows for s in range(3)] == [4] * 3
        for server in range(3):
            assert votes.answers_left(town.up[server][1].library.book("m").ledger) == 6
        assert len(town.analyst().ask("m", table(6)[0]).labels) == 6


def test_queries_wait_for_a_server_that_is_away(town: Town) -> None:
    plan = town.train("m")
    rows = table(5)[0]
    with town.open():
        town.analyst().ask("m", rows)
        known = town.analyst().find("m")
        town.stop(2)
        late = refuses(Code.QUERY_NOT_ANSWERED, lambda: town.analyst(timeout=2.0).ask(known, rows))
        assert "cedar" in late.found
        found: list = []
        thread = threading.Thread(target=lambda: found.append(town.analyst().ask(known, rows)))
        thread.start()
        question = Question(town, plan, rows)
        waiting = question.one(0)
        assert waiting.fields["state"] == "waiting"
        town.start(2)
        thread.join(30)
        assert found[0].labels == expected(rows)
        assert value(question.ask()).shape == (5,)


def test_a_model_is_looked_for_until_all_servers_are_back(town: Town) -> None:
    town.train("m")
    rows, why, found = table(5)[0], [], []
    with town.open():
        town.stop(2)
        refuses(Code.SERVICE_UNREACHABLE, lambda: town.analyst(timeout=1.0).find("m"))
        # What will not change is told at once.
        refuses(Code.UNKNOWN_MODEL, lambda: town.analyst().find("unknown"))
        patient = town.analyst(waits=why.append)
        thread = threading.Thread(target=lambda: found.append(patient.ask("m", rows)))
        thread.start()
        while not why:
            time.sleep(0.01)
        town.start(2)
        thread.join(30)
    assert found[0].labels == expected(rows)
    assert why[0].startswith("waiting for cedar: ")


def test_a_restart_of_all_servers_forgets_no_charge(town: Town) -> None:
    town.train("m", noise="votes", n_trees=3, epsilon=5.0, queries=7)
    for rows, left in ((3, 4), (3, 1)):
        with town.open():
            town.analyst().ask("m", table(rows)[0])
            assert town.analyst().find("m").left == left
    with town.open():
        refuses(Code.BUDGET_EXCEEDED, lambda: town.analyst().ask("m", table(2)[0]))
        town.analyst().ask("m", table(1)[0])


def test_who_asks_one_server_only_does_not_hold_up_the_others(town: Town) -> None:
    plan = town.train("m")
    lonely = Question(town, plan, table(2)[0])
    with town.open(replace(QUICK, patience=0.5)):
        known = town.analyst().find("m")
        town.analyst().ask(known, table(2)[0])
        thread = threading.Thread(target=lambda: lonely.one(0))
        thread.start()
        time.sleep(0.1)
        begun = time.monotonic()
        for _ in range(5):
            town.analyst().ask(known, table(2)[0])
        assert time.monotonic() - begun < 0.5 + 5 * 0.5
        thread.join()
        assert town.log(0, "m").rows == 12


def test_a_draw_that_only_some_servers_hold_is_drawn_again(town: Town) -> None:
    plan = town.train("m")
    with town.open():
        question = Question(town, plan, table(4)[0])
        found = question.ask()
        assert len(value(found)) == 4
        log = town.log(1, "m")
        # As if server 1 had fallen after its half was on the disk.
        with log._store.transaction("fall over") as made:
            key = question.key
            row = made.row("questions", model="m", analyst=key.analyst, id=key.id)
            assert row is not None
            made.put("questions", {**row, "done": 0})
        again = question.ask(again=True)
        np.testing.assert_array_equal(value(found), value(again))
        assert found[0].fields["draw"] == again[1].fields["draw"]
        assert log.find([question.key])[question.key].state == "done"
        # As if it had lost its state: what may have been seen is not drawn again.
        where = "WHERE analyst = ? AND id = ?"
        log._store._base.execute(f"DELETE FROM questions {where}", question.key)
        lost = question.ask(again=True)
        assert lost[1].code is Code.QUERY_CONFLICT


def test_only_server_0_invites(town: Town) -> None:
    town.train("m")
    with town.open():
        analyst = town.analyst()
        to = analyst.config.servers[1]
        fields = {"session": "00" * 16}
        refuses(
            Code.CALLER_NOT_ALLOWED,
            lambda: wait_for(analyst._ask(to, "query-meet", fields, None, 5.0)),
        )
        analyst.config = town.configs[SERVERS[2]]
        refuses(
            Code.CALLER_NOT_ALLOWED,
            lambda: wait_for(analyst._ask(to, "query-meet", fields, None, 5.0)),
        )
        analyst.config = town.configs[SERVERS[0]]
        for bad in ({}, {"session": "xy"}, {"session": 7}, {"session": "00" * 15}):
            refuses(
                Code.BAD_REQUEST,
                lambda b=bad: wait_for(analyst._ask(to, "query-meet", b, None, 5.0)),
            )
        assert town.analyst().ask("m", table(2)[0]).labels == expected(table(2)[0])


def together(action, numbers) -> None:
    threads = [threading.Thread(target=action, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
