"""`DurableLedger`: a ledger whose every line is on the disk before anything is drawn.

Each attempt of a run makes the same charges in the same order, except for those of stages that it
finds done (`mark_reached`). A charge that an earlier attempt has recorded, and that this one has
not made yet, is recognised and not recorded again: nothing that it paid for was opened, or it is
what a finished stage holds and is not drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Literal

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.jsonfile import plain
from hedgerow.parties.store.database import Store
from hedgerow.privacy import Ledger, Relation, Release
from hedgerow.privacy.entries import Budget, HasProvenance, Reservation, as_budget


class DurableLedger(Ledger):
    """The ledger of a run in the store; `recognised` are entries of earlier attempts made again.

    For one process at a time: H867 if another one adds to it meanwhile, or lines are gone, H211 if
    it holds something that is no ledger.
    """

    def __init__(self, store: Store, run: str, *, domain: HasProvenance | None = None) -> None:
        super().__init__(domain)
        self.recognised = 0
        self._store, self._run = store, run
        self._kept_budget: Budget | None = None
        self._reading = True
        self._used: list[bool] = []
        self._earlier: dict[tuple[Any, ...], list[int]] = {}
        with store.snapshot() as made:
            lines = [row["line"] for row in made.rows("ledger_lines", run=run)]
        self._lines = len(lines)
        with jsonfile.refusing(Code.BAD_LEDGER_FILE):
            for line in lines:
                self._read(jsonfile.loads(line, Code.BAD_LEDGER_FILE))
        self._used = [False] * len(self._entries)
        for index, entry in enumerate(self._entries):
            self._earlier.setdefault(entry, []).append(index)
        self._reading = False

    def mark_reached(self, entries: int) -> None:
        """Count so many entries as made: stages that this attempt found done have paid them."""
        with self._lock:
            if not 0 <= entries <= len(self._entries):
                raise Code.BAD_LEDGER_FILE.error(
                    expected=f"a ledger of at least {entries} entries",
                    found=f"{len(self._entries)}",
                    fix="restore the ledger of this run from a copy, or train anew",
                )
            self._used[:entries] = [True] * entries

    def realise(self, reservation: Reservation, release: Release) -> None:
        """Record what was spent inside a reservation; see `Ledger.realise`."""
        with self._lock:
            if not self._reading:
                found = self._again("realised", release, reservation.index)
                if found is not None:
                    return
            super().realise(reservation, release)
            self._keep(
                {"kind": "realised", "release": release.to_dict(), "inside": reservation.index}
            )

    def mark_not_private(
        self, reason: str, audiences: Collection[str] = (), relation: Relation | str | None = None
    ) -> None:
        """State that no guarantee holds; see `Ledger.mark_not_private`."""
        with self._lock:
            before = len(self._marks)
            super().mark_not_private(reason, audiences, relation)
            for mark in self._marks[before:]:
                self._keep({"kind": "mark", **mark.to_dict()})

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a durable ledger stays with its store; copy Ledger.from_json instead")

    def _append(self, kind: Literal["charge", "reservation"], releases: Sequence[Release]) -> int:
        with self._lock:
            if self._reading:
                return super()._append(kind, releases)
            self._keep_budget()
            index, fresh = len(self._entries) - 1, []
            for release in releases:
                known = self._again(kind, release, None)
                if known is None:
                    fresh.append(release)
                else:
                    index = known
            if fresh:
                # In memory first, where it is checked; nothing is drawn before this returns.
                index = super()._append(kind, fresh)
                lines: list[dict[str, Any]] = [
                    {"kind": kind, "release": one.to_dict(), "inside": None} for one in fresh
                ]
                for line in lines[1:]:
                    line["together"] = True
                self._keep(*lines)
            return index

    def _again(self, kind: str, release: Release, inside: int | None) -> int | None:
        """Return the entry of an earlier attempt that is this one, if there is one."""
        for index in self._earlier.get((kind, release, inside), ()):
            if not self._used[index]:
                self._used[index] = True
                self.recognised += 1
                return index
        return None

    def _keep(self, *lines: dict[str, Any]) -> None:
        if self._reading:
            return
        self._used += [True] * (len(self._entries) - len(self._used))
        self._write(*lines)

    def _write(self, *lines: dict[str, Any]) -> None:
        with self._store.transaction("ledger lines") as made:
            for number, line in enumerate(lines, self._lines):
                text = json.dumps(line, allow_nan=False)
                made.add("ledger_lines", {"run": self._run, "number": number, "line": text})
        self._lines += len(lines)

    def _keep_budget(self) -> None:
        """Keep a budget that was set after the ledger was opened."""
        budget = self.budget
        if budget is not None and budget != self._kept_budget:
            self._write({"kind": "budget", "budget": [plain(budget.epsilon), budget.delta]})
        self._kept_budget = budget

    def _read(self, line: dict[str, Any]) -> None:
        kind = line["kind"]
        if kind == "mark":
            self.mark_not_private(line["reason"], line["audiences"], line.get("relation"))
        elif kind == "budget":
            self._kept_budget = self.budget = as_budget([float(x) for x in line["budget"]])
        else:
            self._replay(kind, line["release"], line["inside"], line.get("together", False))
