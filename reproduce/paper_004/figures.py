"""Paper 004's figures as plain data, from the records of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_004.methods import LABELS, PAPERS
from reproduce.paper_004.study import BUDGETS, HOWS, Extent, Record

Figure = dict[str, Any]
Point = dict[str, Any]

ROWS = {
    "published": "as published (α is claimed)",
    "strict": "the paper's parameters, α holds",
    "ours": "our default settings, α holds",
}


def point(found: Sequence[Record]) -> Point:
    """Return the mean over runs with its standard error, and what the trees are like."""
    tests = [r["test"] for r in found]
    n = len(tests)
    return {
        "mean": float(np.mean(tests)),
        "se": float(np.std(tests, ddof=1)) / n**0.5 if n > 1 else 0.0,
        "runs": tests,
        **{
            name: float(np.mean([r[name] for r in found]))
            for name in ("train", "depth", "leaves", "rounds", "bytes")
        },
        "max_depth": max(r["max_depth"] for r in found),
        "proven": found[0]["proven"],
        "claimed": found[0]["claimed"],
    }


def chosen(records: Sequence[Record], **wanted: Any) -> list[Record]:
    """Return the records with these values."""
    return [r for r in records if all(r[key] == value for key, value in wanted.items())]


def curve(
    records: Sequence[Record], label: str, key: str, xs: Sequence[float], **style: Any
) -> dict[str, Any]:
    """Return a curve over `key`; `style` says which of the others it is."""
    points = [{"x": x} | point(here) for x in xs if (here := chosen(records, **{key: x}))]
    return {"label": label, **style, "points": points}


def level(records: Sequence[Record], label: str, **style: Any) -> dict[str, Any]:
    """Return what is the same for all x: a run without noise."""
    return {"label": label, **style} | point(records)


def figure_1(records: Sequence[Record], extent: Extent) -> Figure:
    """Test accuracy over LPF: rows by data set and way to run, a column for every method."""
    panels = []
    for name in extent.lpf_data:
        for how in ("published", "ours"):
            for method in PAPERS:
                mine = chosen(records, what="figure 1", data=name, how=how, method=method)
                curves = [
                    curve(
                        chosen(mine, alpha=alpha, budget=budget),
                        f"α = {alpha:g}, {budget}",
                        "leaf_share",
                        extent.lpfs,
                        colour=f"{alpha:g}",
                        line=budget,
                        alpha=alpha,
                        budget=budget,
                    )
                    for alpha in extent.lpf_alphas
                    for budget in BUDGETS
                ]
                panels.append(_panel(name, how, method, curves, [], "LPF"))
    title = "Test accuracy over the share of α for the leaves"
    return {"figure": 1, "title": title, "columns": len(PAPERS), "panels": panels}


def figure_2(records: Sequence[Record], extent: Extent, data: Sequence[str]) -> Figure:
    """Test accuracy over alpha: a row for every way to run, a column for every data set."""
    panels = []
    for how, methods in HOWS.items():
        for name in data:
            mine = chosen(records, what="figure 2", data=name, how=how)
            curves = [
                curve(
                    chosen(mine, method=method),
                    LABELS[method],
                    "alpha",
                    extent.alphas,
                    colour=method,
                    line=how,
                    method=method,
                )
                for method in methods
            ]
            # Strict accounting has the paper's parameters: without noise it is the same.
            clear = chosen(
                records,
                what="figure 2",
                data=name,
                how="ours" if how == "ours" else "published",
                alpha=0.0,
            )
            levels = [
                level(
                    chosen(clear, method=method),
                    f"{LABELS[method]}, no noise",
                    colour=method,
                    method=method,
                )
                for method in PAPERS
            ]
            panels.append(_panel(name, how, None, curves, levels, "α"))
    title = "Test accuracy over α"
    return {"figure": 2, "title": title, "columns": len(data), "panels": panels}


def figure_3(records: Sequence[Record], extent: Extent) -> Figure:
    """Test accuracy over alpha for training parts of several sizes."""
    panels = []
    for name in extent.size_data:
        for how in ("published", "ours"):
            for method in PAPERS:
                mine = chosen(records, what="figure 3", data=name, how=how, method=method)
                curves, levels = [], []
                for share in extent.shares:
                    here = chosen(mine, share=share)
                    style = {"colour": f"share {share:g}", "line": how, "share": share}
                    label = f"{share:g} of the training records"
                    curves.append(curve(here, label, "alpha", extent.size_alphas, **style))
                    levels.append(level(chosen(here, alpha=0.0), f"{label}, no noise", **style))
                panels.append(_panel(name, how, method, curves, levels, "α"))
    title = "Test accuracy over α for training parts of several sizes"
    return {"figure": 3, "title": title, "columns": len(PAPERS), "panels": panels}


def _panel(
    name: str,
    how: str,
    method: str | None,
    curves: list[dict[str, Any]],
    levels: list[dict[str, Any]],
    x: str,
) -> dict[str, Any]:
    parts = [name, *([LABELS[method]] if method else []), ROWS[how]]
    return {
        "data": name,
        "how": how,
        "method": method,
        "title": ", ".join(parts),
        "x": x,
        "y": "test accuracy",
        "curves": [one for one in curves if one["points"]],
        "levels": levels,
    }


def figures(records: Sequence[Record], extent: Extent, data: Sequence[str]) -> dict[str, Figure]:
    """Make all figures."""
    return {
        "figure_1": figure_1(records, extent),
        "figure_2": figure_2(records, extent, data),
        "figure_3": figure_3(records, extent),
    }
