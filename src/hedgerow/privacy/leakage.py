"""Declared leakage: what a protocol may open, checked before anything is sent.

Each opening is either paid for by a release in the ledger or independent of the data for a stated
reason. Shapes and counts are computed once, from public parameters, before the run: nothing in the
data can change them afterwards.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import asdict
from math import prod
from typing import Any, Protocol

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import statement
from hedgerow.privacy.opening import Declared, Opening
from hedgerow.privacy.release import Audience

VERSION = 1
_SCHEMA = "hedgerow.leakage"
_KEYS = {"schema", "version", "openings", "record"}


Mark = Callable[[str], None]
"""Gets the name of an opening that is about to begin; returns when that is durable here.

Whoever keeps such a mark never draws the value again, whatever another party says of itself."""


def leave_unmarked(name: str) -> None:
    """Mark nothing: for a run that nobody takes up again, so that nothing is drawn twice."""
    del name


def refuse_mark(name: str) -> None:
    """Refuse to open: for copies of a record, which cannot mark anything where its run does."""
    raise Code.OPENING_NOT_KEPT.error(found=f"{name!r}, by a copy of the record of another run")


class Charges(Protocol):
    """What leakage asks of a ledger."""

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        """Use up a charge for an audience, for all together, or both; H306 if none is left."""

    def taken(self, reason: str, audience: str) -> int:
        """Return how many charges the openings to an audience have used up."""

    def charged(self, reason: str, audience: str | None = None) -> int:
        """Return how many releases with this reason were charged to an audience."""


class _NoLedger:
    """Stands in for a ledger that was not given: nobody can tell what was charged."""

    def __init__(self, found: str = "no ledger") -> None:
        self._found = found

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        raise Code.NOT_CHARGED.error(
            expected=f"the ledger that was charged for {reason!r}",
            found=self._found,
            fix="pass ledger= with the ledger that was charged",
        )

    def taken(self, reason: str, audience: str) -> int:
        return 0

    def charged(self, reason: str, audience: str | None = None) -> int:
        return 0


class Leakage:
    """The declaration of one run, and the record of what was opened.

    An opening that a release pays for is refused until that release was charged to the ledger;
    without one it is refused altogether. A charge is used up by the opening, here and in every
    other record on the same ledger.

    `mark` is called in front of every opening that depends on the data, when it is found to be in
    order and before any share of it leaves; what it raises, the opening raises. Shapes and counts
    are computed from the `public` parameters.
    """

    def __init__(
        self,
        openings: Iterable[Opening],
        *,
        ledger: Charges | None = None,
        mark: Mark = leave_unmarked,
        **public: Any,
    ) -> None:
        self._ledger: Charges = _NoLedger() if ledger is None else ledger
        self._mark = mark
        self._openings: dict[str, Declared] = {}
        for opening in openings:
            if opening.name in self._openings:
                raise Code.BAD_DECLARATION.error(
                    expected="every name once", found=f"a second opening {opening.name!r}"
                )
            self._openings[opening.name] = opening.resolve(public)
        self._record: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @property
    def openings(self) -> tuple[Declared, ...]:
        """The declaration, with shapes and counts as numbers."""
        return tuple(self._openings.values())

    def check(self, name: str, to: str, shape: Iterable[int], times: int = 1) -> None:
        """Allow an opening and record it, or raise before anything is sent.

        One charge has to pay for all `times` arrays of this shape that are opened at once. Raises
        H301 to H304 for an opening that differs from the declaration, H306 for one that was not
        charged.
        """
        opening = self._declaration(name, to)
        if tuple(shape) != opening.shape:
            raise Code.WRONG_OPENING_SHAPE.error(
                expected=f"{name!r} of shape {opening.shape}", found=f"shape {tuple(shape)}"
            )
        with self._lock:
            count = self._count(opening, times)
            self._check_charged(opening, to, count, times)
            if opening.independent is None:
                self._mark(name)
            self._record[name, to] += times

    def what_was_learned(self, audience: str) -> list[dict[str, Any]]:
        """Return one row for every opening that an audience saw.

        Rows have name, audience (of the opening), times, values (numbers seen in all), why.
        """
        viewer = Audience.parse(audience)
        seen: Counter[str] = Counter()
        for (name, to), times in self._snapshot().items():
            seen[name] += times if viewer.sees(Audience.parse(to)) else 0
        return [
            {
                "name": opening.name,
                "audience": opening.audience,
                "times": seen[opening.name],
                "values": seen[opening.name] * prod(opening.shape),
                "why": opening.why,
            }
            for opening in self.openings
            if seen[opening.name]
        ]

    def compare(self) -> list[dict[str, Any]]:
        """Return declared and real number of openings for every declared name, in order.

        `check` lets nothing else happen, so what differs is what a run left out.
        """
        with self._lock:
            opened = {name: self._times_opened(name) for name in self._openings}
        return [
            {
                "name": name,
                "declared": opening.times,
                "opened": opened[name],
                "equal": opening.times == opened[name],
            }
            for name, opening in self._openings.items()
        ]

    def declaration(self) -> list[dict[str, Any]]:
        """Return the declaration as rows, for documents and reports."""
        return [
            {
                "name": opening.name,
                "audience": opening.audience,
                "shape": "x".join(map(str, opening.shape)) or "one number",
                "times": opening.times,
                "why": opening.why,
            }
            for opening in self.openings
        ]

    def __str__(self) -> str:
        opened = {row["name"]: row["opened"] for row in self.compare()}
        rows = [{**row, "opened": opened[row["name"]]} for row in self.declaration()]
        return statement.columns(rows) or "nothing is opened"

    def __repr__(self) -> str:
        declared = sum(opening.times for opening in self.openings)
        opened = sum(self._snapshot().values())
        return f"<Leakage: {len(self.openings)} names, {opened:,} of {declared:,} openings made>"

    def to_json(self) -> str:
        """Return declaration and record as JSON, shapes and counts as numbers."""
        data = {
            "schema": _SCHEMA,
            "version": VERSION,
            "openings": [asdict(opening) for opening in self.openings],
            "record": [
                {"name": name, "to": to, "times": times}
                for (name, to), times in self._snapshot().items()
            ],
        }
        return json.dumps(data, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, ledger: Charges | None = None) -> Leakage:
        """Read what `to_json` wrote, replayed; without its ledger nothing more can be paid for."""
        data = statement.read_object(text, _SCHEMA, VERSION, _KEYS)
        with jsonfile.refusing(Code.BAD_LEDGER_FILE):
            leakage = cls([Opening(**opening) for opening in data["openings"]])
            for line in data["record"]:
                leakage._replay(**line)
            # The ledger has noted these openings already, so it is asked from here on.
            missing = _NoLedger("a record that was read without its ledger")
            leakage._ledger = missing if ledger is None else ledger
            if ledger is not None:
                leakage._check_taken(ledger)
        return leakage

    def without(self, names: Collection[str]) -> Leakage:
        """Return a copy that says nothing of some openings, nor of their shapes."""
        made = copy(self)
        made._openings = {k: one for k, one in made._openings.items() if k not in names}
        made._record = Counter({k: n for k, n in made._record.items() if k[0] not in names})
        return made

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be copied; estimators that hold a record can.
        mark = leave_unmarked if self._mark is leave_unmarked else refuse_mark
        with self._lock:
            state = {key: value for key, value in vars(self).items() if key != "_lock"}
            return {**state, "_record": self._record.copy(), "_mark": mark}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def _replay(self, name: str, to: str, times: int) -> None:
        """Record a line of a file, however many openings it stands for."""
        opening = self._declaration(name, to)
        self._count(opening, statement.read_count(times, 1))
        self._record[name, to] += times

    def _declaration(self, name: str, to: str) -> Declared:
        opening = self._openings.get(name)
        if opening is None:
            raise Code.UNDECLARED_OPENING.error(
                expected=f"one of {sorted(self._openings)}", found=f"opening {name!r} to {to!r}"
            )
        if not _is_within(to, opening.audience):
            raise Code.WRONG_AUDIENCE.error(
                expected=f"{name!r} to {opening.audience}", found=f"{name!r} to {to!r}"
            )
        return opening

    def _count(self, opening: Declared, more: int) -> int:
        """Return how often an opening will have taken place, if that is not too often."""
        count = more + self._times_opened(opening.name)
        if count > opening.times:
            raise Code.TOO_MANY_OPENINGS.error(
                expected=f"{opening.name!r} at most {opening.times} times", found=f"time {count}"
            )
        return count

    def _check_charged(self, opening: Declared, to: str, count: int, times: int) -> None:
        """Use up a charge when this is the first opening that a further release has to pay for."""
        if opening.derived is not None:
            self._check_derived(opening.derived, to)
        if opening.release is None:
            return
        before = self._record[opening.name, to], count - times
        if times > 1 and any(
            so_far % opening.per_release + times > opening.per_release for so_far in before
        ):
            raise Code.TOO_MANY_OPENINGS.error(
                expected=f"{opening.name!r} {opening.per_release} times for each charge",
                found=f"{times} at once, after {before[0]}",
            )
        own, overall = (so_far % opening.per_release == 0 for so_far in before)
        if own or overall:
            self._ledger.take(opening.release, to, own=own, overall=overall)

    def _check_derived(self, reasons: tuple[str, ...], to: str) -> None:
        needed, charged = Counter(reasons), self._ledger.charged
        missing = [reason for reason in needed if charged(reason, to) < needed[reason]]
        if missing:
            raise Code.NOT_CHARGED.error(
                expected=f"charges to {to} for everything that the value is computed from",
                found=f"none for {', '.join(map(repr, missing))}",
            )

    def _check_taken(self, ledger: Charges) -> None:
        for (name, to), times in self._record.items():
            opening = self._openings[name]
            needed = -(-times // opening.per_release)
            if opening.release is not None and ledger.taken(opening.release, to) < needed:
                raise Code.NOT_CHARGED.error(
                    expected=f"a ledger in which {opening.release!r} paid for {name!r}",
                    found=f"{ledger.taken(opening.release, to)} charges used, {needed} needed",
                )

    def _times_opened(self, name: str) -> int:
        return sum(times for (opened, _), times in self._record.items() if opened == name)

    def _snapshot(self) -> Counter[tuple[str, str]]:
        with self._lock:
            return self._record.copy()


def _is_within(to: str, declared: str) -> bool:
    try:
        return Audience.parse(to).is_within(Audience.parse(declared))
    except HedgerowError:
        return False
