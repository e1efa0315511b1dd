"""Draw paper 000's figures: one colour for each method in all of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from reproduce.paper_000.figures import METRICS, Figure
from reproduce.plots import draw_panels

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


def draw(figure: Figure, path: Path, description: str) -> None:
    """Write one figure as SVG."""

    def panels(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
        for axes, panel in shown:
            _panel(axes, panel, figure)

    draw_panels(figure, path, description, draw=panels)


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
