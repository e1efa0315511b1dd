"""What the auditor attacks in this room: every private estimator.

Most targets draw many trees side by side from the plan that `DPTreeClassifier.fit` makes and
draws from, which gives the auditor enough runs; ``dp-tree/fit`` goes through `fit` itself, with
fewer. The attacker knows all records but one (`hedgerow.audit.catalogue.paths`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.paths import Level, class_values, known_of, path_evidence
from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.tables import AuditTable, Side, families, sides
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.trees.growing.private import DrawnTree

EPSILON = 1.0
RUNS = 100_000
# A fit takes some milliseconds: enough runs to prove up to epsilon 4.9, few enough to wait for.
FIT_RUNS = 1_600
FEW = 10_000
CAPACITY = 300
# For the public rule of depths: two levels, and one for tables of more candidates.
SMALL = 30
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 10_000


@dataclass
class DPTreeViews:
    """What the public sees of models; `drawn_at` another epsilon they are broken on purpose."""

    parameters: dict[str, Any] = field(default_factory=dict)
    drawn_at: float = EPSILON

    capacity: int = CAPACITY

    def __call__(self, side: Side, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return what trees tell about the record, one row per model."""
        levels, leaves = self.draw(side.table, runs, source)
        return path_evidence(levels, leaves, side, class_values(known_of(side)))

    def draw(
        self, table: AuditTable, runs: int, source: NoiseSource
    ) -> tuple[list[Level], NDArray[np.int64]]:
        """Return the splits level by level, and leaf counts (runs, leaves, classes)."""
        domain = domain_of(table, self.capacity)
        plan = DPTreeClassifier(self.drawn_at, domain, **self.parameters).plan(domain)
        encoded = encode(table.rows, domain, table.classes)
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        drawn = [_releases_of(plan.draw(encoded, source, n), n) for n in parts]
        levels = zip(*(levels for levels, _ in drawn), strict=True)
        joined = [tuple(map(np.concatenate, zip(*level, strict=True))) for level in levels]
        return joined, np.concatenate([leaves for _, leaves in drawn])  # type: ignore[return-value]

    def ledger(self, side: Side) -> Ledger:
        """Return the ledger of one fit; it is the same for every table of a domain."""
        return self.fit(side.table, NoiseSource.insecure_seeded(0)).privacy_

    def fit(self, table: AuditTable, source: NoiseSource) -> DPTreeClassifier:
        """Fit the estimator as users do, but for the noise, which is the auditor's."""
        model = DPTreeClassifier(EPSILON, domain_of(table, self.capacity), **self.parameters)
        model._noise = source
        return model.fit(table.rows, table.classes)


class FittedViews(DPTreeViews):
    """The same through `fit`, one model of one split after another."""

    def draw(
        self, table: AuditTable, runs: int, source: NoiseSource
    ) -> tuple[list[Level], NDArray[np.int64]]:
        """Return the splits level by level, and leaf counts (runs, leaves, classes)."""
        trees = [self.fit(table, source).tree_ for _ in range(runs)]
        feature, cut = (np.array([getattr(t, of)[:1] for t in trees]) for of in ("feature", "cut"))
        return [(feature, cut)], np.array([t.value[1:] for t in trees], dtype=np.int64)


def private_trees() -> list[AuditTarget]:
    """Targets for `DPTreeClassifier`: its options, its `fit`, and one broken on purpose."""
    one_level: dict[str, Any] = {"criterion": "max", "max_depth": 1}
    leaves = one_level | {"split_share": 0.1}
    small = [pair for pair in families() if len(pair[2].classes) <= SMALL]
    return [
        target_of("dp-tree", DPTreeViews(capacity=SMALL), pairs=sides(small)),
        target_of("dp-tree/max", DPTreeViews(one_level)),
        target_of("dp-tree/gini", DPTreeViews(one_level | {"criterion": "gini"})),
        target_of("dp-tree/entropy", DPTreeViews(one_level | {"criterion": "entropy"})),
        target_of("dp-tree/wary", DPTreeViews(one_level | {"branching": "wary"})),
        target_of("dp-tree/mostly-leaves", DPTreeViews(leaves)),
        target_of("dp-tree/mostly-splits", DPTreeViews(one_level | {"split_share": 0.9})),
        target_of("dp-tree/fit", FittedViews(leaves), runs=FIT_RUNS),
        target_of(
            "dp-tree/broken-halved-noise", DPTreeViews(leaves, drawn_at=2 * EPSILON), sound=False
        ),
    ]


class HasLedger(Protocol):
    """What an auditor draws and what its ledger says."""

    @property
    def drawn_at(self) -> float:
        """The epsilon of the noise."""

    def __call__(self, table: Any, runs: int, source: NoiseSource, /) -> NDArray[np.int64]:
        """Return what is seen, one row per model."""

    def ledger(self, table: Any, /) -> Ledger:
        """Return the ledger of one model."""


def target_of(
    name: str,
    views: HasLedger,
    *,
    sound: bool = True,
    runs: int = RUNS,
    pairs: list[Pair] | None = None,
    claimed: float = EPSILON,
) -> AuditTarget:
    """Return a target, on all families of tables; on one if it takes few runs."""
    if pairs is None:
        pairs = sides(families())
        if runs < FEW:
            pairs = [pair for pair in pairs if pair[0] == "tie of 240 records"]
    guarantee = views.ledger(pairs[0][1]).formal_total("public")
    return AuditTarget(
        f"{name}@{claimed:g}",
        views,
        pairs,
        claimed=claimed,
        # Where noise is too small, the ledger may speak of what was planned.
        proven=guarantee.epsilon if sound else max(guarantee.epsilon, views.drawn_at),
        delta=guarantee.delta,
        sound=sound,
        kind="estimator",
        runs=runs,
    )


def domain_of(table: AuditTable, capacity: int = CAPACITY) -> Domain:
    """Public domain of an audit table: bins are ordered numbers, classes are numbers."""
    attributes = tuple(
        Attribute(
            name=f"x{i}", kind="numeric", bounds=(0, n - 1), edges=tuple(np.arange(n - 1) + 0.5)
        )
        for i, n in enumerate(table.n_bins)
    )
    classes = tuple(range(table.n_classes))
    return Domain(
        attributes=attributes,
        target=Target(name="class", classes=classes),
        capacity=capacity,
    )


def _releases_of(drawn: DrawnTree, copies: int) -> tuple[list[Level], NDArray[np.int64]]:
    levels = [
        (split.feature.reshape(copies, -1), split.cut.reshape(copies, -1)) for split in drawn.levels
    ]
    classes = drawn.leaf_counts.shape[1]
    return levels, drawn.leaf_counts.reshape(copies, -1, classes)
