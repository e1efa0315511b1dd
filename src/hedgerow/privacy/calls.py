"""What several calls of `charge` cost together, whatever was chosen when.

Releases of one call are fixed together, before anything of them is seen: every accountant holds for
them. A later call may follow from the outcomes of earlier ones, and so may the decision to make it.
Pairs then still add up, curves do not (Paper: rogers2016odometers): one who stops as soon as the
realised loss exceeds what a curve says exceeds it more often than its delta.

**Pairs that hold at every stop.** A call that is (e, d)-DP is a post-processing of "with
probability d tell all, else a pure release with e" (Paper: kairouz2015composition, theorem 3.3).
While nothing is told the loss is at most the sum of the e so far, wherever one stops. That anything
was told by then has at most the mean of the sum of the d so far as its probability, and so at most
any bound that is kept on that sum. All this needs pairs that are settled when a call is made, by
what went before: the delta of a call is not chosen anew when more calls follow, and several calls
at one delta cost it several times.

Calls without a rho have pairs of their own and cost no further delta. They are composed by scopes,
so that of sibling parts the dearest counts; calls with a rho in sibling parts add up.

**Totals that are kept up to date.** A budget is checked before every charge. Composing everything
again each time would make n charges cost n^2; here a charge touches the scopes on its own path
only. The figures are those of `hedgerow.privacy.accounting.basic`, bit for bit: that rounds the sum
of each scope once, and so does this, because sums are kept as whole numbers of the smallest float.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hedgerow.errors import Code
from hedgerow.privacy.accounting import (
    Guarantee,
    Pair,
    Relation,
    basic,
    covers,
    has_rho,
    pair_of,
    pays_for,
    sequence,
    tightest,
    worst_pair,
)
from hedgerow.privacy.entries import Budget, seen_by
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, Partition, Segment

Calls = list[list[Release]]

_UNITS = 1 << 1074
"""Smallest floats in 1: every finite float is a whole number of them."""
_NOTHING = Pair(0.0, 0.0)
_ROUNDING = 1e-12
"""Share of a budget's delta that is no delta left, but what rounding left of it."""
_BELOW_ONE = math.nextafter(1.0, 0.0)


def sum_of_calls(
    calls: Calls,
    delta: float,
    relation: Relation = Relation.ADD_REMOVE,
    *,
    own_included: bool = False,
) -> Guarantee:
    """Return the total of calls that may follow from each other's outcomes.

    One call is stated by its tightest figure. Of several, those with a rho are pairs, each the
    tightest at `delta`, and the deltas add up. `own_included` takes the deltas that earlier calls
    brought themselves off `delta`, as far as that goes: one call with a rho then keeps the sum at
    `delta`.
    """
    if len(calls) < 2:
        return tightest([release for call in calls for release in call], delta, relation)
    plain: list[Release] = []
    pairs: list[Guarantee] = []
    for call in calls:
        if not has_rho(call):
            plain += call
            continue
        left = delta - basic(plain).delta if own_included else delta
        pairs.append(tightest(call, left if left > 0 else delta, relation))
    pairs.append(basic(plain, relation))
    epsilon = sum(pair.epsilon for pair in pairs)
    total = min(1.0, math.fsum(pair.delta for pair in pairs))
    if math.isinf(epsilon):
        why = next((pair.why for pair in pairs if pair.why), "")
        return Guarantee(epsilon, total, relation, "none", why)
    return Guarantee(epsilon, total, relation, f"sum of {len(calls)} calls")


class _Sum:
    """A sum of floats >= 0 whose terms may grow."""

    def __init__(self) -> None:
        self._units = 0
        self._infinite = False

    def replace(self, old: float, new: float) -> None:
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
        self._epsilon.replace(old.epsilon, new.epsilon)
        self._delta.replace(old.delta, new.delta)
        self.cost = Pair(self._epsilon.value(), self._delta.value())


class _Account:
    """What one audience has seen, call by call, and how a budget counts it.

    A call is added up with those before it by basic composition, if that fits; otherwise it is one
    pair, the tightest at a delta of its own. That is settled when the call is made, in order, so it
    depends on the calls before it only.
    """

    def __init__(self) -> None:
        self.node = _Node()
        self._calls: list[list[Release]] = []
        self._settle_anew(None)

    def add(self, call: list[Release]) -> None:
        self._calls.append(call)
        for release in call:
            self.node.add(release.scope.segments, pair_of(release))

    @property
    def bounded(self) -> bool:
        """Whether every release promises something, if only at a delta."""
        return all(release.bounded for call in self._calls for release in call)

    def total(self) -> Guarantee:
        return Guarantee(self.node.cost.epsilon, min(1.0, self.node.cost.delta))

    def fits(self, budget: Budget, delta: float | None) -> bool:
        """Whether all calls fit into a budget; see `RunningTotals.check`."""
        if budget.allows(self.total()):
            return True
        if delta is None and not budget.grants_delta:
            return False
        if self._rule != (budget, delta):
            self._settle_anew((budget, delta))
        while self._settled < len(self._calls):
            if not self._settle(self._calls[self._settled], budget, delta):
                return False
            self._settled += 1
        return True

    def budget_total(self, budget: Budget, delta: float | None) -> Guarantee | None:
        """Return what the budget counts for all calls; None if they do not fit."""
        if not self.fits(budget, delta):
            return None
        if budget.allows(self.total()):
            return self.total()
        calls = f"sum of {len(self._calls)} calls"
        return replace(self._sum(), method=calls)

    def _settle_anew(self, rule: tuple[Budget, float | None] | None) -> None:
        self._rule, self._settled = rule, 0
        self._plain: list[Release] = []
        self._plain_node = _Node()
        self._pairs: list[Pair] = []

    def _settle(self, call: list[Release], budget: Budget, delta: float | None) -> bool:
        for release in call:
            self._plain_node.add(release.scope.segments, pair_of(release))
        if budget.allows(self._sum()):
            self._plain += call
            return True
        self._plain_node = _Node()
        for release in self._plain:
            self._plain_node.add(release.scope.segments, pair_of(release))
        own = delta
        if own is None:
            left = budget.delta - self._sum().delta
            own = left if left > budget.delta * _ROUNDING else 0.0
        if own <= 0:
            return False
        found = tightest(call, min(own, _BELOW_ONE))
        self._pairs.append(Pair(found.epsilon, found.delta))
        return budget.allows(self._sum())

    def _sum(self) -> Guarantee:
        pairs = [self._plain_node.cost, *self._pairs]
        epsilon = sum(pair.epsilon for pair in pairs)
        return Guarantee(epsilon, min(1.0, sum(pair.delta for pair in pairs)))


def counted_by_budget(calls: Calls, budget: Budget, delta: float | None = None) -> Guarantee | None:
    """Return what a budget counts for calls, in order (`RunningTotals.check`); None if too much."""
    account = _Account()
    for call in calls:
        account.add(call)
    return account.budget_total(budget, delta)


class RunningTotals:
    """What every audience that was named costs so far, under add/remove."""

    def __init__(self, calls: Iterable[list[Release]] = ()) -> None:
        self._calls: Calls = []
        self._by_audience: dict[str, _Account] = {}
        for call in calls:
            self.add(*call)

    def add(self, *call: Release) -> None:
        """Count one more call, of releases that were fixed together, for everyone who sees them."""
        self._calls.append(list(call))
        for audience, account in self._by_audience.items():
            self._show(account, audience, self._calls[-1])
        for audience in dict.fromkeys(release.audience for release in call):
            if audience not in self._by_audience:
                account = self._by_audience[audience] = _Account()
                for earlier in self._calls:
                    self._show(account, audience, earlier)

    @staticmethod
    def _show(account: _Account, audience: str, call: list[Release]) -> None:
        if seen := seen_by(call, [audience]):
            account.add(seen)

    def total(self, audience: str) -> Guarantee:
        """Return what an audience that was named costs so far, by basic composition."""
        return self._by_audience[audience].total()

    def check(self, budget: Budget, delta: float | None = None) -> None:
        """Raise H207 if some audience costs more than the budget.

        Calls may be chosen by the outcomes of earlier ones, and their costs add up as pairs: such
        sums hold for pairs that are chosen as one goes (Paper: rogers2016odometers). Releases of
        one call were fixed together, before anything of them was seen, so the pair of a call may
        be the tightest at a delta that the budget grants: at `delta`, or at all that the budget has
        left.
        """
        for audience, account in self._by_audience.items():
            if account.fits(budget, delta):
                continue
            found = f"{account.total()} for {audience}"
            if math.isinf(account.total().epsilon) and account.bounded:
                found += ", and more than that at the delta granted, each call at its own"
            raise Code.BUDGET_EXCEEDED.error(
                expected=f"at most epsilon {budget.epsilon:.6g} and "
                f"delta {budget.delta:.3g} for every audience",
                found=found,
            )


class ReservedSpending:
    """What was spent inside a reservation; the verdicts are those of `covers`, one by one.

    One more release costs the length of its scope. Only where releases name parts of a partition
    (others than `EACH`), or the reservation is of a rho, are all of them composed anew.
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
        if self._reserved.rho is not None:
            return covers(self._reserved, self._releases)
        terms = self._terms
        if not self._adds_up and self._reserved.times > 1:
            terms = sequence(self._releases, Relation.ADD_REMOVE)
        return pays_for(self._reserved, self._node.cost, self._mechanisms, terms)


def _in_units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_UNITS // denominator)
