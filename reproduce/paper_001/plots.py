"""Draw paper 001's figures: one colour for each method in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from reproduce.paper_001.figures import Figure

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


def draw(figure: Figure, path: Path, note: str) -> None:
    """Write one figure as PNG.

    `figure`: as `reproduce.paper_001.figures` makes it; its panels stand side by side. `note`:
    stands below, in small letters.
    """
    panels = figure["panels"]
    size = (max(4.8 * len(panels), 9.5), 5.4)
    drawn, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        _panel(axes, panel)
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn.suptitle(f"Figure {figure['figure']}: {figure['title']}", fontsize=13)
    lines = note.count("\n") + 1
    columns = 5 if len(panels) > 2 else 4
    below = 0.24 * -(-len(handles) // columns) + 0.25 + 0.16 * lines
    drawn.tight_layout(rect=(0, below / size[1], 1, 1))
    drawn.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=columns,
        fontsize=8.5,
        frameon=False,
        bbox_to_anchor=(0.5, (0.16 * lines + 0.1) / size[1]),
    )
    drawn.text(0.5, 0.05 / size[1], note, ha="center", va="bottom", fontsize=7.5, color="0.3")
    drawn.savefig(path, dpi=130)
    plt.close(drawn)


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
