"""What the auditor attacks in this room: every private estimator.

Most targets draw many trees side by side from the plan that `DPTreeClassifier.fit` makes and
draws from, which is what gives the auditor enough runs. ``dp-tree/fit`` goes through `fit` itself,
with fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.privacy.audit import Pair, Table, Target, families, register
from hedgerow.tables import Attribute, Domain, encode
from hedgerow.tables import Target as DomainTarget
from hedgerow.trees.private import Drawn

EPSILON = 1.0
RUNS = 40_000
# A fit takes some milliseconds: enough runs to prove up to epsilon 4.9, few enough to wait for.
FIT_RUNS = 2_000
FEW = 10_000
CAPACITY = 300
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 10_000


@dataclass
class Views:
    """Draw models on an audit table and return what the public sees of each.

    Parameters
    ----------
    parameters
        Of the estimator.
    drawn_at
        Epsilon of the noise; another figure than the claim is broken on purpose.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    drawn_at: float = EPSILON

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return splits and leaf counts as integers, one row per model."""
        domain = domain_of(table)
        plan = DPTreeClassifier(self.drawn_at, domain, **self.parameters).plan(domain)
        encoded = encode(table.rows, domain, table.classes)
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        return np.concatenate([_seen(plan.draw(encoded, source, n), n) for n in parts])

    def ledger(self, table: Table) -> Ledger:
        """Return the ledger of one fit; it is the same for every table of a domain."""
        return self.fit(table, NoiseSource.insecure_seeded(0)).privacy_

    def fit(self, table: Table, source: NoiseSource) -> DPTreeClassifier:
        """Fit the estimator as users do, but for the noise, which is the auditor's."""
        model = DPTreeClassifier(EPSILON, domain_of(table), **self.parameters)
        model._noise = source
        return model.fit(table.rows, table.classes)


class FittedViews(Views):
    """The same through `fit`, one model after another."""

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return splits and leaf counts as integers, one row per model."""
        trees = [self.fit(table, source).tree_ for _ in range(runs)]
        inner = trees[0].feature >= 0
        rows = [
            np.concatenate([t.feature[inner], t.cut[inner], t.value[~inner].ravel()]) for t in trees
        ]
        return np.array(rows, dtype=np.int64)


@register
def private_trees() -> list[Target]:
    """Targets for `DPTreeClassifier`: its options, its `fit`, and two broken on purpose."""
    one_level: dict[str, Any] = {"criterion": "max", "max_depth": 1}
    leaves = one_level | {"split_share": 0.1}
    return [
        target_of("dp-tree", Views()),
        target_of("dp-tree/max", Views(one_level)),
        target_of("dp-tree/gini", Views(one_level | {"criterion": "gini"})),
        target_of("dp-tree/entropy", Views(one_level | {"criterion": "entropy"})),
        target_of("dp-tree/wary", Views(one_level | {"branching": "wary"})),
        target_of("dp-tree/mostly-leaves", Views(leaves)),
        target_of("dp-tree/mostly-splits", Views(one_level | {"split_share": 0.9})),
        target_of("dp-tree/fit", FittedViews(leaves), runs=FIT_RUNS),
        target_of("dp-tree/broken-halved-noise", Views(leaves, drawn_at=2 * EPSILON), sound=False),
    ]


class HasLedger(Protocol):
    """What an auditor draws and what its ledger says."""

    drawn_at: float

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return what is seen, one row per model."""

    def ledger(self, table: Table) -> Ledger:
        """Return the ledger of one model."""


def target_of(
    name: str,
    views: HasLedger,
    *,
    sound: bool = True,
    runs: int = RUNS,
    pairs: list[Pair] | None = None,
) -> Target:
    """Return a target at `EPSILON`, on all families of tables unless other pairs are given.

    One that takes few runs gets the two hardest families.
    """
    if pairs is None:
        pairs = families()
        if runs < FEW:
            pairs = [pair for pair in pairs if pair[0] in ("nearly empty leaf", "single record")]
    guarantee = views.ledger(pairs[0][1]).formal_total("public")
    return Target(
        f"{name}@{EPSILON:g}",
        views,
        pairs,
        claimed=EPSILON,
        proven=guarantee.epsilon if sound else views.drawn_at,
        delta=guarantee.delta,
        sound=sound,
        kind="estimator",
        runs=runs,
    )


def domain_of(table: Table) -> Domain:
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
        target=DomainTarget(name="class", classes=classes),
        capacity=CAPACITY,
    )


def _seen(drawn: Drawn, copies: int) -> NDArray[np.int64]:
    columns = [array for split in drawn.levels for array in (split.feature, split.cut)]
    parts = [np.asarray(c, dtype=np.int64).reshape(copies, -1) for c in columns]
    return np.hstack([*parts, drawn.leaf_counts.reshape(copies, -1)])
