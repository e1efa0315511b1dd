"""Public models on the Axes of matplotlib, which is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.charts.axes import draw_panel, escaped, needs_matplotlib, one_axes
from hedgerow.charts.look import FONT, LIGHT, N_COLOURS, PALETTE, SMALL, short
from hedgerow.errors import Code
from hedgerow.reports.pictures.importances import importance_panel
from hedgerow.reports.pictures.shapes import drawn_attributes, shape_panel
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.export.svg import (
    BOX_HEIGHT,
    CAPTION_HEIGHT,
    MARGIN,
    TreeDrawing,
    draw_tree,
    legend_places,
)
from hedgerow.trees.importance import importances
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 72.0
_MOST_INCHES = 60.0


def plot_model(
    model: Model,
    attribute: str | int | None = None,
    *,
    ax: Axes | None = None,
    max_depth: int | None = 5,
    noisy: bool = False,
    criterion: str | None = None,
) -> Axes:
    """Draw a public model: a tree itself, of a forest the importances, of boosted trees a shape.

    `attribute`: that of the shape, by default the one that matters most of those with a function
    of their own; without any, importances are drawn. `ax`: by default those of the current figure,
    for a tree those of a new figure of its size. `max_depth`: levels of a tree below its root.
    `criterion`: of importances, see `importances`. H406 without matplotlib, H501 for an attribute
    that the model has no shape of.
    """
    needs_matplotlib()
    if isinstance(model, Boosted):
        found = _shown_attribute(model) if attribute is None else attribute
        if found is not None:
            return draw_panel(shape_panel(model, found), one_axes(ax))
    elif attribute is not None:
        raise Code.BAD_PARAMETER.error(
            expected="no attribute: only boosted trees have shapes",
            found=f"attribute={attribute!r}",
        )
    if isinstance(model, Tree):
        return _plot_tree(draw_tree(model, max_depth, noisy=noisy), ax)
    return draw_panel(importance_panel(model, noisy=noisy, criterion=criterion), one_axes(ax))


def _shown_attribute(model: Boosted) -> int | None:
    shares = importances(model).shares
    return max(drawn_attributes(model), key=lambda j: float(shares[j]), default=None)


def _plot_tree(drawing: TreeDrawing, ax: Axes | None) -> Axes:
    if ax is None:
        import matplotlib.pyplot as plt

        inches = [side / _POINTS for side in (drawing.width, drawing.height)]
        scale = min(1.0, _MOST_INCHES / max(inches))
        figure = plt.figure(figsize=(inches[0] * scale, inches[1] * scale))
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    ax.set_axis_off()
    _TreePlot(drawing, ax).draw()
    return ax


class _TreePlot:
    """A drawing of a tree on Axes, letters as large as they are beside the boxes."""

    def __init__(self, drawing: TreeDrawing, ax: Axes) -> None:
        self.drawing, self.ax = drawing, ax
        box = ax.get_window_extent()
        # Pixels of the drawing to points.
        self.points = min(box.width / drawing.width, box.height / drawing.height) * (
            _POINTS / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
        )

    def draw(self) -> None:
        """Draw everything, edges first."""
        drawing = self.drawing
        self._text(MARGIN, MARGIN + FONT, drawing.title, left=True, bold=True)
        y = MARGIN + FONT + 14
        for i, (label, x) in enumerate(
            zip(drawing.classes, legend_places(drawing.classes), strict=False)
        ):
            self._rect(x, y, 11, 11, _colour(i))
            self._text(x + 17, y + 9.5, short(label), small=True, left=True)
        for i, c in drawing.edges:
            self._edge(i, c)
        for number in range(len(drawing.faces)):
            self._node(number)

    def _edge(self, parent: int, child: int) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        x0, y0 = self.drawing.x[parent], self.drawing.tops[parent] + BOX_HEIGHT
        x1, y1 = self.drawing.x[child], self.drawing.tops[child] - CAPTION_HEIGHT
        middle = (y0 + y1) / 2
        curve = Path(
            [(x0, y0), (x0, middle), (x1, middle), (x1, y1)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        self.ax.add_patch(
            PathPatch(curve, facecolor="none", edgecolor=LIGHT["line"], linewidth=self.points)
        )

    def _node(self, number: int) -> None:
        from matplotlib.patches import FancyBboxPatch

        drawing = self.drawing
        face, x, y = drawing.faces[number], drawing.x[number], drawing.tops[number]
        name, small = face.lines
        left = x - face.width / 2
        self.ax.add_patch(
            FancyBboxPatch(
                (left, y),
                face.width,
                BOX_HEIGHT,
                boxstyle="round,pad=0,rounding_size=6",
                facecolor=LIGHT["box"],
                edgecolor=LIGHT["line"] if face.colour is None else _colour(face.colour),
                linewidth=(2 if face.role == "leaf" else 1) * self.points,
                linestyle="--" if face.role in ("more", "hidden") else "-",
            )
        )
        self._text(x, y - 7, drawing.conditions[number], small=True)
        self._text(x, y + (21 if small else 27), name, bold=True)
        self._text(x, y + 36, small, small=True)
        if face.shares:
            at, whole = left + 12, face.width - 24
            self._rect(at, y + BOX_HEIGHT - 10, whole, 5, LIGHT["bar"])
            for colour, share in face.shares:
                self._rect(at, y + BOX_HEIGHT - 10, share * whole, 5, _colour(colour))
                at += share * whole

    def _rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        from matplotlib.patches import Rectangle

        self.ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, linewidth=0))

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        small: bool = False,
        left: bool = False,
        bold: bool = False,
    ) -> None:
        if text:
            self.ax.text(
                x,
                y,
                escaped(text),
                fontsize=(SMALL if small else FONT) * self.points,
                color=LIGHT["soft" if small else "ink"],
                ha="left" if left else "center",
                va="baseline",
                weight="bold" if bold else "normal",
            )


def _colour(number: int) -> str:
    return PALETTE[number % N_COLOURS][0]
