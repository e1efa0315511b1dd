"""What a site or server has learned of a run: a record for each attempt, and one for answers.

What was learned in an attempt that failed was learned all the same, so every attempt has a record.
It is begun before anything arrives: that of a site which was killed says that no more is known than
the declaration.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.store.durable import make_private, read_small, replacing
from hedgerow.privacy import Leakage, Ledger, Release

SCHEMA, VERSION = "hedgerow.site-learned", 1
UNDER_WAY, GROWN, ANSWERING = "under way, or killed", "grown", "answering"
ANY_NUMBER = 1 << 60
"""So often or more often is as often as one likes."""
_MAX_BYTES = 1 << 26
LEDGER = "ledger.json"
_FOLDER, _ANSWERS = "learned", "answers"
_OWN = ("attempt", "begun", "state", "rows", "counted")
_KEYS = {"schema", "version", *_OWN}


@dataclass
class Learned:
    """The record of one attempt, or of the answers.

    Parameters
    ----------
    folder : Path
        Of the run.
    attempt : str
        Its identifier; ``answers`` for what questions have shown since.
    begun : float
        Seconds since 1970.
    state : str
    rows : list of dict
        One for each declared name: name, declared (times at most), learned (times), values, why.
    counted : bool
        Whether the attempt got as far as counting records.
    """

    folder: Path
    attempt: str
    begun: float = field(default_factory=time.time)
    state: str = UNDER_WAY
    rows: list[dict[str, Any]] = field(default_factory=list)
    counted: bool = False

    def __post_init__(self) -> None:
        self._before = {row["name"]: (row["learned"], row["values"]) for row in self.rows}

    @classmethod
    def of_answers(cls, folder: Path) -> Learned:
        """Return the record of answers, with what earlier processes have written."""
        path = folder / _FOLDER / f"{_ANSWERS}.json"
        return cls._read(path) if path.exists() else cls(folder, _ANSWERS, state=ANSWERING)

    @classmethod
    def all_of(cls, folder: Path) -> list[Learned]:
        """Read the records of a run, in the order of their beginning."""
        found = [cls._read(path) for path in (folder / _FOLDER).glob("[!.]*.json")]
        return sorted(found, key=lambda one: one.begun)

    @classmethod
    def earlier(cls, folder: Path) -> int:
        """Return how many attempts of a run have begun to count, however they ended.

        Of one whose process was killed it is not known, so it is one of them.
        """
        attempts = [one for one in cls.all_of(folder) if one.state != ANSWERING]
        return sum(one.counted or one.state == UNDER_WAY for one in attempts)

    @classmethod
    def known(cls, folder: Path, attempt: str) -> bool:
        """Whether there is a record of an attempt: its identifier must not be used again."""
        return (folder / _FOLDER / f"{attempt}.json").exists()

    @classmethod
    def _read(cls, path: Path) -> Learned:
        data = jsonfile.loads(
            read_small(path, _MAX_BYTES, Code.BAD_LEDGER_FILE), Code.BAD_LEDGER_FILE
        )
        if set(data) != _KEYS or (data["schema"], data["version"]) != (SCHEMA, VERSION):
            raise Code.BAD_LEDGER_FILE.error(found=f"{path}: another schema or version")
        return cls(path.parent.parent, *(data[key] for key in _OWN))

    def write(
        self, leakages: list[Leakage], state: str | None = None, *, counted: bool = False
    ) -> None:
        """Replace the record by what the declarations say now; on the disk when this returns."""
        self.state, self.counted = state or self.state, counted
        self.rows = [row for leakage in leakages for row in _rows(leakage)]
        self._write()

    def write_more(self, leakage: Leakage) -> None:
        """Replace the record by what it had when it was read and what was learned since."""
        self.rows = _rows(leakage)
        for row in self.rows:
            times, values = self._before.get(row["name"], (0, 0))
            row["learned"] += times
            row["values"] += values
        self._write()

    def _write(self) -> None:
        own = {key: getattr(self, key) for key in _OWN}
        data = {"schema": SCHEMA, "version": VERSION, **own}
        folder = self.folder / _FOLDER
        if not folder.exists():
            make_private(folder)
        with replacing(folder / f"{self.attempt}.json") as file:
            file.write(json.dumps(data, indent=1).encode())


def write_ledger(folder: Path, ledger: Ledger) -> None:
    """Replace the ledger of a run; on the disk when this returns."""
    with replacing(folder / LEDGER) as file:
        file.write(ledger.to_json().encode())


def charge_later(folder: Path, releases: Sequence[Release]) -> None:
    """Charge what came after the tree was grown to the ledger of its run, once.

    Parameters
    ----------
    folder : Path
        Of the run.
    releases : sequence of Release
        Those that were charged before, under the same reason, are left out.
    """
    path, ledger = folder / LEDGER, Ledger()
    if path.exists():
        text = read_small(path, _MAX_BYTES, Code.BAD_LEDGER_FILE)
        ledger = Ledger.from_json(text)
    due = [one for one in releases if not ledger.charged(one.reason, one.audience)]
    if due:
        ledger.charge(*due)
        write_ledger(folder, ledger)


def _rows(leakage: Leakage) -> list[dict[str, Any]]:
    """Return declaration and record side by side."""
    audience = leakage.openings[0].audience
    seen = {row["name"]: row for row in leakage.what_was_learned(audience)}
    return [
        {
            "name": row["name"],
            # A bound on the worst case may have more digits than readers of JSON take.
            "declared": min(row["times"], ANY_NUMBER),
            "learned": seen.get(row["name"], {}).get("times", 0),
            "values": seen.get(row["name"], {}).get("values", 0),
            "why": row["why"],
        }
        for row in leakage.declaration()
        if row["audience"] == audience
    ]
