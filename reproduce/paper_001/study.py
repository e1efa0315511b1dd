"""The runs behind paper 001's tables and figures: which settings, how often, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.trees.tree import Tree
from reproduce.jobs import run_jobs, seed_of
from reproduce.paper_001.checks import one_sided
from reproduce.paper_001.data import SPLITS, Task, task_of
from reproduce.paper_001.methods import (
    CLEAR,
    DIPRIME,
    PRIVATE,
    WARY,
    Accounting,
    Setting,
    costs,
    depths_of,
    error,
    kind_of_depth,
    sees,
    train,
)
from reproduce.paper_001.published import CLASSIFICATION, DEPTHS, EPSILON_1, EPSILON_2, REGRESSION

Record = dict[str, Any]
MODES: tuple[Accounting, ...] = ("paper", "strict")
CURVES_1 = ("DP-ERT", *DIPRIME)
"""Private methods of figure 1; the paper leaves DP-RF out."""
DEPTH_1, TREES_1 = 8, 10
DEPTH_2 = 5
DEPTH_3 = 4
SHAPES = ("DP-RF", "DP-DF", "DP-ERT", "DiPriMe", "DiPriMeExp", "DiPriMeFlip")


@dataclass(frozen=True)
class Extent:
    """How much is run.

    `splits`: 90-10 splits of the tables, with the seeds from 0 on. `regression`, `classification`:
    data sets of tables 1 and 2. `depths`, `trees`, `epsilons`: of figure 1, on appliances.
    `banknote_epsilons`: of figure 2. `curves`: data set of figure 1. `shapes`: data sets of figures
    3 and 4. `checked`: data sets with categories on which a slip of the authors' program is tried.
    """

    splits: int
    figure_splits: int
    regression: tuple[str, ...]
    classification: tuple[str, ...]
    depths: tuple[int, ...]
    trees: tuple[int, ...]
    epsilons: tuple[float, ...]
    banknote_epsilons: tuple[float, ...]
    curves: str | None = "appliances"
    shapes: tuple[str, ...] = ("robot", "banknote")
    checked: tuple[str, ...] = ("traffic",)


FULL = Extent(
    splits=SPLITS,
    figure_splits=SPLITS,
    regression=REGRESSION,
    classification=CLASSIFICATION,
    depths=(2, 4, 6, 8, 10, 12),
    trees=(1, 3, 10, 30, 100),
    epsilons=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    banknote_epsilons=(0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0),
)

QUICK = Extent(
    splits=2,
    figure_splits=1,
    regression=("parkinsons",),
    classification=("banknote",),
    depths=(2, 4),
    trees=(1, 10),
    epsilons=(1.0, 10.0),
    banknote_epsilons=(1.0, 10.0),
    curves="parkinsons",
    checked=("parkinsons",),
)


def settings(methods: Sequence[str], depth: Callable[[str], int], **more: Any) -> list[Setting]:
    """List a setting of every method, and of private ones a setting of both accountings."""
    found = []
    for method in methods:
        if method in CLEAR:
            trees = {"trees": more["trees"]} if "trees" in more else {}
            found.append(Setting(method, depth(method), **trees))
        else:
            found += [Setting(method, depth(method), accounting=mode, **more) for mode in MODES]
    return found


def table_1(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Mean squared errors at the paper's depths."""
    methods = (*CLEAR, *(m for m in PRIVATE if m != "DP-DF"))
    wanted = settings(methods, lambda m: DEPTHS[name][kind_of_depth(m)], epsilon=EPSILON_1)
    yield from runs("table 1", name, split, wanted)


def table_2(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Shares of wrong classes at depths by the paper's rule."""
    depth = depths_of(name, len(part(name, split)[0].target))
    wanted = settings((*CLEAR, *PRIVATE), lambda m: depth[kind_of_depth(m)], epsilon=EPSILON_2)
    yield from runs("table 2", name, split, wanted)


def figure_1(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Mean squared errors over depth, number of trees and epsilon."""
    methods = (*CLEAR, *CURVES_1)
    for depth in extent.depths:
        wanted = settings(methods, lambda _, d=depth: d, epsilon=EPSILON_1, trees=TREES_1)
        yield from runs("figure 1a", name, split, wanted)
    for trees in extent.trees:
        wanted = settings(methods, lambda _: DEPTH_1, epsilon=EPSILON_1, trees=trees)
        yield from runs("figure 1b", name, split, wanted)
    yield from runs("figure 1c", name, split, settings(CLEAR, lambda _: DEPTH_1, trees=TREES_1))
    for epsilon in extent.epsilons:
        wanted = settings(CURVES_1, lambda _: DEPTH_1, epsilon=epsilon, trees=TREES_1)
        yield from runs("figure 1c", name, split, wanted)


def figure_2(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Shares of wrong classes over epsilon, on banknote."""
    wary = depths_of(name, len(part(name, split)[0].target))["wary"]

    def depth(method: str) -> int:
        return wary if method in WARY else DEPTH_2

    yield from runs("figure 2", name, split, settings(CLEAR, depth))
    for epsilon in extent.banknote_epsilons:
        yield from runs("figure 2", name, split, settings(PRIVATE, depth, epsilon=epsilon))


def shapes(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """How records lie in the leaves (figure 3), and left and right of splits (figure 4)."""
    depth = depths_of(name, len(part(name, split)[0].target))
    wanted = settings(SHAPES, lambda m: depth["wary"] if m in WARY else DEPTH_3, epsilon=EPSILON_2)
    for setting in wanted:
        train_part = part(name, split)[0]
        forest, _ = train(setting, train_part, run_seed("shapes", name, split, setting))
        bins = sees(train_part, setting.method).bins
        found = [occupancy(tree, tree.apply(bins)) for tree in forest.trees]
        yield {
            "what": "shapes",
            "data": name,
            "split": split,
            **setting.plain,
            "nodes": float(np.mean([tree.n_nodes for tree in forest.trees])),
            "leaves": [float(x) for leaves, _ in found for x in leaves],
            "lefts": [float(x) for _, lefts in found for x in lefts],
        }


def check(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Grow the median forest with a slip of the authors' program."""
    yield from one_sided(name, split, part(name, split))


def occupancy(tree: Tree, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of rows in each leaf, and of each inner node's rows in its first child.

    `leaf`: int32 (m,); leaf of every row.
    """
    held = np.bincount(leaf, minlength=tree.n_nodes).astype(float)
    for depth in range(tree.depth, 0, -1):
        here = np.flatnonzero(tree.node_depths == depth)
        np.add.at(held, tree.parents[here], held[here])
    inner = np.flatnonzero((tree.first_child >= 0) & (held > 0))
    return held[tree.leaves] / leaf.size, held[tree.first_child[inner]] / held[inner]


def part(name: str, split: int) -> tuple[Task, Task]:
    """Return training and test part of one split; the last one is kept."""
    if (name, split) not in _KEPT:
        _KEPT.clear()
        _KEPT[name, split] = task_of(name).split(split)
    return _KEPT[name, split]


_KEPT: dict[tuple[str, int], tuple[Task, Task]] = {}


def run_seed(what: str, name: str, split: int, setting: Setting) -> int:
    """Return the seed of one run."""
    return seed_of(what, name, split, *setting.plain.values())


def runs(what: str, name: str, split: int, wanted: Sequence[Setting]) -> Iterator[Record]:
    """Train and test, setting by setting."""
    train_part, test_part = part(name, split)
    for setting in wanted:
        forest, ledger = train(setting, train_part, run_seed(what, name, split, setting))
        yield {
            "what": what,
            "data": name,
            "split": split,
            **setting.plain,
            "error": error(setting, forest, test_part),
            **costs(ledger, setting),
        }


JOBS: dict[str, Callable[[str, int, Extent], Iterator[Record]]] = {
    "table 1": table_1,
    "table 2": table_2,
    "figure 1": figure_1,
    "figure 2": figure_2,
    "shapes": shapes,
    "check": check,
}


def jobs_of(extent: Extent) -> list[tuple[str, str, int]]:
    """List all jobs, the largest first, so that no core waits long for the last."""
    jobs = [("table 1", name, s) for name in extent.regression[::-1] for s in range(extent.splits)]
    if extent.curves:
        jobs += [("figure 1", extent.curves, s) for s in range(extent.figure_splits)]
    jobs += [
        ("table 2", name, s) for name in extent.classification[::-1] for s in range(extent.splits)
    ]
    jobs += [("check", name, s) for name in extent.checked for s in range(extent.splits)]
    jobs += [("figure 2", "banknote", s) for s in range(extent.splits)]
    jobs += [("shapes", name, s) for name in extent.shapes for s in range(extent.figure_splits)]
    return jobs


def run_job(job: tuple[str, str, int], extent: Extent) -> list[Record]:
    """Run one job, in whatever process."""
    kind, name, split = job
    return list(JOBS[kind](name, split, extent))


def run_all(
    extent: Extent, tell: Callable[[int, int], None] = lambda done, of: None
) -> list[Record]:
    """Run all jobs; see `run_jobs`."""
    return run_jobs(run_job, jobs_of(extent), extent, tell, here=extent == QUICK)
