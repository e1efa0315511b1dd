"""Draw paper 002's costs: grey for its formulas, a colour for each way of counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from reproduce.paper_002.figures import FORMULA, LITERAL, PRINTED, Figure
from reproduce.plots import draw_panels

STYLE: dict[str, dict[str, Any]] = {
    FORMULA: {"color": "0.25", "linestyle": "--", "marker": ""},
    LITERAL: {"color": "0.6", "linestyle": ":", "marker": "x"},
    PRINTED: {"color": "0.6", "linestyle": ":", "marker": "x"},
    "ring": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "needed": {"color": "#E69F00", "linestyle": "-", "marker": "s"},
    "secret": {"color": "#117733", "linestyle": "-", "marker": "D"},
    "servers": {"color": "#117733", "linestyle": ":", "marker": "D"},
}


def draw(figure: Figure, path: Path, description: str) -> None:
    """Write one figure as SVG."""

    def panels(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
        for axes, panel in shown:
            _panel(axes, panel)

    draw_panels(figure, path, description, draw=panels)


def _panel(axes: Axes, panel: dict[str, Any]) -> None:
    for curve in panel["curves"]:
        xs, ys = ([p[key] for p in curve["points"]] for key in ("x", "y"))
        style = STYLE[curve["method"]]
        axes.plot(xs, ys, label=curve["label"], markersize=4, linewidth=1.5, **style)
    axes.set_xlabel(panel["x"], fontsize=9)
    axes.set_ylabel(panel["y"], fontsize=9)
    if panel["y"] == "rounds":
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.yaxis.set_major_formatter(lambda value, _: _short(value))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if panel["axis"] == "n":
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([p["x"] for p in panel["curves"][0]["points"]])
    axes.grid(visible=True, color="0.92")
    axes.tick_params(labelsize=8)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
