"""What the auditor attacks in private boosting: all that is released, drawn anew many times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.estimators.audit_median import bounded_domain
from hedgerow.estimators.audit_targets import domain_of
from hedgerow.privacy import NoiseSource
from hedgerow.privacy.audit import Table, Target, families, register
from hedgerow.protocols.boost_plan import BoostPlan, plan_boosting
from hedgerow.protocols.dp_boosting import draw
from hedgerow.tables import encode
from hedgerow.trees.boost_counts import LocalBoostCounts

EPSILON, DELTA = 1.0, 1e-3
"""A delta that few runs can see: a smaller one would hide behind what they cannot tell."""

ROUNDS = 2
RUNS = 4_000


@dataclass(frozen=True)
class BoostViews:
    """Draw models on an audit table and return what the public sees of each.

    Parameters
    ----------
    regression : bool
        Whether classes are read as numbers.
    sample_rate : float
    quieter : float
        How many times less noise is drawn than planned; anything but 1 is broken on purpose.
    """

    regression: bool = False
    sample_rate: float = 1.0
    quieter: float = 1.0

    def plan(self, table: Table) -> BoostPlan:
        """Return the plan of one model."""
        domain = bounded_domain(table) if self.regression else domain_of(table)
        plan = plan_boosting(
            domain,
            epsilon=EPSILON,
            delta=DELTA,
            rounds=ROUNDS,
            leaves=2,
            sample_rate=self.sample_rate,
            capacity=600,
        )
        louder = self.quieter**2
        return replace(
            plan,
            marginals_rho=plan.marginals_rho * louder,
            round_rho=plan.round_rho * louder,
        )

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return histograms and sums, in cells of what one record adds, one row per model."""
        plan = self.plan(table)
        y: Any = table.classes
        if self.regression:
            y = 2.0 * table.classes / (table.n_classes - 1) - 1
        counts = LocalBoostCounts([plan.batch(encode(table.rows, plan.domain, y))])
        return np.array([_seen(plan, counts, source) for _ in range(runs)], dtype=np.int64)


def _seen(plan: BoostPlan, counts: LocalBoostCounts, source: NoiseSource) -> NDArray[np.float64]:
    drawn = draw(counts, plan, source)
    one = plan.marginals.sensitivity / np.sqrt(len(plan.domain.attributes))
    marginals = np.concatenate(drawn.histograms).ravel() / one
    # A leaf may be missing where noise left one group; its place is held.
    sums = np.zeros((len(drawn.rounds), 9, plan.gradients.n_scores))
    for row, done in zip(sums, drawn.rounds, strict=True):
        row[: len(done.sums)] = done.sums / plan.gradients.limit
    # Where the attacker's record would be, in all histograms together.
    target = sum(float(histogram[-1, -1]) for histogram in drawn.histograms) / one
    seen: NDArray[np.float64] = np.floor(np.concatenate([[target], marginals, sums.ravel()]))
    return seen


@register
def boosted_models() -> list[Target]:
    """Targets for classes, numbers and samples, and one broken on purpose."""
    return [
        _target("classes", BoostViews()),
        _target("numbers", BoostViews(regression=True)),
        _target("sampled", BoostViews(sample_rate=0.5)),
        _target("broken-eighth-noise", BoostViews(quieter=8.0), sound=False),
    ]


def _target(name: str, views: BoostViews, *, sound: bool = True) -> Target:
    pairs = [pair for pair in families() if pair[0] in ("nearly empty leaf", "single record")]
    return Target(
        f"dp-boosting/{name}@{EPSILON:g}",
        views,
        pairs,
        claimed=EPSILON,
        delta=DELTA,
        sound=sound,
        kind="estimator",
        runs=RUNS,
    )
