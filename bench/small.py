"""`DPClassifier` and the learners it chooses among, on tables of a few hundred rows and more.

ROC AUC on rows that were not trained on: sixteen data sets, cut down to 500, 1,000 and 5,000 rows
and whole, at five epsilons; means over several subsets and noise draws. ``auto`` beside the best of
boosting, one tree and the median forest in each case: the best is chosen by the test rows, which
nobody could do. Constants of boosting were tried on every other data set, in
alphabetical order ("tried on").
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.harness import row
from bench.one_table import OneTable
from bench.small_tables import TABLES, TRIED_ON
from hedgerow import DPBoostingClassifier, DPTreeClassifier, MedianForestClassifier
from hedgerow.errors import HedgerowWarning
from hedgerow.protocols.choice import choose_model

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
SIZES: dict[int | None, int] = {500: 8, 1_000: 8, 5_000: 4, None: 2}
"""Rows to train on, None for four fifths of the table, and how often."""

MOST_TEST = 5_000
MOST_TRAIN = 32_000
LEARNERS = {
    "boosting": DPBoostingClassifier,
    "tree": DPTreeClassifier,
    "median-forest": MedianForestClassifier,
}


def run() -> list[dict[str, Any]]:
    """Misranked shares (costs) of what is chosen beside those of the best learner."""
    rows = []
    for name, make in TABLES.items():
        table = make()
        for size, repeats in SIZES.items():
            # The whole of a small table is as noisy as a part of a large one.
            often = max(repeats, 6) if len(table.target) < 7_000 else repeats
            found = list(cases(table, size, often, EPSILONS))
            part = "tried on" if name in TRIED_ON else "others"
            label = "whole" if size is None else f"{size:,} rows"
            rows += [
                row(
                    f"{name} ({part}), {label}, epsilon {epsilon:g}",
                    1 - means[chosen],
                    1 - max(means.values()),
                    "misranked share",
                    chosen=chosen,
                    **{learner: round(mean, 4) for learner, mean in means.items()},
                )
                for epsilon, chosen, means in found
            ]
    return rows


def cases(
    table: OneTable, size: int | None, repeats: int, epsilons: tuple[float, ...]
) -> Iterator[tuple[float, str, dict[str, float]]]:
    """Yield epsilon, what is chosen, and the mean area of each learner; nothing if rows lack."""
    n = len(table.target)
    n_train = min(int(0.8 * n), MOST_TRAIN) if size is None else size
    if size is not None and size > 0.75 * n:
        return
    capacity = -(-n_train // 100) * 100
    domain = table.domain.model_copy(update={"capacity": capacity})
    for epsilon in epsilons:
        areas: dict[str, list[float]] = {learner: [] for learner in LEARNERS}
        for repeat in range(repeats):
            order = np.random.default_rng([repeat, size or 0]).permutation(n)
            train = np.sort(order[:n_train])
            test = np.sort(order[n_train : n_train + MOST_TEST])
            rows, answers = table.frame.take(train), table.frame.take(test)
            for learner, make in LEARNERS.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", HedgerowWarning)
                    model = make(epsilon, domain).fit(rows, table.target[train])
                probability = model.predict_proba(answers)[:, 1]
                areas[learner].append(float(roc_auc_score(table.target[test], probability)))
        chosen = choose_model(domain, epsilon, capacity).model
        yield epsilon, str(chosen), {name: float(np.mean(area)) for name, area in areas.items()}
