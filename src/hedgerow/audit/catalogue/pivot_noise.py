"""What the auditor attacks among peers: trees with noise, as every peer sees them.

The program is that of the peers (`grow_trees`), on rows that nobody knows the presence of, as after
a hidden join; an attack needs thousands of trees, which grow side by side, so that it runs on plain
arrays in place of shares: the same steps draw the same noise (`tests/protocols/pivot/test_noise.py`
has its laws on the shares of peers). An attacker sees all of a tree: which nodes are leaves, the
split of the others, what leaves hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.hidden_numbers import (
    CELLS,
    CLASSES,
    DELTA,
    EPSILON,
    NUMBERS,
    OPEN_RUNS,
    SLOTS,
    alone_in_its_leaf,
    first_record,
    flips_the_split,
)
from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.tables import AuditTable, families
from hedgerow.privacy import ROOT, Leakage, Ledger, NoiseSource, NoisyMax, Scope, TwoSidedGeometric
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.hidden.boosting_plan import tree_scope
from hedgerow.protocols.hidden.regression_plan import FRACTION
from hedgerow.protocols.pivot.growth import PeerTrees, grow_trees
from hedgerow.protocols.pivot.joining import JoinedColumns
from hedgerow.protocols.pivot.options import PeerTreesOptions, PivotForestOptions, PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.secure.additive.core import EVERYONE
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import Cost
from hedgerow.secure.noise.discrete import LARGEST_EPSILON
from hedgerow.secure.noise.releases import Prepaid
from hedgerow.tables import Domain

WIDER = CLASSES.model_copy(
    update={
        "attributes": (
            *CLASSES.attributes,
            CLASSES.attributes[0].model_copy(update={"name": "a3"}),
        ),
        "capacity": 30,
    }
)
NO_NODE = -100
_MEANS = 100


class PlainPeers(ClearEngine):
    """Peers that keep nothing from each other, and have nothing to prepare."""

    def prepare(self, cost: Cost) -> None:
        """Prepare nothing."""


class PlainRows(JoinedColumns):
    """Rows on plain arrays."""

    @property
    def engine(self) -> Any:
        """Keeper of the numbers."""
        return self._engine


def grow_plainly(
    plan: PivotPlan,
    bins: NDArray[Any],
    columns: NDArray[np.int64],
    ledger: Ledger,
    source: NoiseSource,
) -> PeerTrees:
    """Grow the trees of a plan on plain arrays: bins (n, d) and what is summed up, (k, n)."""
    leakage = Leakage(plan.openings(), ledger=ledger)
    engine = PlainPeers(leakage, source, n_parties=plan.n_peers, everyone=EVERYONE)
    every = np.broadcast_to(columns, (plan.n_trees, *columns.shape))
    hot = np.concatenate(
        [
            as_one_hot(column, int(size))
            for column, size in zip(bins.T, plan.domain.n_bins, strict=True)
        ],
        axis=1,
    )
    shape = (plan.n_trees, *columns.shape)
    rows = PlainRows(
        plan.layout,
        plan.owners,
        engine.input(every, plan.target_at, shape, plan.ring),
        engine.input(hot, 0, hot.shape, plan.ring),
    )
    return grow_trees(rows, plan, paid=Prepaid(ledger, plan.model_releases()))


class Copies(PivotPlan):
    """Trees that do not know of each other, of which an attacker sees `together`."""

    together: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Check nothing: the plan of one tree was checked."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Of the trees that are seen."""
        if self.together == 1:
            return (ROOT,)
        return tuple(tree_scope(ROOT, tree) for tree in range(self.together))


class Forests(Copies):
    """Forests that do not know of each other, of which an attacker sees one: two trees."""

    together: ClassVar[int] = 2


class HalfOfTheNoise(Copies):
    """Broken on purpose: a record is thought to move scores by half of what it can."""

    @property
    def split_mechanism(self) -> NoisyMax:
        """Noise of choices, too small."""
        right = super().split_mechanism
        return NoisyMax(2 * right.epsilon, right.sensitivity, monotone=right.monotone)


class ExactCounts(Copies):
    """Broken on purpose: whether a node is a leaf depends on its rows, without noise."""

    @property
    def stop_mechanism(self) -> TwoSidedGeometric:
        """Noise that is 0."""
        return TwoSidedGeometric(LARGEST_EPSILON)


@dataclass(frozen=True)
class PeersSee:
    """Trees of an audit table, padded to public slots, as peers see them."""

    options: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain = CLASSES
    slots: int = SLOTS
    kind: type[Copies] = Copies

    def plan(self, runs: int = 1) -> Copies:
        """Return the plan of `runs` trees, or forests."""
        table = {"noise": "splits+leaves", "epsilon": EPSILON, "max_depth": 1, **self.options}
        owners = [min(j, 1) for j in range(len(self.domain.names))]
        options: type[PeerTreesOptions] = PivotOptions
        together = self.kind.together
        if together > 1:
            options = PivotForestOptions
            # Of all attributes, so that no coins make one forest differ from the next.
            everything = {"bootstrap": False, "max_features": len(owners)}
            table |= {"n_estimators": together, **everything}
        alone: Any = options.from_table(table).plan(
            self.domain, self.slots, owners=owners, n_peers=2, target_at=1, align="hidden"
        )
        known = {one.name: getattr(alone, one.name) for one in fields(alone)}
        return self.kind(**known | {"n_trees": runs * together})

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return every node of complete trees: its candidate, what its leaf holds, or nothing."""
        plan, n = self.plan(runs), len(table.classes)
        bins = np.zeros((self.slots, len(self.domain.names)), np.int64)
        columns = np.zeros((2, self.slots), np.int64)
        bins[:n] = table.rows
        columns[:, :n] = table.classes == [[0], [1]]
        if not plan.classes:
            # Presence, and one bound or the other.
            columns[0, :n] = 1
            columns[1, :n] = (2 * table.classes - 1) * plan.units.most
        ledger = Ledger(domain=plan.domain)
        plan.charge(ledger)
        return seen(plan, grow_plainly(plan, bins, columns, ledger, source)).reshape(runs, -1)


def seen(plan: PivotPlan, trees: PeerTrees) -> NDArray[np.int64]:
    """Return the nodes of trees, level by level, as numbers: (trees, nodes of a complete tree)."""
    assert trees.opened is not None
    if plan.classes:
        held = -1 - trees.opened.argmax(axis=1)
    else:
        cells = trees.opened[:, 0] * CELLS >> FRACTION
        held = _MEANS + np.clip(cells, -CELLS, CELLS - 1)
    shape, index = trees.shape, np.concatenate(trees.groups)
    found = np.full((plan.n_trees, 2 << plan.depth), NO_NODE, dtype=np.int64)
    nodes, first = (np.arange(plan.n_trees) for _ in range(2))
    at = np.zeros(plan.n_trees, dtype=np.int64)
    for level in range(plan.depth + 1):
        inner = shape.split[nodes] >= 0
        value = np.empty(nodes.size, dtype=np.int64)
        value[inner], value[~inner] = (
            index[shape.split[nodes[inner]]],
            held[shape.leaf[nodes[~inner]]],
        )
        found[first, (1 << level) - 1 + at] = value
        both = np.arange(2)
        nodes = (shape.first_child[nodes[inner]][:, None] + both).reshape(-1)
        at = (2 * at[inner][:, None] + both).reshape(-1)
        first = np.repeat(first[inner], 2)
    return found[:, :-1]


def trees_of_peers() -> list[AuditTarget]:
    """Targets for trees and a forest, each with most of epsilon in one step; two are broken."""
    ties = [flips_the_split(), alone_in_its_leaf()]
    first = [first_record(), alone_in_its_leaf()]
    splits: dict[str, Any] = {"criterion": "max", "split_share": 0.9}
    stops: dict[str, Any] = {"stop_share": 0.9, "split_share": 0.05, "min_samples_split": SLOTS}
    deep: dict[str, Any] = {"max_depth": 2, "stop_share": 0.02, **splits}
    above = next(pair for pair in families() if pair[0] == "a tie above another")
    half = PeersSee(splits, kind=HalfOfTheNoise)
    return [
        _target("mostly-splits", PeersSee(splits), ties),
        _target("gini", PeersSee({"criterion": "gini"}), ties),
        _target("mostly-leaves", PeersSee({"split_share": 0.1}), first),
        _target("mostly-stops", PeersSee(stops), ties),
        _target("two-levels", PeersSee(deep, WIDER, slots=30), [above]),
        _target("numbers", PeersSee({"split_share": 0.1, "sum_share": 0.9}, NUMBERS), first),
        _target("mostly-splits", PeersSee(splits, kind=Forests), ties, family="pivot-forest"),
        _target("broken-half-sensitivity", half, ties, sound=False, proven=EPSILON * 1.9),
        _target("broken-exact-counts", PeersSee(stops, kind=ExactCounts), ties, sound=False),
    ]


def _target(
    name: str, run: PeersSee, pairs: Sequence[Pair], family: str = "pivot-tree", **known: Any
) -> AuditTarget:
    label = f"{family}/{name}@{EPSILON:g}"
    return AuditTarget(
        label, run, pairs, EPSILON, delta=DELTA, kind="protocol", runs=OPEN_RUNS, **known
    )
