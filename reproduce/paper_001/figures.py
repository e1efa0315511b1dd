"""Paper 001's tables and figures as plain data, from the records of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from reproduce.paper_001.data import STAND_INS
from reproduce.paper_001.methods import CLEAR, DIPRIME, PRIVATE
from reproduce.paper_001.published import EPSILON_1, EPSILON_2, NODES_3, TABLE_1, TABLE_2
from reproduce.paper_001.study import (
    CURVES_1,
    DEPTH_1,
    DEPTH_2,
    MODES,
    SHAPES,
    TREES_1,
    Extent,
    Record,
)

Figure = dict[str, Any]
Point = dict[str, Any]

ALLOWED = 2.0
"""Spreads of the paper within which a figure counts as reproduced."""


def point(found: Sequence[Record]) -> Point:
    """Return mean and spread over the splits.

    ``sd`` is the standard deviation over the splits, ``half_width`` half of the 95% interval of
    their mean, which is what the authors' notebook prints behind its plus-minus sign.
    """
    values = [r["error"] for r in found]
    n = len(values)
    sd = float(np.std(values, ddof=1)) if n > 1 else 0.0
    quantile = float(stats.t.ppf(0.975, n - 1)) if n > 1 else 0.0
    return {
        "mean": float(np.mean(values)),
        "sd": sd,
        "half_width": quantile * sd / n**0.5,
        "splits": values,
        "depth": found[0]["depth"],
        "proven": found[0]["proven"],
        "claimed": found[0]["claimed"],
    }


def table(records: Sequence[Record], what: str) -> list[dict[str, Any]]:
    """Return one entry for every method, accounting and data set of a table."""
    keys = dict.fromkeys(
        (r["data"], r["method"], r["accounting"]) for r in records if r["what"] == what
    )
    entries = []
    for name, method, mode in keys:
        mine = [
            r
            for r in records
            if (r["what"], r["data"], r["method"], r["accounting"]) == (what, name, method, mode)
        ]
        entry = {"data": name, "method": method, "accounting": mode} | point(mine)
        if name in STAND_INS:
            entry["stand_in"] = STAND_INS[name]
        entries.append(entry)
    return entries


def table_1(records: Sequence[Record]) -> dict[str, Any]:
    """Mean squared errors beside the paper's, each with a verdict where the paper was followed."""
    entries = table(records, "table 1")
    for entry in entries:
        printed = TABLE_1[entry["method"], entry["data"]]
        entry |= {"paper": printed.mean, "paper_spread": printed.spread}
        if entry["accounting"] != "strict":
            entry["verdict"] = verdict(entry)
    return {"table": 1, "epsilon": EPSILON_1, "entries": entries}


def verdict(entry: dict[str, Any]) -> str:
    """Say whether a figure is within two of the paper's spreads, or by how much it differs."""
    if "stand_in" in entry:
        return "other data"
    apart = entry["mean"] - entry["paper"]
    spreads = abs(apart) / entry["paper_spread"]
    if spreads <= ALLOWED:
        return f"within ({spreads:.1f} spreads)"
    return f"differs by {apart / entry['paper']:+.0%} ({spreads:.1f} spreads)"


def table_2(records: Sequence[Record]) -> dict[str, Any]:
    """Shares of wrong classes beside those of the authors' notebook."""
    entries = table(records, "table 2")
    for entry in entries:
        entry["authors"] = TABLE_2[entry["method"], entry["data"]]
    return {"table": 2, "epsilon": EPSILON_2, "entries": entries}


def curves(
    records: Sequence[Record],
    what: str,
    methods: Sequence[str],
    xs: Sequence[float],
    key: str,
) -> list[dict[str, Any]]:
    """Return a curve for every method and accounting; methods without noise may be level."""
    found = []
    for method in methods:
        for mode in MODES if method in PRIVATE else (None,):
            mine = [
                r
                for r in records
                if (r["what"], r["method"], r["accounting"]) == (what, method, mode)
            ]
            level = method in CLEAR and key == "epsilon"
            points = []
            for x in xs:
                here = [r for r in mine if level or r[key] == x]
                if here:
                    points.append({"x": x} | point(here))
            if points:
                found.append({"method": method, "accounting": mode, "points": points})
    return found


def figure_1(records: Sequence[Record], extent: Extent) -> Figure:
    """Mean squared error over depth, number of trees and epsilon."""
    methods = (*CLEAR, *CURVES_1)
    asked: list[tuple[str, str, Sequence[float], str, str]] = [
        ("figure 1a", "depth", extent.depths, "depth", f"ε = {EPSILON_1:g}, {TREES_1} trees"),
        ("figure 1b", "trees", extent.trees, "trees", f"ε = {EPSILON_1:g}, depth {DEPTH_1}"),
        ("figure 1c", "epsilon", extent.epsilons, "ε", f"depth {DEPTH_1}, {TREES_1} trees"),
    ]
    panels = [
        {
            "data": extent.curves,
            "title": f"{extent.curves}, {title}",
            "x": label,
            "log": key != "depth",
            "y": "mean squared error",
            "curves": curves(records, what, methods, xs, key),
        }
        for what, key, xs, label, title in asked
    ]
    title = "Mean squared error over depth, number of trees and ε"
    return {"figure": 1, "title": title, "panels": panels}


def figure_2(records: Sequence[Record], extent: Extent) -> Figure:
    """Accuracy over epsilon on banknote, as the paper draws it."""
    found = curves(records, "figure 2", (*CLEAR, *PRIVATE), extent.banknote_epsilons, "epsilon")
    for curve in found:
        for one in curve["points"]:
            one["mean"] = 1 - one["mean"]
            one["splits"] = [1 - value for value in one["splits"]]
    panels = [
        {
            "data": "banknote",
            "title": f"banknote, {mode} accounting",
            "x": "ε",
            "log": True,
            "y": "accuracy",
            "curves": [c for c in found if c["accounting"] in (None, mode)],
        }
        for mode in MODES
    ]
    title = f"Accuracy over ε (depth {DEPTH_2}, trees with five branches less; 10 trees)"
    return {"figure": 2, "title": title, "panels": panels}


def _shapes(
    records: Sequence[Record],
    name: str,
    methods: Sequence[str],
    summed: Callable[[list[dict[str, Any]]], list[Point]],
) -> list[dict[str, Any]]:
    found = []
    for mode in MODES:
        drawn = []
        for method in methods:
            mine = [
                r
                for r in records
                if (r["what"], r["data"], r["method"], r["accounting"])
                == ("shapes", name, method, mode)
            ]
            if mine:
                nodes = float(np.mean([r["nodes"] for r in mine]))
                curve = {"method": method, "accounting": mode, "nodes": nodes}
                drawn.append(curve | {"points": summed(mine)})
        found.append({"data": name, "title": f"{name}, {mode} accounting", "curves": drawn})
    return found


def figure_3(records: Sequence[Record], extent: Extent) -> Figure:
    """How many leaves hold how little: the share of leaves with at most x of the records."""
    xs = np.geomspace(1e-4, 1.0, 81)

    def summed(mine: list[dict[str, Any]]) -> list[Point]:
        held = np.sort(np.concatenate([r["leaves"] for r in mine]))
        below = np.searchsorted(held, xs, side="right") / held.size
        return [{"x": float(x), "mean": float(y)} for x, y in zip(xs, below, strict=True)]

    axes = {"x": "share x of the training records", "log": True, "y": "leaves with at most x"}
    panels = [panel | axes for panel in _shapes(records, extent.shapes[0], SHAPES, summed)]
    title = f"Occupancy of leaves (ε = {EPSILON_2:g})"
    return {"figure": 3, "title": title, "panels": panels, "paper_nodes": NODES_3}


def figure_4(records: Sequence[Record], extent: Extent) -> Figure:
    """How a split divides the records of its node."""
    edges = np.linspace(0, 1, 21)

    def summed(mine: list[dict[str, Any]]) -> list[Point]:
        lefts = np.concatenate([r["lefts"] for r in mine])
        shares = np.histogram(lefts, edges)[0] / lefts.size
        middle = (edges[1:] + edges[:-1]) / 2
        off = float(np.abs(lefts - 0.5).mean())
        return [
            {"x": float(x), "mean": float(y), "off_balance": off}
            for x, y in zip(middle, shares, strict=True)
        ]

    axes = {"x": "share of a node's records in its left child", "log": False, "y": "nodes"}
    methods = ("DP-ERT", *DIPRIME)
    panels = [panel | axes for panel in _shapes(records, extent.shapes[-1], methods, summed)]
    title = f"Balance of splits (ε = {EPSILON_2:g}, depth 4)"
    return {"figure": 4, "title": title, "panels": panels}


def figures(records: Sequence[Record], extent: Extent) -> dict[str, Figure]:
    """Return all figures by name."""
    return {
        "figure_1": figure_1(records, extent),
        "figure_2": figure_2(records, extent),
        "figure_3": figure_3(records, extent),
        "figure_4": figure_4(records, extent),
    }
