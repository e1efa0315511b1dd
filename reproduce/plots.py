"""What the papers' figures share: panels in a grid and one legend below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from reproduce.svg import save_svg

Panel = dict[str, Any]
Draw = Callable[[dict[str, Any], Path, str], None]
"""Writes a figure to a file; its description says what stands below and what made it."""

_COLUMNS, _WIDTH, _HEIGHT, _LINE = 3, 2.75, 2.35, 0.17
"""Inches of a panel and of a line of the legend: three panels are as wide as a page."""
_LETTER, _SIGN = 0.062, 0.55
"""Inches of a letter of the legend, and of the sign before its texts."""


def draw_panels(
    figure: dict[str, Any],
    path: Path,
    description: str,
    *,
    draw: Callable[[list[tuple[Axes, Panel]]], None],
) -> None:
    """Write one figure as SVG; `draw` fills the axes of its panels."""
    panels = figure["panels"]
    columns = next((n for n in (3, 2) if len(panels) % n == 0), min(_COLUMNS, len(panels)))
    rows = -(-len(panels) // columns)
    width = _WIDTH * _COLUMNS if columns > 1 else 2 * _WIDTH
    drawn = plt.figure(figsize=(width, _HEIGHT * rows))
    grid = drawn.subplots(rows, columns, squeeze=False)
    draw(list(zip(grid.flat, panels, strict=False)))
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    handles: dict[str, Any] = {}
    for axes in drawn.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
        axes.set_ylabel(fill(axes.get_ylabel(), 24))
    per_line = _per_line([*handles], width)
    below = _LINE * -(-len(handles) // per_line) + 0.15
    height = _HEIGHT * rows + below
    drawn.set_size_inches(width, height)
    drawn.tight_layout(rect=(0, below / height, 1, 1))
    drawn.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=per_line,
        fontsize=8.5,
        frameon=False,
        bbox_to_anchor=(0.5, 0.0),
    )
    save_svg(drawn, path, f"Figure {figure['figure']}: {figure['title']}", description)
    plt.close(drawn)


def _per_line(labels: Sequence[str], width: float) -> int:
    """Return how many entries of a legend a line has room for; columns are filled one by one."""
    for n in range(min(len(labels), 5), 1, -1):
        rows = -(-len(labels) // n)
        columns = [labels[i : i + rows] for i in range(0, len(labels), rows)]
        if sum(_LETTER * max(map(len, one)) + _SIGN for one in columns) <= width:
            return len(columns)
    return 1
