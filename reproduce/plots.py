"""What the papers' figures share: panels in a grid, one legend and a note below them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Panel = dict[str, Any]
_LINE, _NOTE_LINE = 0.24, 0.16  # inches


def draw_panels(
    figure: dict[str, Any],
    path: Path,
    note: str,
    *,
    columns: int,
    panel_size: tuple[float, float],
    per_line: int,
    draw: Callable[[list[tuple[Axes, Panel]]], None],
) -> None:
    """Write one figure as PNG; `draw` fills the axes of its panels.

    `panel_size`: width and height in inches. `per_line`: entries of the legend in a line.
    """
    panels, lines = figure["panels"], note.count("\n") + 1
    rows = -(-len(panels) // columns)
    size = (max(panel_size[0] * columns, 9.5), panel_size[1] * rows + 1.5)
    drawn, grid = plt.subplots(rows, columns, figsize=size, squeeze=False)
    draw(list(zip(grid.flat, panels, strict=True)))
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn.suptitle(f"Figure {figure['figure']}: {figure['title']}", fontsize=13)
    below = _LINE * -(-len(handles) // per_line) + 0.3 + _NOTE_LINE * lines
    drawn.tight_layout(rect=(0, below / size[1], 1, 1))
    drawn.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=per_line,
        fontsize=8.5,
        frameon=False,
        bbox_to_anchor=(0.5, (_NOTE_LINE * lines + 0.1) / size[1]),
    )
    drawn.text(0.5, 0.05 / size[1], note, ha="center", va="bottom", fontsize=7.5, color="0.3")
    drawn.savefig(path, dpi=130)
    plt.close(drawn)
