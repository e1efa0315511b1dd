"""The log of a coordinator only grows; what is cut, lost or changed in it is found."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.log import Record, RunLog, replay
from tests.parties.wire.parties_calls import refuses

ABOUT: dict[str, str | int] = {"run": "wards-1", "party": "delta"}
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
def folder(tmp_path: Path) -> Path:
    with RunLog(tmp_path, about=ABOUT) as log:
        assert len(log) == 0
        log.append([{"what": "asked"}, entry_of(ANSWERS[0])], ANSWERS[0])
        log.append([{"what": "lost"}])
        for answer in ANSWERS[1:]:
            log.append([entry_of(answer)], answer)
    return tmp_path


def test_it_is_read_as_it_was_written_and_goes_on(folder: Path) -> None:
    assert (folder / "heard.bin").read_bytes() == b"".join(ANSWERS)
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == EXPECTED
        log.append([entry_of(b"more")], b"more")
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == [*EXPECTED, (entry_of(b"more"), b"more")]


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_an_answer_that_the_journal_does_not_have_is_cut_off(folder: Path, cut: int) -> None:
    """The process ended between the two, or within the journal's line."""
    lines = (folder / "state.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "state.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:-100])
    whole = b"".join(ANSWERS)
    (folder / "heard.bin").write_bytes(whole[: len(whole) - cut])
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == EXPECTED[:-1]
        log.append([entry_of(b"3")], b"3")
    assert (folder / "heard.bin").read_bytes() == b"".join(ANSWERS[:2]) + b"3"
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == [*EXPECTED[:-1], (entry_of(b"3"), b"3")]


def test_answers_that_are_gone_or_an_older_copy(folder: Path) -> None:
    (folder / "heard.bin").write_bytes(b"".join(ANSWERS)[:-1])
    assert "older" in refuses(Code.ANSWERS_LOST, lambda: RunLog(folder, about=ABOUT)).found
    (folder / "heard.bin").unlink()
    refuses(Code.ANSWERS_LOST, lambda: RunLog(folder, about=ABOUT))
    (folder / "heard.bin").symlink_to(folder / "state.jsonl")
    refuses(Code.STATE_NOT_WRITTEN, lambda: RunLog(folder, about=ABOUT))


def test_an_answer_that_has_changed(folder: Path) -> None:
    data = bytearray(b"".join(ANSWERS))
    data[20] ^= 1
    (folder / "heard.bin").write_bytes(data)
    with RunLog(folder, about=ABOUT) as log:
        refuses(Code.JOURNAL_DAMAGED, lambda: list(log.each()))


def test_a_line_that_has_changed(folder: Path) -> None:
    text = (folder / "state.jsonl").read_text()
    (folder / "state.jsonl").write_text(text.replace('"lost"', '"told"'))
    refuses(Code.JOURNAL_DAMAGED, lambda: RunLog(folder, about=ABOUT))


def test_one_process_at_a_time_and_one_run(folder: Path) -> None:
    with RunLog(folder, about=ABOUT):
        refuses(Code.JOURNAL_IN_USE, lambda: RunLog(folder, about=ABOUT))
    refuses(Code.JOURNAL_DAMAGED, lambda: RunLog(folder, about=ABOUT | {"run": "wards-2"}))


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunLog(folder, about=ABOUT) as log:

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([entry_of(b"x")], b"x"))
        # What the disk has of it is not known until it is opened, and checked, again.
        refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([{"what": "lost"}]))
    with RunLog(folder, about=ABOUT) as log:
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
