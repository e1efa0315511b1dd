"""Tables of peers for tests, and the same tree in the clear."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Ledger
from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import PeerPart, PeerTable, peer
from hedgerow.protocols.pivot.run import members_of
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees import Limits, grow_cart
from hedgerow.trees.tree import Tree

LOADERS: dict[str, Any] = {
    "iris": load_iris,
    "cancer": load_breast_cancer,
    "diabetes": load_diabetes,
}


def encoded(name: str, columns: int | None = None, bins: int = 8) -> Encoded:
    """Return a bundled table, of some of its columns, under a domain read from it."""
    table = LOADERS[name]()
    X = table.data[:, :columns]
    task = "regression" if name == "diabetes" else "classification"
    domain = Domain.suggest(X, table.target, quiet=True, max_bins=bins, task=task)
    return encode(X, domain, table.target)


def plan_for(rows: Encoded, m: int, **options: Any) -> PivotPlan:
    """Deal columns to m peers, the target to the last one."""
    d = len(rows.domain.names)
    owners = [j * m // d for j in range(d)]
    return PivotOptions(**options).plan(
        rows.domain, rows.n_slots, owners=owners, n_peers=m, target_at=m - 1
    )


def table_of(rows: Encoded, plan: PivotPlan) -> PeerTable:
    """Return the tables of all peers as one."""
    target = rows.target if plan.classes else plan.units.count(rows).target
    bins = {j: rows.bins[:, j] for j in range(len(plan.owners))}
    return PeerTable(bins, rows.n_slots, target)


def charged(plan: PivotPlan) -> Ledger:
    ledger = Ledger()
    plan.charge(ledger)
    return ledger


def grown(
    rows: Encoded,
    plan: PivotPlan,
    network: Simulator | None = None,
    stages: Checkpoints | None = None,
    seed: int | None = None,
) -> PeerPart:
    """Grow a tree with all peers in this process."""
    context = Context(
        network or Simulator(plan.n_peers),
        members_of(plan),
        plan,
        table=table_of(rows, plan),
        ledger=charged(plan),
        stages=stages or NoCheckpoints(),
        seed=seed,
    )
    return peer(context)


def in_the_clear(rows: Encoded, plan: PivotPlan) -> Tree:
    """Grow the tree of `CARTClassifier` or `CARTRegressor` on the same bins."""
    if not plan.classes:
        # The same rounding of the target.
        units = plan.units.count(rows)
        assert units.target is not None
        target = plan.units.values(units.target, plan.units.bits)
        rows = replace(rows, target=target)
    return grow_cart(
        rows,
        criterion="gini" if plan.classes else "squared_error",
        limits=Limits(plan.depth, plan.least_split, plan.least_leaf, plan.least_decrease),
        splitter="best",
        max_features=None,
        rng=np.random.default_rng(0),
    )
