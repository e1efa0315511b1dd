"""What the public rules of the private tree cost against the best setting in hindsight.

Every depth, criterion and share is tried on public data. A row gives the error rate of the
automatic setting as `ours` and the smallest error of all fixed settings as `peer`: nobody could
choose that one without a look at the rows, so a ratio near 1 is all that a rule can reach.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import ShuffleSplit

from bench.data import adult_like, folder
from bench.dp_tree import tables
from bench.harness import row
from hedgerow import DPTreeClassifier

EPSILONS = (0.01, 0.1, 0.5, 1.0, 3.0, 10.0)
DEPTHS = (1, 2, 3, 4, 5, 6, 8)
CRITERIA = ("max", "gini", "entropy")
SHARES = (0.5, 0.7, 0.9)
SPLITS = 10


def run() -> list[dict[str, Any]]:
    """Error rates of the rule and of the best fixed setting, and the best share per setting."""
    data: dict[str, Any] = dict(tables())
    if folder().exists():
        data["adult"] = adult_like()
    rows, shares = [], []
    for name, (X, y, domain) in data.items():
        splits = list(ShuffleSplit(SPLITS, test_size=0.25, random_state=0).split(y))
        for epsilon in EPSILONS:
            automatic = _error(DPTreeClassifier(epsilon, domain), X, y, splits)
            fixed = {
                (depth, criterion, share): _error(
                    DPTreeClassifier(
                        epsilon, domain, max_depth=depth, criterion=criterion, split_share=share
                    ),
                    X,
                    y,
                    splits,
                )
                for depth, criterion, share in product(DEPTHS, CRITERIA, SHARES)
            }
            best = min(fixed, key=fixed.__getitem__)
            by_share = {s: min(e for key, e in fixed.items() if key[2] == s) for s in SHARES}
            by_criterion = {c: min(e for key, e in fixed.items() if key[1] == c) for c in CRITERIA}
            shares.append(min(by_share, key=by_share.__getitem__))
            plan = DPTreeClassifier(epsilon, domain).plan(domain)
            rows.append(
                row(
                    f"{name}, epsilon {epsilon:g}: error of the rule, best setting in hindsight",
                    automatic,
                    fixed[best],
                    "share",
                    rule=f"depth {plan.spending.depth} {plan.score.name}",
                    hindsight=f"depth {best[0]} {best[1]} share {best[2]}",
                    by_share={s: round(e, 3) for s, e in by_share.items()},
                    by_criterion={c: round(e, 3) for c, e in by_criterion.items()},
                )
            )
    counted = [
        row(f"settings in which share {share} was best", shares.count(share), unit="settings")
        for share in SHARES
    ]
    return rows + counted


def _error(model: DPTreeClassifier, X: Any, y: np.ndarray, splits: list[Any]) -> float:
    take = X.take if hasattr(X, "schema") else X.__getitem__
    errors = [
        1 - model.fit(take(train), y[train]).score(take(test), y[test]) for train, test in splits
    ]
    return float(np.mean(errors))
