"""Private gradient boosting of one table: shapes from noisy marginals, steps from noisy sums.

1. Noisy marginals of all attributes, once. From them, for free: the prior, groups of bins, the
   order of categories, and in which rounds which attribute has its turn.
2. Round after round: the leaves of a public shape, in each of which the clipped gradients of the
   records are summed up; noise; a damped Newton step whose second derivative is the prior's.
3. The model is the mean of the last iterates. Rounds over the same attributes are one table, so
   that what is released is one function per attribute or pair of attributes.

Reveals: the noisy marginals and sums, to the public; epsilon at delta in total.
Cost: in the clear, no messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.boosting.marginals import Marginals, Profile, read_marginals
from hedgerow.protocols.boosting.plan import COUNT_UNITS, BoostPlan
from hedgerow.protocols.public_choices import public_sample, public_uniform
from hedgerow.tables import check_capacity
from hedgerow.trees.additive import table_tree
from hedgerow.trees.boosted import Boosted, Link, step_domain
from hedgerow.trees.counts.boosting import BoostCounts, FunctionShape
from hedgerow.trees.counts.coins_of_rows import draw_key
from hedgerow.trees.tree import Tree

PAIR_PARTS = 3
"""Parts of each attribute of a pair."""

_USE_POWER, _EVEN = 0.25, 0.1
_CUT_POWER = 0.5
# A pair's worth is kept above this, has so much doubt before it was seen, and is read as a running
# mean in which a new round counts at least so much.
_PAIR_LEAST, _PAIR_DOUBT, _PAIR_NEWS = 0.1, 1.5, 0.3
# Share of the rounds, the last ones, whose iterates are averaged.
_AVERAGED = 0.3
_LEAST_KEPT = 0.05
# A leaf is damped as if so many times the noise of all rounds together were records in it: more
# for numbers, whose steps are small beside the range that their noise is measured in.
_DAMPING = {"logistic": 8.0, "softmax": 8.0, "squared": 80.0}

Tell = Callable[[int, int], None]
Floats = NDArray[np.float64]


def boost(
    counts: BoostCounts,
    plan: BoostPlan,
    *,
    ledger: Ledger,
    source: NoiseSource,
    capacity: int | None = None,
    tell: Tell = lambda done, of: None,
) -> Boosted:
    """Charge a plan and train; `tell` is told after every round.

    The ledger is charged before anything is drawn, and marked as not private if the noise is
    seeded. H112 for more records than the capacity, H202 for a domain read from the data unless
    the ledger is marked as not private; nothing is charged.
    """
    if not plan.domain.is_public and not ledger.not_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {plan.domain.provenance!r}")
    if capacity is not None:
        check_capacity(counts.n_records, capacity)
    if not source.private:
        ledger.mark_not_private("the noise was seeded")
    ledger.charge(*plan.releases())
    return assemble(plan, draw(counts, plan, source, tell))


class BoostRound(NamedTuple):
    """One round: its public leaves, and what was released of them, int64 (leaves, k)."""

    shape: FunctionShape
    sums: NDArray[np.int64]


class BoostDraws(NamedTuple):
    """All that was released: noisy histograms (bins, classes or 2), and the rounds."""

    histograms: list[NDArray[np.int64]]
    rounds: list[BoostRound]


def draw(
    counts: BoostCounts,
    plan: BoostPlan,
    source: NoiseSource,
    tell: Tell = lambda done, of: None,
) -> BoostDraws:
    """Draw the releases, which must have been charged."""
    # One release: noise for all histograms at once.
    noisy = plan.marginals(exact_marginals(counts, plan), source)
    histograms = np.split(noisy, np.cumsum(plan.domain.n_bins)[:-1])
    marginals = read_marginals(plan, histograms)
    counts.begin(plan.gradients, marginals.start)
    key = draw_key(source)
    rounds = []
    shapes = Shapes(plan, marginals)
    for at in range(plan.rounds):
        shape = shapes.at(at)
        sample = None if plan.sample_rate == 1 else (key, at, plan.sample_rate)
        sums = plan.sums(counts.sums(shape, sample), source)
        counts.add(shape, step_of(plan, marginals, shape, sums))
        shapes.learn(shape, sums)
        rounds.append(BoostRound(shape, sums))
        tell(at + 1, plan.rounds)
    return BoostDraws(histograms, rounds)


class Stiffness(NamedTuple):
    """What a round's sums are divided by: in each leaf (leaves, k), and of all records, (k,).

    Records as the marginals know them, times the second derivative there, and the damping.
    """

    share: Floats
    leaves: Floats
    records: Floats


def stiffness(plan: BoostPlan, marginals: Marginals, shape: FunctionShape) -> Stiffness:
    """Return what damps a round's steps."""
    share = shares(shape, marginals)
    all_records = marginals.records * marginals.hessian
    damping = _DAMPING[plan.gradients.loss] * plan.noise
    return Stiffness(
        share,
        np.outer(share, all_records) + damping,
        all_records + damping * len(share),
    )


def exact_marginals(counts: BoostCounts, plan: BoostPlan) -> NDArray[np.int64]:
    """Return the histograms of all attributes without noise, one below the other."""
    exact = counts.marginals(plan.domain.n_bins.tolist(), plan.n_classes)
    if plan.n_classes is None:
        exact = [histogram * np.array([COUNT_UNITS, 1]) for histogram in exact]
    return np.concatenate(exact)


def step_of(
    plan: BoostPlan, marginals: Marginals, shape: FunctionShape, noisy: NDArray[np.int64]
) -> Floats:
    """Return the step in each leaf, (leaves, k): a Newton step, damped by the public noise.

    What all records have in common is a step of its own. In a leaf it would count by the number of
    records there, so that a noisy prior would make dense leaves look unlike sparse ones.
    """
    stiff = stiffness(plan, marginals, shape)
    slope = noisy / (plan.gradients.unit * plan.sample_rate)
    common = slope.sum(axis=0)
    step: Floats = plan.rate * (slope - np.outer(stiff.share, common)) / stiff.leaves
    step[stiff.share <= 0] = 0.0
    step += plan.rate * common / stiff.records
    return step


def direct_variance(stiff: Stiffness, rate: float) -> Floats:
    """Return the variance of each leaf's step, (leaves, k), for noise of variance 1 in each sum.

    Of the step less its mean over all records, which goes to the start. A step is linear in the
    sums, so that the law of its noise is that of the sums' noise, added up with these factors.
    """
    share = stiff.share
    scale = np.where(share[:, None] > 0, rate / stiff.leaves, 0.0)
    # (leaf, sum, k): what the noise of one sum adds to the step of a leaf.
    factors = (np.eye(len(share)) - share[:, None])[:, :, None] * scale[:, None, :]
    factors -= np.einsum("l,lmk->mk", share, factors)
    found: Floats = (factors**2).sum(axis=1)
    return found


class _Function(NamedTuple):
    """Rounds over the same attributes: values (bins, ..., k), and the variance of their noise.

    `variance` is what is left of the noise, as far as later rounds take it back; `added` is that of
    all noise in the values.
    """

    values: Floats
    variance: Floats
    added: Floats


def assemble(plan: BoostPlan, drawn: BoostDraws) -> Boosted:
    """Add rounds up by their attributes, each as often as it is in the averaged iterates.

    What the functions have in common goes to the start; the rest is pulled towards 0 by as much of
    it as noise explains (`_shrinkage`).
    """
    marginals = read_marginals(plan, drawn.histograms)
    functions = _functions(plan, marginals, drawn.rounds)
    weights = {features: _bin_shares(marginals, features) for features in functions}
    means = {
        features: (weights[features] * function.values).sum(axis=tuple(range(len(features))))
        for features, function in functions.items()
    }
    kept = _shrinkage(
        sum(
            float((weights[f] * (function.values - means[f]) ** 2).sum())
            for f, function in functions.items()
        ),
        sum(float((weights[f] * function.variance).sum()) for f, function in functions.items()),
    )
    middle, half = 0.0, 1.0
    k = plan.gradients.n_scores
    link: Link = "logistic" if k == 1 else "softmax"
    if plan.n_classes is None:
        middle, half, link = plan.units.centre, plan.units.half, "identity"
    domain = step_domain(plan.domain)
    trees = [
        [
            table_tree(domain, features, half * kept * (function.values - means[features])[..., c])
            for c in range(k)
        ]
        for features, function in sorted(functions.items())
    ]
    noise = [
        _leaf_noise(tree, features, half * kept * np.sqrt(functions[features].added[..., c]))
        for features, of_function in zip(sorted(functions), trees, strict=True)
        for c, tree in enumerate(of_function)
    ]
    start = marginals.start + sum(means.values())
    return Boosted(plan.domain, trees, middle + half * start, link, noise)


def _leaf_noise(tree: Tree, features: tuple[int, ...], deviation: Floats) -> Floats | None:
    """Return deviations of bins by leaves; None for pairs, and for what is too large to state."""
    if len(features) > 1 or not np.isfinite(deviation).all():
        return None
    bins = np.zeros((len(deviation), len(tree.domain.attributes)), dtype=tree.domain.dtype)
    bins[:, features[0]] = np.arange(len(deviation))
    found = np.zeros(tree.n_leaves)
    np.maximum.at(found, np.searchsorted(tree.leaves, tree.apply(bins)), deviation)
    return found


def _functions(
    plan: BoostPlan, marginals: Marginals, rounds: list[BoostRound]
) -> dict[tuple[int, ...], _Function]:
    n, k = len(rounds), plan.gradients.n_scores
    first = min(int(n * (1 - _AVERAGED)), n - 1)
    sigma = math.sqrt(plan.sums.sigma2) / (plan.gradients.unit * plan.sample_rate)
    functions: dict[tuple[int, ...], _Function] = {}
    for at, (shape, sums) in enumerate(rounds):
        weight = (n - max(at, first)) / (n - first)
        features = tuple(shape.features.tolist())
        stiff = stiffness(plan, marginals, shape)
        # A round takes back some of the noise of those before it, as it does of any error.
        left = 1 - plan.rate * (1 - _DAMPING[plan.gradients.loss] * plan.noise / stiff.leaves)
        of_leaves = (
            step_of(plan, marginals, shape, sums),
            plan.rate * sigma / stiff.leaves,
            left,
            sigma**2 * direct_variance(stiff, plan.rate),
        )
        # The first attribute's part varies fastest in the numbers of the leaves.
        steps, noise, left, direct = (
            one.reshape(*shape.n_parts[::-1], k).transpose(*range(len(features))[::-1], -1)[
                np.ix_(*shape.parts)
            ]
            for one in of_leaves
        )
        values, variance, added = functions.get(features, (0.0, 0.0, 0.0))
        functions[features] = _Function(
            values + weight * steps,
            variance * left**2 + (weight * noise) ** 2,
            added + weight**2 * direct,
        )
    return functions


def _bin_shares(marginals: Marginals, features: tuple[int, ...]) -> Floats:
    """Return the noisy share of the records in each cell of the bins, (bins, ..., 1)."""
    found = np.ones(1)
    for feature in features[::-1]:
        profile = marginals.profiles[feature]
        alone = (profile.share / np.bincount(profile.group))[profile.group]
        found = alone.reshape(-1, *([1] * found.ndim)) * found
    return found


def _shrinkage(spread: float, noise: float) -> float:
    """Return by what a model is multiplied: the share of its spread that noise does not explain.

    Never 0, so that the order of the answers stays.
    """
    return max(1 - noise / spread, _LEAST_KEPT) if spread > 0 else 1.0


class Shapes:
    """The shape of each round, one after the other.

    Attributes take turns in proportion to a power of their use, mixed with equal turns, so that
    one whose use drowned in noise is not lost. Cuts lie between groups, more often between groups
    of many records. The last rounds cut pairs of attributes; which of them, the noisy sums of
    earlier rounds tell for free: the more a pair's leaves differ beyond what each attribute says
    alone, and beyond noise, the more often it is drawn again.
    """

    def __init__(self, plan: BoostPlan, marginals: Marginals) -> None:
        self._plan, self._profiles = plan, marginals.profiles
        self._turns = _turns(marginals.profiles)
        self._credit = self._turns * public_uniform(
            plan.public_seed, "boosting/turns", len(self._turns)
        )
        self._first_pair = plan.rounds - int(plan.rounds * plan.pair_share)
        self._pairs = np.stack(np.triu_indices(len(self._turns), 1), axis=1)
        self._chance = self._turns[self._pairs].prod(axis=1)
        # How often a pair was cut, and how much it told beyond noise, in units of the noise.
        self._seen = np.zeros(len(self._pairs))
        self._gain = np.zeros(len(self._pairs))

    def at(self, number: int) -> FunctionShape:
        """Return the shape of a round; ask for one after the other."""
        if number >= self._first_pair and self._chance.any():
            features, parts = self._next_pair(number), PAIR_PARTS
        else:
            features, parts = [self._next_turn()], self._plan.leaves
        cut = [
            _cut(
                self._profiles[feature],
                parts,
                self._plan.public_seed,
                f"boosting/cuts/{number}/{feature}",
            )
            for feature in features
        ]
        return FunctionShape(
            np.array(features, dtype=np.int64),
            tuple(cut),
            tuple(int(part.max()) + 1 for part in cut),
        )

    def learn(self, shape: FunctionShape, sums: NDArray[np.int64]) -> None:
        """Take note of the noisy sums of a round."""
        if len(shape.features) < 2 or min(shape.n_parts) < 2:
            return
        grid = sums.reshape(*shape.n_parts[::-1], -1) / math.sqrt(self._plan.sums.sigma2)
        grid = grid - grid.mean(axis=0, keepdims=True)
        grid -= grid.mean(axis=1, keepdims=True)
        freedom = math.prod(parts - 1 for parts in shape.n_parts) * grid.shape[-1]
        gain = float((grid**2).sum()) / freedom - 1
        at = np.flatnonzero((self._pairs == np.sort(shape.features)).all(axis=1))[0]
        self._seen[at] += 1
        self._gain[at] += max(1 / (self._seen[at] + 1), _PAIR_NEWS) * (gain - self._gain[at])

    def _next_turn(self) -> int:
        self._credit += self._turns
        one = int(np.argmax(self._credit))
        self._credit[one] -= 1
        return one

    def _next_pair(self, number: int) -> list[int]:
        worth = np.maximum(self._gain + _PAIR_DOUBT / np.sqrt(self._seen + 1), _PAIR_LEAST)
        seed, address = self._plan.public_seed, f"boosting/pair/{number}"
        drawn = public_sample(seed, address, self._chance * worth**2, 1)
        pair: list[int] = self._pairs[drawn[0]].tolist()
        return pair


def shares(shape: FunctionShape, marginals: Marginals) -> NDArray[np.float64]:
    """Return the noisy share of all records in each leaf, as if attributes were independent."""
    found = np.ones(1)
    for feature, part, n in zip(shape.features, shape.parts, shape.n_parts, strict=True):
        profile = marginals.profiles[feature]
        # Bins of a group are in the same part.
        of_group = np.zeros(len(profile.share), dtype=np.int64)
        of_group[profile.group] = part
        found = np.outer(np.bincount(of_group, weights=profile.share, minlength=n), found).ravel()
    return found


def _turns(profiles: list[Profile]) -> NDArray[np.float64]:
    """Return the share of the rounds of each attribute; 0 where there is nothing to cut."""
    possible = np.array([len(profile.share) > 1 for profile in profiles], dtype=np.float64)
    if not possible.any():
        # Noise has joined all bins everywhere: rounds without cuts move the mean alone.
        return np.full(len(profiles), 1 / len(profiles))
    weight = possible * np.array([profile.use for profile in profiles]) ** _USE_POWER
    weight = weight / weight.sum() if weight.sum() > 0 else possible / possible.sum()
    mixed: NDArray[np.float64] = (1 - _EVEN) * weight + _EVEN * possible / possible.sum()
    return mixed


def _cut(profile: Profile, parts: int, seed: int, address: str) -> NDArray[np.int64]:
    """Draw cuts between the groups; return the part of each bin."""
    share = profile.share
    if len(share) == 1:
        return np.zeros_like(profile.group)
    weight = (share[:-1] + share[1:]) ** _CUT_POWER
    cuts = public_sample(seed, address, weight, parts - 1)
    return np.searchsorted(cuts, np.arange(len(share)))[profile.group]
