"""`Record`: what a coordinator remembers of a run beside the state of the protocol.

It is kept together with that state, in one file: a line of JSON, then the state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code

_VERSION = 1
_MOST_EVENTS = 1000
_KEYS = {"version", "out", "events", "answers", "traffic", "insecure", "told"}
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
        at = self._at(name)
        at["asks"] += 1
        at["bytes_out"] += octets

    def heard(self, name: str, ask: str, answer: str, octets: int, private: bool) -> None:
        """Count an answer that was taken."""
        at = self._at(name)
        at["answers"] += 1
        at["bytes_in"] += octets
        self.answers[name] = [ask, answer]
        if not private and name not in self.insecure:
            self.insecure.append(name)

    def happened(self, what: str, name: str, number: int, why: str) -> None:
        """Note that a participant was lost or refused."""
        event = {"participant": name, "round": number, "what": what, "why": why[:500]}
        # What a hostile participant can fill has an end.
        if event not in self.events and len(self.events) < _MOST_EVENTS:
            self.events.append(event)

    def pack(self, state: bytes) -> bytes:
        """Write it before the state of the protocol."""
        fields = {"version": _VERSION, **vars(self)}
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + state

    @classmethod
    def unpack(cls, data: bytes) -> tuple[Record, bytes]:
        """Read what `pack` wrote; H867 for anything else."""
        line, _, state = data.partition(b"\n")
        fields = jsonfile.loads(line, Code.JOURNAL_DAMAGED)
        if set(fields) != _KEYS or fields.pop("version") != _VERSION:
            raise Code.JOURNAL_DAMAGED.error(found="the state of a run in another version")
        return cls(**fields), state

    def _at(self, name: str) -> dict[str, int]:
        return self.traffic.setdefault(name, dict.fromkeys(_COUNTS, 0))
