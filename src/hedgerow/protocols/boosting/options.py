"""`BoostOptions`: parameters of private boosting, and the public rules behind "auto".

The rules follow from one public number, the *signal*: how many records' worth of noise the whole
budget can drown, capacity * sqrt(2 rho). They were chosen on two data sets and confirmed on
others, see docs/explanation/private-boosting.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, DiscreteGaussian, Release, rho_for
from hedgerow.privacy.accounting import tightest
from hedgerow.privacy.planning import largest
from hedgerow.protocols.boosting.plan import TARGET_BITS, BoostPlan
from hedgerow.protocols.contract import Auto, Epsilon, Options, Rate
from hedgerow.protocols.growers.units import Units
from hedgerow.tables import Domain

_LEAST_ROUNDS = 80
# With pairs there have to be rounds enough to try each of few pairs several times.
_PAIR_ROUNDS, _FEW_PAIRS, _PAIR_SIGNAL = 150, 45, 40.0
_MARGINALS_SHARE = 0.3
_STEPS = 4
_MOST_SAMPLED_RHO = 64.0  # of a round with a sample: no larger one is searched for


class BoostOptions(Options):
    """Private gradient boosting of one curator's table."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    epsilon: Epsilon = Field(
        1.0, description="Budget of the whole model, add/remove neighbours, at delta."
    )
    delta: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        1e-6, description="Probability with which epsilon may not hold."
    )
    n_estimators: Auto | Annotated[int, Field(ge=1, le=10_000)] = Field(
        "auto", description="Rounds; by a public rule from capacity and epsilon."
    )
    max_leaves: Auto | Annotated[int, Field(ge=2, le=256)] = Field(
        "auto", description="Parts into which a round cuts its attribute."
    )
    learning_rate: Auto | Rate = Field(
        "auto", description="Share of a damped Newton step that a round takes."
    )
    subsample: Rate = Field(
        1.0, description="Probability with which a record takes part in a round, by a secret coin."
    )
    public_seed: Annotated[int, Field(ge=0)] = Field(
        0, description="Of the choices that depend on no row; public."
    )

    def plan(self, domain: Domain, capacity: int | None = None) -> BoostPlan:
        """Plan a model from public numbers.

        H116 without classes or bounds, H208 without a capacity where one is needed, H209 for noise
        that is too large to be drawn, H501 for what cannot be planned.
        """
        target = domain.target
        if target is None or (target.classes is None and target.bounds is None):
            raise Code.BAD_TARGET.error(
                found="a domain whose target has neither classes nor bounds"
            )
        if target.classes is not None and len(target.classes) < 2:
            raise Code.BAD_TARGET.error(
                found="a target of one class", expected="two or more classes"
            )
        if target.bounds is not None and not (Units(*target.bounds, TARGET_BITS).half > 0):
            raise Code.BAD_TARGET.error(
                found=f"bounds {target.bounds}", expected="bounds that floats tell apart"
            )
        if int(domain.n_bins.max(initial=0)) < 2:
            raise Code.BAD_PARAMETER.error(
                expected="at least one attribute with two bins", found="none to learn from"
            )
        capacity = domain.capacity if capacity is None else capacity
        if capacity is None and "auto" in (self.n_estimators, self.max_leaves):
            raise Code.MISSING_CAPACITY.error(
                found="no capacity, and rounds and leaves by the public rule",
                fix="declare capacity in the domain, or set n_estimators and max_leaves",
            )
        epsilon = self.epsilon
        rho = rho_for(epsilon, self.delta)
        if not rho > 0:
            raise Code.BAD_PARAMETER.error(
                expected="an epsilon that some noise can keep at this delta",
                found=f"epsilon={epsilon:g}, delta={self.delta:g}",
            )
        signal = (capacity or 0) * math.sqrt(2 * rho)
        n_pairs = math.comb(int((domain.n_bins > 1).sum()), 2)
        pair_share = _pair_share(signal, n_pairs, target.classes is None)
        rounds = self.n_estimators
        if rounds == "auto":
            least = _LEAST_ROUNDS if target.classes is None or not pair_share else _PAIR_ROUNDS
            by_signal: int = round(min(max(300 * (signal / 11_000) ** 0.4, least), 1_000))
            rounds = by_signal
        leaves = self.max_leaves
        if leaves == "auto":
            leaves = 4 if signal < 3_000 else 6 if signal < 30_000 else 8
        marginals_rho = _MARGINALS_SHARE * rho
        plan = BoostPlan(
            domain=domain,
            delta=self.delta,
            rounds=rounds,
            leaves=leaves,
            pair_share=pair_share,
            rate=0.15 if self.learning_rate == "auto" else self.learning_rate,
            marginals_rho=marginals_rho,
            round_rho=(rho - marginals_rho) / rounds,
            sample_rate=self.subsample,
            public_seed=self.public_seed,
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
    costs = tuple((r.rho, r.sensitivity, r.times, r.sample_rate) for r in plan.releases())
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
