"""What the releases of a ledger cost each audience, alone and together."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.accounting import (
    Guarantee,
    Relation,
    basic,
    claimed,
    has_rho,
    tightest,
)
from hedgerow.privacy.calls import Calls, calls_of, realised_calls, sum_of_calls
from hedgerow.privacy.entries import reasons_against, seen_by, takes_part
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
        self, audience: str = "public", relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total of the charges alone, as if nothing was marked as not private."""
        return _named(self.figure(self.calls([audience]), relation), self._seen_by([audience]))

    def realised_total(
        self, audience: str = "public", relation: Relation = Relation.ADD_REMOVE
    ) -> Guarantee:
        """Return the total with reservations replaced by what was spent: not a guarantee."""
        with self._lock:
            calls = realised_calls(self._entries, self._joined)
        spent = [release for call in calls for release in call]
        seen = self._seen_by([audience], spent)
        return _named(self.figure(_those(calls, seen), relation), seen)

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

    def _seen_by(
        self, audiences: Collection[str], releases: Collection[Release] | None = None
    ) -> list[Release]:
        """Return those of the releases, by default of all charges, that a coalition sees."""
        audiences = [audiences] if isinstance(audiences, str) else audiences
        try:
            found = seen_by(self.releases if releases is None else releases, audiences)
            for name in audiences if self.parties is not None else ():
                if not takes_part(name, self._known()):
                    raise Code.BAD_RELEASE.error(found=f"audience {name!r}")
            return found
        except HedgerowError as error:
            # A name that is none here is mostly that of a row for several audiences.
            several = next((name for name in audiences if " + " in str(name)), None)
            fix = "" if several is None else f"coalition({several.split(' + ')}) for them together"
            others = "" if self.parties is None else "; who takes no part is the public"
            raise error.code.error(
                expected=f"an audience of this ledger: {', '.join(self._known())}",
                found=error.found,
                fix=fix or f"name one of them, or several with coalition([...]){others}",
            ) from None

    def _known(self) -> list[str]:
        """Return everybody who takes part, or whom a charge or a mark names."""
        marked = (name for mark in self.not_private for name in mark.audiences)
        return list(dict.fromkeys(["public", *(self.parties or ()), *self.audiences, *marked]))

    def _explain(self, found: Guarantee, audiences: Collection[str]) -> Guarantee:
        """Apply the marks, and say why a guarantee is infinite: by releases, by marks."""
        named = _named(found, self._seen_by(audiences))
        reasons = dict.fromkeys(reasons_against(self.not_private, audiences))
        if not reasons:
            return named
        # What was said of a finite figure is no reason.
        charges = [named.why] if named is not found else []
        why = "; ".join([*charges, *reasons])
        return replace(found, epsilon=math.inf, method="none", why=why)


def _named(found: Guarantee, releases: Collection[Release]) -> Guarantee:
    """Name the releases without a finite epsilon, if there are any."""
    without = dict.fromkeys(release.reason for release in releases if not release.bounded)
    if not without:
        return found
    return replace(found, method="none", why=f"no finite epsilon: {', '.join(without)}")


def _those(calls: Calls, seen: Collection[Release]) -> Calls:
    """Return the releases of each call that go where those that were seen go; no empty calls."""
    to = {release.audience for release in seen}
    kept = [[release for release in call if release.audience in to] for call in calls]
    return [call for call in kept if call]
