"""Draw paper 001's figures: one colour for each method in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from reproduce.paper_001.figures import Figure
from reproduce.plots import draw_panels

COLOURS = {
    "RF": "0.55",
    "ERT": "0.7",
    "Median": "0.25",
    "DP-RF": "#E69F00",
    "DP-DF": "#AA3377",
    "DP-ERT": "#999933",
    "DiPriMe": "#0072B2",
    "DiPriMeExp": "#D55E00",
    "DiPriMeFlip": "#117733",
}
# Solid: the epsilon holds. Dashed: it is the paper's claim. Dotted: no noise.
LINES = {None: ":", "paper": "--", "strict": "-"}
_WORDS = {None: "", "paper": " (paper)", "strict": " (strict)"}


def draw(figure: Figure, path: Path, description: str) -> None:
    """Write one figure as SVG."""

    def panels(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
        for axes, panel in shown:
            _panel(axes, panel)

    draw_panels(figure, path, description, draw=panels)


def _panel(axes: Axes, panel: dict[str, Any]) -> None:
    for curve in panel["curves"]:
        xs = [p["x"] for p in curve["points"]]
        mean = [p["mean"] for p in curve["points"]]
        colour = COLOURS[curve["method"]]
        few = len(xs) < 15
        axes.plot(
            xs,
            mean,
            color=colour,
            linestyle=LINES[curve["accounting"]],
            marker="o" if few and curve["accounting"] else None,
            markersize=3.5,
            linewidth=1.5,
            label=curve["method"] + _WORDS[curve["accounting"]],
        )
        if few and "sd" in curve["points"][0] and curve["accounting"]:
            sd = [p["sd"] for p in curve["points"]]
            axes.errorbar(xs, mean, yerr=sd, fmt="none", ecolor=colour, alpha=0.35, elinewidth=0.9)
    axes.set_title(panel["title"], fontsize=10)
    axes.set_xlabel(panel["x"], fontsize=9)
    axes.set_ylabel(panel["y"], fontsize=9)
    axes.grid(visible=True, color="0.92")
    axes.tick_params(labelsize=8)
    if panel["log"]:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if panel["x"] == "depth":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel["y"] == "mean squared error":
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        low, high = axes.get_ylim()
        # Within one power of ten the ticks between are all there is to read.
        minor = NullFormatter() if high > 10 * low else FuncFormatter(lambda v, _: f"{v:g}")
        axes.yaxis.set_minor_formatter(minor)
        axes.tick_params(which="minor", labelsize=7)
