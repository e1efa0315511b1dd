"""Trees for pages, also those of which little is known: what is hidden is drawn as hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.charts.look import printable, short
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.reports.pictures.pieces import TreePiece, piece_drawing
from hedgerow.trees.export.svg import (
    THEMED,
    Face,
    TreeDrawing,
    draw_tree,
    drawing_svg,
    place_nodes,
)
from hedgerow.trees.export.text import count_noun
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

MOST_LEAVES = 16
"""Of a complete tree so many nodes are drawn side by side at the most, all of them alike."""


@dataclass(frozen=True)
class HiddenTree:
    """What is public of a tree whose splits or leaves are hidden.

    `children`: of each node, which come after it. `splits`: what is known of the split of each
    node, such as its attribute or whose it is; "" where nothing is. `below`: leaves under each node
    that are not listed.
    """

    children: tuple[tuple[int, ...], ...]
    splits: tuple[str, ...]
    below: tuple[int, ...]

    @classmethod
    def complete(cls, depth: int, branches: int = 2) -> HiddenTree:
        """Return a tree of which only the depth is known, and how many branches a node has."""
        shown = next((d for d in range(depth, 0, -1) if branches**d <= MOST_LEAVES), 0)
        inner = sum(branches**level for level in range(shown))
        n = inner + branches**shown
        first = [1 + i * branches for i in range(inner)]
        children = [*(tuple(range(f, f + branches)) for f in first), *[()] * (n - inner)]
        rest = branches ** (depth - shown) if depth > shown else 0
        return cls(tuple(children), ("",) * n, (*[0] * inner, *[rest] * (n - inner)))

    @classmethod
    def among_peers(cls, plan: PeerPlan, trees: PeerTrees, number: int = 0) -> HiddenTree:
        """Return what all peers see of one of their trees, from 0."""
        shape = trees.shape
        nodes = np.flatnonzero(shape.tree == number)
        place = {int(v): i for i, v in enumerate(nodes)}
        known = np.concatenate([*trees.groups, np.zeros(0, dtype=np.int64)])
        children, splits = [], []
        for v in nodes:
            child = int(shape.first_child[v])
            children.append(() if child < 0 else (place[child], place[child + 1]))
            at = int(shape.split[v])
            splits.append(_shown_split(plan, int(known[at])) if 0 <= at < known.size else "")
        return cls(tuple(children), tuple(splits), (0,) * len(nodes))


def _shown_split(plan: PeerPlan, group: int) -> str:
    assert isinstance(plan, PivotPlan)
    if plan.hide == "thresholds":
        return printable(plan.domain.attributes[group].name)
    return f"column of peer {group}"


def hidden_drawing(tree: HiddenTree, title: str | None = None) -> TreeDrawing:
    """Lay out what is public of a hidden tree."""
    leaves = sum(max(b, 1) for b, c in zip(tree.below, tree.children, strict=True) if not c)
    faces = []
    for children, split, below in zip(tree.children, tree.splits, tree.below, strict=True):
        if children:
            lines = (short(split), "cut hidden") if split else ("hidden", "split")
        else:
            lines = ("hidden", f"… {count_noun(below, 'leaf', 'leaves')}" if below else "leaf")
        faces.append(Face("hidden", None, lines, (), ", ".join(filter(None, (split, lines[1])))))
    known = "Something of the splits is known" if any(tree.splits) else "No split is known"
    return place_nodes(
        tree.children,
        faces,
        [""] * len(faces),
        title="Hidden tree" if title is None else printable(title),
        description=f"Tree that nobody sees whole, with {count_noun(leaves, 'leaf', 'leaves')}. "
        f"{known}; what leaves answer is hidden.",
        classes=[],
    )


def tree_svg(
    model: Model | HiddenTree | TreePiece,
    max_depth: int | None = 5,
    *,
    noisy: bool = False,
    title: str | None = None,
) -> str:
    """Draw a tree as SVG for a page; of a forest or of boosted trees, the first one.

    It follows the theme of the page, and is itself without one. Parameters as those of
    `hedgerow.trees.to_svg`, of a hidden tree the title alone.
    """
    if isinstance(model, TreePiece):
        return drawing_svg(piece_drawing(model), THEMED)
    if isinstance(model, HiddenTree):
        return drawing_svg(hidden_drawing(model, title), THEMED)
    return drawing_svg(draw_tree(first_tree(model), max_depth, noisy=noisy, title=title), THEMED)


def first_tree(model: Model) -> Tree:
    """Return the tree that a model is, or the first that it has."""
    return model if isinstance(model, Tree) else model.trees[0]
