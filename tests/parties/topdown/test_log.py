"""The log of a coordinator only grows; what is cut, lost or changed in it is found."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.database import Transaction, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.log import Entry, Record, RunLog, replay
from tests.parties.wire.parties_calls import refuses

ANSWERS = (b"first\nanswer", b"\x00" * 70_000, b"third")


def entry_of(answer: bytes) -> Entry:
    return {"what": "heard", "bytes": len(answer), "sha256": hashlib.sha256(answer).hexdigest()}


EXPECTED = [
    ({"what": "asked"}, b""),
    (entry_of(ANSWERS[0]), ANSWERS[0]),
    ({"what": "lost"}, b""),
    (entry_of(ANSWERS[1]), ANSWERS[1]),
    (entry_of(ANSWERS[2]), ANSWERS[2]),
]


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "state")
    with RunLog(made, "wards-1", "topdown") as log:
        assert len(log) == 0
        log.append([{"what": "asked"}, entry_of(ANSWERS[0])], ANSWERS[0])
        log.append([{"what": "lost"}])
        for answer in ANSWERS[1:]:
            log.append([entry_of(answer)], answer)
    return made


def opened(state: StateFolder, run: str = "wards-1") -> RunLog:
    return RunLog(state, run, "topdown")


def test_it_is_read_as_it_was_written_and_goes_on(state: StateFolder) -> None:
    with opened(state) as log:
        assert list(log.each()) == EXPECTED
        log.append([entry_of(b"more")], b"more")
        assert len(log) == 6
    with opened(state) as log:
        assert list(log.each()) == [*EXPECTED, (entry_of(b"more"), b"more")]
    with opened(state, "wards-2") as log:
        assert list(log.each()) == []


def test_all_of_what_was_heard_or_nothing(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends within the transaction, after the first entry."""
    add, calls = Transaction.add_heard, []

    def killed(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        add(*args)

    with opened(state) as log:
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "add_heard", killed)
            with pytest.raises(KeyboardInterrupt):
                log.append([{"what": "asked"}, entry_of(b"3")], b"3")
        assert list(log.each()) == EXPECTED
    with opened(state) as log:
        assert list(log.each()) == EXPECTED
        log.append([entry_of(b"3")], b"3")
        assert list(log.each()) == [*EXPECTED, (entry_of(b"3"), b"3")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE heard SET answer = x'00' WHERE number = 1",
        "UPDATE heard SET entry = replace(entry, 'lost', 'told')",
        "DELETE FROM heard WHERE number = 1",
        "UPDATE heard SET number = 9 WHERE number = 1",
    ],
)
def test_what_has_changed_or_is_gone(state: StateFolder, statement: str) -> None:
    store = open_store(state)
    store._base.execute(statement)
    with opened(state) as log:
        refuses(Code.JOURNAL_DAMAGED, lambda: list(log.each()))


def test_an_answer_of_another_digest(state: StateFolder) -> None:
    with opened(state, "wards-2") as log:
        log.append([entry_of(b"x")], b"y")
        refuses(Code.JOURNAL_DAMAGED, lambda: list(log.each()))


def test_one_process_at_a_time(state: StateFolder) -> None:
    with opened(state):
        refuses(Code.JOURNAL_IN_USE, lambda: opened(state))
        with opened(state, "wards-2"):
            pass


def test_a_full_disk(state: StateFolder) -> None:
    with opened(state) as log:
        base = log._store._base
        (pages,) = base.execute("PRAGMA page_count").fetchone()
        base.execute(f"PRAGMA max_page_count = {pages}")
        answer = bytes(100_000)
        refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([entry_of(answer)], answer))
        # What the disk has of it is not known until it is opened, and checked, again.
        refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([{"what": "lost"}]))
    with opened(state) as log:
        assert list(log.each()) == EXPECTED


class Heard:
    """A protocol that only listens."""

    round = 0

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    def hear(self, name: str, answer: bytes) -> None:
        if answer == b"bad":
            raise Code.BAD_ANSWER.error(found="an answer that is none")
        self.said.append(("hear", name, answer.decode()))

    def drop(self, name: str) -> None:
        self.said.append(("lost", name))

    def ask_again(self) -> None:
        self.said.append(("again",))

    def asks(self) -> dict[str, bytes]:
        return {}

    def together(self) -> tuple[str, ...]:
        return ("north", "south")


def fill(record: Record) -> list[Entry]:
    """Let all kinds of things happen; return the entries of the log."""
    found: list[Entry] = []
    record.note_question("north", 10)
    record.note_question("north", 10)
    record.note_question("south", 7)
    record.note_attempt()
    record.note_attempt()
    record.note_answer("north", "a" * 64, "b" * 64, 25, private=False)
    found += record.take()
    record.note_refusal("west", 3, "H822 nothing")
    record.note_refusal("west", 3, "H822 nothing")
    record.note_loss("west", 3, "H822 nothing", out=True)
    record.note_loss("south", 3, "no answer in time", out=False)
    record.note_model("north")
    found += record.take()
    assert record.take() == []
    written: list[Entry] = json.loads(json.dumps(found))
    return written


def test_it_follows_from_the_log() -> None:
    record, conductor = Record(), Heard()
    entries = fill(record)
    assert [entry["what"] for entry in entries] == [
        *("asked", "asked", "again", "heard"),
        *("refused", "lost", "lost", "told"),
    ]
    again = replay([(entry, b"x") for entry in entries], conductor)
    assert again == record
    said = [("again",), ("hear", "north", "x"), ("lost", "west"), ("lost", "south"), ("again",)]
    assert conductor.said == said
    # The restart itself is an attempt of its own, and is told with what happens next.
    again.note_model("south")
    assert [entry["what"] for entry in again.take()] == ["again", "told"]
    assert record.octets == 52
    assert record.traffic["north"] == {"asks": 2, "bytes_out": 20, "answers": 1, "bytes_in": 25}
    assert record.last("north") == ("a" * 64, "b" * 64)
    assert record.last("south") is None
    assert record.out == {"west": "H822 nothing"}
    assert [(e["participant"], e["what"]) for e in record.events] == [
        ("west", "refused"),
        ("west", "lost"),
        ("south", "lost"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"what": "forgotten"},
        {"what": "heard", "participant": "north"},
        {"what": "lost", "participant": "north", "round": 1},
        {"what": "asked", "participant": "north", "asks": "many", "bytes": 1},
    ],
)
def test_anything_else_is_refused(entry: Entry) -> None:
    refuses(Code.JOURNAL_DAMAGED, lambda: replay([(entry, b"")], Heard()))


def test_a_log_that_the_protocol_cannot_follow_is_refused() -> None:
    entries = [(entry, b"bad") for entry in fill(Record())]
    error = refuses(Code.JOURNAL_DAMAGED, lambda: replay(entries, Heard()))
    assert "entry 4: an answer that is none" in error.found


def test_nobody_can_fill_it() -> None:
    record = Record()
    for number in range(1500):
        record.note_refusal("north", number, "x" * 10_000)
        record.note_refusal("north", number, "x" * 10_000)
        record.note_question("north", 5)
    assert len(record.events) == 1000
    # Whoever is lost is noted in the log all the same: the protocol has to go on without it.
    record.note_loss("north", 1, "x" * 10_000, out=True)
    assert len(record.events) == 1000
    entries = record.take()
    assert len(entries) == 1002
    assert len(json.dumps(entries)) < 1_000_000
    assert replay([(entry, b"") for entry in entries], Heard()) == record
