"""Draw paper 000's figures: one colour for each method in all of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from reproduce.paper_000.figures import METRICS, Figure

# Colours that most people tell apart. Solid: epsilon holds. Dashed: none does. Dash-dotted: it
# would hold if the mechanisms were exact.
STYLE: dict[str, dict[str, Any]] = {
    "none": {"color": "0.45", "linestyle": ":"},
    "leaves laplace": {"color": "#0072B2", "linestyle": "--", "marker": "o"},
    "leaves exponential": {"color": "#56B4E9", "linestyle": "--", "marker": "s"},
    "leaves labels": {"color": "#003C5F", "linestyle": "--", "marker": "^"},
    "open laplace": {"color": "#AA3377", "linestyle": "-.", "marker": "x"},
    "open exponential": {"color": "#E08AC0", "linestyle": "-.", "marker": "+"},
    "splits+leaves": {"color": "#E69F00", "linestyle": "-", "marker": "v"},
    "splits+leaves wary auto": {"color": "#D55E00", "linestyle": "-", "marker": "D"},
    "splits+leaves binary auto": {"color": "#117733", "linestyle": "-", "marker": "o"},
    "votes": {"color": "#44AA99", "linestyle": "-", "marker": "*"},
    "votes many": {"color": "#99D8C9", "linestyle": "-", "marker": "*"},
    "forest leaves": {"color": "#0072B2", "linestyle": "--", "marker": "o"},
    "forest extra": {"color": "#999933", "linestyle": "-", "marker": "s"},
    "forest splits+leaves": {"color": "#E69F00", "linestyle": "-", "marker": "v"},
}
_WIDTH = 4.6


def draw(figure: Figure, path: Path, note: str) -> None:
    """Write one figure as PNG.

    `figure`: as `reproduce.paper_000.figures` makes it; panels row by row, a column for each data
    set. `note`: stands below, in small letters.
    """
    panels = figure["panels"]
    columns = len({panel["data"] for panel in panels})
    rows = -(-len(panels) // columns)
    size = (max(_WIDTH * columns, 9.0), 3.1 * rows + 1.7)
    drawn, grid = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        _panel(axes, panel, figure)
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn.suptitle(f"Figure {figure['figure']}: {figure['title']}", fontsize=13)
    below = 0.24 * -(-len(handles) // 3) + 0.3 + 0.16 * (note.count("\n") + 1)
    drawn.tight_layout(rect=(0, below / size[1], 1, 1))
    drawn.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=3 if columns > 1 else 2,
        fontsize=8.5,
        frameon=False,
        bbox_to_anchor=(0.5, (0.16 * (note.count("\n") + 1) + 0.1) / size[1]),
    )
    drawn.text(0.5, 0.05 / size[1], note, ha="center", va="bottom", fontsize=7.5, color="0.3")
    drawn.savefig(path, dpi=130)
    plt.close(drawn)


def _panel(axes: Axes, panel: dict[str, Any], figure: Figure) -> None:
    for at, curve in enumerate(panel["curves"]):
        style = dict(STYLE[curve["method"]], linewidth=1.6, markersize=5)
        if "trees" in curve:
            strength = 0.3 + 0.7 * math.log10(curve["trees"])
            style |= {"alpha": strength, "linewidth": 1.0 + strength}
        xs = [p["x"] for p in curve["points"]]
        mean = [p["mean"] for p in curve["points"]]
        axes.plot(xs, mean, label=curve["label"], **style)
        if "sd" in curve["points"][0] and "trees" not in curve:
            sd = [p["sd"] for p in curve["points"]]
            # Bars beside each other instead of bands: eight bands would hide one another.
            log = _is_log(panel)
            step = (at - 3) * (0.012 if log else 0.004 * (xs[-1] - xs[0]))
            beside = [x * (1 + 3 * step) if log else x + step for x in xs]
            axes.errorbar(
                beside, mean, yerr=sd, fmt="none", ecolor=style["color"], alpha=0.45, elinewidth=0.9
            )
    if "majority" in panel:
        label = "always the most frequent class"
        axes.axhline(panel["majority"], color="0.75", linewidth=1.0, label=label, zorder=0)
    _axes(axes, panel, figure)


def _axes(axes: Axes, panel: dict[str, Any], figure: Figure) -> None:
    fixed = [f"{key} {panel[key]}" for key in ("depth",) if key in panel]
    fixed += [f"ε = {panel['epsilon']:g}"] if "epsilon" in panel else []
    axes.set_title(", ".join([panel["data"], *fixed]), fontsize=10)
    axes.set_xlabel(figure["x"], fontsize=9)
    axes.set_ylabel(panel.get("unit") or METRICS[panel["metric"]], fontsize=9)
    axes.grid(visible=True, color="0.92")
    axes.tick_params(labelsize=8)
    if _is_log(panel):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if "unit" in panel:
        axes.set_yscale("log")
        # Some panels span less than a decade, which has no power of ten in it.
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if figure["x"] == "depth" and panel["curves"]:
        axes.set_xticks(sorted({p["x"] for c in panel["curves"] for p in c["points"]}))


def _is_log(panel: dict[str, Any]) -> bool:
    """Whether epsilon spans more than a decade or so."""
    xs = [p["x"] for curve in panel["curves"] for p in curve["points"]]
    return bool(xs) and min(xs) < 0.05 * max(xs)
