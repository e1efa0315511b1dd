"""Totals by basic composition that are kept up to date, one release after another.

A budget is checked before every charge. Composing everything again each time would make n charges
cost n^2; here a charge touches the scopes on its own path only. The figures are those of
`hedgerow.privacy.accounting.basic`, bit for bit: that rounds the sum of each scope once, and so
does this, because sums are kept as whole numbers of the smallest float.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from hedgerow.errors import Code
from hedgerow.privacy.accounting import (
    Guarantee,
    Pair,
    Relation,
    pair_of,
    pays_for,
    sequence,
    tightest,
    worst_pair,
)
from hedgerow.privacy.entries import Budget, seen_by, sees, viewers_of
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, Partition, Segment

_UNITS = 1 << 1074
"""Smallest floats in 1: every finite float is a whole number of them."""
_NOTHING = Pair(0.0, 0.0)


class _Sum:
    """A sum of floats >= 0 whose terms may grow."""

    def __init__(self) -> None:
        self._units = 0
        self._infinite = False

    def grow(self, old: float, new: float) -> None:
        """Put `new` in the place of a term `old`, at least as large."""
        if math.isinf(new):
            self._infinite = True
        else:
            self._units += _in_units(new) - _in_units(old)

    def value(self) -> float:
        """Return the sum, correctly rounded."""
        if self._infinite:
            return math.inf
        try:
            return self._units / _UNITS
        except OverflowError:
            return math.inf


class _Node:
    """A scope and what was released in it so far."""

    def __init__(self) -> None:
        self.cost = _NOTHING
        self._epsilon, self._delta = _Sum(), _Sum()
        self._children: dict[Segment, _Node] = {}
        self._worst: dict[Partition, Pair] = {}

    def add(self, path: tuple[Segment, ...], cost: Pair) -> None:
        """Add a release that lies at `path` below this scope."""
        if not path:
            self._grow(_NOTHING, cost)
            return
        segment = path[0]
        child = self._children.setdefault(segment, _Node())
        before = child.cost
        child.add(path[1:], cost)
        if segment.partition is None or segment.label == EACH:
            self._grow(before, child.cost)
        else:
            # Costs never fall, so the dearest part so far is the dearest of all.
            worst = self._worst.get(segment.partition, _NOTHING)
            self._worst[segment.partition] = worst_pair([worst, child.cost])
            self._grow(worst, self._worst[segment.partition])

    def _grow(self, old: Pair, new: Pair) -> None:
        self._epsilon.grow(old.epsilon, new.epsilon)
        self._delta.grow(old.delta, new.delta)
        self.cost = Pair(self._epsilon.value(), self._delta.value())


class RunningTotals:
    """What every audience that was named costs so far, under add/remove.

    Parameters
    ----------
    releases : iterable of Release
        To begin with.
    """

    def __init__(self, releases: Iterable[Release] = ()) -> None:
        self._releases: list[Release] = []
        self._by_audience: dict[str, _Node] = {}
        for release in releases:
            self.add(release)

    def add(self, release: Release) -> None:
        """Count one more release, for everyone who sees it."""
        self._releases.append(release)
        for audience, node in self._by_audience.items():
            if sees(viewers_of(audience), release.audience):
                node.add(release.scope.segments, pair_of(release))
        if release.audience not in self._by_audience:
            node = self._by_audience[release.audience] = _Node()
            for seen in seen_by(self._releases, [release.audience]):
                node.add(seen.scope.segments, pair_of(seen))

    def total(self, audience: str) -> Guarantee:
        """Return what an audience that was named costs so far."""
        epsilon, delta = self._by_audience[audience].cost
        return Guarantee(epsilon, min(1.0, delta))

    def check(self, budget: Budget) -> None:
        """Raise H207 if some audience costs more than the budget."""
        for audience in self._by_audience:
            total = self.total(audience)
            if not budget.allows(total) and not self._composes_within(budget, audience):
                raise Code.BUDGET_EXCEEDED.error(
                    expected=f"at most epsilon {budget.epsilon:.6g} and "
                    f"delta {budget.delta:.3g} for every audience",
                    found=f"{total} for {audience}",
                )

    def _composes_within(self, budget: Budget, audience: str) -> bool:
        """Whether a delta that was granted buys what basic composition does not allow.

        Only for one release, which may be of many equal times: its parameters are fixed before
        anything of it is seen. Tighter accountants do not hold for charges that may be chosen
        after the outcome of earlier ones.
        """
        seen = seen_by(self._releases, [audience])
        static = budget.grants_delta and len(seen) == 1
        return static and budget.allows(tightest(seen, budget.delta))


class Spent:
    """What was spent inside a reservation; the verdicts are those of `covers`, one by one.

    One more release costs the length of its scope. Only where releases name parts of a partition
    (others than `EACH`) are all of them composed anew.

    Parameters
    ----------
    reserved : Release
    releases : iterable of Release
        To begin with.
    """

    def __init__(self, reserved: Release, releases: Iterable[Release] = ()) -> None:
        self._reserved = reserved
        self._releases: list[Release] = []
        self._node = _Node()
        self._mechanisms: set[str] = set()
        self._terms: Counter[float] = Counter()
        self._adds_up = True
        for release in releases:
            self.add(release)

    @property
    def total(self) -> Guarantee:
        """What the releases cost, by basic composition."""
        return Guarantee(self._node.cost.epsilon, min(1.0, self._node.cost.delta))

    def add(self, release: Release) -> None:
        """Count one more release."""
        self._releases.append(release)
        self._node.add(release.scope.segments, pair_of(release))
        self._mechanisms.add(release.mechanism)
        self._terms[release.epsilon] += release.times
        self._adds_up &= all(s.partition is None or s.label == EACH for s in release.scope.segments)

    def is_paid(self) -> bool:
        """Whether the reservation pays for everything so far."""
        terms = self._terms
        if not self._adds_up and self._reserved.times > 1:
            terms = sequence(self._releases, Relation.ADD_REMOVE)
        return pays_for(self._reserved, self._node.cost, self._mechanisms, terms)


def _in_units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_UNITS // denominator)
