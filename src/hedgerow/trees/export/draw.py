"""Drawings of a tree: `to_text` for the terminal, `to_svg` for reports and pages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.errors import Code
from hedgerow.trees.export import captions, svg
from hedgerow.trees.export.tidy import tidy
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

GAP = 18.0
MARGIN = 20.0
LEVEL = svg.BOX_HEIGHT + svg.CAPTION_HEIGHT + 40.0
MAX_LEGEND = 12
"""With more classes than this the colours repeat so often that a legend helps nobody."""


class View(NamedTuple):
    """The part of a tree that is drawn: its nodes keep their order and get new numbers.

    Attributes
    ----------
    nodes : list of int
        Numbers in the tree.
    children : list of list of int
        Numbers in the view, empty at leaves and where the drawing ends.
    conditions : list of str
        What leads to each node, without the attribute's name; empty for the root.
    hidden : list of int
        Leaves below each node that are not drawn.
    """

    nodes: list[int]
    children: list[list[int]]
    conditions: list[str]
    hidden: list[int]


def to_text(tree: Tree, max_depth: int | None = None, *, noisy: bool = False) -> str:
    """Draw a tree as indented text, one line per branch.

    Parameters
    ----------
    tree : Tree
    max_depth : int, optional
        Levels to draw below the root; None draws all.
    noisy : bool, default=False
        Say that the counts are noisy, as in a private tree.

    Returns
    -------
    str
        Without a line break at the end.
    """
    view = _view(tree, max_depth)
    lines = [_heading(tree) + _end(tree, view, 0, noisy)]
    stack = [(c, "") for c in reversed(view.children[0])]
    last = {children[-1] for children in view.children if children}
    while stack:
        i, indent = stack.pop()
        name = captions.name(tree, tree.parents[view.nodes[i]])
        branch, below = ("└── ", "    ") if i in last else ("├── ", "│   ")
        lines.append(f"{indent}{branch}{name} {view.conditions[i]}{_end(tree, view, i, noisy)}")
        stack += [(c, indent + below) for c in reversed(view.children[i])]
    return "\n".join(lines)


def to_svg(
    tree: Tree, max_depth: int | None = 5, *, noisy: bool = False, title: str | None = None
) -> str:
    """Draw a tree as one self-contained SVG picture.

    It follows the reader's light or dark scheme, carries a title and a description for screen
    readers, and every node has a tooltip with the whole condition and its counts.

    Parameters
    ----------
    tree : Tree
    max_depth : int or None, default=5
        Levels to draw below the root; None draws all.
    noisy : bool, default=False
        Say that the counts are noisy, as in a private tree.
    title : str, optional
        By default "Decision tree for" and the target's name.

    Returns
    -------
    str
    """
    view = _view(tree, max_depth)
    faces = [_face(tree, view, i, noisy) for i in range(len(view.nodes))]
    shown = [svg.short(_signs(condition)) for condition in view.conditions]
    cells = [max(f.width, svg.text_width(s) + 8) for f, s in zip(faces, shown, strict=True)]
    heading = _heading(tree) if title is None else captions.printable(title)
    classes = _classes(tree)
    key, key_end = svg.legend(
        MARGIN, MARGIN + svg.FONT + 14, classes if len(classes) <= MAX_LEGEND else []
    )

    x = tidy(view.children, cells, GAP) + MARGIN
    tops = MARGIN + svg.FONT + (50 if key else 24) + LEVEL * tree.node_depths[view.nodes]
    right = max(
        float((x + np.array(cells) / 2).max()),
        key_end,
        MARGIN + svg.text_width(heading, svg.FONT, bold=True),
    )
    edges = [
        svg.edge(x[i], tops[i] + svg.BOX_HEIGHT, x[c], tops[c] - svg.CAPTION_HEIGHT)
        for i, children in enumerate(view.children)
        for c in children
    ]
    nodes = map(svg.node, faces, shown, x.tolist(), tops.tolist())
    return svg.document(
        right + MARGIN,
        float(tops.max()) + svg.BOX_HEIGHT + MARGIN,
        heading,
        _description(tree, view, noisy),
        [svg.heading(MARGIN, MARGIN + svg.FONT, heading), *([key] if key else []), *edges, *nodes],
    )


def _view(tree: Tree, max_depth: int | None) -> View:
    if not isinstance(tree, Tree):
        raise Code.WRONG_TYPE.error(
            found=type(tree).__name__, expected="a Tree", fix="draw one of the model's `trees`"
        )
    if max_depth is not None and (not isinstance(max_depth, int) or max_depth < 0):
        raise Code.BAD_PARAMETER.error(
            found=f"max_depth={max_depth!r}", expected="max_depth >= 0 or None"
        )
    deepest = tree.depth if max_depth is None else max_depth
    nodes = np.flatnonzero(tree.node_depths <= deepest).tolist()
    number = {v: i for i, v in enumerate(nodes)}
    below = _leaves_below(tree)
    children: list[list[int]] = []
    conditions, hidden = [""] * len(nodes), [0] * len(nodes)
    for i, v in enumerate(nodes):
        children.append([])
        if tree.kind[v] == SplitKind.LEAF:
            continue
        if tree.node_depths[v] == deepest:
            hidden[i] = int(below[v])
            continue
        first = number[int(tree.first_child[v])]
        children[i] = list(range(first, first + int(tree.arity[v])))
        conditions[first : first + len(children[i])] = captions.branches(tree, v)
    return View(nodes, children, conditions, hidden)


def _leaves_below(tree: Tree) -> list[int]:
    below = [int(kind == SplitKind.LEAF) for kind in tree.kind.tolist()]
    parents = tree.parents.tolist()
    for v in range(tree.n_nodes - 1, 0, -1):
        below[parents[v]] += below[v]
    return below


def _heading(tree: Tree) -> str:
    target = tree.domain.target
    return f"Decision tree for {captions.printable(target.name if target else '')}"


def _description(tree: Tree, view: View, noisy: bool) -> str:
    kind = "Classification" if tree.is_classifier else "Regression"
    said = f"{kind} tree with {_count(tree.n_leaves, 'leaf', 'leaves')} and depth {tree.depth}."
    if hidden := sum(view.hidden):
        said += f" {_count(hidden, 'leaf is', 'leaves are')} below what is drawn."
    if tree.kind[0] != SplitKind.LEAF:
        said += f" The first split is on {captions.name(tree, 0)}."
    return said + (" Counts are noisy." if noisy else "")


def _end(tree: Tree, view: View, i: int, noisy: bool) -> str:
    """End a line after its condition: with a leaf's answer, or with what is not drawn."""
    v = view.nodes[i]
    if view.hidden[i]:
        return f" … {_count(view.hidden[i], 'leaf', 'leaves')}"
    if view.children[i]:
        return ""
    counts = captions.evidence(tree, v, noisy=noisy)
    return f" → {captions.leaf(tree, v)}" + (f"  ({counts})" if counts else "")


def _face(tree: Tree, view: View, i: int, noisy: bool) -> svg.Face:
    v = view.nodes[i]
    parent = int(tree.parents[v])
    when = f"{captions.name(tree, parent)} {view.conditions[i]}: " if i else ""
    counts = captions.evidence(tree, v, noisy=noisy)
    size = ""
    if not np.isnan(tree.weight[v]):
        size = f"n {'≈' if noisy else '='} {captions.number(float(tree.weight[v]))}"
    if view.hidden[i] or view.children[i]:
        name = captions.name(tree, v)
        if view.hidden[i]:
            size = f"… {_count(view.hidden[i], 'leaf', 'leaves')}"
        tooltip = f"{when}split on {name}" + (f" ({counts})" if counts else "")
        role = "more" if view.hidden[i] else "inner"
        return svg.Face(role, None, (svg.short(name), size), (), tooltip)
    label = captions.leaf(tree, v)
    tooltip = f"{when}{label}" + (f" ({counts})" if counts else "")
    if not tree.is_classifier:
        return svg.Face("leaf", 0, (svg.short(label), size), _position(tree, v), tooltip)
    p = tree.distributions[v]
    best = int(tree.labels[v])
    small = f"{p[best]:.0%}" + (f", {size}" if size else "")
    return svg.Face("leaf", best, (svg.short(label), small), list(enumerate(p.tolist())), tooltip)


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
    return [captions.printable(c) for c in (target.classes if target and target.classes else ())]


def _signs(condition: str) -> str:
    """Replace a comparison's letters by its sign, which a picture always has."""
    for letters, sign in (("<= ", "≤ "), ("!= ", "≠ ")):
        if condition.startswith(letters):
            return sign + condition.removeprefix(letters)
    return condition


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
