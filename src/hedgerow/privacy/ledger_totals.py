"""What the releases of a ledger cost each audience, alone and together."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from hedgerow.errors import HedgerowError
from hedgerow.privacy.accounting import (
    Guarantee,
    Relation,
    basic,
    claimed,
    has_rho,
    tightest,
)
from hedgerow.privacy.calls import Calls, calls_of, realised_calls, sum_of_calls
from hedgerow.privacy.entries import reasons_against, seen_by
from hedgerow.privacy.ledger_book import Book
from hedgerow.privacy.release import Release

PLAIN = ("none", "basic composition")
"""Methods that say nothing which the figure does not."""
_IN_ADVANCE = "all charges fixed in advance"
_NO_DELTA = (
    "releases by rho have an epsilon at a delta only: give the ledger one, Ledger(delta=...)"
)


class Totals(Book):
    """A book whose releases are added up; see `hedgerow.privacy.Ledger`."""

    def total(
        self, audience: str = "public", relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return what an audience learned, by basic composition; infinite if marked not private.

        A call with a release by rho costs the tightest epsilon at the ledger's delta, and that
        delta; without one it is infinite. Calls add up, in both figures, so that the total holds
        even if later calls follow from earlier outcomes. Releases to the public count for everyone;
        a role without a name (``analyst``) is all who hold it together.
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
        self, audience: str = "public", relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total of the charges alone, as if nothing was marked as not private."""
        return self.figure(self.calls([audience]), relation)

    def realised_total(
        self, audience: str = "public", relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total with reservations replaced by what was spent: not a guarantee."""
        with self._lock:
            calls = realised_calls(self._entries, self._joined)
        spent = [release for call in calls for release in call]
        return self.figure(_those(calls, seen_by(spent, [audience])), relation)

    def claimed_total(self, audience: str = "public") -> float | None:
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
        fixed = found.method in PLAIN or len(self.calls(audiences)) < 2
        if not fixed:
            found = replace(found, method=f"{found.method}, {_IN_ADVANCE}")
        return self._explain(found, audiences)

    def calls(self, audience: str | Collection[str] = "public") -> Calls:
        """Return what an audience, or a coalition, saw of each call of which it saw anything."""
        audiences = [audience] if isinstance(audience, str) else audience
        with self._lock:
            return _those(calls_of(self._entries, self._joined), self._seen_by(audiences))

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

    def _stated_at(self, calls: Calls) -> float | None:
        """Return the delta at which a call with a rho is stated; None where there is none."""
        if not any(map(has_rho, calls)):
            return None
        granted = self.budget.delta if self.budget and self.budget.grants_delta else None
        return granted if self.delta is None else self.delta

    def _claim(self, audiences: Collection[str]) -> float | None:
        releases = self._seen_by(audiences)
        has_claim = any(release.claimed is not None for release in releases)
        return claimed(releases) if has_claim else None

    def _seen_by(self, audiences: Collection[str]) -> list[Release]:
        try:
            return seen_by(self.releases, audiences)
        except HedgerowError as error:
            # A name that is none here is mostly that of a row for several audiences.
            several = next((name for name in audiences if " + " in str(name)), None)
            fix = "" if several is None else f"coalition({several.split(' + ')}) for them together"
            marked = (name for mark in self.not_private for name in mark.audiences)
            known = dict.fromkeys([*self.audiences, *marked])
            raise error.code.error(
                expected=f"an audience of this ledger: {', '.join(known)}",
                found=error.found,
                fix=fix or "name one of them, or several with coalition([...])",
            ) from None

    def _explain(self, found: Guarantee, audiences: Collection[str]) -> Guarantee:
        """Apply the marks, and say why a guarantee is infinite."""
        reasons = reasons_against(self.not_private, audiences)
        if reasons:
            return replace(found, epsilon=math.inf, method="none", why="; ".join(reasons))
        without = [r.reason for r in self._seen_by(audiences) if not r.bounded]
        if without:
            names = ", ".join(dict.fromkeys(without))
            return replace(found, method="none", why=f"no finite epsilon: {names}")
        return found


def _those(calls: Calls, seen: Collection[Release]) -> Calls:
    """Return the releases of each call that go where those that were seen go; no empty calls."""
    to = {release.audience for release in seen}
    kept = [[release for release in call if release.audience in to] for call in calls]
    return [call for call in kept if call]
