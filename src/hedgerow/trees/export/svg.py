"""`to_svg`: a tree as one self-contained picture, with tidy positions of its nodes.

The positions are those of Reingold and Tilford (1981): a parent stands in the middle above its
children, subtrees are as close as their outlines allow, and the picture of a mirrored tree is the
mirrored picture. Nodes may have different widths and any number of children.

Every text goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.charts.look import (
    DARK,
    FAMILY,
    FONT,
    LIGHT,
    N_COLOURS,
    PALETTE,
    SMALL,
    Tone,
    printable,
    short,
    text_width,
    themed,
)
from hedgerow.trees.export.text import (
    TreeView,
    attribute_name,
    count_noun,
    evidence,
    heading_of,
    leaf_answer,
    short_number,
    view_of,
)
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

BOX_HEIGHT = 52.0
CAPTION_HEIGHT = 20.0
_PADDING = 12.0
_BAR = 5.0


def _colours(tone: Tone, dark: bool) -> str:
    """Colour rules of one scheme."""
    classes = "".join(
        f".hedgerow-tree .f{i}{{fill:{pair[dark]}}}.hedgerow-tree .s{i} .box{{stroke:{pair[dark]}}}"
        for i, pair in enumerate(PALETTE)
    )
    return (
        f".hedgerow-tree .page{{fill:{tone['page']}}}"
        f".hedgerow-tree .edge{{fill:none;stroke:{tone['line']}}}"
        f".hedgerow-tree .box{{fill:{tone['box']};stroke:{tone['line']}}}"
        f".hedgerow-tree text{{fill:{tone['ink']}}}"
        f".hedgerow-tree .small,.hedgerow-tree .key{{fill:{tone['soft']}}}"
        f".hedgerow-tree .when{{stroke:{tone['page']}}}"
        f".hedgerow-tree .track{{fill:{tone['bar']}}}" + classes
    )


def _style(light: Tone, dark: Tone) -> str:
    return (
        f".hedgerow-tree text{{font-family:{FAMILY};font-size:{FONT:g}px;text-anchor:middle}}"
        ".hedgerow-tree .name{font-weight:600}"
        ".hedgerow-tree .head{font-weight:600;text-anchor:start}"
        f".hedgerow-tree .small{{font-size:{SMALL:g}px}}"
        f".hedgerow-tree .key{{font-size:{SMALL:g}px;text-anchor:start}}"
        f".hedgerow-tree .when{{font-size:{SMALL:g}px;paint-order:stroke;stroke-width:4px;"
        "stroke-linejoin:round}"
        ".hedgerow-tree .edge{stroke-width:1.5px}"
        ".hedgerow-tree .leaf .box{stroke-width:2px}"
        ".hedgerow-tree .more .box,.hedgerow-tree .hidden .box{stroke-dasharray:4 3}"
        + _colours(light, dark=False)
        + f"@media screen and (prefers-color-scheme:dark){{{_colours(dark, dark=True)}}}"
    )


STYLE = _style(LIGHT, DARK)
"""Of a file of its own: colours are written out, since not every viewer knows CSS variables."""
THEMED = _style(themed(LIGHT), themed(DARK))
"""Of a part of a page, whose theme it follows."""
GAP = 18.0
MARGIN = 20.0
LEVEL = BOX_HEIGHT + CAPTION_HEIGHT + 40.0
MAX_LEGEND = 12
"""With more classes than this the colours repeat so often that a legend helps nobody."""

Outline = NDArray[np.float64]
"""Leftmost and rightmost point of a subtree on each level, seen from its root's centre;
shape (2, levels)."""


def to_svg(
    tree: Tree, max_depth: int | None = 5, *, noisy: bool = False, title: str | None = None
) -> str:
    """Draw a tree as one self-contained SVG picture.

    It follows the reader's light or dark scheme, carries a title and a description for screen
    readers, and every node has a tooltip with the whole condition and its counts.

    `max_depth`: levels to draw below the root; None draws all. `noisy`: say that the counts are
    noisy, as in a private tree. `title`: by default "Decision tree for" and the target's name.
    """
    return drawing_svg(draw_tree(tree, max_depth, noisy=noisy, title=title))


class TreeDrawing(NamedTuple):
    """Where everything of a picture of a tree stands, in pixels; what draws it decides nothing.

    `x` and `tops` are centres and upper borders of the boxes, `edges` pairs of nodes; `conditions`
    stand above the boxes. `classes` are those of the legend.
    """

    width: float
    height: float
    title: str
    description: str
    classes: list[str]
    faces: list[Face]
    conditions: list[str]
    x: list[float]
    tops: list[float]
    edges: list[tuple[int, int]]


def draw_tree(
    tree: Tree, max_depth: int | None = 5, *, noisy: bool = False, title: str | None = None
) -> TreeDrawing:
    """Lay a tree out; parameters as those of `to_svg`."""
    view = view_of(tree, max_depth)
    return place_nodes(
        view.children,
        [_face(tree, view, i, noisy) for i in range(len(view.nodes))],
        [short(_signs(condition)) for condition in view.conditions],
        title=heading_of(tree) if title is None else printable(title),
        description=_description(tree, view, noisy),
        classes=_classes(tree),
    )


def place_nodes(
    children: Sequence[Sequence[int]],
    faces: list[Face],
    conditions: list[str],
    *,
    title: str,
    description: str,
    classes: list[str],
) -> TreeDrawing:
    """Give nodes their places; see `tidy` for `children`."""
    classes = classes if len(classes) <= MAX_LEGEND else []
    cells = [max(f.width, text_width(s) + 8) for f, s in zip(faces, conditions, strict=True)]
    x = tidy(children, cells, GAP) + MARGIN
    depths = np.zeros(len(children), dtype=np.int64)
    edges = [(i, c) for i, below in enumerate(children) for c in below]
    # Children come after their parents.
    for i, c in edges:
        depths[c] = depths[i] + 1
    tops = MARGIN + FONT + (50 if classes else 24) + LEVEL * depths
    right = max(
        float((x + np.array(cells) / 2).max()),
        legend_places(classes)[-1],
        MARGIN + text_width(title, FONT, bold=True),
    )
    return TreeDrawing(
        right + MARGIN,
        float(tops.max()) + BOX_HEIGHT + MARGIN,
        title,
        description,
        classes,
        faces,
        conditions,
        x.tolist(),
        tops.tolist(),
        edges,
    )


def legend_places(classes: Sequence[str]) -> list[float]:
    """Return where the keys of classes begin, and where the last one ends."""
    widths = [17 + text_width(short(label)) + 16 for label in classes]
    places: list[float] = np.cumsum([MARGIN, *widths]).tolist()
    return places


def drawing_svg(drawing: TreeDrawing, style: str = STYLE) -> str:
    """Write a drawing as SVG."""
    x, tops = drawing.x, drawing.tops
    return _document(
        drawing,
        style,
        [
            _heading(MARGIN, MARGIN + FONT, drawing.title),
            *_legend(MARGIN + FONT + 14, drawing.classes),
            *(
                _edge(x[i], tops[i] + BOX_HEIGHT, x[c], tops[c] - _room(drawing.conditions[c]))
                for i, c in drawing.edges
            ),
            *map(_node, drawing.faces, drawing.conditions, x, tops),
        ],
    )


def _room(condition: str) -> float:
    """Return how much room above a box its condition takes."""
    return CAPTION_HEIGHT if condition else 0.0


def _description(tree: Tree, view: TreeView, noisy: bool) -> str:
    kind = "Classification" if tree.is_classifier else "Regression"
    said = f"{kind} tree with {count_noun(tree.n_leaves, 'leaf', 'leaves')} and depth {tree.depth}."
    if hidden := sum(view.hidden):
        said += f" {count_noun(hidden, 'leaf is', 'leaves are')} below what is drawn."
    if tree.kind[0] != SplitKind.LEAF:
        said += f" The first split is on {attribute_name(tree, 0)}."
    return said + (" Counts are noisy." if noisy else "")


def _face(tree: Tree, view: TreeView, i: int, noisy: bool) -> Face:
    v = view.nodes[i]
    parent = int(tree.parents[v])
    when = f"{attribute_name(tree, parent)} {view.conditions[i]}: " if i else ""
    counts = evidence(tree, v, noisy=noisy)
    size = ""
    if not np.isnan(tree.weight[v]):
        size = f"n {'≈' if noisy else '='} {short_number(float(tree.weight[v]))}"
    if view.hidden[i] or view.children[i]:
        name = attribute_name(tree, v)
        if view.hidden[i]:
            size = f"… {count_noun(view.hidden[i], 'leaf', 'leaves')}"
        tooltip = f"{when}split on {name}" + (f" ({counts})" if counts else "")
        role = "more" if view.hidden[i] else "inner"
        return Face(role, None, (short(name), size), (), tooltip)
    label = leaf_answer(tree, v)
    tooltip = f"{when}{label}" + (f" ({counts})" if counts else "")
    if not tree.is_classifier:
        return Face("leaf", 0, (short(label), size), _position(tree, v), tooltip)
    best = int(tree.labels[v])
    if tree.labels_alone:
        return Face("leaf", best, (short(label), ""), (), tooltip)
    p = tree.distributions[v]
    small = f"{p[best]:.0%}" + (f", {size}" if size else "")
    return Face("leaf", best, (short(label), small), list(enumerate(p.tolist())), tooltip)


def _position(tree: Tree, v: int) -> list[tuple[int, float]]:
    """Bar of a regression leaf: where its value lies within the bounds of the target."""
    target = tree.domain.target
    if target is None or target.bounds is None:
        return []
    lo, hi = target.bounds
    # Halved, because the distance between huge bounds can overflow.
    share = (tree.value[v, 0] / 2 - lo / 2) / (hi / 2 - lo / 2)
    return [(0, float(np.clip(share, 0.0, 1.0)))]


def _classes(tree: Tree) -> list[str]:
    target = tree.domain.target
    return [printable(c) for c in (target.classes if target and target.classes else ())]


def _signs(condition: str) -> str:
    """Replace a comparison's letters by its sign, which a picture always has."""
    for letters, sign in (("<= ", "≤ "), ("!= ", "≠ ")):
        if condition.startswith(letters):
            return sign + condition.removeprefix(letters)
    return condition


class Face(NamedTuple):
    """What the box of a node shows.

    `role`: "inner", "leaf", "more" (there is a tree below that is not drawn) or "hidden".
    `colour`: which colour frames the box. `lines`: the name, and a smaller line that may be empty.
    `shares`: colours of the bar and their fractions of it, from left to right; empty for no bar.
    """

    role: str
    colour: int | None
    lines: tuple[str, str]
    shares: Sequence[tuple[int, float]]
    tooltip: str

    @property
    def width(self) -> float:
        """Width of the box in pixels."""
        name, small = self.lines
        return max(72.0, 2 * _PADDING + max(text_width(name, FONT, bold=True), text_width(small)))


def _document(drawing: TreeDrawing, style: str, parts: Sequence[str]) -> str:
    """Put the picture together, with title and description for screen readers."""
    w, h = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="hedgerow-tree" role="img" '
            f'viewBox="0 0 {w} {h}" width="{w}" height="{h}">',
            f"<title>{escape(drawing.title)}</title>",
            f"<desc>{escape(drawing.description)}</desc>",
            f"<style>{style}</style>",
            f'<rect class="page" width="{w}" height="{h}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _heading(x: float, y: float, text: str) -> str:
    """Draw the heading, its first letter at (x, y)."""
    return f'<text class="head" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _legend(y: float, labels: Sequence[str]) -> list[str]:
    """Draw one coloured key per label."""
    return [
        f'<rect class="f{i % N_COLOURS}" x="{x:.1f}" y="{y:.1f}" width="11" height="11" rx="2"/>'
        f'<text class="key" x="{x + 17:.1f}" y="{y + 9.5:.1f}">{escape(short(label))}</text>'
        for i, (label, x) in enumerate(zip(labels, legend_places(labels), strict=False))
    ]


def _edge(x0: float, y0: float, x1: float, y1: float) -> str:
    """Draw the curve from a parent's lower to a child's upper border."""
    y = (y0 + y1) / 2
    return (
        f'<path class="edge" d="M{x0:.1f} {y0:.1f}C{x0:.1f} {y:.1f} {x1:.1f} {y:.1f} '
        f'{x1:.1f} {y1:.1f}"/>'
    )


def _node(face: Face, condition: str, x: float, y: float) -> str:
    """Draw a box with its upper border at y and, above it, the condition that leads there."""
    width, name, small = face.width, *face.lines
    left = x - width / 2
    framed = "" if face.colour is None else f" s{face.colour % N_COLOURS}"
    parts = [f'<g class="{face.role}{framed}"><title>{escape(face.tooltip)}</title>']
    if condition:
        parts.append(f'<text class="when" x="{x:.1f}" y="{y - 7:.1f}">{escape(condition)}</text>')
    parts.append(
        f'<rect class="box" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{BOX_HEIGHT:g}" rx="6"/>'
    )
    middle = y + (21 if small else 27)
    parts.append(f'<text class="name" x="{x:.1f}" y="{middle:.1f}">{escape(name)}</text>')
    if small:
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 36:.1f}">{escape(small)}</text>')
    if face.shares:
        parts.append(_bar(left + _PADDING, y + BOX_HEIGHT - 10, width - 2 * _PADDING, face.shares))
    return "".join(parts) + "</g>"


def _bar(x: float, y: float, width: float, shares: Sequence[tuple[int, float]]) -> str:
    size = f'y="{y:.1f}" height="{_BAR:g}"'
    parts = [f'<rect class="track" x="{x:.1f}" width="{width:.1f}" {size}/>']
    for colour, share in shares:
        part = share * width
        if part >= 0.05:
            parts.append(
                f'<rect class="f{colour % N_COLOURS}" x="{x:.1f}" width="{part:.1f}" {size}/>'
            )
        x += part
    return "".join(parts)


def tidy(
    children: Sequence[Sequence[int]], widths: Sequence[float], gap: float
) -> NDArray[np.float64]:
    """Place the centres of the nodes so that nothing on one level is closer than `gap`.

    `children`: children of each node, from left to right; every child comes after its parent, and
    node 0 is the root of all. Returns float64 (n,): horizontal centres; the leftmost point of the
    picture is 0.
    """
    n = len(children)
    outlines: dict[int, Outline] = {}
    offset = np.zeros(n)
    # Children come after their parents, so that backwards every subtree is done before its root.
    for v in range(n - 1, -1, -1):
        below = [outlines.pop(c) for c in children[v]]
        at = _spread(below, gap)
        for c, x in zip(children[v], at, strict=True):
            offset[c] = x
        own = np.array([[-widths[v] / 2], [widths[v] / 2]])
        outlines[v] = np.concatenate([own, _join_outlines(below, at)], axis=1)
    centre = offset
    for v in range(n):
        for c in children[v]:
            centre[c] += centre[v]
    centre -= outlines[0][0].min()
    return centre


def _spread(outlines: list[Outline], gap: float) -> list[float]:
    """Place neighbouring subtrees around 0.

    Pushing all to the left and pushing all to the right both keep the gaps, hence so does the
    mean of the two: small subtrees between large ones end up in the middle.
    """
    if len(outlines) < 2:
        return [0.0] * len(outlines)
    left = _pack_left(outlines, gap)
    mirrored = [-outline[::-1] for outline in reversed(outlines)]
    right = [left[-1] - x for x in reversed(_pack_left(mirrored, gap))]
    return [(a + b - left[-1]) / 2 for a, b in zip(left, right, strict=True)]


def _pack_left(outlines: list[Outline], gap: float) -> list[float]:
    """Push every subtree as far left as those before it allow; the first stands at 0."""
    at = [0.0]
    edge = outlines[0][1].copy()
    for left, right in outlines[1:]:
        shared = min(len(edge), len(left))
        at.append(float(np.max(edge[:shared] - left[:shared])) + gap)
        edge = np.concatenate([at[-1] + right, edge[len(right) :]])
    return at


def _join_outlines(outlines: list[Outline], at: list[float]) -> Outline:
    """Outline of all subtrees together."""
    depth = max((outline.shape[1] for outline in outlines), default=0)
    joined = np.repeat([[np.inf], [-np.inf]], depth, axis=1)
    for x, (left, right) in zip(at, outlines, strict=True):
        levels = slice(len(left))
        np.minimum(joined[0, levels], x + left, out=joined[0, levels])
        np.maximum(joined[1, levels], x + right, out=joined[1, levels])
    return joined
