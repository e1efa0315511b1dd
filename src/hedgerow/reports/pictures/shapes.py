"""What one attribute adds to the score of boosted trees: steps, with bands of the known noise."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hedgerow.charts.panel import Axis, Panel, Series, axis_around
from hedgerow.charts.svg import panels_svg
from hedgerow.errors import Code
from hedgerow.tables import Attribute
from hedgerow.trees.additive import Effect, effect
from hedgerow.trees.boosted import Boosted

COVERAGE = 0.95
BAND = NormalDist().inv_cdf((1 + COVERAGE) / 2)
"""Standard deviations on each side that hold so much of the noise.

The noise of a leaf is a sum of discrete Gaussian variables with public factors, whose deviations
are thousands of units: the normal law's quantiles are theirs, to more digits than a float has.
"""
_MOST_LABELS = 40


def attribute_number(model: Boosted, attribute: str | int) -> int:
    """Return the place of an attribute, given by name or place; H501 if there is none."""
    names = list(model.domain.names)
    if isinstance(attribute, str) and attribute in names:
        return names.index(attribute)
    if isinstance(attribute, int) and 0 <= attribute < len(names):
        return attribute
    raise Code.BAD_PARAMETER.error(
        expected=f"the name of an attribute, or a number below {len(names)}",
        found=f"attribute={attribute!r}",
    )


def drawn_attributes(model: Boosted) -> list[int]:
    """Return the attributes that have a function of their own."""
    return [j for j in range(len(model.domain.attributes)) if effect(model, j) is not None]


def shape_panel(model: Boosted, attribute: str | int) -> Panel:
    """Return the steps of one attribute, one line for each column of the score.

    H501 for an attribute that has no function of its own.
    """
    number = attribute_number(model, attribute)
    found = effect(model, number)
    declared = model.domain.attributes[number]
    if found is None:
        raise Code.BAD_PARAMETER.error(
            expected="an attribute that a function of the model uses alone",
            found=f"attribute={declared.name!r}, which has none",
            fix="draw another attribute, or the importances of all",
        )
    edges, axis = _edges(declared)
    lines = [_line(model, found, edges, column) for column in range(model.n_scores)]
    values = np.concatenate(
        [np.array([s.y, s.low, s.high]).ravel() for s in lines if s.low] or [found.values.ravel()]
    )
    return Panel(
        f"What {declared.name} adds",
        axis,
        axis_around(_score_name(model), values.tolist()),
        lines,
        _notes(found, declared),
    )


def _line(model: Boosted, found: Effect, edges: NDArray[np.float64], column: int) -> Series:
    target = model.domain.target
    many = model.n_scores > 1 and target is not None and target.classes is not None
    name = str(target.classes[column]) if many and target and target.classes else ""
    y = found.values[:, column]
    low = high = np.zeros(0)
    if found.deviation is not None:
        width = BAND * found.deviation[:, column]
        low, high = y - width, y + width
    return Series("stairs", edges.tolist(), y.tolist(), name, column, low.tolist(), high.tolist())


def _edges(attribute: Attribute) -> tuple[NDArray[np.float64], Axis]:
    """Return where the steps of the bins end, and the axis on which they stand."""
    n = attribute.n_bins
    if attribute.bounds is None:
        edges = np.arange(n + 1, dtype=np.float64) - np.float64(0.5)
        every = -(-n // _MOST_LABELS)
        ticks = tuple((float(i), label) for i, label in enumerate(attribute.labels()))[::every]
        return edges, Axis(attribute.name, -0.5, n - 0.5, ticks=ticks)
    low, high = attribute.bounds
    edges = np.array([low, *attribute.cuts, high], dtype=np.float64)
    if n == attribute.n_values:
        return edges, Axis(attribute.name, low, high)
    # Missing values have a step of their own on the right.
    room = (high - low) / 10
    whole = Axis(attribute.name, low, high).shown_ticks()
    ticks = (*(tick for tick in whole if tick[0] < high - room / 2), (high + room / 2, "missing"))
    return np.append(edges, high + room), Axis(attribute.name, low, high + room, ticks=ticks)


def _score_name(model: Boosted) -> str:
    target = model.domain.target
    if target is None or target.classes is None:
        return f"added to {target.name if target else ''}"
    if model.link == "logistic":
        return f"log-odds of {target.classes[1]}"
    return "log-odds of the class" if model.link == "one-vs-rest" else "score of the class"


def _notes(found: Effect, attribute: Attribute) -> list[str]:
    notes = []
    if found.deviation is not None:
        notes.append(
            f"Bands: {COVERAGE:.0%} of the noise added to the sums of the leaves, from its law "
            "alone. What noise did to the cuts, and chance to the rows, is not in them."
        )
    if found.joint:
        noun, verb = ("function", "is") if found.joint == 1 else ("functions", "are")
        notes.append(f"{found.joint:,} {noun} of {attribute.name} with others {verb} not in it.")
    return notes


def shape_svg(model: Boosted, attribute: str | int) -> str:
    """Draw what one attribute adds to the score, as SVG for a page; see `shape_panel`."""
    panel = shape_panel(model, attribute)
    declared = model.domain.attributes[attribute_number(model, attribute)]
    labels = declared.labels()
    said = []
    for line in panel.series:
        least, most = int(np.argmin(line.y)), int(np.argmax(line.y))
        of = f" for {line.name}" if line.name else ""
        said.append(
            f"Least{of}: {line.y[least]:.3g} at {labels[least]}; "
            f"most: {line.y[most]:.3g} at {labels[most]}."
        )
    text = (
        f"Steps over {declared.n_bins:,} bins; {panel.y.label}. {' '.join([*said, *panel.notes])}"
    )
    return panels_svg([panel], title=panel.title, description=text)
