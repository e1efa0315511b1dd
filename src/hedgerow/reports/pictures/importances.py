"""How much each attribute matters to a public model, as bars."""

from __future__ import annotations

import numpy as np

from hedgerow.charts.panel import Axis, Panel, Series
from hedgerow.charts.svg import panels_svg
from hedgerow.trees.importance import importances
from hedgerow.trees.model import Model

MOST_BARS = 20


def importance_panel(model: Model, *, noisy: bool = False, criterion: str | None = None) -> Panel:
    """Return the bars of the attributes that matter most, the longest on top.

    `noisy`: say that they are computed from noisy numbers. `criterion`: see `importances`.
    """
    shares, measure = importances(model, criterion)
    order = np.argsort(-shares, kind="stable")[:MOST_BARS]
    names = [model.domain.attributes[j].name for j in order]
    heights = list(range(len(order) - 1, -1, -1))
    notes = [f"Measured by: {measure}."]
    if noisy:
        notes.append("Computed from noisy numbers, which are public: it costs no privacy.")
    if rest := len(shares) - len(order):
        left_out = float(shares.sum() - shares[order].sum())
        notes.append(f"{rest:,} more attributes have {left_out:.1%} together.")
    target = model.domain.target
    return Panel(
        f"Importance of the attributes for {target.name if target else ''}",
        Axis("share", 0.0, max(float(shares.max()), 1e-3) * 1.05),
        Axis("", -0.5, len(order) - 0.5, ticks=tuple(zip(heights, names, strict=True))),
        [
            Series(
                "bars",
                shares[order].tolist(),
                heights,
                tips=[f"{n}: {s:.1%}" for n, s in zip(names, shares[order].tolist(), strict=True)],
            )
        ],
        notes,
    )


def importance_svg(model: Model, *, noisy: bool = False, criterion: str | None = None) -> str:
    """Draw how much each attribute matters to a public model, as SVG for a page."""
    panel = importance_panel(model, noisy=noisy, criterion=criterion)
    most = "; ".join(panel.series[0].tips[:5])
    said = f"Bars, longest first: {most}. {' '.join(panel.notes)}"
    return panels_svg([panel], title=panel.title, description=said)
