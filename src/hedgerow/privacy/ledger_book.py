"""The book of a ledger: what was charged, reserved and realised, and what openings took of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal

from hedgerow.errors import Code
from hedgerow.privacy.accounting import check_delta
from hedgerow.privacy.calls import calls_of
from hedgerow.privacy.entries import (
    Budget,
    Entry,
    HasProvenance,
    Mark,
    Reservation,
    as_budget,
    check_releases,
)
from hedgerow.privacy.release import Audience, Release
from hedgerow.privacy.running import RunningTotals, Spent


class Book:
    """Releases as they are recorded, each checked before it is; see `hedgerow.privacy.Ledger`.

    Parameters
    ----------
    domain, budget, delta, parties
        Of the ledger.
    """

    def __init__(
        self,
        domain: HasProvenance | None = None,
        budget: Budget | float | Sequence[float] | None = None,
        delta: float | None = None,
        parties: Collection[str] | None = None,
    ) -> None:
        self.domain = domain
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
        self._spent: dict[int, Spent] = {}
        self._charged: Counter[tuple[str, str]] = Counter()  # by reason and audience
        self._lock = threading.RLock()

    def charge(self, *releases: Release) -> None:
        """Record releases, all of them or none. Call it before the noise is drawn; no refunds.

        Releases of one call are fixed together, before anything of them is seen: a budget with a
        delta counts them by their tightest figure, where it adds up those of several calls.

        Raises
        ------
        PrivacyError
            H202 for a domain that was read from the data, H207 for a budget that would be
            exceeded; nothing is recorded then.
        """
        self._append("charge", releases)

    def reserve(self, release: Release) -> Reservation:
        """Charge the worst case of an adaptive run: this, and nothing else, is what it costs."""
        return Reservation(self._append("reservation", [release]), release)

    def realise(self, reservation: Reservation, release: Release) -> None:
        """Record what was really spent inside a reservation: information that costs nothing.

        Raises
        ------
        PrivacyError
            H205 if the release has another audience or lies outside the reservation's scope,
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
                spent = Spent(reserved, inside)
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

    def mark_not_private(self, reason: str, audiences: Collection[str] = ()) -> None:
        """State that no guarantee holds, whatever was charged; see `formal_total` for that.

        Parameters
        ----------
        reason : str
            Such as ``"seeded noise"``.
        audiences : collection of str
            Whom it concerns: all of these together, such as two of three servers. Empty: everyone.
        """
        if isinstance(audiences, str):
            audiences = (audiences,)
        names = tuple(sorted({str(Audience.parse(audience)) for audience in audiences}))
        if not isinstance(reason, str) or not reason.strip():
            raise Code.BAD_RELEASE.error(expected="a reason", found=f"reason={reason!r}")
        with self._lock:
            mark = Mark(reason, names)
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
    def audiences(self) -> tuple[str, ...]:
        """Everyone who was named: in the order of the charges, the public first."""
        named = dict.fromkeys(release.audience for release in self.releases)
        return ("public", *(audience for audience in named if audience != "public"))

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
        one charge never pays for two values.

        Raises
        ------
        LeakageError
            H306 if no charge is left.
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
            if totals is None:
                totals = RunningTotals()
                for call in calls_of(self._entries, self._joined):
                    totals.add(*call)
            totals.add(*more)
            totals.check(self.budget, self.delta)
            self._totals = totals

    def _entry(self, index: int) -> Entry:
        if not 0 <= index < len(self._entries):
            raise Code.BAD_RELEASE.error(expected="an entry of this ledger", found=f"entry {index}")
        return self._entries[index]
