"""Declared leakage: what a protocol may open, checked before anything is sent.

A protocol declares its openings; each is either paid for by a release in the ledger or independent
of the data for a stated reason. `Leakage.check` stands in front of every opening of a secret.
Shapes and counts are computed once, from public parameters, before the run: nothing in the data can
change them afterwards.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from numbers import Integral
from typing import Any, Protocol

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import statement
from hedgerow.privacy.release import Audience

Public = Mapping[str, Any]
Shape = tuple[int | str, ...] | Callable[[Public], tuple[int, ...]]
Count = int | str | Callable[[Public], int]

VERSION = 1
_SCHEMA = "hedgerow.leakage"
_KEYS = {"schema", "version", "openings", "record"}


class Charges(Protocol):
    """What leakage asks of a ledger."""

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        """Use up a charge for an audience, for all together, or both; H306 if none is left."""

    def taken(self, reason: str, audience: str) -> int:
        """Return how many charges the openings to an audience have used up."""


class _NoLedger:
    """Stands in for the ledger of a record that was read without it."""

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        """Refuse."""
        raise Code.NOT_CHARGED.error(
            expected=f"the ledger that was charged for {reason!r}",
            found="a record that was read without its ledger",
            fix="pass ledger= when the record is read",
        )

    def taken(self, reason: str, audience: str) -> int:
        """Return 0: nothing is known."""
        return 0


@dataclass(frozen=True)
class Opening:
    """A value that a protocol may open.

    Parameters
    ----------
    name : str
        As `check` will be called with.
    audience : str
        Who sees it. A role without a name allows each party of that role.
    shape : tuple or callable
        A tuple of sizes and names of public parameters, or a function of the public parameters.
    release : str, optional
        Reason of the release in the ledger that pays for it.
    independent : str, optional
        Why it does not depend on the data, such as ``"a random permutation of the candidates"``.
        Exactly one of `release` and `independent` is given.
    times : int, str or callable
        How often it may be opened, over all recipients: a number, a public parameter, a function.
    per_release : int, str or callable
        How many openings one charged release pays for.
    """

    name: str
    audience: str
    shape: Shape
    release: str | None = None
    independent: str | None = None
    times: Count = 1
    per_release: Count = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise Code.BAD_DECLARATION.error(expected="a name", found=repr(self.name))
        try:
            Audience.parse(self.audience)
        except HedgerowError as error:
            raise self._bad(error.expected, error.found) from None
        given = [text for text in (self.release, self.independent) if text is not None]
        if len(given) != 1 or not isinstance(given[0], str) or not given[0].strip():
            raise self._bad(None, f"release={self.release!r}, independent={self.independent!r}")

    def resolve(self, public: Public) -> Declared:
        """Return the declaration with its shape and counts as numbers."""
        shape = self.shape(public) if callable(self.shape) else self.shape
        if not isinstance(shape, (tuple, list)):
            raise self._bad("a tuple as the shape", repr(shape))
        return Declared(
            name=self.name,
            audience=self.audience,
            shape=tuple(self._number(size, public, "shape", 0) for size in shape),
            release=self.release,
            independent=self.independent,
            times=self._number(self.times, public, "times", 0),
            per_release=self._number(self.per_release, public, "per_release", 1),
        )

    def _number(self, value: Count, public: Public, what: str, least: int) -> int:
        if isinstance(value, str):
            if value not in public:
                found = f"{what} needs {value!r}, given are {sorted(public)}"
                raise self._bad("every public parameter that the declaration names", found)
            value = public[value]
        elif callable(value):
            value = value(public)
        if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
            return int(value)
        raise self._bad(f"whole numbers >= {least} as {what}", repr(value))

    def _bad(self, expected: str | None, found: str) -> HedgerowError:
        return Code.BAD_DECLARATION.error(
            expected=expected, found=f"opening {self.name!r}: {found}"
        )


@dataclass(frozen=True)
class Declared:
    """An opening of one run: shape and counts are numbers."""

    name: str
    audience: str
    shape: tuple[int, ...]
    release: str | None
    independent: str | None
    times: int
    per_release: int

    @property
    def why(self) -> str:
        """What pays for it, or why it is harmless."""
        return f"release: {self.release}" if self.release else f"independent: {self.independent}"


class Leakage:
    """The declaration of one run, and the record of what was opened.

    Parameters
    ----------
    openings : iterable of Opening
        With distinct names.
    ledger : Ledger, optional
        With one, an opening that a release pays for is refused until that release was charged. A
        charge is used up by the opening, here and in every other record on the same ledger.
    **public
        Public parameters that shapes and counts are computed from.
    """

    def __init__(
        self, openings: Iterable[Opening], *, ledger: Charges | None = None, **public: Any
    ) -> None:
        self._ledger = ledger
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

    def check(self, name: str, to: str, shape: Iterable[int]) -> None:
        """Allow one opening and record it, or raise before anything is sent.

        Parameters
        ----------
        name : str
            A declared name.
        to : str
            Who is about to see it.
        shape : iterable of int
            Shape of the array that is about to be opened.

        Raises
        ------
        LeakageError
            H301 to H304 for an opening that differs from the declaration, H306 for one that was
            not charged.
        """
        opening = self._declared(name, to)
        if tuple(shape) != opening.shape:
            raise Code.WRONG_OPENING_SHAPE.error(
                expected=f"{name!r} of shape {opening.shape}", found=f"shape {tuple(shape)}"
            )
        with self._lock:
            count = self._count(opening, 1)
            self._check_charged(opening, to, count)
            self._record[name, to] += 1

    def what_was_learned(self, audience: str) -> list[dict[str, Any]]:
        """Return one row for every opening that an audience saw.

        Returns
        -------
        list of dict
            name, audience (of the opening), times, values (numbers seen in all), why.
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
            opened = {name: self._opened(name) for name in self._openings}
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
        """Read what `to_json` wrote; the record is checked against the declaration.

        Parameters
        ----------
        text : str
        ledger : Ledger, optional
            The one that the run was charged to. Without it the record can be read, and nothing
            more that a release pays for can be opened.
        """
        data = statement.read_object(text, _SCHEMA, VERSION, _KEYS)
        with jsonfile.refusing(Code.BAD_LEDGER_FILE):
            leakage = cls([Opening(**opening) for opening in data["openings"]])
            for line in data["record"]:
                leakage._replay(**line)
            # The ledger has noted these openings already, so it is asked from here on.
            leakage._ledger = _NoLedger() if ledger is None else ledger
            if ledger is not None:
                leakage._check_taken(ledger)
        return leakage

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be copied; estimators that hold a record can.
        with self._lock:
            state = {key: value for key, value in vars(self).items() if key != "_lock"}
            return {**state, "_record": self._record.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def _replay(self, name: str, to: str, times: int) -> None:
        """Record a line of a file, however many openings it stands for."""
        opening = self._declared(name, to)
        self._count(opening, statement.read_count(times, 1))
        self._record[name, to] += times

    def _declared(self, name: str, to: str) -> Declared:
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
        count = more + self._opened(opening.name)
        if count > opening.times:
            raise Code.TOO_MANY_OPENINGS.error(
                expected=f"{opening.name!r} at most {opening.times} times", found=f"time {count}"
            )
        return count

    def _check_charged(self, opening: Declared, to: str, count: int) -> None:
        """Use up a charge when this is the first opening that a further release has to pay for."""
        if opening.release is None or self._ledger is None:
            return
        own, overall = (
            so_far % opening.per_release == 0
            for so_far in (self._record[opening.name, to], count - 1)
        )
        if own or overall:
            self._ledger.take(opening.release, to, own=own, overall=overall)

    def _check_taken(self, ledger: Charges) -> None:
        for (name, to), times in self._record.items():
            opening = self._openings[name]
            needed = -(-times // opening.per_release)
            if opening.release is not None and ledger.taken(opening.release, to) < needed:
                raise Code.NOT_CHARGED.error(
                    expected=f"a ledger in which {opening.release!r} paid for {name!r}",
                    found=f"{ledger.taken(opening.release, to)} charges used, {needed} needed",
                )

    def _opened(self, name: str) -> int:
        return sum(times for (opened, _), times in self._record.items() if opened == name)

    def _snapshot(self) -> Counter[tuple[str, str]]:
        with self._lock:
            return self._record.copy()


def _is_within(to: str, declared: str) -> bool:
    try:
        return Audience.parse(to).is_within(Audience.parse(declared))
    except HedgerowError:
        return False
