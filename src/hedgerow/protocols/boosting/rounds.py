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
from hedgerow.protocols.boosting.marginals import Marginals, read_marginals
from hedgerow.protocols.boosting.plan import COUNT_UNITS, BoostPlan
from hedgerow.protocols.boosting.shapes import Shapes, shares
from hedgerow.tables import check_capacity
from hedgerow.trees.additive import table_tree
from hedgerow.trees.boosted import Boosted, Link, step_domain
from hedgerow.trees.counts.boosting import BoostCounts, Shape
from hedgerow.trees.counts.coins_of_rows import draw_key

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
    """Charge a plan and train.

    Parameters
    ----------
    counts : BoostCounts
        The rows.
    plan : BoostPlan
    ledger : Ledger
        Charged before anything is drawn; marked as not private if the noise is seeded.
    source : NoiseSource
    capacity : int, optional
        Refuse more records than this.
    tell : callable
        Told after every round.

    Raises
    ------
    HedgerowError
        H112 for more records than the capacity, H202 for a domain read from the data unless the
        ledger is marked as not private; nothing is charged.
    """
    if not plan.domain.is_public and not ledger.not_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {plan.domain.provenance!r}")
    if capacity is not None:
        check_capacity(counts.n_records, capacity)
    if not source.private:
        ledger.mark_not_private("the noise was seeded")
    ledger.charge(*plan.releases())
    return assemble(plan, draw(counts, plan, source, tell))


class Round(NamedTuple):
    """One round: its public leaves, and what was released of them, int64 (leaves, k)."""

    shape: Shape
    sums: NDArray[np.int64]


class Drawn(NamedTuple):
    """All that was released: noisy histograms (bins, classes or 2), and the rounds."""

    histograms: list[NDArray[np.int64]]
    rounds: list[Round]


def draw(
    counts: BoostCounts,
    plan: BoostPlan,
    source: NoiseSource,
    tell: Tell = lambda done, of: None,
) -> Drawn:
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
        rounds.append(Round(shape, sums))
        tell(at + 1, plan.rounds)
    return Drawn(histograms, rounds)


class Stiffness(NamedTuple):
    """What a round's sums are divided by: in each leaf (leaves, k), and of all records, (k,).

    Records as the marginals know them, times the second derivative there, and the damping.
    """

    share: Floats
    leaves: Floats
    records: Floats


def stiffness(plan: BoostPlan, marginals: Marginals, shape: Shape) -> Stiffness:
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
    plan: BoostPlan, marginals: Marginals, shape: Shape, noisy: NDArray[np.int64]
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


class _Function(NamedTuple):
    """Rounds over the same attributes: values (bins, ..., k), and the variance of their noise."""

    values: Floats
    variance: Floats


def assemble(plan: BoostPlan, drawn: Drawn) -> Boosted:
    """Add rounds up by their attributes, each as often as it is in the averaged iterates.

    What the functions have in common goes to the start; the rest is pulled towards 0 by as much of
    it as noise explains (`_kept`).
    """
    marginals = read_marginals(plan, drawn.histograms)
    functions = _functions(plan, marginals, drawn.rounds)
    weights = {features: _bin_shares(marginals, features) for features in functions}
    means = {
        features: (weights[features] * function.values).sum(axis=tuple(range(len(features))))
        for features, function in functions.items()
    }
    kept = _kept(
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
    start = marginals.start + sum(means.values())
    return Boosted(plan.domain, trees, middle + half * start, link)


def _functions(
    plan: BoostPlan, marginals: Marginals, rounds: list[Round]
) -> dict[tuple[int, ...], _Function]:
    n, k = len(rounds), plan.gradients.n_scores
    first = min(int(n * (1 - _AVERAGED)), n - 1)
    sigma = math.sqrt(plan.sums.sigma2) / (plan.gradients.unit * plan.sample_rate)
    functions: dict[tuple[int, ...], _Function] = {}
    for at, (shape, sums) in enumerate(rounds):
        weight = (n - max(at, first)) / (n - first)
        features = tuple(shape.features.tolist())
        stiff = stiffness(plan, marginals, shape).leaves
        # A round takes back some of the noise of those before it, as it does of any error.
        left = 1 - plan.rate * (1 - _DAMPING[plan.gradients.loss] * plan.noise / stiff)
        of_leaves = (step_of(plan, marginals, shape, sums), plan.rate * sigma / stiff, left)
        # The first attribute's part varies fastest in the numbers of the leaves.
        steps, noise, left = (
            one.reshape(*shape.n_parts[::-1], k).transpose(*range(len(features))[::-1], -1)[
                np.ix_(*shape.parts)
            ]
            for one in of_leaves
        )
        values, variance = functions.get(features, (0.0, 0.0))
        functions[features] = _Function(
            values + weight * steps, variance * left**2 + (weight * noise) ** 2
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


def _kept(spread: float, noise: float) -> float:
    """Return by what a model is multiplied: the share of its spread that noise does not explain.

    Never 0, so that the order of the answers stays.
    """
    return max(1 - noise / spread, _LEAST_KEPT) if spread > 0 else 1.0
