"""What the auditor attacks in forests of private medians: strict accounting, and the paper's.

Most targets draw many trees on the same rows side by side, each with the epsilon of the claim;
``median-forest/fit`` goes through `fit` itself, with rows dealt to two trees by their coins. The
attacker knows all records but one (`hedgerow.audit.catalogue.paths`).

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

from hedgerow.audit.catalogue.curated import EPSILON, domain_of, target_of
from hedgerow.audit.catalogue.paths import class_values, known_of, path_evidence, record_of
from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.tables import AuditTable, Side, families, neighbours, sides
from hedgerow.estimators.median_forest import MedianForestClassifier
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.median.forest import draw_forest
from hedgerow.protocols.median.options import MedianOptions
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.tables import Domain, Target, encode
from hedgerow.trees.counts.forest import LocalCounts

FIT_RUNS = 1_000
PAPER_EPSILON = 4.0
"""Of the paper's claim: the larger, the fewer runs show how far off it is."""
CAPACITY = 600
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 10_000
EQUAL = 5
"""Equal attributes of the adversarial table: K of the paper's experiments."""
THIRD = 150


def equal_attributes() -> Pair:
    """Return records in three bins of `EQUAL` equal attributes, and one more in the first bin.

    The cut after the first bin separates the classes, the one after the second divides them as
    badly as can be; both are about equally likely medians. One more record in the first bin makes
    the first cut more balanced by 1, and the second less.
    """
    bins = np.repeat([0, 1, 2], [THIRD, THIRD, THIRD])

    def table(first: list[int]) -> AuditTable:
        column = np.concatenate([bins, first]).astype(np.int64)
        rows = np.repeat(column[:, None], EQUAL, axis=1)
        return AuditTable(rows, (column > 0).astype(np.int64), (3,) * EQUAL, 2)

    return neighbours(f"{EQUAL} equal attributes with a good and a bad cut", table([]), table([0]))


def unbalanced() -> Pair:
    """Return records of which one cut divides more evenly, and one record that makes it better.

    One more record in the middle bin makes the first cut more balanced by 1 and the second less,
    which was behind already: where it is chosen all the same, the record was missing. It is the
    only one of its class, so that its leaf tells as much.
    """
    rows = np.repeat([0, 1, 2], [9, 3, 1])[:, None]
    first = AuditTable(rows, np.zeros(13, dtype=np.int64), (3,), 2)
    second = AuditTable(np.vstack([rows, [[1]]]), np.append(first.classes, 1), (3,), 2)
    return neighbours("a record in the middle of two unequal cuts", first, second)


def bounded_domain(table: AuditTable) -> Domain:
    """Return the domain of an audit table whose classes are numbers between -1 and 1."""
    domain = domain_of(table)
    return domain.model_copy(update={"target": Target(name="y", bounds=(-1.0, 1.0))})


@dataclass(frozen=True)
class MedianViews:
    """What the public sees of trees; `drawn_at` another epsilon they are broken on purpose."""

    options: dict[str, Any] = field(default_factory=dict)
    drawn_at: float = EPSILON
    regression: bool = False

    def plan(self, table: AuditTable, copies: int = 1) -> MedianPlan:
        """Return the plan of independent trees that all see the same rows."""
        domain = bounded_domain(table) if self.regression else domain_of(table)
        options: dict[str, Any] = {
            "epsilon": self.drawn_at * copies,
            "n_estimators": copies,
            "max_depth": 1,
            "variant": "exp",
            "max_features": len(table.n_bins),
            "split_share": 0.5,
        }
        return MedianOptions(**options | self.options).plan(domain, CAPACITY)

    def __call__(self, side: Side, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return what trees tell about the record, one row per tree."""
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        return np.concatenate([self._some(side, n, source) for n in parts])

    def _some(self, side: Side, copies: int, source: NoiseSource) -> NDArray[np.int64]:
        table, known = side.table, known_of(side)
        plan = self.plan(table, copies)
        y = _numbers(table) if self.regression else table.classes
        counts = LocalCounts([plan.batch(encode(table.rows, plan.domain, y))])
        drawn = draw_forest(counts, plan, source)
        levels = [
            (split.feature.reshape(copies, -1), split.cut.reshape(copies, -1))
            for split in drawn.levels
        ]
        leaves = drawn.leaves.reshape(copies, -1, drawn.leaves.shape[-1])
        values: NDArray[Any] = class_values(known)
        if plan.units is not None:
            # Sums are seen in cells of one record's reach; finer ones hold too few runs each.
            leaves = leaves / np.array([1.0, plan.units.most])
            values = np.column_stack([np.ones(len(known.classes)), _numbers(known)])
        return path_evidence(levels, leaves, side, values)

    def ledger(self, side: Side) -> Ledger:
        """Return the ledger of one tree."""
        plan = self.plan(side.table)
        ledger = Ledger(domain=plan.domain)
        ledger.charge(*plan.releases())
        return ledger


@dataclass(frozen=True)
class FittedForests:
    """Fit the estimator as users do, but for the noise; rows are dealt to two trees.

    There is nothing to know but the record itself: what others put into its leaf depends on coins.
    """

    def fit(self, table: AuditTable, source: NoiseSource) -> MedianForestClassifier:
        """Fit one forest."""
        model = MedianForestClassifier(
            EPSILON,
            domain_of(table),
            n_estimators=2,
            max_depth=1,
            split_share=0.1,
            shrinkage=False,
            partition=True,
        )
        model._noise = source
        return model.fit(table.rows, table.classes)

    def __call__(self, side: Side, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return the count of the record's class in its leaf of each tree, the larger first."""
        record, category = record_of(side)
        seen = []
        for _ in range(runs):
            trees = self.fit(side.table, source).forest_.trees
            ways = [1 + int(record[t.feature[0]] > t.cut[0]) for t in trees]
            seen.append([t.value[way, category] for t, way in zip(trees, ways, strict=True)])
        return np.sort(np.array(seen, dtype=np.int64), axis=1)[:, ::-1]


def _numbers(table: AuditTable) -> NDArray[np.float64]:
    """Read classes as numbers between the bounds."""
    return 2.0 * table.classes / (table.n_classes - 1) - 1


def median_forests() -> list[AuditTarget]:
    """Targets for strict accounting, one broken on purpose, and the paper's claim."""
    equal = sides([equal_attributes()])
    every = sides([*families(), unbalanced()])
    paper = MedianViews({"accounting": "paper", "split_share": 0.98}, drawn_at=PAPER_EPSILON)
    halved = MedianViews({"split_share": 0.1}, drawn_at=2 * EPSILON)
    base = MedianViews({"variant": "base", "max_features": 1})
    fitted = sides(pair for pair in families() if pair[0] == "single record")

    def target(name: str, views: MedianViews, pairs: list[Pair], **known: Any) -> AuditTarget:
        return target_of(f"median-forest/{name}", views, pairs=pairs, **known)

    return [
        target("base", base, every),
        target("exp", MedianViews(), every + equal),
        target("flip", MedianViews({"variant": "flip"}), every + equal),
        target("max", MedianViews({"variant": "max"}), every),
        target("leaves", MedianViews({"split_share": 0.1}), every),
        target("regression-base", MedianViews(base.options, regression=True), every),
        target("regression", MedianViews({"variant": "flip"}, regression=True), every + equal),
        AuditTarget(
            f"median-forest/fit@{EPSILON:g}",
            FittedForests(),
            fitted,
            claimed=EPSILON,
            delta=2.0**-56,
            kind="estimator",
            runs=FIT_RUNS,
        ),
        target("broken-halved-noise", halved, every, sound=False),
        target("broken-paper-medians", paper, equal, sound=False, claimed=PAPER_EPSILON),
    ]
