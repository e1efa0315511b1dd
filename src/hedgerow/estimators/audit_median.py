"""What the auditor attacks in forests of private medians: strict accounting, and the paper's.

Most targets draw many trees on the same rows side by side, each with the epsilon of the claim;
``median-forest/fit`` goes through `fit` itself, with rows dealt to two trees by their coins.

The pair that the paper's accounting does not survive has K equal attributes, each with a good and
a bad cut. The choice between attributes takes a good cut wherever one was drawn, so a bad one is
released only if all K medians were bad; one record more makes each of them less likely by up to
e^epsilon_s, and all of them together by up to e^(K epsilon_s), where e^epsilon_s is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.estimators.audit_targets import domain_of
from hedgerow.estimators.median_forest import MedianForestClassifier
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.privacy.audit import Pair, Table, Target, families, neighbours, register
from hedgerow.protocols.median_forest import draw_forest
from hedgerow.protocols.median_plan import MedianPlan, plan_median
from hedgerow.tables import Domain, encode
from hedgerow.tables import Target as DomainTarget
from hedgerow.trees.forest_counts import LocalCounts

EPSILON = 1.0
RUNS = 40_000
FIT_RUNS = 1_000
PAPER_EPSILON = 4.0
"""Of the paper's claim: the larger, the fewer runs show how far off it is."""
CAPACITY = 600
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 10_000
EQUAL = 5
"""Equal attributes of the adversarial table: K of the paper's experiments."""
THIRD = 150


def equal_attributes(n: int = EQUAL) -> Pair:
    """Return records in three bins of n equal attributes, and one more in the first bin.

    The cut after the first bin separates the classes, the one after the second divides them as
    badly as can be, and both are about equally likely medians. One more record in the first bin
    makes the first cut more balanced by 1, and the second less.
    """
    bins = np.repeat([0, 1, 2], [THIRD, THIRD, THIRD])

    def table(first: list[int]) -> Table:
        column = np.concatenate([first, bins]).astype(np.int64)
        rows = np.repeat(column[:, None], n, axis=1)
        return Table(rows, (column > 0).astype(np.int64), (3,) * n, 2)

    return neighbours(f"{n} equal attributes with a good and a bad cut", table([]), table([0]))


def bounded_domain(table: Table) -> Domain:
    """Return the domain of an audit table whose classes are numbers between -1 and 1."""
    domain = domain_of(table)
    return domain.model_copy(update={"target": DomainTarget(name="y", bounds=(-1.0, 1.0))})


@dataclass(frozen=True)
class MedianViews:
    """Draw trees on an audit table and return what the public sees of each.

    Parameters
    ----------
    options
        Of `plan_median`.
    drawn_at
        Epsilon of each tree; another figure than the claim is broken on purpose.
    regression
        Whether classes are read as numbers.
    """

    options: dict[str, Any] = field(default_factory=dict)
    drawn_at: float = EPSILON
    regression: bool = False

    def plan(self, table: Table, copies: int = 1) -> MedianPlan:
        """Return the plan of independent trees that all see the same rows."""
        domain = bounded_domain(table) if self.regression else domain_of(table)
        options: dict[str, Any] = {"depth": 1, "variant": "exp", "candidates": len(table.n_bins)}
        options |= self.options
        return plan_median(
            domain,
            epsilon=self.drawn_at * copies,
            n_trees=copies,
            partition=False,
            capacity=CAPACITY,
            **options,
        )

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return splits and leaves as integers, one row per tree."""
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        return np.concatenate([self._some(table, n, source) for n in parts])

    def _some(self, table: Table, copies: int, source: NoiseSource) -> NDArray[np.int64]:
        plan = self.plan(table, copies)
        target = 2.0 * table.classes / (table.n_classes - 1) - 1 if self.regression else None
        y = table.classes if target is None else target
        counts = LocalCounts([plan.batch(encode(table.rows, plan.domain, y))])
        drawn = draw_forest(counts, plan, source)
        seen = [a.reshape(copies, -1) for s in drawn.levels for a in (s.feature, s.cut)]
        leaves = drawn.leaves.reshape(copies, -1)
        if plan.units is not None:
            # Sums are seen in cells of one record's reach; finer ones hold too few runs each.
            leaves = leaves / np.tile([1.0, plan.units.most], leaves.shape[1] // 2)
        return np.hstack([*seen, np.floor(leaves)]).astype(np.int64)

    def ledger(self, table: Table) -> Ledger:
        """Return the ledger of one tree."""
        plan = self.plan(table)
        ledger = Ledger(domain=plan.domain)
        ledger.charge(*plan.releases())
        return ledger


@dataclass(frozen=True)
class FittedForests:
    """Fit the estimator as users do, but for the noise; rows are dealt to two trees."""

    def fit(self, table: Table, source: NoiseSource) -> MedianForestClassifier:
        """Fit one forest."""
        model = MedianForestClassifier(
            EPSILON,
            domain_of(table),
            n_estimators=2,
            max_depth=1,
            split_share=0.2,
            shrinkage=False,
            partition=True,
        )
        model._noise = source
        return model.fit(table.rows, table.classes)

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return splits and leaf counts of both trees, one row per forest."""
        rows = []
        for _ in range(runs):
            trees = self.fit(table, source).forest_.trees
            parts = [np.concatenate([t.feature[:1], t.cut[:1], t.value[1:].ravel()]) for t in trees]
            rows.append(np.concatenate(parts))
        return np.array(rows, dtype=np.int64)


@register
def median_forests() -> list[Target]:
    """Targets for strict accounting, one broken on purpose, and the paper's claim."""
    equal = [equal_attributes()]
    splits = {"split_share": 0.98}
    paper = MedianViews({"accounting": "paper", **splits}, drawn_at=PAPER_EPSILON)
    base = MedianViews({"variant": "base", "candidates": 1})
    fitted = [pair for pair in families() if pair[0] in ("nearly empty leaf", "single record")]
    return [
        _target("base", base, families()),
        _target("exp", MedianViews(splits), equal),
        _target("flip", MedianViews({"variant": "flip", **splits}), equal),
        _target("max", MedianViews({"variant": "max"}), families()),
        _target("leaves", MedianViews({"split_share": 0.1}), families()),
        _target("regression-base", MedianViews(base.options, regression=True), families()),
        _target("regression", MedianViews({"variant": "flip"}, regression=True), equal),
        Target(
            f"median-forest/fit@{EPSILON:g}",
            FittedForests(),
            fitted,
            claimed=EPSILON,
            delta=2.0**-56,
            kind="estimator",
            runs=FIT_RUNS,
        ),
        _target(
            "broken-halved-noise",
            MedianViews({"split_share": 0.1}, drawn_at=2 * EPSILON),
            families(),
            sound=False,
        ),
        _target(
            "broken-paper-medians",
            paper,
            equal,
            sound=False,
            claimed=PAPER_EPSILON,
        ),
    ]


def _target(
    name: str,
    views: MedianViews,
    pairs: list[Pair],
    *,
    sound: bool = True,
    claimed: float = EPSILON,
) -> Target:
    guarantee = views.ledger(pairs[0][1]).formal_total("public")
    return Target(
        f"median-forest/{name}@{claimed:g}",
        views,
        pairs,
        claimed=claimed,
        proven=guarantee.epsilon,
        delta=guarantee.delta,
        sound=sound,
        kind="estimator",
        runs=RUNS,
    )
