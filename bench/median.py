"""`MedianForestClassifier` and `DPBoostingClassifier` beside what else can be installed.

Accuracy and ROC AUC on adult, credit default and bank, means over five seeded 80-20 splits, every
bound public, strict accounting; diffprivlib's forest and InterpretML's DP-EBM as they come and at
the best of several settings, chosen by the test rows. Then fit times at equal trees and depth.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.environment import run_peer
from bench.harness import row, seconds
from bench.one_table import SPLITS, TABLES, OneTable
from hedgerow import DPBoostingClassifier, MedianForestClassifier

EPSILONS = [0.1, 0.5, 1.0, 2.0, 10.0]
DELTA = 1e-6
"""Of boosting and of DP-EBM; forests have none but that of finite precision."""

FOREST = ["diffprivlib==0.6.6", "scikit-learn<1.9"]
EBM = ["interpret-core[required]==0.7.8"]
EQUAL = {"n_estimators": 30, "max_depth": 10}
"""Of the peer and ours; its trees have disjoint rows, so ours get `partition=True`."""

Scores = dict[str, float]


def run() -> list[dict[str, Any]]:
    """Misranked and mistaken shares (costs: a ratio above 1 means that we err less), fit times."""
    rows = []
    for name, make in TABLES.items():
        table = make()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.npz"
            np.savez(file, **as_numbers(table))
            job = {"file": str(file), "epsilons": EPSILONS, "splits": SPLITS, "delta": DELTA}
            # One core for each of them.
            with ThreadPoolExecutor(2) as pool:
                asked = pool.submit(run_peer, "diffprivlib", FOREST, "private_forest.py", job)
                machines = run_peer("dp-ebm", EBM, "dp_ebm.py", job)
                forests = asked.result()
            if name == "adult":
                equal = job | {"epsilons": [1.0], "settings": [EQUAL]}
                theirs = run_peer("diffprivlib", FOREST, "private_forest.py", equal)
                rows += fit_times(table, theirs[0]["default"]["seconds"])
        for epsilon, forest, machine in zip(EPSILONS, forests, machines, strict=True):
            rows += compared(f"{name}, epsilon {epsilon:g}", table, epsilon, forest, machine)
    return rows


def compared(
    case: str, table: OneTable, epsilon: float, forest: dict[str, Any], machine: dict[str, Any]
) -> list[dict[str, Any]]:
    """Fit both of ours and set each beside its peer."""
    median = scores(table, lambda: MedianForestClassifier(epsilon, table.domain))
    boosting = scores(table, lambda: DPBoostingClassifier(epsilon, table.domain, delta=DELTA))
    return [
        *beside(f"{case}: median forest, diffprivlib", median, forest),
        *beside(f"{case}: boosting, DP-EBM", boosting, machine),
    ]


def as_numbers(table: OneTable) -> dict[str, Any]:
    """Return the table as peers want it: numbers, codes of categories, and public bounds."""
    columns, low, high, nominal = [], [], [], []
    for attribute in table.domain.attributes:
        column = table.frame[attribute.name].to_pandas()
        if attribute.bounds is not None:
            columns.append(column.to_numpy(dtype=np.float64))
            low.append(float(attribute.bounds[0]))
            high.append(float(attribute.bounds[1]))
        else:
            codes = {value: code for code, value in enumerate(attribute.categories or ())}
            columns.append(column.map(codes).fillna(len(codes)).to_numpy(dtype=np.float64))
            low.append(0.0)
            high.append(float(len(codes)))
        nominal.append(attribute.bounds is None)
    data = {"X": np.column_stack(columns), "y": table.target}
    data |= {"low": np.array(low), "high": np.array(high), "nominal": np.array(nominal)}
    for at, (train, test) in enumerate(table.splits()):
        data |= {f"train{at}": train, f"test{at}": test}
    return data


def scores(table: OneTable, make: Callable[[], Any]) -> Scores:
    """Fit and score on every split; means, and the median of the fit times."""
    auc, accuracy, times = [], [], []
    for train, test in table.splits():
        rows, label = table.frame.take(train), table.target[train]
        start = time.perf_counter()
        model = make().fit(rows, label)
        times.append(time.perf_counter() - start)
        probability = model.predict_proba(table.frame.take(test))[:, 1]
        auc.append(roc_auc_score(table.target[test], probability))
        accuracy.append(np.mean((probability > 0.5) == table.target[test]))
    means = {"auc": float(np.mean(auc)), "accuracy": float(np.mean(accuracy))}
    return means | {"auc_sd": float(np.std(auc)), "seconds": float(np.median(times))}


def beside(case: str, ours: Scores, peer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each setting of the peer and measure, and one for the time of a fit."""
    rows = [
        row(
            f"{case} {which}: 1 - {what}",
            1 - ours[what],
            1 - peer[which][what],
            "share",
            ours_is=round(ours[what], 4),
            peer_is=round(peer[which][what], 4),
            setting=peer[which]["setting"],
        )
        for which in ("default", "best")
        for what in ("auc", "accuracy")
    ]
    return [*rows, row(f"{case}: fit", ours["seconds"], peer["default"]["seconds"], "s")]


def fit_times(table: OneTable, theirs: float) -> list[dict[str, Any]]:
    """Time fits of as many trees of the same depth: random cuts, as its trees have, and medians."""
    train, _ = table.splits()[0]
    rows, label = table.frame.take(train), table.target[train]
    found = []
    for variant, more in (("random", {}), ("base", {}), ("flip", {"max_features": 5})):
        options = EQUAL | {"variant": variant, "partition": True} | more

        def fit(options: dict[str, Any] = options) -> None:
            MedianForestClassifier(1.0, table.domain, **options).fit(rows, label)

        ours = seconds(fit)
        case = f"adult, 30 trees of depth 10, {variant}: fit, diffprivlib"
        found.append(row(case, ours, theirs, "s"))
    return found
