"""Draw paper 003's figures: a colour for each algorithm, dots for what is online."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from reproduce.paper_003.figures import CLEAR, ONLINE, Figure
from reproduce.plots import draw_panels

STYLE: dict[str, dict[str, Any]] = {
    "basic": {"color": "#0072B2", "marker": "o"},
    "enhanced": {"color": "#E69F00", "marker": "s"},
    "baseline": {"color": "#882255", "marker": "^"},
    "paillier": {"color": "#56B4E9", "marker": "o"},
    "paillier enhanced": {"color": "#CC6677", "marker": "s"},
    CLEAR: {"color": "0.4", "marker": "x"},
    "forest of classes": {"color": "#117733", "marker": "o"},
    "forest of numbers": {"color": "#88CCAA", "marker": "s"},
    "boosting of classes": {"color": "#882255", "marker": "^"},
    "boosting of numbers": {"color": "#CC6677", "marker": "D"},
}
# What is hidden has the colour of what is not, and dashes.
STYLE |= {
    f"hidden {name}": {**style, "fillstyle": "none"}
    for name, style in STYLE.items()
    if " of " in name
}
_LOG_AXES = ("n", "each", "bins", "trees")


def draw(figure: Figure, path: Path, description: str) -> None:
    """Write one figure as SVG."""

    def panels(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
        for axes, panel in shown:
            _panel(axes, panel)

    draw_panels(figure, path, description, draw=panels)


def _panel(axes: Axes, panel: dict[str, Any]) -> None:
    for curve in panel["curves"]:
        xs, ys = ([p[key] for p in curve["points"]] for key in ("x", "y"))
        hidden = curve["method"].startswith("hidden")
        line = ":" if curve["part"] == ONLINE else "--" if hidden else "-"
        style = STYLE[curve["method"]]
        axes.plot(xs, ys, line, label=curve["label"], markersize=4, linewidth=1.5, **style)
    axes.set_title(panel["title"], fontsize=9, loc="left")
    axes.set_xlabel(panel["x"], fontsize=9)
    axes.set_ylabel(panel["y"], fontsize=9)
    if panel["y"].startswith("rounds"):
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0), numticks=9))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if panel["axis"] in _LOG_AXES:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    ticks = sorted({p["x"] for curve in panel["curves"] for p in curve["points"]})
    axes.set_xticks(ticks, [_short(x) for x in ticks])
    axes.grid(visible=True, color="0.92")
    axes.tick_params(labelsize=8)


def _short(x: float) -> str:
    return f"{x / 1000:g}k" if x >= 1000 else f"{x:g}"
