"""The methods of paper 001, each as one call: train on one part of a data set, test on another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.protocols.median.options import MedianOptions
from hedgerow.tables import Encoded
from hedgerow.trees.counts.forest import LocalCounts
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.grow_tree import grow_forest
from hedgerow.trees.growing.growth import Limits
from reproduce.paper_001.data import Task
from reproduce.paper_001.dp_df import grow_dp_df, plan_dp_df
from reproduce.paper_001.dp_rf import grow_dp_rf, plan_dp_rf
from reproduce.paper_001.wary import votes

Accounting = Literal["paper", "strict"]

CLEAR = ("RF", "ERT", "Median")
DIPRIME = ("DiPriMe", "DiPriMeExp", "DiPriMeFlip")
WARY = ("DP-RF", "DP-DF")
PRIVATE = ("DP-RF", "DP-DF", "DP-ERT", *DIPRIME)

_VARIANTS = {"DiPriMe": "base", "DiPriMeExp": "exp", "DiPriMeFlip": "flip", "DP-ERT": "random"}
K = 5
_LEAF = 5
"""Least records of a leaf of RF and ERT, as in the authors' notebook."""


@dataclass(frozen=True)
class Setting:
    """One run, in public numbers.

    `epsilon`: 0 without noise. `accounting`: None without noise.
    """

    method: str
    depth: int
    epsilon: float = 0.0
    trees: int = 10
    accounting: Accounting | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """The setting as plain data."""
        return {
            "method": self.method,
            "depth": self.depth,
            "epsilon": self.epsilon,
            "trees": self.trees,
            "accounting": self.accounting,
        }


def partitions(method: str) -> bool:
    """Tell whether a record is in one tree: in DiPriMe it is; Median and DP-ERT see all in each."""
    return method in DIPRIME


def sees(task: Task, method: str) -> Encoded:
    """Return the table as a method reads it."""
    if method in WARY:
        return task.coarse
    return task.ordered if method in ("RF", "ERT") else task.fine


def train(setting: Setting, part: Task, seed: int) -> tuple[Forest, Ledger]:
    """Grow the forest of a setting.

    `seed`: of noise and of choices that depend on no record.
    """
    table, ledger = sees(part, setting.method), Ledger()
    source = NoiseSource.insecure_seeded(seed)
    k = min(K, table.n_features)
    if setting.method in ("RF", "ERT"):
        limits = Limits(max_depth=setting.depth, min_samples_leaf=_LEAF)
        extra = setting.method == "ERT"
        forest = grow_forest(
            table,
            n_trees=setting.trees,
            limits=limits,
            max_features=k,
            seed=seed,
            splitter="random" if extra else "best",
            bootstrap=not extra,
        )
        ledger.mark_not_private("there is no noise")
        return forest, ledger
    if setting.method in WARY:
        return _wary(setting, table, ledger, source, k), ledger
    strict = setting.accounting == "strict"
    options = MedianOptions(
        epsilon=setting.epsilon or None,
        n_estimators=setting.trees,
        max_depth=setting.depth,
        variant=_VARIANTS.get(setting.method, "exp"),
        max_features=k,
        split_share=0.5,
        partition=partitions(setting.method),
        accounting=setting.accounting or "strict",
        # What the paper does not have stays off where it is followed, and without noise.
        shrinkage=strict,
        public_seed=seed,
    )
    plan = options.plan(table.domain)
    counts = LocalCounts([plan.batch(table)])
    return grow_median_forest(counts, plan, ledger=ledger, source=source), ledger


def _wary(setting: Setting, table: Encoded, ledger: Ledger, source: NoiseSource, k: int) -> Forest:
    common: dict[str, Any] = {
        "epsilon": setting.epsilon,
        "depth": setting.depth,
        "n_trees": setting.trees,
        "accounting": setting.accounting,
    }
    if setting.method == "DP-RF":
        plan = plan_dp_rf(table.domain, max_features=k, **common)
        return grow_dp_rf(table, plan, ledger=ledger, source=source)
    return grow_dp_df(table, plan_dp_df(table.domain, **common), ledger=ledger, source=source)


def answers(setting: Setting, forest: Forest, part: Task) -> NDArray[Any]:
    """Return what a forest answers: class indices, or numbers from 0 to 1 and beyond."""
    bins = sees(part, setting.method).bins
    if not forest.is_classifier:
        return forest.decide(bins)[:, 0]
    if setting.method in WARY:
        return votes(forest, bins, confident=setting.method == "DP-DF").argmax(axis=1)
    return forest.predict_class(bins)


def error(setting: Setting, forest: Forest, part: Task) -> float:
    """Return the mean squared error, or the share of wrong classes."""
    found = answers(setting, forest, part)
    if part.is_classifier:
        return float(np.mean(found != part.target))
    return float(np.mean((found - part.target) ** 2))


def costs(ledger: Ledger, setting: Setting) -> dict[str, float | None]:
    """Return the epsilon that holds, None for none, and the one that is claimed.

    Seeded noise is counted as if it were not seeded.
    """
    if setting.accounting is None:
        return {"proven": None, "claimed": None}
    proven = ledger.formal_total().epsilon
    claimed = ledger.claimed_total()
    return {
        "proven": proven if math.isfinite(proven) else None,
        "claimed": setting.epsilon if claimed is None else claimed,
    }


def depths_of(name: str, n_train: int, trees: int = 10) -> dict[str, int]:
    """Choose depths as the paper does: so that leaves hold 25 records on average, 10 for banknote.

    Returns ``full`` for trees on all records, ``part`` for trees on their share of them, ``wary``
    for trees with five branches on all.
    """
    least = 10 if name == "banknote" else 25
    return {
        "full": math.floor(math.log2(n_train / least)),
        "part": max(1, math.floor(math.log2(n_train / (least * trees)))),
        "wary": math.floor(math.log(n_train / least, 5)),
    }


def kind_of_depth(method: str) -> str:
    """Tell which of `depths_of` a method has."""
    if method in WARY:
        return "wary"
    return "part" if partitions(method) else "full"
