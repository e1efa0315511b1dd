"""Table 1's models among peers, the same in the clear, and scikit-learn's on the same bins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from hedgerow.net.network import Network
from hedgerow.privacy import Ledger
from hedgerow.protocols.pivot.coins import row_weights
from hedgerow.protocols.pivot.options import (
    PeerOptions,
    PivotBoostingOptions,
    PivotForestOptions,
    PivotOptions,
)
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import PeerTable
from hedgerow.protocols.pivot.run import PivotRun, ask_peers, run_pivot
from hedgerow.tables import Encoded
from hedgerow.trees import Limits, grow_cart
from hedgerow.trees.tree import Tree
from reproduce.paper_003.data import PEERS, dealt, rows_of

DEPTH, TREES, RATE = 4, 10, 0.1
"""Depth of table 2; of forests and boosting the paper says nothing."""
MODELS = {"tree": "decision tree", "forest": "random forest", "boosting": "boosted trees"}

Answers = NDArray[Any]


def options_of(model: str, trees: int = TREES, hide: Any = "nothing") -> PeerOptions:
    """Return the options of a model."""
    if model == "forest":
        return PivotForestOptions(max_depth=DEPTH, hide=hide, n_estimators=trees, max_features=None)
    if model == "boosting":
        return PivotBoostingOptions(
            max_depth=DEPTH, hide=hide, n_estimators=trees, learning_rate=RATE
        )
    return PivotOptions(max_depth=DEPTH, hide=hide)


def plan_of(rows: Encoded, options: PeerOptions, owners: list[int] | None = None) -> PeerPlan:
    """Deal the columns to peers, and the target to the last one."""
    given = dealt(rows.n_features) if owners is None else owners
    return options.plan(rows.domain, rows.n_slots, owners=given, n_peers=PEERS, target_at=PEERS - 1)


def train(rows: Encoded, plan: PeerPlan, network: Network | None = None) -> PivotRun:
    """Train among peers of this process, which exchange the real messages."""
    target = rows.target if plan.classes else plan.units.count(rows).target
    tables = [
        PeerTable(
            {j: rows.bins[:, j] for j, owner in enumerate(plan.owners) if owner == peer},
            rows.n_slots,
            target if peer == plan.target_at else None,
        )
        for peer in range(plan.n_peers)
    ]
    ledger = Ledger()
    plan.charge(ledger)
    return run_pivot(plan, tables, ledger, network=network)


def answers(rows: Encoded, plan: PeerPlan, run: PivotRun) -> Answers:
    """Have the peers answer rows: classes or values."""
    ledger = Ledger()
    plan.charge(ledger)
    bins = dict(enumerate(rows.bins.T))
    return ask_peers(plan, run.model, bins, rows.n_slots, ledger, asker=plan.target_at)


def in_the_clear(rows: Encoded, plan: PivotPlan) -> list[Tree]:
    """Grow the trees of a plan by CART: of a forest, on the rows that its public coins draw."""
    if not plan.classes:
        # The same rounding of the target.
        units = plan.units.count(rows).target
        assert units is not None
        rows = replace(rows, target=plan.units.values(units, plan.units.bits))
    weights = row_weights(plan, rows.n_slots)
    drawn = [None] if weights is None else [np.repeat(np.arange(len(w)), w) for w in weights]
    return [
        grow_cart(
            rows,
            limits=Limits(plan.depth, plan.least_split, plan.least_leaf, plan.least_decrease),
            index=None if index is None else index.astype(np.int32),
        )
        for index in drawn
    ]


def answers_of(trees: list[Tree], bins: NDArray[Any], n_classes: int | None) -> Answers:
    """Return what most of the trees say, of equal numbers the lowest class; or their mean."""
    if not n_classes:
        return np.mean([tree.decide(bins)[:, 0] for tree in trees], axis=0)
    said = np.stack([tree.predict_class(bins) for tree in trees])
    votes = (said[:, :, None] == np.arange(n_classes)).sum(axis=0)
    found: Answers = votes.argmax(axis=1)
    return found


def with_sklearn(model: str, rows: Encoded, seed: int, trees: int = TREES) -> Any:
    """Train scikit-learn's model with the same parameters on the numbers of the bins."""
    kinds: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "tree": (DecisionTreeClassifier, DecisionTreeRegressor),
        "forest": (RandomForestClassifier, RandomForestRegressor),
        "boosting": (GradientBoostingClassifier, GradientBoostingRegressor),
    }
    more: dict[str, dict[str, Any]] = {
        "tree": {},
        "forest": {"n_estimators": trees, "max_features": None},
        "boosting": {"n_estimators": trees, "learning_rate": RATE},
    }
    make = kinds[model][np.asarray(rows.target).dtype.kind == "f"]
    return make(max_depth=DEPTH, random_state=seed, **more[model]).fit(rows.bins, rows.target)


def score(rows: Encoded, found: Answers) -> float:
    """Return accuracy, or mean squared error."""
    target = np.asarray(rows.target)
    if target.dtype.kind == "f":
        return float(np.mean((found - target) ** 2))
    return float(np.mean(found == target))


def among_peers(
    model: str, train_rows: Encoded, test_rows: Encoded, trees: int = TREES
) -> dict[str, Any]:
    """Train a model among peers, and compare its answers to test rows with those in the clear.

    Trees and forests with CART's, on the rows that the public coins draw; boosting with
    scikit-learn's.
    """
    plan = plan_of(train_rows, options_of(model, trees))
    begin = time.process_time()
    run = train(train_rows, plan)
    cpu = time.process_time() - begin
    answered = answers(test_rows, plan, run)
    if model == "boosting":
        clear = with_sklearn(model, train_rows, 0, trees).predict(test_rows.bins)
    else:
        assert isinstance(plan, PivotPlan)
        clear = answers_of(in_the_clear(train_rows, plan), test_rows.bins, plan.classes)
    exact = answered == clear if plan.classes else np.isclose(answered, clear, rtol=1e-4)
    return {
        "trees": 1 if model == "tree" else trees,
        "score": score(test_rows, answered),
        "clear": score(test_rows, clear),
        "answers": len(clear),
        "same": int(exact.sum()),
        "cpu": cpu,
        "offline_mb": max(run.offline.payload) / 1e6,
        "online_mb": max(run.online.payload) / 1e6,
        "online_rounds": run.online.rounds,
    }


def sklearn_trial(model: str, train_rows: Encoded, test_rows: Encoded, seed: int) -> float:
    """Return the score of scikit-learn's model."""
    return score(test_rows, with_sklearn(model, train_rows, seed).predict(test_rows.bins))


def constant_score(train_rows: Encoded, test_rows: Encoded) -> float:
    """Return the score of who answers all rows alike: with the most frequent class, or the mean."""
    target = np.asarray(train_rows.target)
    number = target.dtype.kind == "f"
    said = target.mean() if number else np.bincount(target).argmax()
    return score(test_rows, np.full(test_rows.n_slots, said))


def parts(table: Encoded, train_index: NDArray[np.int64], test_index: NDArray[np.int64]) -> Any:
    """Return the rows to train on and those to test on."""
    return rows_of(table, train_index), rows_of(table, test_index)
