"""Paper 000's figures as plain data: curves with mean and spread, from the records of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from reproduce.data import SPLITS
from reproduce.paper_000.data import DEPTH
from reproduce.paper_000.study import MANY, Extent, Record, part_of, voters

LABELS = {
    "none": "no noise (MPC-ID3)",
    "leaves laplace": "hidden, noise in the leaves only (paper, Laplace): no finite ε",
    "leaves exponential": "hidden, leaves only (paper, exponential): no finite ε",
    "leaves labels": "hidden, leaves only, exact noisy max: no finite ε",
    "open laplace": "opened (CDP+PMPC-ID3, Laplace)",
    "open exponential": "opened (CDP+PMPC-ID3, exponential)",
    "splits+leaves": "hidden, noise in splits and leaves, same depth",
    "splits+leaves wary auto": "hidden, splits and leaves, w-ary, depth by rule",
    "splits+leaves binary auto": "hidden, splits and leaves, binary, depth by rule",
    "votes": "votes, one answer costs ε",
    "votes many": f"votes, {MANY} answers cost ε together",
    "forest leaves": "random forest, leaves only (paper): no finite ε",
    "forest extra": "extra trees, leaves",
    "forest splits+leaves": "random forest, splits and leaves",
}

METRICS = {
    "accuracy": "accuracy",
    "auc": "ROC AUC of classes (as the paper)",
    "auc_counts": "ROC AUC of noisy counts",
}

Curve = dict[str, Any]
Figure = dict[str, Any]
Keep = Callable[[Record], bool]


def point(found: Sequence[Record], metric: str) -> dict[str, Any] | None:
    """Return mean and spread of runs, or None where the metric is missing.

    ``sd`` is over all runs: what one training may come to. ``split_sd`` is over the means of the
    splits, and ``runs`` says how many there were.
    """
    values = [r[metric] for r in found if r[metric] is not None]
    if not values:
        return None
    by_split: dict[int, list[float]] = {}
    for r in found:
        by_split.setdefault(r["split"], []).append(r[metric])
    means = [float(np.mean(listed)) for listed in by_split.values()]
    return {
        "mean": float(np.mean(means)),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
        "split_sd": float(np.std(means, ddof=1)) if len(means) > 1 else 0.0,
        "splits": means,
        "runs": len(values),
        "proven": found[0]["proven"],
        "depth": found[0]["depth"],
    }


def curve(
    records: Sequence[Record],
    method: str,
    name: str,
    metric: str,
    xs: Sequence[float],
    keep: Callable[[Record, float], bool],
    label: str | None = None,
) -> Curve | None:
    """Return one curve: for every x the runs that `keep` takes; None if there are none."""
    mine = [r for r in records if r["method"] == method.removesuffix(" many") and r["data"] == name]
    points = []
    for x in xs:
        found = point([r for r in mine if keep(r, x)], metric)
        if found is not None:
            points.append({"x": x} | found)
    if not points:
        return None
    return {"method": method, "label": label or LABELS[method], "points": points}


def panel(name: str, metric: str, curves: Sequence[Curve | None], **more: Any) -> dict[str, Any]:
    """Return one pair of axes."""
    kept = [c for c in curves if c is not None]
    level = {"majority": majority(name)} if metric == "accuracy" else {}
    return {"data": name, "metric": metric, "curves": kept} | level | more


@cache
def majority(name: str) -> float:
    """Return the accuracy of always answering the most frequent class, over the splits."""
    parts = [part_of(name, split) for split in range(SPLITS)]
    return float(np.mean([max(np.bincount(part.truth)) / part.truth.size for part in parts]))


def over_epsilon(depth: int) -> Callable[[Record, float], bool]:
    """Take runs of one epsilon; methods that choose their own depth have one depth at each."""

    def keep(r: Record, x: float) -> bool:
        chosen = r["method"].endswith("auto")
        return bool(
            (r["epsilon"] == x or r["method"] == "none") and (chosen or r["depth"] == depth)
        )

    return keep


def votes_over_epsilon(name: str, answers: int) -> Callable[[Record, float], bool]:
    """Take votes of as many trees as the public rule says, of which so many answers cost x."""
    capacity = part_of(name, 0).capacity

    def keep(r: Record, x: float) -> bool:
        return bool(r["epsilon"] == x / answers and r["trees"] == voters(capacity, x / answers))

    return keep


def figure_2(records: Sequence[Record], extent: Extent) -> Figure:
    """Accuracy and AUC over epsilon."""
    panels = []
    for metric in METRICS:
        for name in extent.names:
            xs, keep = extent.epsilons[name], over_epsilon(DEPTH[name])
            curves = [
                curve(records, method, name, metric, xs, keep)
                for method in (
                    "none",
                    "leaves laplace",
                    "splits+leaves",
                    "splits+leaves wary auto",
                    "splits+leaves binary auto",
                    "open laplace",
                )
            ]
            for method, answers in (("votes", 1), ("votes many", MANY)):
                chosen = votes_over_epsilon(name, answers)
                curves.append(curve(records, method, name, metric, xs, chosen))
            panels.append(panel(name, metric, curves, depth=DEPTH[name]))
    return {"figure": 2, "title": "Accuracy and ROC AUC over ε", "x": "ε", "panels": panels}


def figure_3(records: Sequence[Record], extent: Extent) -> Figure:
    """AUC over the depth."""
    panels = []
    for name in extent.names:
        at = extent.depth_epsilon[name]

        def keep(r: Record, depth: float, at: float = at) -> bool:
            return bool(r["depth"] == depth and (r["epsilon"] == at or r["method"] == "none"))

        def rule(r: Record, depth: float, at: float = at) -> bool:
            return bool(r["epsilon"] == at)

        methods = ("none", "leaves laplace", "splits+leaves", "open laplace")
        curves = [curve(records, m, name, "auc", extent.depths, keep) for m in methods]
        # Level lines: their depth is chosen by the rule, whatever the others' is.
        by_rule = ("splits+leaves wary auto", "splits+leaves binary auto")
        curves += [curve(records, m, name, "auc", extent.depths, rule) for m in by_rule]
        panels.append(panel(name, "auc", curves, epsilon=at))
    return {"figure": 3, "title": "ROC AUC over the depth", "x": "depth", "panels": panels}


def figure_4(records: Sequence[Record], extent: Extent) -> Figure:
    """Laplace and exponential leaf updates."""
    panels = []
    for name in extent.names:
        keep = over_epsilon(DEPTH[name])
        curves = [
            curve(records, method, name, "accuracy", extent.epsilons[name], keep)
            for method in (
                "leaves laplace",
                "leaves exponential",
                "leaves labels",
                "open laplace",
                "open exponential",
            )
        ]
        panels.append(panel(name, "accuracy", curves, depth=DEPTH[name]))
    return {"figure": 4, "title": "Laplace and exponential leaves", "x": "ε", "panels": panels}


def figure_5(costs: Sequence[Record], extent: Extent) -> Figure:
    """Seconds and bytes over the depth."""
    panels = []
    for metric, unit in (("seconds", "seconds"), ("megabytes", "MB sent by a server")):
        for name in extent.names:
            curves: list[Curve] = []
            for method in dict.fromkeys(r["method"] for r in costs):
                rows = [r for r in costs if (r["method"], r["data"]) == (method, name)]
                points = [{"x": r["depth"], "mean": r[metric]} for r in rows if metric in r]
                if points:
                    label = LABELS[method].split(": no finite")[0]
                    curves.append({"method": method, "label": label, "points": points})
            if curves:
                panels.append(panel(name, metric, curves, unit=unit))
    return {
        "figure": 5,
        "title": "Training: seconds, and megabytes that one server sends, over the depth (ε = 1)",
        "x": "depth",
        "panels": panels,
        "settings": list(costs),
    }


def figure_6(records: Sequence[Record], extent: Extent) -> Figure:
    """Forests: accuracy over epsilon for depths and numbers of trees."""
    panels = []
    for depth in extent.depths:
        for name in extent.names:
            curves = []
            for method in ("forest leaves", "forest extra", "forest splits+leaves"):
                for trees in extent.trees:

                    def keep(r: Record, x: float, d: int = depth, t: int = trees) -> bool:
                        return bool((r["epsilon"], r["depth"], r["trees"]) == (x, d, t))

                    label = f"{LABELS[method]}, {trees} {'tree' if trees == 1 else 'trees'}"
                    xs = extent.forest_epsilons[name]
                    found = curve(records, method, name, "accuracy", xs, keep, label)
                    curves.append(None if found is None else found | {"trees": trees})
            panels.append(panel(name, "accuracy", curves, depth=depth))
    return {
        "figure": 6,
        "title": "Forests on disjoint records: accuracy over ε",
        "x": "ε",
        "panels": panels,
    }


def figures(
    records: Sequence[Record], costs: Sequence[Record], extent: Extent
) -> dict[str, Figure]:
    """Return all figures by name."""
    return {
        "figure_2": figure_2(records, extent),
        "figure_3": figure_3(records, extent),
        "figure_4": figure_4(records, extent),
        "figure_5": figure_5(costs, extent),
        "figure_6": figure_6(records, extent),
    }
