"""The ledger: every release, charged before it is drawn, and what they cost each audience."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.privacy import statement
from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.entries import (
    Budget,
    Entry,
    HasProvenance,
    Provenance,
    Reservation,
    as_budget,
    check_releases,
)
from hedgerow.privacy.ledger_totals import PLAIN, Totals
from hedgerow.privacy.release import Release
from hedgerow.privacy.running import counted

VERSION = 3
_WITHOUT_PARTIES = 2
"""Ledgers that do not say who takes part are written as before, so that older readers know them."""
_SCHEMA = "hedgerow.ledger"
_KEYS_1 = {"schema", "version", "domain_is_public", "budget", "entries", "taken", "not_private"}
_KEYS_2 = _KEYS_1 | {"delta"}
_KEYS = _KEYS_2 | {"parties"}


class Ledger(Totals):
    """An append-only account of releases.

    Parameters
    ----------
    domain : Domain, optional
        Only its `is_public` is read: with a domain that was read from the data, a release with a
        finite epsilon is refused.
    budget : Budget, float or (float, float), optional
        epsilon or (epsilon, delta); refuses a charge after which some audience would cost more.
        With a delta, the tightest figure at it counts for releases charged in one call, and is
        printed. Several calls add up.
    delta : float, optional
        Where a call with releases by rho is stated: such releases have no epsilon without a delta.
        The totals of several such calls have the sum of their deltas. By default that of the
        budget, if it grants one. With a budget, what each call that is counted by its tightest
        figure takes of the budget's delta (by default all of it).
    parties : collection of str, optional
        Who takes part, where that is settled: totals of anybody else, other than the public and
        whom a charge or a mark names, are refused. By default whoever is not named has seen what
        the public has.
    """

    def table(self) -> list[dict[str, Any]]:
        """Return one row for every entry, in order."""
        return [{"kind": entry.kind, **statement.row(entry.release)} for entry in self.entries]

    def summary(self) -> list[dict[str, Any]]:
        """Return one row for every audience, and every coalition that was marked, and relation."""
        marked = (mark.audiences for mark in self.not_private if mark.audiences)
        groups = dict.fromkeys([*((audience,) for audience in self.audiences), *marked])
        return [
            statement.summary_row(" + ".join(group), self._named(group, r), self._claim(group))
            for group in groups
            for r in Relation
        ] + self._granted(groups)

    def short_summary(self) -> list[dict[str, Any]]:
        """Return `summary` with one row for all pairs of a role, where they are alike."""
        return statement.folded(self.summary())

    def __str__(self) -> str:
        return statement.text(self.short_summary(), self.table(), statement.WHICH)

    def __repr__(self) -> str:
        return f"<Ledger with {len(self.entries)} entries; public: {self.total()}>"

    def to_json(self) -> str:
        """Return the whole ledger as JSON; infinities are the string ``"inf"``."""
        budget = self.budget
        data = {
            "schema": _SCHEMA,
            "version": _WITHOUT_PARTIES if self.parties is None else VERSION,
            "domain_is_public": None if self.domain is None else bool(self.domain.is_public),
            "budget": None if budget is None else [statement.plain(budget.epsilon), budget.delta],
            "delta": self.delta,
            **({} if self.parties is None else {"parties": list(self.parties)}),
            "entries": [
                {"kind": kind, "inside": inside, "release": release.to_dict()}
                | ({"together": True} if index in self._joined else {})
                for index, (kind, release, inside) in enumerate(self.entries)
            ],
            "taken": [[*key, times] for key, times in sorted(self._taken.items())],
            "not_private": [
                {"reason": reason, "audiences": list(audiences)}
                for reason, audiences in self.not_private
            ],
        }
        return json.dumps(data, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, domain: HasProvenance | None = None) -> Ledger:
        """Read what `to_json` wrote, in this version or an earlier one, replaying every check.

        Parameters
        ----------
        text : str
        domain : Domain, optional
            Otherwise what the file says about the domain's provenance holds.

        Raises
        ------
        FormatError
            H211 for another schema or version, H204 for a mechanism nobody registered.
        """
        data = statement.read_object(text, _SCHEMA, VERSION, _KEYS, {1: _KEYS_1, 2: _KEYS_2})
        with jsonfile.refusing(Code.BAD_LEDGER_FILE):
            is_public, budget = data["domain_is_public"], data["budget"]
            if domain is None and is_public is not None:
                domain = Provenance(is_public is True)
            ledger = cls(domain, delta=data.get("delta"), parties=_read_parties(data))
            for entry in data["entries"]:
                ledger._replay(**entry)
            for mark in data["not_private"]:
                ledger.mark_not_private(**mark)
            for reason, audience, times in data["taken"]:
                ledger._taken[str(reason), str(audience)] = statement.read_count(times, 0)
            # Totals only grow, so one look at the end stands for one after every charge.
            ledger.budget = as_budget(None if budget is None else [float(x) for x in budget])
            ledger._check_budget()
        return ledger

    def _replay(
        self, kind: str, release: object, inside: int | None, together: bool = False
    ) -> None:
        event = Release.from_dict(release)
        if together:
            self._replay_more(kind, event, inside)
        elif kind == "charge" and inside is None:
            self.charge(event)
        elif kind == "reservation" and inside is None:
            self.reserve(event)
        elif kind == "realised" and isinstance(inside, int):
            self.realise(Reservation(inside, self._entry(inside).release), event)
        else:
            raise Code.BAD_LEDGER_FILE.error(found=f"an entry {kind!r} inside {inside!r}")

    def _replay_more(self, kind: str, release: Release, inside: int | None) -> None:
        """Add to the call of the entry before.

        A part of a call says nothing about a budget: the next charge looks at all of it again.
        """
        before = self._entries[-1].kind if self._entries else "nothing"
        if (kind, before, inside) != ("charge", "charge", None):
            raise Code.BAD_LEDGER_FILE.error(found=f"an entry {kind!r} together with {before!r}")
        check_releases([release], self.domain)
        with self._lock:
            self._joined.add(len(self._entries))
            self._entries.append(Entry("charge", release))
            self._charged[release.reason, release.audience] += release.times
            self._totals = None

    def _granted(self, groups: Collection[tuple[str, ...]]) -> list[dict[str, Any]]:
        """Return what holds at the delta of the budget, where one was granted."""
        if self.budget is None or not self.budget.grants_delta:
            return []
        found = [(group, self._at_budget(group, self.budget)) for group in groups]
        return [
            statement.summary_row(" + ".join(group), replace(g, why=g.why or g.method), None)
            for group, g in found
            if g is not None
        ]

    def _at_budget(self, group: tuple[str, ...], budget: Budget) -> Guarantee | None:
        """Return what a group costs as the budget counts it; None where the total says as much."""
        calls = self.calls(group)
        if len(calls) > 1:
            sums = counted(calls, budget, self.delta)
            total = self.figure(calls, Relation.ADD_REMOVE)
            # The same sums, if added up in another order, may differ in their last digit.
            known = sums is None or (
                math.isclose(sums.epsilon, total.epsilon) and math.isclose(sums.delta, total.delta)
            )
            return None if sums is None or known else self._explain(sums, group)
        told = self._stated_at(calls) == budget.delta
        return None if told else self.tightest(group, budget.delta)

    def _named(self, audiences: Collection[str], relation: Relation) -> Guarantee:
        """Return what a coalition learned, for a table: with its method, unless that is plain."""
        found = self.coalition(audiences, relation)
        return found if found.method in PLAIN else replace(found, why=found.why or found.method)


def _read_parties(data: Mapping[str, Any]) -> list[str] | None:
    """Return who takes part, in files that say so."""
    found = data.get("parties")
    if "parties" in data and not isinstance(found, list):
        raise Code.BAD_LEDGER_FILE.error(expected="a list of parties", found=jsonfile.shown(found))
    return found
