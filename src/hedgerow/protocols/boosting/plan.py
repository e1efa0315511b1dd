"""What is fixed about private boosting before a row is touched: rounds, leaves and budget.

The rules follow from one public number, the *signal*: how many records' worth of noise the whole
budget can drown, capacity * sqrt(2 rho). They were chosen on two data sets and confirmed on
others, see docs/explanation/private-boosting.md.

Releases, all to the public, fixed in advance and charged together:

1. The marginals. One record adds 1 to one cell of each of d histograms, so that the sum of squares
   moves by d. With a numeric target it adds `COUNT_UNITS` to one cell of each and at most `HALF`
   to another.
2. Per round the sums of gradients in the leaves. A record is in one leaf and its gradient is a
   vector of whole numbers, of a length of at most `limit`
   (`counts.boost_kernels.add_gradients`): the sum of squares moves by at most limit^2.

What else a model is made of follows from these and from public randomness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, DiscreteGaussian, Release, rho_for, step
from hedgerow.privacy.accounting import tightest
from hedgerow.privacy.mechanisms.discrete_gaussian import l2_sensitivity
from hedgerow.privacy.planned import cost, planned, planned_total
from hedgerow.privacy.planning import largest
from hedgerow.protocols.growers.units import Units
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.boosting import Gradients
from hedgerow.trees.counts.forest import Batch

MARGINALS = "marginals of all attributes"
ROUNDS = "gradient sums of a round's leaves"

UNIT = 1 << 16
"""Units of a gradient of 1."""

_TARGET_BITS = 12
HALF = 1 << _TARGET_BITS
"""Units of half the range of a numeric target."""

COUNT_UNITS = HALF // 2
"""Weight of a count beside a sum in the marginals of a numeric target: they only serve shapes."""

MOST_ROUNDS = 10_000
_LEAST_ROUNDS = 80
# With pairs there have to be rounds enough to try each of few pairs several times.
_PAIR_ROUNDS, _FEW_PAIRS, _PAIR_SIGNAL = 150, 45, 40.0
_MARGINALS_SHARE = 0.3
_STEPS = 4
_MOST_SAMPLED_RHO = 64.0  # of a round with a sample: no larger one is searched for
_CLIP = 0.8
# A residual seldom is as long as half the range of the target.
_CLIP_NUMBER = 0.4


@dataclass(frozen=True)
class BoostPlan:
    """A private boosted model's public parameters; made by `plan_boosting`.

    Attributes
    ----------
    domain : Domain
    delta : float
    rounds, leaves : int
        Rounds, and parts into which a round cuts its attribute.
    pair_share : float
        Share of the rounds, the last ones, that cut two attributes into three parts each.
    rate : float
        Learning rate.
    marginals_rho, round_rho : float
        zCDP of the marginals and of each round.
    sample_rate : float
        Of each round's Poisson sample.
    public_seed : int
    """

    domain: Domain
    delta: float
    rounds: int
    leaves: int
    pair_share: float
    rate: float
    marginals_rho: float
    round_rho: float
    sample_rate: float
    public_seed: int

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None for a numeric target."""
        classes = None if self.domain.target is None else self.domain.target.classes
        return None if classes is None else len(classes)

    @cached_property
    def gradients(self) -> Gradients:
        """Gradients as whole numbers."""
        if self.n_classes is None:
            return Gradients("squared", 1, HALF, int(_CLIP_NUMBER * UNIT), UNIT)
        if self.n_classes == 2:
            return Gradients("logistic", 1, HALF, int(_CLIP * UNIT), UNIT)
        return Gradients("softmax", self.n_classes, HALF, int(_CLIP * UNIT), UNIT)

    @cached_property
    def marginals(self) -> DiscreteGaussian:
        """Mechanism of the marginals."""
        return DiscreteGaussian(self.marginals_rho, self.marginals_moved)

    @property
    def marginals_moved(self) -> int:
        """How far one record moves the marginals: the sum of squares."""
        one = 1 if self.n_classes is not None else COUNT_UNITS**2 + HALF**2
        return one * len(self.domain.attributes)

    @cached_property
    def sums(self) -> DiscreteGaussian:
        """Mechanism of each round's sums."""
        return DiscreteGaussian(self.round_rho, self.gradients.limit**2)

    @property
    def noise(self) -> float:
        """Noise of the sums, in records of gradient 1, if all rounds were one."""
        sigma = math.sqrt(self.sums.sigma2 / self.rounds) / self.gradients.unit
        return sigma / self.sample_rate

    def __str__(self) -> str:
        return planned(self._heading, self.releases(), self.delta)

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        total = planned_total(self.releases(), self.delta)
        return f"<BoostPlan: {self._heading}; {cost(total)}>"

    @property
    def _heading(self) -> str:
        task = "regression" if self.n_classes is None else "classification"
        pairs = f", {self.pair_share:.0%} of them on two attributes" if self.pair_share else ""
        return (
            f"{task}, {self.rounds:,} rounds{pairs}, {self.leaves} leaves, "
            f"learning rate {self.rate:g}"
        )

    def releases(self) -> list[Release]:
        """All that will be released."""
        return _releases(self)

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Return encoded rows as they are counted."""
        if encoded.domain is not self.domain and encoded.domain != self.domain:
            raise Code.BAD_DOMAIN.error(
                expected="a table of the domain that was planned for", found="another domain"
            )
        if encoded.target is None:
            raise Code.BAD_TARGET.error(found="a table without a target")
        if self.n_classes is None:
            counted = self.units.count(encoded).target
            assert counted is not None
            return Batch(encoded.bins, counted.astype(np.int64), encoded.present, number)
        return Batch(encoded.bins, encoded.target, encoded.present, number)

    @property
    def units(self) -> Units:
        """Units of a numeric target."""
        if self.domain.target is None or self.domain.target.bounds is None:
            raise Code.BAD_TARGET.error(found="a target without bounds")
        low, high = self.domain.target.bounds
        return Units(float(low), float(high), _TARGET_BITS)


def plan_boosting(
    domain: Domain,
    *,
    epsilon: float,
    delta: float,
    rounds: int | None = None,
    leaves: int | None = None,
    rate: float | None = None,
    sample_rate: float = 1.0,
    public_seed: int = 0,
    capacity: int | None = None,
) -> BoostPlan:
    """Plan private boosting from public numbers.

    Parameters
    ----------
    domain : Domain
        Public description of the table.
    epsilon, delta : float
        Whole budget, add/remove neighbours.
    rounds, leaves, rate
        None for the public rules, which need `capacity`.
    sample_rate : float
        Probability with which a record is in a round's sample, by a coin that nobody sees.
    public_seed : int
        Of the shapes.
    capacity : int
        Public upper bound on the number of records.

    Raises
    ------
    HedgerowError
        H116 without classes or bounds, H208 without a capacity, H209 for noise that is too large
        to be drawn, H501 for what cannot be planned.
    """
    target = domain.target
    if target is None or (target.classes is None and target.bounds is None):
        raise Code.BAD_TARGET.error(found="a domain whose target has neither classes nor bounds")
    if target.classes is not None and len(target.classes) < 2:
        raise Code.BAD_TARGET.error(found="a target of one class", expected="two or more classes")
    if target.bounds is not None and not (Units(*target.bounds, _TARGET_BITS).half > 0):
        raise Code.BAD_TARGET.error(
            found=f"bounds {target.bounds}", expected="bounds that floats tell apart"
        )
    if int(domain.n_bins.max(initial=0)) < 2:
        raise Code.BAD_PARAMETER.error(
            expected="at least one attribute with two bins", found="none to learn from"
        )
    if capacity is None and None in (rounds, leaves):
        raise Code.MISSING_CAPACITY.error(
            found="no capacity, and rounds and leaves by the public rule",
            fix="declare capacity in the domain, or set n_estimators and max_leaves",
        )
    rho = rho_for(epsilon, delta)
    if not rho > 0:
        raise Code.BAD_PARAMETER.error(
            expected="an epsilon that some noise can keep at this delta",
            found=f"epsilon={epsilon:g}, delta={delta:g}",
        )
    signal = (capacity or 0) * math.sqrt(2 * rho)
    n_pairs = math.comb(int((domain.n_bins > 1).sum()), 2)
    pair_share = _pair_share(signal, n_pairs, target.classes is None)
    if rounds is None:
        least = _LEAST_ROUNDS if target.classes is None or not pair_share else _PAIR_ROUNDS
        rounds = round(min(max(300 * (signal / 11_000) ** 0.4, least), 1_000))
    if leaves is None:
        leaves = 4 if signal < 3_000 else 6 if signal < 30_000 else 8
    marginals_rho = _MARGINALS_SHARE * rho
    plan = BoostPlan(
        domain,
        delta,
        rounds,
        leaves,
        pair_share,
        0.15 if rate is None else rate,
        marginals_rho,
        (rho - marginals_rho) / rounds,
        sample_rate,
        public_seed,
    )
    plan = _with_all_room(plan, epsilon)
    # Noise that cannot be drawn is refused here, where no row was read.
    _ = plan.marginals, plan.sums
    return plan


def _pair_share(signal: float, n_pairs: int, number: bool) -> float:
    """Pairs pay where steps are steep, as those of numbers are, or where there is budget left.

    Or where they are so few that every one can be tried and the best tried again.
    """
    if number:
        return 0.7
    if n_pairs and signal >= _PAIR_SIGNAL * math.sqrt(n_pairs) and n_pairs <= _FEW_PAIRS:
        return 0.5
    return 0.4 if signal >= 15_000 else 0.0


def _with_all_room(plan: BoostPlan, epsilon: float) -> BoostPlan:
    """Lower the noise as far as epsilon allows, by what the ledger counts of these very releases.

    Of the marginals and all rounds alike; where rounds have samples, of the rounds alone.
    """
    # What else is in a plan changes nothing of what its releases cost.
    costs = tuple((r.rho, r.sensitivity, r.times, r.sample_rate) for r in _releases(plan))
    factor = _room(costs, plan.delta, epsilon)
    marginals = plan.marginals_rho * (factor if plan.sample_rate == 1 else 1.0)
    return replace(plan, marginals_rho=marginals, round_rho=plan.round_rho * factor)


@lru_cache(maxsize=64)
def _room(
    costs: tuple[tuple[float | None, float, int, float], ...], delta: float, epsilon: float
) -> float:
    """Return by how much, at least 1, the rho of releases may grow, given as in `Release`."""
    sampled = any(rate < 1 for *_, rate in costs)

    def total(factor: float, known: float = 1.0) -> float:
        releases = []
        for rho, sensitivity, times, rate in costs:
            assert rho is not None
            grown = rho * factor if rate < 1 or not sampled else rho
            if rate < 1 and grown > _MOST_SAMPLED_RHO:
                return math.inf
            releases.append(
                Release(
                    DiscreteGaussian.name,
                    math.inf,
                    0.0,
                    sensitivity * known,
                    ROOT,
                    "public",
                    "plan",
                    times=times,
                    rho=grown,
                    sample_rate=rate,
                )
            )
        return tightest(releases, delta).epsilon

    if not sampled:
        return max(1.0, largest(lambda factor: total(factor) <= epsilon, 1.0, 1e-6))
    # Losses of samples take long to compute: a few steps from where moments, which do not look at
    # sensitivities, have led to. Epsilon grows like a root of rho, or faster where it is large.
    best = factor = largest(lambda factor: total(factor, 1e-150) <= epsilon, 1.0, 1e-3)
    for _ in range(_STEPS):
        found = total(factor)
        if found <= epsilon:
            best = max(best, factor)
        if not 0 < found < math.inf:
            break
        factor *= (epsilon / found) ** 1.7
    return max(1.0, best)


def _releases(plan: BoostPlan) -> list[Release]:
    widths = 2 if plan.n_classes is None else plan.n_classes
    cells = int(plan.domain.n_bins.sum()) * widths
    leaves = max(plan.leaves, 9 if plan.pair_share else 0)
    return [
        Release(
            mechanism=DiscreteGaussian.name,
            epsilon=math.inf,
            delta=0.0,
            sensitivity=l2_sensitivity(plan.marginals_moved),
            scope=ROOT / step("marginals"),
            audience="public",
            reason=MARGINALS,
            variables=cells,
            rho=plan.marginals_rho,
        ),
        Release(
            mechanism=DiscreteGaussian.name,
            epsilon=math.inf,
            delta=0.0,
            sensitivity=l2_sensitivity(plan.gradients.limit**2),
            scope=ROOT / step("rounds"),
            audience="public",
            reason=ROUNDS,
            times=plan.rounds,
            variables=leaves * plan.gradients.n_scores,
            rho=plan.round_rho,
            sample_rate=plan.sample_rate,
        ),
    ]
