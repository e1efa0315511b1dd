"""What the auditor attacks in private boosting: all that is released, drawn anew many times.

The attacker knows both tables. From what was released follow the scores and gradients of every
record on either table: each noisy number is compared with what it would be on both, and all that
was released comes down to its likelihood ratio.

All known records are of one class, or at one bound, and the record that makes the difference is of
the other: its gradient then is as long as it may be, round after round. Sums of a sample are known
but for its coins; those of the known records hardly matter, as their gradients are nearly 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.curated import domain_of
from hedgerow.audit.catalogue.median import bounded_domain
from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.evidence import outcome
from hedgerow.audit.tables import AuditTable, Side, neighbours, sides
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.boosting.marginals import read_marginals
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.boosting.plan import BoostPlan
from hedgerow.protocols.boosting.rounds import BoostDraws, draw, exact_marginals, step_of
from hedgerow.tables import encode
from hedgerow.trees.counts.boosting import LocalBoostCounts

EPSILON, DELTA = 3.0, 1e-3
"""A delta that few runs can see: a smaller one would hide behind what they cannot tell."""

ROUNDS = 2
RUNS = 2_400
KNOWN = 150
"""Records in each of two bins: enough for noise not to join the bins."""


def one_of_its_class() -> Pair:
    """Return records of one class in two bins, and one more of the other class."""
    rows, classes = np.repeat([[0], [1]], KNOWN, axis=0), np.zeros(2 * KNOWN, dtype=np.int64)
    first = AuditTable(rows, classes, (2,), 2)
    second = AuditTable(np.vstack([rows, [[1]]]), np.append(classes, 1), (2,), 2)
    return neighbours("the only record of its class", first, second)


@dataclass(frozen=True)
class BoostViews:
    """What the public sees of drawn models; noise `quieter` than planned is broken on purpose."""

    regression: bool = False
    sample_rate: float = 1.0
    quieter: float = 1.0

    def plan(self, table: AuditTable) -> BoostPlan:
        """Return the plan of one model."""
        domain = bounded_domain(table) if self.regression else domain_of(table)
        options = BoostOptions(
            epsilon=EPSILON,
            delta=DELTA,
            n_estimators=ROUNDS,
            max_leaves=2,
            subsample=self.sample_rate,
        )
        plan = options.plan(domain, 600)
        louder = self.quieter**2
        return replace(
            plan,
            marginals_rho=plan.marginals_rho * louder,
            round_rho=plan.round_rho * louder,
        )

    def counts(self, plan: BoostPlan, table: AuditTable) -> LocalBoostCounts:
        """Return a table as boosting counts it."""
        y: Any = table.classes
        if self.regression:
            y = 2.0 * table.classes / (table.n_classes - 1) - 1
        return LocalBoostCounts([plan.batch(encode(table.rows, plan.domain, y))])

    def __call__(self, side: Side, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return what each model tells about which table it is of, one row per model."""
        plan = self.plan(side.table)
        table, first, second = (self.counts(plan, each) for each in side)
        evidence = [_log_ratio(plan, draw(table, plan, source), first, second) for _ in range(runs)]
        return outcome(np.array(evidence))[:, None]


def _log_ratio(
    plan: BoostPlan, drawn: BoostDraws, first: LocalBoostCounts, second: LocalBoostCounts
) -> float:
    """Return the log likelihood ratio of all releases, the second table over the first."""
    marginals = read_marginals(plan, drawn.histograms)
    exact = [exact_marginals(each, plan) for each in (first, second)]
    noisy = np.concatenate(drawn.histograms)
    evidence = _gaussian(plan.marginals.sigma2, noisy - exact[0], exact[1] - exact[0])
    for each in (first, second):
        each.begin(plan.gradients, marginals.start)
    for shape, sums in drawn.rounds:
        before, after = (each.sums(shape, None) for each in (first, second))
        rest = sums - plan.sample_rate * before
        inside = _gaussian(plan.sums.sigma2, rest, after - before)
        if plan.sample_rate < 1:
            # Whether the record was in the sample nobody knows.
            coins = np.log([plan.sample_rate, 1 - plan.sample_rate])
            inside = float(np.logaddexp(coins[0] + inside, coins[1]))
        evidence += inside
        step = step_of(plan, marginals, shape, sums)
        for each in (first, second):
            each.add(shape, step)
    return evidence


def _gaussian(variance: float, rest: NDArray[Any], moved: NDArray[Any]) -> float:
    """Log ratio of Gaussian noise `rest`, if the record has moved the values, over if not."""
    return float((moved * (2.0 * rest - moved)).sum() / (2.0 * variance))


def boosted_models() -> list[AuditTarget]:
    """Targets for classes, numbers and samples, and one broken on purpose."""
    return [
        _target("classes", BoostViews()),
        _target("numbers", BoostViews(regression=True)),
        _target("sampled", BoostViews(sample_rate=0.5)),
        _target("broken-eighth-noise", BoostViews(quieter=8.0), sound=False),
    ]


def _target(name: str, views: BoostViews, *, sound: bool = True) -> AuditTarget:
    return AuditTarget(
        f"dp-boosting/{name}@{EPSILON:g}",
        views,
        sides([one_of_its_class()]),
        claimed=EPSILON,
        delta=DELTA,
        sound=sound,
        kind="estimator",
        runs=RUNS if sound else RUNS // 4,
        gaussian=True,
    )
