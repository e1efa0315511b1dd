"""Ledgers on the disk: nothing is forgotten, nothing is recorded twice."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.privacy import ROOT, Budget, Ledger, Release, step
from tests.parties.forks import fork_printing
from tests.parties.store.writers import charge_releases
from tests.parties.wire.parties_calls import refuses


def release(name: str, epsilon: float = 0.5, times: int = 1) -> Release:
    return Release(
        "two-sided geometric", epsilon, 0.0, 1.0, ROOT / step(name), "analyst", name, times=times
    )


def opened(path: Path) -> DurableLedger:
    return DurableLedger(open_store(StateFolder(path / "state")), "run-1")


def lines(path: Path) -> int:
    with open_store(StateFolder(path / "state")).snapshot() as made:
        return len(made.rows("ledger_lines", run="run-1"))


def attempt(path: Path, *names: str) -> DurableLedger:
    """Charge what an attempt charges, and leave the ledger as it is when the process is killed."""
    ledger = opened(path)
    for name in names:
        ledger.charge(release(name))
    return ledger


def test_everything_is_there_again(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.charge(release("a"), release("b"))
    held = ledger.reserve(release("answers", 0.1, times=5))
    ledger.realise(held, release("answers", 0.1, times=2))
    ledger.mark_not_private("two servers", ["server 0", "server 1"])
    before = ledger.to_json()
    again = opened(tmp_path)
    assert again.to_json() == before
    assert Ledger.from_json(before).entries == again.entries


def test_an_attempt_that_is_repeated_charges_nothing_twice(tmp_path: Path) -> None:
    attempt(tmp_path, "structure", "level 0", "level 1")
    ledger = attempt(tmp_path, "structure", "level 0", "level 1", "level 2")
    assert [entry.release.reason for entry in ledger.entries] == [
        "structure",
        "level 0",
        "level 1",
        "level 2",
    ]
    assert ledger.recognised == 3
    assert ledger.total("analyst").epsilon == 2.0


def test_a_second_charge_in_one_attempt_is_a_charge(tmp_path: Path) -> None:
    ledger = attempt(tmp_path, "a", "a")
    assert len(ledger.entries) == 2
    ledger = attempt(tmp_path, "a", "a", "a")
    assert len(ledger.entries) == 3


def test_what_a_finished_stage_has_paid_pays_for_nothing_else(tmp_path: Path) -> None:
    attempt(tmp_path, "structure", "level")
    ledger = opened(tmp_path)
    ledger.charge(release("structure"))
    # The stage of the first charge is found done; an equal one is another one.
    ledger.mark_reached(2)
    ledger.charge(release("level"))
    assert len(ledger.entries) == 3
    refuses(Code.BAD_LEDGER_FILE, lambda: ledger.mark_reached(4))


def test_marks_and_reservations_are_recognised(tmp_path: Path) -> None:
    for _ in range(2):
        ledger = opened(tmp_path)
        ledger.mark_not_private("two servers", ["server 0", "server 1"])
        held = ledger.reserve(release("answers", 0.1, times=5))
        assert held.index == 0
        ledger.realise(held, release("answers", 0.1))
    assert len(ledger.entries) == 2
    assert lines(tmp_path) == 3


def test_a_budget_that_was_set_later_is_kept(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.budget = Budget(1.0, 1e-6)
    ledger.reserve(release("answers", 0.1, times=5))
    again = opened(tmp_path)
    assert again.budget == Budget(1.0, 1e-6)
    refuses(Code.BUDGET_EXCEEDED, lambda: again.charge(release("more", 9.0)))
    assert len(again.entries) == 1


def test_what_is_refused_is_not_on_the_disk(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.budget = Budget(1.0)
    refuses(Code.BUDGET_EXCEEDED, lambda: ledger.charge(release("a"), release("b", 0.6)))
    assert opened(tmp_path).entries == ()


def test_a_ledger_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        opened(tmp_path).__getstate__()
    for number, (line, code) in enumerate(
        [
            ('{"kind":"charge","release":{"mechanism":"none"},"inside":null}', Code.BAD_RELEASE),
            ('{"kind":"charge"}', Code.BAD_LEDGER_FILE),
            ("nonsense", Code.BAD_LEDGER_FILE),
        ]
    ):
        state = StateFolder(tmp_path / f"state-{number}")
        with open_store(state).transaction("tamper") as made:
            made.add("ledger_lines", {"run": "run-1", "number": 0, "line": line})
        refuses(code, lambda state=state: DurableLedger(open_store(state), "run-1"))


def test_lines_that_are_gone_and_two_who_write(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.charge(release("a"))
    first.charge(release("b"))
    # Whoever has read before that writes over nothing.
    refuses(Code.JOURNAL_DAMAGED, lambda: second.charge(release("c")))
    store = open_store(StateFolder(tmp_path / "state"))
    store._base.execute("DELETE FROM ledger_lines WHERE number = 0")
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(tmp_path))


def test_kill_9_in_the_middle_loses_no_charge_and_doubles_none(tmp_path: Path) -> None:
    acknowledged, root = -1, tmp_path / "state"
    releases = [release(f"charge {i}") for i in range(10_000)]
    for _ in range(3):
        child, told = fork_printing(charge_releases, root, releases)
        with told:
            assert told.readline() == b"ready\n"
            for _ in range(25 + acknowledged + 1):
                last = int(told.readline())
            child.kill()
            rest = told.read().split()
        child.join()
        acknowledged = max(acknowledged, last, *(int(line) for line in rest if line.isdigit()))
        ledger = opened(tmp_path)
        reasons = [entry.release.reason for entry in ledger.entries]
        assert reasons == [f"charge {i}" for i in range(len(reasons))]
        # At most the one that was written and not acknowledged is there besides.
        assert acknowledged + 1 <= len(reasons) <= acknowledged + 2
