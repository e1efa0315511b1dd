"""The ledger: every release, charged before it is drawn, and what they cost each audience."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import statement
from hedgerow.privacy.accounting import (
    Guarantee,
    Relation,
    basic,
    check_delta,
    claimed_epsilon,
    has_rho,
    tightest,
)
from hedgerow.privacy.calls import (
    Calls,
    ReservedSpending,
    RunningTotals,
    counted_by_budget,
    sum_of_calls,
)
from hedgerow.privacy.curve import plot_curve
from hedgerow.privacy.entries import (
    Budget,
    Entry,
    HasProvenance,
    Mark,
    Provenance,
    Reservation,
    as_budget,
    check_releases,
    reasons_against,
    seen_by,
    takes_part,
)
from hedgerow.privacy.release import PUBLIC, Audience, Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VERSION = 5
_WITH_RELATIONS, _WITH_PARTIES, _WITHOUT_PARTIES = 4, 3, 2
"""A ledger is written in the oldest version that says what it has to: older readers know it."""
_SCHEMA = "hedgerow.ledger"
_KEYS_1 = {"schema", "version", "domain_is_public", "budget", "entries", "taken", "not_private"}
_KEYS_2 = _KEYS_1 | {"delta"}
_KEYS_3 = _KEYS_2 | {"parties"}
_KEYS = _KEYS_3 | {"capacity"}
_OLDER = {1: _KEYS_1, 2: _KEYS_2, 3: _KEYS_3, 4: _KEYS_3}
_PLAIN = ("none", "basic composition")
"""Methods that say nothing which the figure does not."""
_IN_ADVANCE = "all charges fixed in advance"
_NO_DELTA = (
    "releases by rho have an epsilon at a delta only: give the ledger one, Ledger(delta=...)"
)


class Ledger:
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
    capacity : int, optional
        How many rows a fit uses at most that refuses none: of a longer table so many, by a public
        rule. One row more may then push another out, so that add/remove holds for tables of at
        most so many rows, as `condition` says. By default it holds for all tables.
    """

    def __init__(
        self,
        domain: HasProvenance | None = None,
        budget: Budget | float | Sequence[float] | None = None,
        delta: float | None = None,
        parties: Collection[str] | None = None,
        capacity: int | None = None,
    ) -> None:
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise Code.BAD_RELEASE.error(
                expected="a capacity that is a whole number of at least 1", found=repr(capacity)
            )
        self.domain = domain
        self.capacity = capacity
        self.parties = None if parties is None else tuple(str(Audience.parse(p)) for p in parties)
        self.delta = None if delta is None else check_delta(delta)
        if isinstance(budget, (int, float)) and self.delta is not None:
            budget = (budget, self.delta)
        self.budget = as_budget(budget)
        self._entries: list[Entry] = []
        self._joined: set[int] = set()  # entries of the same call as the entry before
        self._marks: list[Mark] = []
        # Charges that an opening has used up, by reason and audience ("" for all together).
        self._taken: Counter[tuple[str, str]] = Counter()
        # What the charges cost so far; None when it has to be computed anew.
        self._totals: RunningTotals | None = None
        self._spent: dict[int, ReservedSpending] = {}
        self._charged: Counter[tuple[str, str]] = Counter()  # by reason and audience
        self._lock = threading.RLock()

    def charge(self, *releases: Release) -> None:
        """Record releases, all of them or none. Call it before the noise is drawn; no refunds.

        Releases of one call are fixed together, before anything of them is seen: a budget with a
        delta counts them by their tightest figure, where it adds up those of several calls. Raises
        H202 for a domain that was read from the data, H207 for a budget that would be exceeded;
        nothing is recorded then.
        """
        self._append("charge", releases)

    def reserve(self, release: Release) -> Reservation:
        """Charge the worst case of an adaptive run: this, and nothing else, is what it costs."""
        return Reservation(self._append("reservation", [release]), release)

    def realise(self, reservation: Reservation, release: Release) -> None:
        """Record what was really spent inside a reservation: information that costs nothing.

        Raises H205 if the release has another audience or lies outside the reservation's scope,
        H207 if more would be spent than was reserved; nothing is recorded then.
        """
        with self._lock:
            kind, reserved, _ = self._entry(reservation.index)
            if kind != "reservation" or reserved != reservation.release:
                raise Code.BAD_RELEASE.error(
                    expected="a reservation of this ledger", found=repr(reservation)
                )
            if release.audience != reserved.audience or not reserved.scope.covers(release.scope):
                raise Code.BAD_RELEASE.error(
                    expected=f"a release to {reserved.audience} inside {reserved.scope}",
                    found=f"to {release.audience} in {release.scope}",
                    fix="reserve for that audience and scope too",
                )
            # A refusal leaves no sums behind: they would count what was not recorded.
            spent = self._spent.pop(reservation.index, None)
            if spent is None:
                inside = [e.release for e in self._entries if e.inside == reservation.index]
                spent = ReservedSpending(reserved, inside)
            spent.add(release)
            if not spent.is_paid():
                limit = f"{reserved.times} x {reserved.mechanism} at {reserved.epsilon:.6g}"
                raise Code.BUDGET_EXCEEDED.error(
                    expected=f"at most {limit}, as reserved",
                    found=f"{spent.total} with {release.mechanism} for {release.reason!r}",
                    fix="reserve the worst case over public parameters",
                )
            self._spent[reservation.index] = spent
            self._entries.append(Entry("realised", release, reservation.index))

    def mark_not_private(
        self, reason: str, audiences: Collection[str] = (), relation: Relation | str | None = None
    ) -> None:
        """State that no guarantee holds, whatever was charged; see `formal_total` for that.

        It concerns the `audiences` all together, such as two of three servers; empty: everyone.
        With a `relation`, it is about neighbours of that relation alone.
        """
        if isinstance(audiences, str):
            audiences = (audiences,)
        names = tuple(sorted({str(Audience.parse(audience)) for audience in audiences}))
        if not isinstance(reason, str) or not reason.strip():
            raise Code.BAD_RELEASE.error(expected="a reason", found=f"reason={reason!r}")
        with self._lock:
            mark = Mark(reason, names, None if relation is None else Relation(relation))
            if mark not in self._marks:
                self._marks.append(mark)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything that was recorded, in order."""
        with self._lock:
            return tuple(self._entries)

    @property
    def releases(self) -> tuple[Release, ...]:
        """What was charged, reservations included, in order."""
        return tuple(entry.release for entry in self.entries if entry.kind != "realised")

    @property
    def not_private(self) -> tuple[Mark, ...]:
        """Why and against whom there is no guarantee."""
        with self._lock:
            return tuple(self._marks)

    @property
    def condition(self) -> str:
        """Of which tables add/remove holds, as a sentence; empty if of all, or of none."""
        holds = any(self.total(audience).private for audience in self.known_audiences())
        if self.capacity is None or not holds:
            return ""
        return (
            f"add/remove holds for tables of at most {self.capacity:,} rows, the capacity; of a "
            "longer one so many are used, by a public rule, and replace holds"
        )

    @property
    def audiences(self) -> tuple[str, ...]:
        """Everyone who was named: in the order of the charges, the public first."""
        named = dict.fromkeys(release.audience for release in self.releases)
        return (PUBLIC, *(audience for audience in named if audience != PUBLIC))

    def charged(self, reason: str, audience: str | None = None) -> int:
        """Return how many releases with this reason were charged, to that audience if given."""
        viewer = None if audience is None else Audience.parse(audience)
        return sum(
            times
            for (why, to), times in self._charged.items()
            if why == reason and (viewer is None or viewer.is_within(Audience.parse(to)))
        )

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        """Use up a charge for an opening: of this audience, of all together, or of both.

        Every `hedgerow.privacy.leakage.Leakage` on this ledger draws on the same charges, so that
        one charge never pays for two values. Raises H306 if no charge is left.
        """
        with self._lock:
            for key, who, needed in (
                ((reason, audience), audience, own),
                ((reason, ""), None, overall),
            ):
                charged = self.charged(reason, who)
                if needed and self._taken[key] >= charged:
                    raise Code.NOT_CHARGED.error(
                        expected=f"a charge {reason!r} for {audience}, before it is opened",
                        found=f"{charged} charged and {self._taken[key]} used",
                    )
            self._taken[reason, audience] += own
            self._taken[reason, ""] += overall

    def taken(self, reason: str, audience: str) -> int:
        """Return how many charges the openings to an audience have used up."""
        with self._lock:
            return self._taken[reason, audience]

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be copied; estimators that hold a ledger can.
        with self._lock:
            state = {key: value for key, value in vars(self).items() if key != "_lock"}
            return {
                **state,
                "_entries": list(self._entries),
                "_joined": set(self._joined),
                "_marks": list(self._marks),
                "_taken": self._taken.copy(),
                "_charged": self._charged.copy(),
                "_totals": None,
                "_spent": {},
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def total(self, audience: str = PUBLIC, relation: Relation = Relation.ADD_REMOVE) -> Guarantee:
        """Return what an audience learned, by basic composition; infinite if marked not private.

        A call with a release by rho costs the tightest epsilon at the ledger's delta, and that
        delta; without one it is infinite. Calls add up, in both figures, so that the total holds
        even if later calls follow from earlier outcomes. Releases to the public count for everyone;
        a role without a name (``analyst``) is all who hold it together. In a ledger that says who
        takes part, somebody else is refused (H205).
        """
        return self.coalition([audience], relation)

    def coalition(
        self, audiences: Collection[str], relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return what several audiences learned together.

        Only releases are counted: what colluding servers reconstruct from their shares is the
        protocol's claim, which it states with `mark_not_private`.
        """
        return self._explain(self.figure(self.calls(audiences), relation), audiences)

    def formal_total(
        self, audience: str = PUBLIC, relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total of the charges alone, as if nothing was marked as not private."""
        return _with_reasons(
            self.figure(self.calls([audience]), relation), self._seen_by([audience])
        )

    def realised_total(
        self, audience: str = PUBLIC, relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total with reservations replaced by what was spent: not a guarantee."""
        with self._lock:
            calls = self._all_calls(realised=True)
        spent = [release for call in calls for release in call]
        seen = self._seen_by([audience], spent)
        return _with_reasons(self.figure(_of_audiences(calls, seen), relation), seen)

    def claimed_total(self, audience: str = PUBLIC) -> float | None:
        """Return the epsilon that the papers state, in their own terms; None without a claim."""
        return self._claim([audience])

    def tightest(
        self,
        audience: str | Collection[str],
        delta: float,
        relation: Relation = Relation.ADD_REMOVE,
    ) -> Guarantee:
        """Return the smallest epsilon that an accountant finds at `delta`, with its name.

        All releases are composed at once, which holds only if all charges were fixed in advance:
        none of them, nor the decision to make it, followed from what an earlier call released.
        Where that matters, the method of the result says so. `total` needs no such condition.
        `audience` may be several, a coalition. See `hedgerow.privacy.accounting.tightest`.
        """
        audiences = [audience] if isinstance(audience, str) else audience
        found = tightest(self._seen_by(audiences), delta, relation)
        fixed = found.method in _PLAIN or len(self.calls(audiences)) < 2
        if not fixed:
            found = replace(found, method=f"{found.method}, {_IN_ADVANCE}")
        return self._explain(found, audiences)

    def calls(self, audience: str | Collection[str] = PUBLIC) -> Calls:
        """Return what an audience, or a coalition, saw of each call of which it saw anything."""
        audiences = [audience] if isinstance(audience, str) else audience
        with self._lock:
            return _of_audiences(self._all_calls(), self._seen_by(audiences))

    def figure(self, calls: Calls, relation: Relation = Relation.ADD_REMOVE) -> Guarantee:
        """Return what this ledger states for calls such as `calls` returns; marks are left aside.

        See `total`. The calls need not be charged.
        """
        delta = self._stated_at(calls)
        if delta is not None:
            # What a budget grants is all there is; a delta of the ledger's own is one of each call.
            return sum_of_calls(calls, delta, relation, own_included=self.delta is None)
        releases = [release for call in calls for release in call]
        found = basic(releases, relation)
        return replace(found, method="none", why=_NO_DELTA) if has_rho(releases) else found

    def table(self) -> list[dict[str, Any]]:
        """Return one row for every entry, in order."""
        return [{"kind": entry.kind, **statement.row(entry.release)} for entry in self.entries]

    def summary(self) -> list[dict[str, Any]]:
        """Return one row for every audience, and every coalition that was marked, and relation."""
        marked = (mark.audiences for mark in self.not_private if mark.audiences)
        groups = dict.fromkeys([*((audience,) for audience in self.audiences), *marked])
        return [
            statement.summary_row(" + ".join(group), self._row_total(group, r), self._claim(group))
            for group in groups
            for r in Relation
        ] + self._rows_at_budget(groups)

    def short_summary(self) -> list[dict[str, Any]]:
        """Return `summary` with one row for all pairs of a role, where they are alike."""
        return statement.fold_roles(self.summary())

    def __str__(self) -> str:
        said = statement.text(self.short_summary(), self.table(), statement.WHICH)
        return "\n\n".join(filter(None, (said, self.condition)))

    def __repr__(self) -> str:
        return f"<Ledger with {len(self.entries)} entries; public: {self.total()}>"

    def plot(self, audience: str = PUBLIC, *, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Draw the privacy curve with matplotlib (extra ``hedgerow[plots]``).

        Epsilon over delta, and epsilon after each release, on two Axes, by default those of a new
        figure. H406 without matplotlib.
        """
        return plot_curve(self, audience, axes)

    def to_json(self) -> str:
        """Return the whole ledger as JSON; infinities are the string ``"inf"``."""
        budget = self.budget
        parties = None if self.parties is None else list(self.parties)
        version = _WITHOUT_PARTIES if parties is None else _WITH_PARTIES
        if any(mark.relation is not None for mark in self.not_private):
            version = _WITH_RELATIONS
        if self.capacity is not None:
            version = VERSION
        data = {
            "schema": _SCHEMA,
            "version": version,
            "domain_is_public": None if self.domain is None else bool(self.domain.is_public),
            "budget": None if budget is None else [jsonfile.plain(budget.epsilon), budget.delta],
            "delta": self.delta,
            **({} if version == _WITHOUT_PARTIES else {"parties": parties}),
            **({} if self.capacity is None else {"capacity": self.capacity}),
            "entries": [
                {"kind": kind, "inside": inside, "release": release.to_dict()}
                | ({"together": True} if index in self._joined else {})
                for index, (kind, release, inside) in enumerate(self.entries)
            ],
            "taken": [[*key, times] for key, times in sorted(self._taken.items())],
            "not_private": [mark.to_dict() for mark in self.not_private],
        }
        return json.dumps(data, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, domain: HasProvenance | None = None) -> Ledger:
        """Read what `to_json` wrote, in this version or an earlier one, replaying every check.

        Without a domain, what the file says about its provenance holds. Raises H211 for another
        schema or version, H204 for a mechanism nobody registered.
        """
        data = statement.read_object(text, _SCHEMA, VERSION, _KEYS, _OLDER)
        with jsonfile.refusing(Code.BAD_LEDGER_FILE):
            is_public, budget = data["domain_is_public"], data["budget"]
            if domain is None and is_public is not None:
                domain = Provenance(is_public is True)
            ledger = cls(domain, delta=data.get("delta"), parties=_read_parties(data))
            if "capacity" in data:
                ledger.capacity = statement.read_count(data["capacity"], 1)
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

    def _append(self, kind: Literal["charge", "reservation"], releases: Sequence[Release]) -> int:
        check_releases(releases, self.domain)
        with self._lock:
            self._check_budget(releases)
            first = len(self._entries)
            self._joined.update(range(first + 1, first + len(releases)))
            self._entries.extend(Entry(kind, release) for release in releases)
            for release in releases:
                self._charged[release.reason, release.audience] += release.times
            return len(self._entries) - 1

    def _withdraw(self, first: int) -> None:
        """Take back the charges from entry `first` on: they were refused, and nothing was drawn."""
        with self._lock:
            for entry in self._entries[first:]:
                release = entry.release
                self._charged[release.reason, release.audience] -= release.times
            del self._entries[first:]
            self._joined = {index for index in self._joined if index < first}
            self._totals = None

    def _check_budget(self, more: Sequence[Release] = ()) -> None:
        # A refusal leaves no totals behind: they would count what was not recorded.
        totals, self._totals = self._totals, None
        if self.budget is not None:
            totals = totals or RunningTotals(self._all_calls())
            totals.add(*more)
            totals.check(self.budget, self.delta)
            self._totals = totals

    def _all_calls(self, *, realised: bool = False) -> Calls:
        """Return what was charged, or with `realised` spent, by calls; a reservation is a call."""
        calls: Calls = []
        spent_in: dict[int, list[Release]] = {}
        for index, (kind, release, inside) in enumerate(self._entries):
            if kind == "realised":
                if realised and inside is not None:
                    spent_in[inside].append(release)
                continue
            if index not in self._joined:
                calls.append([])
            if kind == "reservation" and realised:
                spent_in[index] = calls[-1]
            else:
                calls[-1].append(release)
        return [call for call in calls if call]

    def _entry(self, index: int) -> Entry:
        if not 0 <= index < len(self._entries):
            raise Code.BAD_RELEASE.error(expected="an entry of this ledger", found=f"entry {index}")
        return self._entries[index]

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

    def _stated_at(self, calls: Calls) -> float | None:
        """Return the delta at which a call with a rho is stated; None where there is none."""
        if not any(map(has_rho, calls)):
            return None
        granted = self.budget.delta if self.budget and self.budget.grants_delta else None
        return granted if self.delta is None else self.delta

    def _claim(self, audiences: Collection[str]) -> float | None:
        releases = self._seen_by(audiences)
        has_claim = any(release.claimed is not None for release in releases)
        return claimed_epsilon(releases) if has_claim else None

    def _seen_by(
        self, audiences: Collection[str], releases: Collection[Release] | None = None
    ) -> list[Release]:
        """Return those of the releases, by default of all charges, that a coalition sees."""
        audiences = [audiences] if isinstance(audiences, str) else audiences
        try:
            found = seen_by(self.releases if releases is None else releases, audiences)
            for name in audiences if self.parties is not None else ():
                if not takes_part(name, self.known_audiences()):
                    raise Code.BAD_RELEASE.error(found=f"audience {name!r}")
            return found
        except HedgerowError as error:
            # A name that is none here is mostly that of a row for several audiences.
            several = next((name for name in audiences if " + " in str(name)), None)
            fix = "" if several is None else f"coalition({several.split(' + ')}) for them together"
            others = "" if self.parties is None else "; who takes no part is the public"
            raise error.code.error(
                expected=f"an audience of this ledger: {', '.join(self.known_audiences())}",
                found=error.found,
                fix=fix or f"name one of them, or several with coalition([...]){others}",
            ) from None

    def known_audiences(self) -> list[str]:
        """Return everyone who takes part or is named, by charges or by marks; the public first."""
        marked = (name for mark in self.not_private for name in mark.audiences)
        return list(dict.fromkeys([PUBLIC, *(self.parties or ()), *self.audiences, *marked]))

    def _explain(self, found: Guarantee, audiences: Collection[str]) -> Guarantee:
        """Apply the marks, and say why a guarantee is infinite: by releases, by marks."""
        named = _with_reasons(found, self._seen_by(audiences))
        against = reasons_against(self.not_private, audiences, found.relation)
        reasons = dict.fromkeys(against)
        if not reasons:
            return named
        # What was said of a finite figure is no reason.
        charges = [named.why] if named is not found else []
        why = "; ".join([*charges, *reasons])
        return replace(found, epsilon=math.inf, method="none", why=why)

    def _rows_at_budget(self, groups: Collection[tuple[str, ...]]) -> list[dict[str, Any]]:
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
            sums = counted_by_budget(calls, budget, self.delta)
            total = self.figure(calls, Relation.ADD_REMOVE)
            # The same sums, if added up in another order, may differ in their last digit.
            known = sums is None or (
                math.isclose(sums.epsilon, total.epsilon) and math.isclose(sums.delta, total.delta)
            )
            return None if sums is None or known else self._explain(sums, group)
        same = self._stated_at(calls) == budget.delta
        return None if same else self.tightest(group, budget.delta)

    def _row_total(self, audiences: Collection[str], relation: Relation) -> Guarantee:
        """Return what a coalition learned, for a table: with its method, unless that is plain."""
        found = self.coalition(audiences, relation)
        return found if found.method in _PLAIN else replace(found, why=found.why or found.method)


def _with_reasons(found: Guarantee, releases: Collection[Release]) -> Guarantee:
    without = dict.fromkeys(release.reason for release in releases if not release.bounded)
    if not without:
        return found
    return replace(found, method="none", why=f"no finite epsilon: {', '.join(without)}")


def _of_audiences(calls: Calls, seen: Collection[Release]) -> Calls:
    """Return the releases of each call that go where those that were seen go; no empty calls."""
    to = {release.audience for release in seen}
    kept = [[release for release in call if release.audience in to] for call in calls]
    return [call for call in kept if call]


def _read_parties(data: Mapping[str, Any]) -> list[str] | None:
    found = data.get("parties")
    unsaid = found is None and data["version"] >= _WITH_RELATIONS
    if "parties" in data and not isinstance(found, list) and not unsaid:
        raise Code.BAD_LEDGER_FILE.error(expected="a list of parties", found=jsonfile.shown(found))
    return found
