"""Draw paper 004's figures: one colour for each method, alpha or size in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from reproduce.paper_004.figures import ROWS, Figure
from reproduce.plots import draw_panels

COLOURS = {
    "single-machine": "#0072B2",
    "noisy-counts": "#D55E00",
    "local-rnm": "#117733",
    "secure-counts": "#AA3377",
    "0.125": "#E69F00",
    "1": "#0072B2",
    "8": "#AA3377",
    "share 0.01": "#E69F00",
    "share 0.05": "#D55E00",
    "share 0.1": "#999933",
    "share 0.5": "#0072B2",
    "share 1": "#332288",
}
# Solid: alpha holds, or budgets are equal. Dashed: alpha is the paper's claim, or budgets halve.
LINES = {"published": "--", "strict": "-", "ours": "-", "decay": "--", "uniform": "-"}
MARKS = {"secure-counts": "D"}


def draw(figure: Figure, path: Path, description: str) -> None:
    """Write one figure as SVG."""

    def panels(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
        for axes, panel in shown:
            _panel(axes, panel)
        _same_heights(shown)

    draw_panels(figure, path, description, draw=panels)


def _same_heights(shown: list[tuple[Axes, dict[str, Any]]]) -> None:
    """Give all panels of a data set one scale, so that they can be compared by eye."""
    for name in {panel["data"] for _, panel in shown}:
        mine = [axes for axes, panel in shown if panel["data"] == name]
        ends = [axes.get_ylim() for axes in mine]
        for axes in mine:
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def _panel(axes: Axes, panel: dict[str, Any]) -> None:
    for one in panel["levels"]:
        axes.axhline(
            one["mean"], color=COLOURS[one["colour"]], linestyle=":", linewidth=1.1, alpha=0.8
        )
    for one in panel["curves"]:
        xs = [p["x"] for p in one["points"]]
        mean = [p["mean"] for p in one["points"]]
        colour, line = COLOURS[one["colour"]], LINES[one["line"]]
        axes.plot(
            xs,
            mean,
            color=colour,
            linestyle=line,
            marker=MARKS.get(one["colour"], "o"),
            markersize=3,
            # They tell lines apart; a mark on each point would be a third of the file.
            markevery=3,
            linewidth=1.3,
            # The same colour is dashed in one row of panels and solid in another.
            label=one["label"] + (" (claimed)" if one["line"] == "published" else ""),
        )
        low = [p["mean"] - p["se"] for p in one["points"]]
        high = [p["mean"] + p["se"] for p in one["points"]]
        axes.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
    head, tail = panel["title"].removesuffix(ROWS[panel["how"]]).rstrip(", "), ROWS[panel["how"]]
    axes.set_title(f"{head}\n{tail}", fontsize=8.5)
    axes.set_xlabel(panel["x"], fontsize=8, labelpad=1)
    axes.set_ylabel(panel["y"], fontsize=8)
    axes.grid(visible=True, color="0.92")
    axes.tick_params(labelsize=7.5)
    if panel["x"] == "α":
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
