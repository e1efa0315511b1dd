"""A coordinator's rounds with the real protocol and a clock that the test turns."""

import json
import math
import threading
from dataclasses import dataclass, field

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.job import TopDownJob, TopDownTimeouts
from hedgerow.parties.topdown.log import Record, replay
from hedgerow.parties.topdown.rounds import Deadlines, Gathering, Rounds
from hedgerow.parties.topdown.turns import digest
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.tables import encode
from hedgerow.trees import Tree
from tests.parties.topdown.topdown_town import OWNERS, SEEDS, make_job, people, same_tree
from tests.parties.wire.parties_calls import refuses
from tests.protocols.topdown.topdown_cases import grow_topdown

GROUP = ("alder", "birch", "cedar")


def gathering(*here: str) -> tuple[Gathering, dict[str, object]]:
    made = Gathering()
    made.renew(GROUP)
    return made, {name: made.come(name) for name in here}


def test_the_question_is_handed_out_when_all_are_there() -> None:
    made, tickets = gathering("alder", "birch", "north")
    assert not made.complete()
    assert [made.waits(name) for name in (*GROUP, "north")] == [True, True, False, False]
    tickets["cedar"] = made.come("cedar")
    assert made.complete()
    made.begin()
    assert not made.complete()
    assert all(made.take(name, tickets[name]) for name in GROUP)
    # Once.
    assert not made.take("alder", tickets["alder"])
    assert made.at_work == set(GROUP)


def test_of_two_requests_the_newer_one_counts() -> None:
    made, tickets = gathering(*GROUP)
    newer = made.come("birch")
    assert not made.holds("birch", tickets["birch"])
    made.leave("birch", tickets["birch"])
    assert made.complete()
    made.begin()
    assert not made.take("birch", tickets["birch"])
    assert made.take("birch", newer)


def test_who_leaves_is_waited_for_again() -> None:
    made, tickets = gathering(*GROUP)
    made.leave("cedar", tickets["cedar"])
    assert not made.complete()
    assert not made.waits("cedar")


def test_who_comes_back_is_not_at_work_any_more() -> None:
    made, tickets = gathering(*GROUP)
    made.begin()
    for name in GROUP:
        made.take(name, tickets[name])
        made.leave(name, tickets[name])
    for name in ("alder", "birch"):
        made.come(name)
    assert made.at_work == {"cedar"}
    assert not made.complete()
    made.come("cedar")
    assert made.complete()


def test_the_next_question_begins_anew() -> None:
    made, tickets = gathering(*GROUP)
    made.begin()
    made.take("alder", tickets["alder"])
    made.renew(GROUP)
    assert made.at_work == {"alder"}
    made.renew(())
    assert made.at_work == set()
    assert not made.complete()
    assert not made.waits("birch")


THREE = ("alder", "birch")


def made() -> tuple[Deadlines, Gathering]:
    gathering = Gathering()
    return Deadlines(TopDownTimeouts(join=100.0, answer=10.0), gathering), gathering


def test_an_owner_has_time_to_come_and_then_to_answer() -> None:
    deadlines, _ = made()
    assert deadlines.note_asks({"north": b"1"}, 5.0) == ["north"]
    assert deadlines.until("north") == 105.0
    deadlines.note_call("north", 40.0)
    deadlines.note_call("north", 45.0)
    assert deadlines.until("north") == 50.0
    # The same question again takes no more time; another one does.
    assert deadlines.note_asks({"north": b"1"}, 60.0) == []
    assert deadlines.until("north") == 50.0
    assert deadlines.note_asks({"north": b"2"}, 60.0) == ["north"]
    assert deadlines.until("north") == 70.0


def test_who_waits_for_the_others_is_not_late() -> None:
    deadlines, gathering = made()
    gathering.renew(THREE)
    deadlines.note_asks(dict.fromkeys(THREE, b"1"), 0.0)
    ticket = gathering.come("alder")
    deadlines.note_call("alder", 3.0)
    assert deadlines.until("alder") == math.inf
    assert deadlines.until("birch") == 100.0
    deadlines.note_call("birch", 7.0)
    # It was there and is gone: it may come back for as long as it may take to come at all.
    assert deadlines.until("birch") == 107.0
    gathering.come("birch")
    gathering.begin()
    assert gathering.take("alder", ticket)
    gathering.leave("alder", ticket)
    deadlines.note_asks(dict.fromkeys(THREE, b"2"), 20.0)
    assert deadlines.until("alder") == 30.0


@dataclass
class Run:
    """Rounds, the owners and a clock; what was kept is in `kept`, as a log would have it."""

    job: TopDownJob
    now: float = 0.0
    kept: list[tuple[Entry, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.job.make_plan()
        self.owners = {
            name: Owner(
                encode(people(100, SEEDS[name]), self.job.domain, "ill"),
                plan,
                name=name,
                source=NoiseSource.insecure_seeded(SEEDS[name]),
            )
            for name in OWNERS
        }
        self.restart()

    def restart(self) -> None:
        """Forget everything but what was kept."""
        plan = self.job.make_plan()
        self.coordinator = Coordinator(
            plan, OWNERS, dropouts=self.job.dropouts, least=self.job.least_owners
        )
        self.rounds = Rounds(
            self.job,
            self.coordinator,
            replay(self.kept, self.coordinator),
            keep=self.keep,
            finish=lambda: b"a tree",
            clock=lambda: self.now,
        )

    def keep(self, entries: list[Entry], answer: bytes) -> None:
        assert (entries[-1]["what"] == "heard") == bool(answer)
        self.kept += [(json.loads(json.dumps(entry)), b"") for entry in entries[:-1]]
        self.kept.append((json.loads(json.dumps(entries[-1])), answer))

    def give(self, *names: str) -> None:
        """Let owners ask, and answer."""
        for name in names:
            turn = self.rounds.next(name, 0.0)
            assert turn.state == "ask"
            answer = self.owners[name].answer(turn.payload)
            assert self.rounds.answer(name, digest(turn.payload), answer)

    def finish(self, *names: str) -> Tree:
        while self.rounds.model is None:
            self.give(*(name for name in names if name in self.rounds.status().waiting_for))
        return self.coordinator.tree()


def reference(job: TopDownJob) -> Tree:
    run = Run(job)
    return grow_topdown(job.make_plan(), run.owners)[0]


def test_the_tree_is_that_of_one_process() -> None:
    run = Run(make_job())
    assert same_tree(run.finish(*OWNERS), reference(run.job))
    assert run.rounds.next("north", 0.0).payload == b"a tree"
    status = run.rounds.status()
    assert status.done
    assert status.octets == run.coordinator.traffic.sent + run.coordinator.traffic.received
    assert not run.rounds.all_told()
    for name in OWNERS:
        # Who was told may still have lost it: who has kept it says so.
        assert run.rounds.next(name, 0.0).state == "done"
    assert not run.rounds.all_told()
    for name in OWNERS:
        run.rounds.confirm_model(name)
    assert run.rounds.all_told()
    run.restart()
    assert run.rounds.all_told()


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm"])
def test_a_restart_after_every_answer_changes_nothing(method: str) -> None:
    run = Run(make_job(plan={"method": method}))
    while run.rounds.model is None:
        run.give(run.rounds.status().waiting_for[-1])
        before = run.rounds.record
        run.restart()
        assert run.rounds.record == before
    assert same_tree(run.coordinator.tree(), reference(run.job))
    traffic = run.coordinator.traffic
    assert run.rounds.status().octets == traffic.sent + traffic.received


def test_an_answer_is_kept_once() -> None:
    run = Run(make_job())
    run.finish(*OWNERS)
    received = run.coordinator.traffic.received
    assert sum(len(answer) for _, answer in run.kept) == received
    # Beside it, a short line for the answer and one for its question.
    assert len(run.kept) == 2 * len(OWNERS) * run.coordinator.round
    assert max(len(json.dumps(entry)) for entry, _ in run.kept) < 300


def test_who_has_nothing_to_do_waits_and_is_woken() -> None:
    run = Run(make_job())
    run.give("north", "south", "east")
    assert run.rounds.next("north", 0.0).waiting_for == ("west",)
    found = []
    waiting = threading.Thread(target=lambda: found.append(run.rounds.next("north", 30.0)))
    waiting.start()
    run.give("west")
    waiting.join(20)
    assert (found[0].state, found[0].round) == ("ask", 1)
    run.give("north")
    # So is everybody when the coordinator leaves.
    waiting = threading.Thread(target=lambda: found.append(run.rounds.next("north", 30.0)))
    waiting.start()
    run.rounds.close()
    waiting.join(20)
    assert found[1].state == "wait"


def test_go_on_without_an_owner() -> None:
    run = Run(make_job(timeouts={"join": 100.0, "answer": 10.0}))
    run.give("north", "south", "east")
    # West has never called, so it has the time for joining.
    run.now = 99.0
    run.rounds.tick()
    assert run.rounds.status().absent == ("west",)
    run.now = 100.0
    run.rounds.tick()
    status = run.rounds.status()
    assert (status.round, status.dropped) == (1, ("west",))
    # South was there: it has the time for an answer from when it was asked.
    run.give("north", "east")
    run.now = 109.0
    run.rounds.tick()
    assert run.rounds.status().round == 1
    run.now = 110.0
    run.rounds.tick()
    assert run.rounds.status().dropped == ("south", "west")
    run.restart()
    assert run.rounds.status().dropped == ("south", "west")
    run.finish("north", "east")
    assert [(e["participant"], e["round"], e["what"]) for e in run.rounds.record.events] == [
        ("west", 0, "lost"),
        ("south", 1, "lost"),
    ]
    # Whoever comes back too late is told so, and gets the model all the same.
    turn = run.rounds.next("south", 0.0)
    assert (turn.state, turn.dropped, turn.payload) == ("done", True, b"a tree")


def test_an_answer_that_comes_too_late_does_not_count() -> None:
    run = Run(make_job(timeouts={"answer": 10.0}))
    ask = run.rounds.next("west", 0.0).payload
    run.give("north", "south", "east")
    run.now = 10.0
    run.rounds.tick()
    kept = len(run.kept)
    assert run.rounds.answer("west", digest(ask), run.owners["west"].answer(ask)) is False
    assert len(run.kept) == kept
    assert run.rounds.record.out == {}
    turn = run.rounds.next("west", 0.0)
    assert (turn.state, turn.dropped) == ("wait", True)


def test_wait_for_an_owner_and_say_so() -> None:
    run = Run(make_job(dropouts="wait", timeouts={"join": 5.0, "answer": 10.0}))
    run.give("north", "south", "east")
    run.now = 1e6
    run.rounds.tick()
    status = run.rounds.status()
    assert (status.late, status.waiting_for, status.dropped) == (("west",), ("west",), ())
    run.give("west")
    assert run.rounds.status().late == ()
    assert same_tree(run.finish(*OWNERS), reference(run.job))


def test_too_few_owners_stop_the_run_until_they_are_back() -> None:
    run = Run(make_job(least_owners=3, timeouts={"join": 5.0}))
    run.give("north", "south")
    run.now = 5.0
    run.rounds.tick()
    error = run.rounds.error
    assert error is not None
    assert error.code is Code.TOO_FEW_OWNERS
    assert "west" in error.found
    # East could be done without, west could not.
    assert run.rounds.status().dropped == ("east",)
    assert refuses(Code.TOO_FEW_OWNERS, lambda: run.rounds.next("north", 0.0)) is error
    run.restart()
    assert run.rounds.error is None
    run.give("west")
    assert run.rounds.status().round == 1
    run.finish("north", "south", "west")


def test_the_same_answer_again_counts_once() -> None:
    run = Run(make_job())
    ask = run.rounds.next("north", 0.0).payload
    answer = run.owners["north"].answer(ask)
    assert run.rounds.answer("north", digest(ask), answer)
    run.restart()
    before, kept = run.coordinator.state(), len(run.kept)
    assert run.rounds.answer("north", digest(ask), answer)
    assert run.coordinator.state() == before
    assert len(run.kept) == kept
    assert run.rounds.record.traffic["north"]["answers"] == 1
    other = answer[:-1] + bytes([answer[-1] ^ 1])
    refuses(Code.UNEXPECTED_ANSWER, lambda: run.rounds.answer("north", digest(ask), other))
    assert run.coordinator.state() == before


def _bad_answers(run: Run) -> list[tuple[bytes, Code]]:
    ask = run.rounds.next("west", 0.0).payload
    good = run.owners["west"].answer(ask)
    elsewhere = good.replace(b'"nodes":[', b'"nodes":[7,', 1)
    return [
        (b"", Code.BAD_ANSWER),
        (good[:-8], Code.BAD_ANSWER),
        (good + b"x", Code.BAD_ANSWER),
        (elsewhere, Code.UNEXPECTED_ANSWER),
    ]


@pytest.mark.parametrize("which", range(4))
def test_go_on_without_an_owner_whose_answer_cannot_be_used(which: int) -> None:
    run = Run(make_job())
    run.give("north")
    ask = digest(run.rounds.next("west", 0.0).payload)
    data, code = _bad_answers(run)[which]
    error = refuses(code, lambda: run.rounds.answer("west", ask, data))
    assert list(run.rounds.record.out) == ["west"]
    assert code.number in run.rounds.record.out["west"]
    refuses(Code.PUT_OUT, lambda: run.rounds.next("west", 0.0))
    run.restart()
    told = refuses(Code.PUT_OUT, lambda: run.rounds.next("west", 0.0))
    assert error.found in told.found
    run.finish("north", "south", "east")
    assert [e["what"] for e in run.rounds.record.events] == ["refused", "lost"]
    assert run.rounds.status().dropped == ("west",)


def test_wait_for_a_better_answer() -> None:
    run = Run(make_job(dropouts="wait"))
    ask = digest(run.rounds.next("west", 0.0).payload)
    for data, code in _bad_answers(run):
        refuses(code, lambda data=data: run.rounds.answer("west", ask, data))
    assert "H823" in run.rounds.status().refused["west"]
    assert same_tree(run.finish(*OWNERS), reference(run.job))


def test_a_bad_answer_of_an_owner_that_is_needed_stops_the_run() -> None:
    run = Run(make_job(least_owners=4))
    ask = digest(run.rounds.next("west", 0.0).payload)
    refuses(Code.BAD_ANSWER, lambda: run.rounds.answer("west", ask, b""))
    assert run.rounds.record.out == {}
    refuses(Code.TOO_FEW_OWNERS, lambda: run.rounds.next("west", 0.0))


def test_nothing_is_told_that_was_not_kept() -> None:
    run = Run(make_job())

    def full(entries: list[Entry], answer: bytes) -> None:
        raise Code.STATE_NOT_WRITTEN.error(found="a full disk")

    run.rounds._keep = full
    ask = run.rounds.next("north", 0.0).payload
    answer = run.owners["north"].answer(ask)
    refuses(Code.STATE_NOT_WRITTEN, lambda: run.rounds.answer("north", digest(ask), answer))
    refuses(Code.STATE_NOT_WRITTEN, lambda: run.rounds.next("south", 0.0))


class Relay:
    """A protocol with other participants: two owners, then a server."""

    def __init__(self) -> None:
        self.round, self._left = 0, {"north": b"1", "south": b"2"}

    def asks(self) -> dict[str, bytes]:
        return dict(self._left)

    def hear(self, name: str, answer: bytes) -> None:
        del self._left[name]
        if not self._left and self.round == 0:
            self.round, self._left = 1, {"server 0": b"3"}

    def drop(self, name: str) -> None:
        raise Code.TOO_FEW_OWNERS.error(found=f"no {name}")

    def together(self) -> tuple[str, ...]:
        return ()

    def ask_again(self) -> None:
        """Nobody answers together."""


def test_any_participant_is_served_alike() -> None:
    job = make_job(timeouts={"join": 5.0})
    now = [0.0]
    rounds = Rounds(
        job,
        Relay(),
        Record(),
        keep=lambda entries, answer: None,
        finish=lambda: b"done",
        clock=lambda: now[0],
    )
    for name in ("north", "south"):
        assert rounds.answer(name, digest(rounds.next(name, 0.0).payload), b"x")
    assert rounds.status().waiting_for == ("server 0",)
    now[0] = 5.0
    rounds.tick()
    with pytest.raises(HedgerowError, match="server 0"):
        rounds.next("server 0", 0.0)


def test_noise_that_was_not_drawn_as_it_must_be_is_noted() -> None:
    run = Run(make_job())
    ask = run.rounds.next("north", 0.0).payload
    run.rounds.answer("north", digest(ask), run.owners["north"].answer(ask), private=False)
    run.restart()
    assert run.rounds.record.insecure == ["north"]
