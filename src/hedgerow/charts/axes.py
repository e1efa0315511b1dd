"""Panels with matplotlib, which is an extra."""

from __future__ import annotations

from importlib.util import find_spec
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.charts.look import LONGEST_TICK, N_COLOURS, PALETTE, SMALL, printable, short
from hedgerow.charts.panel import Panel, Series
from hedgerow.errors import Code, install_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^v"
_GREY = "#94a3b8"
_NOTE = 0.7 * SMALL


def needs_matplotlib() -> None:
    """Raise H406 without matplotlib."""
    if find_spec("matplotlib") is None:
        raise Code.MISSING_EXTRA.error(
            expected="matplotlib", found="it is not installed", fix=install_of("plots")
        )


def one_axes(ax: Axes | None) -> Axes:
    """Return the given Axes, or those of the current figure; H406 without matplotlib."""
    needs_matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.gca()
    return ax


def draw_panel(panel: Panel, ax: Axes) -> Axes:
    """Draw a panel on Axes."""
    for series in panel.series:
        _draw(series, ax)
    ax.set_title(escaped(panel.title), fontsize=SMALL)
    for axis, set_label in ((panel.x, ax.set_xlabel), (panel.y, ax.set_ylabel)):
        set_label(escaped(axis.label))
    if panel.x.log:
        ax.set_xscale("log")
    ax.set_xlim(panel.x.low, panel.x.high)
    ax.set_ylim(panel.y.low, panel.y.high)
    if panel.x.ticks is not None:
        names = [escaped(short(text, LONGEST_TICK)) for _, text in panel.x.ticks]
        ax.set_xticks([at for at, _ in panel.x.ticks], names, fontsize=8)
        if len("".join(names)) > 40:
            ax.tick_params(axis="x", labelrotation=30)
            for label in ax.get_xticklabels():
                label.set_horizontalalignment("right")
    if panel.y.ticks is not None:
        ax.set_yticks(
            [at for at, _ in panel.y.ticks], [escaped(short(text)) for _, text in panel.y.ticks]
        )
    if any(series.name for series in panel.series):
        ax.legend(fontsize=8)
    if panel.notes:
        # Below the label of the axis, where a layout makes room for it.
        note = fill(escaped(" ".join(panel.notes)), 70)
        ax.set_xlabel(f"{ax.get_xlabel()}\n{note}".strip(), fontsize=_NOTE)
    return ax


def _draw(series: Series, ax: Axes) -> None:
    at = 0 if series.colour is None else series.colour
    colour = _GREY if series.colour is None else PALETTE[at % N_COLOURS][0]
    label = escaped(short(series.name)) if series.name else None
    match series.kind:
        case "bars":
            ax.barh(series.y, series.x, height=0.72, color=colour, label=label)
        case "line":
            ax.plot(series.x, series.y, color=colour, linewidth=1, zorder=0, label=label)
        case "points":
            marker = _MARKERS[at % len(_MARKERS)]
            ax.plot(series.x, series.y, marker, color=colour, markersize=5, label=label)
        case "stairs":
            if len(series.low):
                # `fill_between` wants a height for each edge: the last counts twice.
                low, high = (np.append(one, one[-1]) for one in (series.low, series.high))
                ax.fill_between(
                    series.x, low, high, step="post", color=colour, alpha=0.22, linewidth=0
                )
            ax.stairs(series.y, series.x, baseline=None, color=colour, linewidth=1.8, label=label)


def escaped(text: str) -> str:
    """Show text as it is: between dollar signs matplotlib reads formulas."""
    return printable(text).replace("$", r"\$")
