"""What a coordinator remembers beside the protocol: it follows from the log, and is bounded."""

import json

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.record import Record, replay
from tests.parties.wire.parties_calls import refuses


class Heard:
    """A protocol that only listens."""

    round = 0

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    def hear(self, name: str, answer: bytes) -> None:
        if answer == b"bad":
            raise Code.BAD_ANSWER.error(found="an answer that is none")
        self.said.append(("hear", name, answer.decode()))

    def lost(self, name: str) -> None:
        self.said.append(("lost", name))

    def again(self) -> None:
        self.said.append(("again",))

    def asks(self) -> dict[str, bytes]:
        return {}

    def together(self) -> tuple[str, ...]:
        return ("north", "south")


def fill(record: Record) -> list[Entry]:
    """Let all kinds of things happen; return the entries of the log."""
    found: list[Entry] = []
    record.sent("north", 10)
    record.sent("north", 10)
    record.sent("south", 7)
    record.again()
    record.again()
    record.heard("north", "a" * 64, "b" * 64, 25, private=False)
    found += record.take()
    record.refused("west", 3, "H822 nothing")
    record.refused("west", 3, "H822 nothing")
    record.lost("west", 3, "H822 nothing", out=True)
    record.lost("south", 3, "no answer in time", out=False)
    record.tell("north")
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
    again.tell("south")
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
        record.refused("north", number, "x" * 10_000)
        record.refused("north", number, "x" * 10_000)
        record.sent("north", 5)
    assert len(record.events) == 1000
    # Whoever is lost is noted in the log all the same: the protocol has to go on without it.
    record.lost("north", 1, "x" * 10_000, out=True)
    assert len(record.events) == 1000
    entries = record.take()
    assert len(entries) == 1002
    assert len(json.dumps(entries)) < 1_000_000
    assert replay([(entry, b"") for entry in entries], Heard()) == record
