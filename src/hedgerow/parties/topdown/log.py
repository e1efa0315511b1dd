"""What a coordinator has heard and remembers of a run, in order; it only grows.

`RunLog` keeps it in the store of the party: what happened, and with every answer its bytes, in one
transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import Claim, StateFolder
from hedgerow.parties.topdown.turns import Conductor

HEARD = "heard"
"""What an entry says that an answer belongs to."""
Entry = dict[str, Any]

BEGUN = "begun"
"""What the first entry says where a run begins with something that must not be drawn again."""
_MOST_EVENTS = 1000
_COUNTS = ("asks", "bytes_out", "answers", "bytes_in")


class RunLog:
    """The log of a run at its coordinator; for one process at a time.

    `room` are the names of the run's folder in the state. H867 if the store does not fit together,
    H868 if another process has the log open, H869 if the disk does not take it.
    """

    def __init__(self, state: StateFolder, run: str, *room: str) -> None:
        self._run = run
        self._claim = Claim(state.folder(*room, run) / "lock")
        try:
            self._store = open_store(state)
            with self._store.snapshot() as made:
                self._length = made.count_heard(run)
        except BaseException:
            self.close()
            raise

    def append(self, entries: Sequence[Entry], answer: bytes = b"") -> None:
        """Add entries, and the answer that the last of them is about (``heard``), or nothing.

        H869 if it is not on the disk for certain; the log then takes no more.
        """
        with self._store.transaction("hear an answer" if answer else "note events") as made:
            for number, entry in enumerate(entries, 1):
                text = json.dumps(entry, allow_nan=False)
                said = answer if number == len(entries) else b""
                made.add_heard(self._run, self._length + number - 1, text, said)
        self._length += len(entries)

    def each(self) -> Iterator[tuple[Entry, bytes]]:
        """Yield what happened, in order, with the answers; H867 for one that has changed since."""
        for number in range(self._length):
            with self._store.snapshot() as made:
                row = made.heard(self._run, number)
            entry, answer = jsonfile.loads(row["entry"], Code.JOURNAL_DAMAGED), row["answer"]
            if (entry.get("what") == HEARD or answer) and (
                hashlib.sha256(answer).hexdigest() != entry.get("sha256")
            ):
                raise Code.JOURNAL_DAMAGED.error(
                    expected="answers as they were heard", found=f"another one, at {number}"
                )
            yield entry, answer

    def close(self) -> None:
        """Let others open it; a second call does nothing."""
        self._claim.release()

    def __len__(self) -> int:
        return self._length

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass
class Record:
    """What the entries of a log come to, beside what the protocol does.

    `out` says who was put out, and why; `events` are participants that were lost or refused;
    `answers` has the digests of the last question that each has answered, and of its answer;
    `insecure` is whose noise, as they say themselves, was not drawn as it must be; `told` is who
    has the model.
    """

    out: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    traffic: dict[str, dict[str, int]] = field(default_factory=dict)
    insecure: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    _new: list[Entry] = field(default_factory=list, repr=False, compare=False)
    _unkept: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def octets(self) -> int:
        """Bytes of all questions and answers."""
        return sum(at["bytes_out"] + at["bytes_in"] for at in self.traffic.values())

    def last(self, name: str) -> tuple[str, str] | None:
        """Return the digests of the last question that a participant answered, and its answer."""
        found = self.answers.get(name)
        return None if found is None else (found[0], found[1])

    def note_question(self, name: str, octets: int) -> None:
        """Count a question."""
        self._sent(name, 1, octets)
        # Asking again and again fills no disk: it is told with the next entry of another kind.
        unkept = self._unkept.setdefault(name, [0, 0])
        unkept[0] += 1
        unkept[1] += octets

    def note_answer(self, name: str, ask: str, answer: str, octets: int, private: bool) -> None:
        """Count an answer that was taken."""
        self._note(
            what=HEARD, participant=name, ask=ask, sha256=answer, bytes=octets, private=private
        )

    def note_loss(self, name: str, number: int, why: str, *, out: bool) -> None:
        """Note that a participant was gone on without; for good, and told so, if put out."""
        self._note(what="lost", participant=name, round=number, why=why[:500], out=out)

    def note_refusal(self, name: str, number: int, why: str) -> None:
        """Note that a participant was refused; once for the same reason."""
        event = {"participant": name, "round": number, "what": "refused", "why": why[:500]}
        # What a hostile participant can fill has an end.
        if event not in self.events and len(self.events) < _MOST_EVENTS:
            self._note(**event)

    def note_attempt(self) -> None:
        """Note that what those said who answer together was forgotten, and they are asked again."""
        if not self._new or self._new[-1] != {"what": "again"}:
            self._note(what="again")

    def note_model(self, name: str) -> None:
        """Note that a participant has the model."""
        self._note(what="told", participant=name)

    def take(self) -> list[Entry]:
        """Return what has happened since the last call, in order, for the log."""
        asked = [
            {"what": "asked", "participant": name, "asks": asks, "bytes": octets}
            for name, (asks, octets) in self._unkept.items()
        ]
        found, self._new, self._unkept = asked + self._new, [], {}
        return found

    def apply(self, entry: Entry) -> None:
        """Take up an entry of the log."""
        what, name = entry["what"], entry.get("participant", "")
        if what == "asked":
            self._sent(name, entry["asks"], entry["bytes"])
        elif what == HEARD:
            at = self._at(name)
            at["answers"] += 1
            at["bytes_in"] += entry["bytes"]
            self.answers[name] = [entry["ask"], entry["sha256"]]
            if not entry["private"] and name not in self.insecure:
                self.insecure.append(name)
        elif what in ("lost", "refused"):
            event = {key: entry[key] for key in ("participant", "round", "what", "why")}
            if len(self.events) < _MOST_EVENTS:
                self.events.append(event)
            if entry.get("out"):
                self.out[name] = entry["why"]
        elif what == "told":
            self.told.append(name)
        elif what not in ("again", BEGUN):
            raise Code.JOURNAL_DAMAGED.error(found="the log of a run in another version")

    def _note(self, **entry: Any) -> None:
        self.apply(entry)
        self._new.append(entry)

    def _sent(self, name: str, asks: int, octets: int) -> None:
        at = self._at(name)
        at["asks"] += asks
        at["bytes_out"] += octets

    def _at(self, name: str) -> dict[str, int]:
        return self.traffic.setdefault(name, dict.fromkeys(_COUNTS, 0))


def replay(log: Iterable[tuple[Entry, bytes]], conductor: Conductor) -> Record:
    """Bring a new conductor to where it was; return the record. H867 if that fails."""
    record = Record()
    for number, (entry, answer) in enumerate(log, 1):
        with jsonfile.refusing(Code.JOURNAL_DAMAGED):
            try:
                if entry["what"] == HEARD:
                    conductor.hear(entry["participant"], answer)
                elif entry["what"] == "lost":
                    conductor.drop(entry["participant"])
                elif entry["what"] == "again":
                    conductor.ask_again()
            except HedgerowError as error:
                raise Code.JOURNAL_DAMAGED.error(
                    expected="a log whose entries follow from each other",
                    found=f"entry {number}: {error.found}",
                ) from error
            record.apply(entry)
    if conductor.together():
        # They have to meet again: nobody waits any more.
        conductor.ask_again()
        record.note_attempt()
    return record
