"""Composition: what a set of releases costs together.

Each accountant is an algebra on the tree of scopes: the cost of one release, how costs in sequence
add, and which cost covers a record in any of several sibling parts (see
`hedgerow.privacy.scopes` for why one of them is enough).

**Pairs.** (eps, delta) add componentwise in sequence, and siblings take the maximum of each
component: a part with (eps_j, delta_j) also satisfies (max eps, max delta).

**Releases with a rho** have no pure epsilon, so their total by basic composition is infinite and
optimal composition does not apply: zCDP (unless there is a sample) and RDP count them, beside pure
releases with their own curves; and where all releases are discrete Gaussian ones, in sequence, the
exact curve of Gaussian noise, or with samples its losses (`hedgerow.privacy.gaussian`). Their delta
is that of delta-approximate zCDP: events of probability 1 - delta on both sides, given which the
curve holds (Paper: bun2016concentrated, section 8).

**Delta next to a curve.** zCDP, RDP and optimal composition speak of pure releases; what delta the
releases bring themselves (finite precision) is composed apart, D = sum of delta_i, and the
conversion gets what is left: epsilon at delta is the curve's epsilon at delta - D. Proof. An
(eps, delta)-DP release is a post-processing of "with probability delta tell all, else randomised
response with eps" (Paper: kairouz2015composition, theorem 3.3). Over a sequence nothing is told
with probability at least 1 - D, and the releases then compose like pure ones, so
P(S) <= (1-D) P0(S) + D <= (1-D)(e^e Q0(S) + d) + D <= e^e Q(S) + d + D. Releases with a rho are of
this form by definition.

**A better curve next to a delta.** That argument gives eps^2/2 at best. A law that is within total
variation tau of one that is eps-DP and has a better curve keeps that curve if its delta is at
least (1 + e^eps) tau. Proof, one release at a time, the laws of the others fixed: let o be its
outcome, y the rest of the transcript, c = e^e Q(y given o)/P(y given o). Replacing Q(o) by Q'(o)
raises the hockey-stick term P(y)[P(o) - c Q(o)]+ by at most P(y)[min(P(o), c Q(o)) - c Q'(o)]+,
which is at most P(y) e^eps (Q(o) - Q'(o))+ for c <= e^eps and, as P(o) <= e^eps Q(o), for
c > e^eps too; summed, e^eps tau. When all Q are replaced, replacing each P by P' adds its tau.
`MechanismRule.tau_delta` says that deltas are of this kind.

**Replace.** Replacing a record is removing one and adding one: (2 eps, (1+e^eps) delta) of the
composed total. Release by release (2 eps_i, (1+e^eps_i) delta_i), 4 rho_i, then the same algebra,
holds too and is what the curves use: if both records are in one part, each of its releases is met
twice in a row; if they are in two, each part is met once, and one release at 2 eps covers one at
eps in either part, as 2 D(eps) <= D(2 eps) for every Renyi order and every loss distribution.
The events of a release with a rho and a delta of its own do not fit together that way: then it is
twice the composed total.

**Fixed in advance.** Curves need epsilons that do not depend on earlier answers: charge the worst
case first. Pairs do not; see `hedgerow.privacy.calls`. Sums of floats are correctly rounded,
conversions are rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy.gaussian import GaussianRelease, gaussian_epsilon, sampled_epsilon
from hedgerow.privacy.optimal import optimal_epsilon
from hedgerow.privacy.release import Release, pure_rho
from hedgerow.privacy.renyi import (
    ORDERS,
    RHO_ORDERS,
    Curve,
    epsilon_at,
    response_curve,
    sampled_curve,
    sampled_replace_curve,
)
from hedgerow.privacy.scopes import EACH, Partition

T = TypeVar("T")
_UP = 1 + 1e-12
_DOUBLINGS = 200


class Relation(Enum):
    """What one record may change: be there or not, or be another one."""

    ADD_REMOVE = "add/remove"
    REPLACE = "replace"


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta) under a neighbour relation, how it was found, and why it does not hold."""

    epsilon: float
    delta: float
    relation: Relation = Relation.ADD_REMOVE
    method: str = "basic composition"
    why: str = ""

    @property
    def private(self) -> bool:
        """Whether this promises anything."""
        return math.isfinite(self.epsilon) and self.delta < 1

    def __str__(self) -> str:
        figures = f"epsilon {self.epsilon:.6g}, delta {self.delta:.3g}"
        text = f"{figures}, {self.relation.value}, {self.method}"
        return f"{text} ({self.why})" if self.why else text


class Pair(NamedTuple):
    """An epsilon (or a rho) and the delta beside it."""

    epsilon: float
    delta: float


def basic(releases: Iterable[Release], relation: Relation = Relation.ADD_REMOVE) -> Guarantee:
    """Return the total of (eps, delta) pairs; for REPLACE, twice the composed total."""
    epsilon, delta = fold(releases, pair_of, _add_pairs, worst_pair)
    if relation is Relation.REPLACE:
        epsilon, delta = 2 * epsilon, _replace_delta(epsilon, delta)
    return Guarantee(epsilon, min(1.0, delta), relation)


def claimed_epsilon(releases: Iterable[Release]) -> float:
    """Return the epsilon that the papers' figures add up to, in the papers' own terms."""

    def leaf(release: Release) -> Pair:
        figure = release.epsilon if release.claimed is None else release.claimed
        return Pair(figure * release.times, 0.0)

    return fold(releases, leaf, _add_pairs, worst_pair).epsilon


def zcdp(releases: Iterable[Release], relation: Relation = Relation.ADD_REMOVE) -> Pair:
    """Return (rho, delta): delta-approximate zCDP of all releases; samples gain nothing."""

    def leaf(release: Release) -> Pair:
        factor = 4 if relation is Relation.REPLACE else 1
        delta = _leaf_delta(release, relation)
        return Pair(factor * _rho(release) * release.times, delta)

    return fold(releases, leaf, _add_pairs, worst_pair)


def tightest(
    releases: Iterable[Release], delta: float, relation: Relation = Relation.ADD_REMOVE
) -> Guarantee:
    """Return the smallest epsilon that an accountant can prove at `delta`, in [0, 1).

    It holds for releases that were fixed in advance, such as those of one call. Epsilon is infinite
    where no accountant applies, as where their own deltas add up to more than `delta`.
    """
    check_delta(delta)
    releases = list(releases)
    if relation is Relation.REPLACE and any(r.rho is not None and r.delta > 0 for r in releases):
        return _replace_by_doubling(releases, delta)
    epsilon = basic(releases, relation).epsilon
    concentrated = has_rho(releases)
    own = fold(
        releases, lambda r: Pair(0.0, _leaf_delta(r, relation)), _add_pairs, worst_pair
    ).delta
    # An infinite epsilon beside a rho is no obstacle where the infinity is that rho's own.
    hopeless = math.isinf(epsilon) and not (concentrated and all(r.bounded for r in releases))
    if own > delta or hopeless:
        why = f"the releases' own deltas add up to {own:.3g}" if own > delta else ""
        return Guarantee(math.inf, delta, relation, "none", why)
    found = {"basic composition": epsilon}
    # Rounding down what is left keeps the sum of both deltas below the one asked for.
    left = (delta - own) * (1 - 1e-12)
    if left > 0 and epsilon > 0:
        # Paper: bun2016concentrated, proposition 1.3.
        rho = zcdp(releases, relation).epsilon
        found["zCDP"] = (rho + 2 * math.sqrt(rho * -math.log(left))) * _UP
        orders = RHO_ORDERS if concentrated else ORDERS
        found["RDP"] = epsilon_at(orders, _rdp(releases, relation, orders), left)
        gaussian = _as_gaussian(releases, relation)
        if any(release.rate < 1 for release in gaussian):
            near = min(found.values())
            found["Gaussian losses (PLD)"] = sampled_epsilon(gaussian, left, near)
        elif gaussian:
            found["Gaussian curve"] = gaussian_epsilon(gaussian, left)
        if not concentrated:
            found["optimal composition (PLD)"] = optimal_epsilon(sequence(releases, relation), left)
    method = min(found, key=lambda name: found[name])
    if math.isinf(found[method]):
        return Guarantee(math.inf, delta, relation, "none", "no delta is left for releases by rho")
    return Guarantee(found[method], delta, relation, method)


def _as_gaussian(releases: list[Release], relation: Relation) -> list[GaussianRelease]:
    """Return releases as the Gaussian curve counts them; none if there are others among them.

    Two parts of one partition are others: the curve is about noise that is fixed in advance for
    every record. Replacing moves the values by twice the sensitivity at most.
    """
    moved = 4 if relation is Relation.REPLACE else 1
    alike: Counter[tuple[float, float, float]] = Counter()
    for r in releases:
        if not r.rule.gaussian or not r.rho or r.delta > 0:
            return []
        if r.sample_rate < 1 and relation is Relation.REPLACE:
            return []
        # What follows must not depend on how equal releases are written.
        alike[r.rho, r.sensitivity * r.sensitivity, r.sample_rate] += r.times
    found = []
    for (rho, squared, rate), times in alike.items():
        variance = squared / (2 * rho) * (1 - 1e-12)
        if not (math.isfinite(variance) and math.isfinite(moved * squared * times)):
            return []
        found.append(GaussianRelease(moved * rho, times, variance, moved * squared, rate))
    return [] if has_siblings(releases) else found


def check_delta(delta: object) -> float:
    """Return a delta from 0 to below 1; else H205."""
    if not isinstance(delta, (int, float)) or not 0 <= delta < 1:
        raise Code.BAD_RELEASE.error(
            expected="0 <= delta < 1", found=f"delta={delta!r}", fix="choose a delta such as 1e-6"
        )
    return float(delta)


def has_rho(releases: Iterable[Release]) -> bool:
    """Whether a release states its rho, so that no epsilon holds without a delta."""
    return any(release.rho is not None for release in releases)


def _replace_by_doubling(releases: list[Release], delta: float) -> Guarantee:
    """Replace as (2 epsilon, (1 + e^epsilon) d) of the total (epsilon, d) under add/remove.

    Every d that brings no more than delta will do; the search goes from above and stops at one.
    """
    d = delta / 2
    for _ in range(_DOUBLINGS):
        found = tightest(releases, d)
        if math.isinf(found.epsilon):
            break
        if _replace_delta(found.epsilon, d) <= delta:
            method = f"{found.method}, twice"
            return Guarantee(2 * found.epsilon, delta, Relation.REPLACE, method)
        d = min(d * 0.99, delta / (1 + math.exp(min(found.epsilon, 700.0))))
    why = f"no delta that replaces a record at {delta:.3g}"
    return Guarantee(math.inf, delta, Relation.REPLACE, "none", why)


def covers(reserved: Release, spent: list[Release]) -> bool:
    """Whether a charge pays for releases made in its place, under every accountant.

    The total must fit, and so must the curves: a charge of several times pays for as many
    releases, each at most its epsilon (one of twice the epsilon has a worse curve than two); a
    charge of one time pays for any releases that add up to it. A mechanism with a curve better
    than eps^2/2 pays for itself only. Totals are compared within the rounding of sums.

    A charge with a rho pays for releases of the same mechanism and sensitivity: without a sample,
    whatever rho they add up to; with one, as many as it says, each with at most its rho and rate.
    """
    if reserved.rho is not None:
        return _covers_rho(reserved, spent)
    total = basic(spent)
    terms = sequence(spent, Relation.ADD_REMOVE)
    return pays_for(reserved, Pair(total.epsilon, total.delta), {r.mechanism for r in spent}, terms)


def pays_for(
    reserved: Release, total: Pair, mechanisms: Collection[str], terms: Counter[float]
) -> bool:
    """Judge as `covers` does, by what the releases add up to."""
    limit = basic([reserved])
    fits = total.epsilon <= limit.epsilon * _UP and min(1.0, total.delta) <= limit.delta * _UP
    alike = reserved.rule.rho is pure_rho or all(name == reserved.mechanism for name in mechanisms)
    slots = Counter({reserved.epsilon * _UP: reserved.times})
    return fits and alike and (reserved.times == 1 or _dominates(slots, terms))


def _covers_rho(reserved: Release, spent: list[Release]) -> bool:
    """Judge by rho; sampled releases of siblings are compared as if all were in one part."""
    if any(r.rho is None or r.mechanism != reserved.mechanism for r in spent):
        return False
    rho, delta = zcdp(spent)
    limit = zcdp([reserved])
    if delta > limit.delta * _UP:
        return False
    # At the same rho, values that move less have less noise, and less of it to spare.
    if not all(math.isclose(r.sensitivity, reserved.sensitivity, rel_tol=1e-12) for r in spent):
        return False
    if reserved.sample_rate == 1:
        return rho <= limit.epsilon * _UP
    alike = all(
        r.rho is not None
        and reserved.rho is not None
        and r.rho <= reserved.rho * _UP
        and r.sample_rate <= reserved.sample_rate
        for r in spent
    )
    return alike and sum(r.times for r in spent) <= reserved.times


def pair_of(release: Release) -> Pair:
    """Return the cost of a release, all its times together."""
    return Pair(release.epsilon * release.times, release.delta * release.times)


def _add_pairs(pairs: list[Pair]) -> Pair:
    return Pair(_sum(pair.epsilon for pair in pairs), _sum(pair.delta for pair in pairs))


def worst_pair(pairs: list[Pair]) -> Pair:
    """Return the smallest pair that covers each of several."""
    return Pair(max(pair.epsilon for pair in pairs), max(pair.delta for pair in pairs))


def _sum(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _replace_delta(epsilon: float, delta: float) -> float:
    """Return (1 + e^eps) delta, rounded up, at most 1; 0 stays 0 for every epsilon."""
    if delta == 0:
        return 0.0
    if epsilon > 700:  # near the largest float; a delta of 1 promises nothing and is safe
        return 1.0
    return min(1.0, (1 + math.exp(epsilon)) * delta * _UP)


def _leaf_delta(release: Release, relation: Relation) -> float:
    delta = release.delta
    if relation is Relation.REPLACE and delta > 0:
        delta = _replace_delta(release.epsilon, delta)
    return delta * release.times


def _rho(release: Release) -> float:
    """Return zCDP of one time: the mechanism's own where its delta allows, never above eps^2/2."""
    if release.rho is not None:
        return release.rho
    exact = release.delta == 0 or release.rule.tau_delta
    pure = pure_rho(release.epsilon)
    return min(pure, release.rule.rho(release.epsilon)) if exact else pure


def _rdp(releases: list[Release], relation: Relation, orders: Curve) -> Curve:

    def leaf(release: Release) -> Curve:
        return release.times * _curve(release, relation, orders)

    zero = np.zeros_like(orders)
    return fold(
        releases,
        leaf,
        lambda curves: np.sum([zero, *curves], axis=0),
        lambda curves: np.max(curves, axis=0),
    )


def _curve(release: Release, relation: Relation, orders: Curve) -> Curve:
    if release.rho is not None:
        curve = sampled_replace_curve if relation is Relation.REPLACE else sampled_curve
        # A delta stands for events that each law is conditioned on, and that need no mirror.
        mirrored = release.rule.mirrored and release.delta == 0
        return curve(release.rho, release.sample_rate, orders, mirrored=mirrored)
    factor = 2 if relation is Relation.REPLACE else 1
    line = orders * _rho(release) * factor**2
    return np.minimum(line, response_curve(release.epsilon * factor, orders))


def sequence(releases: list[Release], relation: Relation) -> Counter[float]:
    """Return epsilon -> count of a sequence of pure releases that dominates all of them.

    Siblings: the sequence that is at least every other, term by term in descending order, where
    there is one; else one release with the largest total. (The worst of the siblings' results
    would not do: which part a record is in may depend on earlier answers.) A release with a rho is
    a term of infinite epsilon: no pure one is as bad.
    """
    factor = 2 if relation is Relation.REPLACE else 1

    def worst(sequences: list[Counter[float]]) -> Counter[float]:
        longest = max(sequences, key=_total)
        if all(_dominates(longest, other) for other in sequences):
            return longest
        return Counter({_total(longest): 1})

    return fold(
        releases,
        lambda release: Counter({release.epsilon * factor: release.times}),
        _join,
        worst,
    )


def _join(sequences: list[Counter[float]]) -> Counter[float]:
    joined: Counter[float] = Counter()
    for sequence in sequences:
        joined.update(sequence)
    return joined


def _total(sequence: Counter[float]) -> float:
    return _sum(epsilon * count for epsilon, count in sequence.items())


def _dominates(one: Counter[float], other: Counter[float]) -> bool:
    """Whether the sorted terms of `one` are at least those of `other`, place by place."""
    levels = sorted({level for level in (*one, *other) if level > 0}, reverse=True)
    return all(lead >= 0 for lead in accumulate(one[level] - other[level] for level in levels))


@dataclass
class _Node:
    """A scope with what was released in it."""

    releases: list[Release] = field(default_factory=list)
    steps: dict[str, _Node] = field(default_factory=dict)
    partitions: dict[Partition, dict[str, _Node]] = field(default_factory=dict)


def _tree(releases: Iterable[Release]) -> _Node:
    root = _Node()
    for release in releases:
        node = root
        for segment in release.scope.segments:
            if segment.partition is None:
                children = node.steps
            else:
                children = node.partitions.setdefault(segment.partition, {})
            node = children.setdefault(segment.label, _Node())
        node.releases.append(release)
    return root


def fold(
    releases: Iterable[Release],
    leaf: Callable[[Release], T],
    add: Callable[[list[T]], T],
    worst: Callable[[list[T]], T],
) -> T:
    """Compose costs over the tree of scopes.

    `leaf` is the cost of one release, all its times together; `worst` covers each of several, at
    least one.
    """

    def cost(node: _Node) -> T:
        items = [leaf(release) for release in node.releases]
        items += [cost(child) for child in node.steps.values()]
        for parts in node.partitions.values():
            # What happens in each part happens in the record's part too, so it adds.
            items += [cost(child) for label, child in parts.items() if label == EACH]
            named = [cost(child) for label, child in parts.items() if label != EACH]
            items += [worst(named)] if named else []
        return add(items)

    return cost(_tree(releases))


def has_siblings(releases: Iterable[Release]) -> bool:
    """Whether releases are in different parts of one partition, so that a record misses some."""

    def any_below(node: _Node) -> bool:
        parts = list(node.partitions.values())
        several = any(len(children.keys() - {EACH}) > 1 for children in parts)
        below = [child for children in (node.steps, *parts) for child in children.values()]
        return several or any(map(any_below, below))

    return any_below(_tree(releases))
