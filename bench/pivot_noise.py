"""Epsilon against errors of trees among peers with noise, beside trees on three servers.

Adult and credit default under public domains, five splits 80-20, depth 3. The trees of peers grow
by their own program on plain arrays in place of shares (`audit.catalogue.pivot_noise`), those of
the servers with ``engine="clear"``: the same steps, the same noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import row
from bench.one_table import OneTable, adult, credit
from hedgerow import HiddenTreeClassifier, OpenTreeClassifier
from hedgerow.audit.catalogue.pivot_noise import grow_plainly
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.pivot.options import PivotForestOptions, PivotOptions
from hedgerow.protocols.pivot.programs import PeerTable
from hedgerow.protocols.pivot.trees import opened_trees
from hedgerow.tables import Encoded, encode

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0)
DEPTH = 3
FOREST: dict[str, Any] = {"n_estimators": 5, "bootstrap": False}
PEERS: dict[str, dict[str, Any]] = {
    "tree": {},
    "tree that stops": {"stop_share": 0.1, "min_samples_split": 200},
    "forest of 5": {**FOREST, "max_features": "sqrt"},
    "tree, noise as published": {"noise": "as published"},
}
SERVERS: dict[str, Any] = {"hidden tree": HiddenTreeClassifier, "open tree": OpenTreeClassifier}


def run() -> list[dict[str, Any]]:
    """Error rates: of peers as `ours`, of a hidden tree of three servers as `peer`."""
    found = []
    for name, table in (("adult", adult()), ("credit default", credit())):
        found += rows_of(name, table, EPSILONS)
    return found


def rows_of(name: str, table: OneTable, epsilons: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return the error rates on one table."""
    every = encode(table.frame, table.domain, table.target)
    splits = table.splits()
    exact = np.mean([error_of_peers(every, *split, {}) for split in splits])
    found = [row(f"{name}, no noise: error of a tree among peers", float(exact), unit="share")]
    for epsilon in epsilons:
        servers = {
            kind: float(np.mean([error_of_servers(made, table, epsilon, *s) for s in splits]))
            for kind, made in SERVERS.items()
        }
        for kind, options in PEERS.items():
            noisy = {"noise": "splits+leaves", "epsilon": epsilon, **options}
            error = float(np.mean([error_of_peers(every, *split, noisy) for split in splits]))
            found.append(
                row(
                    f"{name}, epsilon {epsilon:g}: error of a {kind} among peers, hidden tree",
                    error,
                    servers["hidden tree"],
                    "share",
                    open_tree=round(servers["open tree"], 4),
                )
            )
    return found


def error_of_peers(
    rows: Encoded, train: NDArray[np.int64], test: NDArray[np.int64], options: dict[str, Any]
) -> float:
    """Grow among three peers and return the error on test rows."""
    kind = PivotForestOptions if "n_estimators" in options else PivotOptions
    d = len(rows.domain.names)
    plan: Any = kind.from_table({"max_depth": DEPTH, **options}).plan(
        rows.domain, len(train), owners=[j * 3 // d for j in range(d)], n_peers=3, target_at=2
    )
    assert rows.target is not None
    columns = PeerTable({}, len(train), rows.target[train]).columns(plan)
    assert columns is not None
    ledger = Ledger(domain=plan.domain)
    plan.charge(ledger)
    bins = rows.bins[train].astype(np.int64)
    trees = opened_trees(plan, grow_plainly(plan, bins, columns, ledger, NoiseSource.system()))
    votes = sum(tree.distribution(rows.bins[test]) for tree in trees)
    return float(np.mean(np.argmax(votes, axis=1) != rows.target[test]))


def error_of_servers(
    made: Any,
    table: OneTable,
    epsilon: float,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> float:
    """Train on three servers and return the error on test rows."""
    model = made(epsilon=epsilon, domain=table.domain, max_depth=DEPTH, engine="clear")
    model.fit(table.frame.take(train), table.target[train])
    return 1 - float(model.score(table.frame.take(test), table.target[test]))
