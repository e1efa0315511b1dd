"""`Record`: what a coordinator remembers of a run beside what the protocol does.

Whatever happens is an entry of the run's log (`hedgerow.parties.topdown.log`): an answer that was
heard, a participant that was lost or refused, questions that were sent, another attempt of those
who answer together, somebody who has the model. `replay` goes through the log of an earlier process
and leaves protocol and record as that process had them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.log import HEARD
from hedgerow.parties.topdown.turns import Conductor

BEGUN = "begun"
"""What the first entry says where a run begins with something that must not be drawn again."""
_MOST_EVENTS = 1000
_COUNTS = ("asks", "bytes_out", "answers", "bytes_in")


@dataclass
class Record:
    """Who was asked and has answered, with how many bytes, and who was gone on without.

    Attributes
    ----------
    out : dict of str to str
        Who was put out, and why.
    events : list of dict
        Participants that were lost or refused: ``participant``, ``round``, ``what``, ``why``.
    answers : dict of str to list
        Digests of the last question that a participant has answered, and of its answer.
    traffic : dict of str to dict
        Questions and answers of each, with their bytes.
    insecure : list of str
        Whose noise was not drawn as it must be, as they say themselves.
    told : list of str
        Who has the model.
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

    def sent(self, name: str, octets: int) -> None:
        """Count a question."""
        self._sent(name, 1, octets)
        # Asking again and again fills no disk: it is told with the next entry of another kind.
        unkept = self._unkept.setdefault(name, [0, 0])
        unkept[0] += 1
        unkept[1] += octets

    def heard(self, name: str, ask: str, answer: str, octets: int, private: bool) -> None:
        """Count an answer that was taken."""
        self._note(
            what=HEARD, participant=name, ask=ask, sha256=answer, bytes=octets, private=private
        )

    def lost(self, name: str, number: int, why: str, *, out: bool) -> None:
        """Note that a participant was gone on without; for good, and told so, if put out."""
        self._note(what="lost", participant=name, round=number, why=why[:500], out=out)

    def refused(self, name: str, number: int, why: str) -> None:
        """Note that a participant was refused; once for the same reason."""
        event = {"participant": name, "round": number, "what": "refused", "why": why[:500]}
        # What a hostile participant can fill has an end.
        if event not in self.events and len(self.events) < _MOST_EVENTS:
            self._note(**event)

    def again(self) -> None:
        """Note that what those said who answer together was forgotten, and they are asked again."""
        if not self._new or self._new[-1] != {"what": "again"}:
            self._note(what="again")

    def tell(self, name: str) -> None:
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
    """Bring a conductor that has just begun to where it was; return the record.

    Parameters
    ----------
    log : iterable of (entry, answer)
        As `RunLog.each` yields it.
    conductor : Conductor
        It does the same as before: whatever it asks follows from what it has heard.

    Raises
    ------
    HedgerowError
        H867 for a log from which it cannot be brought there.
    """
    record = Record()
    for number, (entry, answer) in enumerate(log, 1):
        with jsonfile.refusing(Code.JOURNAL_DAMAGED):
            try:
                if entry["what"] == HEARD:
                    conductor.hear(entry["participant"], answer)
                elif entry["what"] == "lost":
                    conductor.lost(entry["participant"])
                elif entry["what"] == "again":
                    conductor.again()
            except HedgerowError as error:
                raise Code.JOURNAL_DAMAGED.error(
                    expected="a log whose entries follow from each other",
                    found=f"entry {number}: {error.found}",
                ) from error
            record.apply(entry)
    if conductor.together():
        # They have to meet again: nobody waits any more.
        conductor.again()
        record.again()
    return record
