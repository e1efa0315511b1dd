"""`DPTreeClassifier` beside diffprivlib's tree, and its public depth rule beside fixed depths.

The error rates are on public data (breast cancer, digits), 20 splits 75:25. diffprivlib gets the
same public bounds and the best of several depths chosen afterwards, ours gets its own rule.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import ShuffleSplit

from bench.environment import run_peer
from bench.harness import row
from hedgerow import Attribute, Domain, DPTreeClassifier, Target

EPSILONS = [0.1, 0.5, 1.0, 3.0, 10.0]
DEPTHS = [1, 2, 3, 4, 5, 6]
PEER = ["diffprivlib==0.6.6", "scikit-learn<1.9"]


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, Domain]]:
    """Public data with domains that were not read from it."""
    cancer = load_breast_cancer()
    examples = Path(__file__).parents[1] / "examples"
    digits = load_digits()
    pixels = Domain(
        attributes=tuple(
            Attribute(name=f"pixel {i}", kind="numeric", bounds=(0, 16), bins=8) for i in range(64)
        ),
        target=Target(name="digit", classes=tuple(range(10))),
        capacity=2000,
    )
    return {
        "breast cancer": (
            cancer.data,
            cancer.target,
            Domain.from_toml(examples / "breast_cancer.toml"),
        ),
        "digits": (digits.data, digits.target, pixels),
    }


def error_of(
    model: DPTreeClassifier, X: np.ndarray, y: np.ndarray, splits: list[list[list[int]]]
) -> tuple[float, float]:
    """Mean error rate over the splits and median fit time."""
    scores, times = [], []
    for train, test in splits:
        start = time.perf_counter()
        model.fit(X[train], y[train])
        times.append(time.perf_counter() - start)
        scores.append(model.score(X[test], y[test]))
    return 1 - float(np.mean(scores)), float(np.median(times))


def run() -> list[dict[str, Any]]:
    """Error rates (a cost: ratio above 1 means that we err less) and fit times."""
    rows = []
    for name, (X, y, domain) in tables().items():
        shuffle = ShuffleSplit(n_splits=20, test_size=0.25, random_state=0)
        splits = [[train.tolist(), test.tolist()] for train, test in shuffle.split(X)]
        peers = run_peer(
            "diffprivlib",
            PEER,
            "diffprivlib_tree.py",
            {
                "X": X.tolist(),
                "y": y.tolist(),
                "low": [a.bounds[0] for a in domain.attributes],
                "high": [a.bounds[1] for a in domain.attributes],
                "classes": list(domain.target.classes),
                "epsilons": EPSILONS,
                "depths": DEPTHS,
                "splits": splits,
            },
        )
        for epsilon, peer in zip(EPSILONS, peers, strict=True):
            model = DPTreeClassifier(epsilon=epsilon, domain=domain)
            error, fit = error_of(model, X, y, splits)
            fixed = {
                depth: error_of(model.set_params(max_depth=depth), X, y, splits)[0]
                for depth in DEPTHS
            }
            best = min(fixed, key=fixed.__getitem__)
            rows.append(
                row(
                    f"{name}, epsilon {epsilon:g}: error rate, diffprivlib at its best depth",
                    error,
                    1 - peer["accuracy"],
                    "share",
                    our_depth=DPTreeClassifier(epsilon=epsilon, domain=domain)
                    .fit(X, y)
                    .get_depth(),
                    our_best_fixed_depth=best,
                    error_at_that_depth=round(fixed[best], 4),
                    peer_depth=peer["depth"],
                )
            )
            rows.append(
                row(f"{name}, epsilon {epsilon:g}: fit, diffprivlib", fit, peer["seconds"], "s")
            )
    return rows
