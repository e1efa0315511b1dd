"""Tidy positions for the nodes of a tree, after Reingold and Tilford (1981).

A parent stands in the middle above its children, subtrees are as close as their outlines allow,
and the picture of a mirrored tree is the mirrored picture. Nodes may have different widths and
any number of children.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Outline = NDArray[np.float64]
"""Leftmost and rightmost point of a subtree on each level, seen from its root's centre;
shape (2, levels)."""


def tidy(
    children: Sequence[Sequence[int]], widths: Sequence[float], gap: float
) -> NDArray[np.float64]:
    """Place the centres of the nodes so that nothing on one level is closer than `gap`.

    Parameters
    ----------
    children : sequence of sequences of int
        Children of each node, from left to right; every child comes after its parent, and node 0
        is the root of all.
    widths : sequence of float
    gap : float

    Returns
    -------
    float64 array of shape (n,)
        Horizontal centres; the leftmost point of the picture is 0.
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
        outlines[v] = np.concatenate([own, _joined(below, at)], axis=1)
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
    left = _packed(outlines, gap)
    mirrored = [-outline[::-1] for outline in reversed(outlines)]
    right = [left[-1] - x for x in reversed(_packed(mirrored, gap))]
    return [(a + b - left[-1]) / 2 for a, b in zip(left, right, strict=True)]


def _packed(outlines: list[Outline], gap: float) -> list[float]:
    """Push every subtree as far left as those before it allow; the first stands at 0."""
    at = [0.0]
    edge = outlines[0][1].copy()
    for left, right in outlines[1:]:
        shared = min(len(edge), len(left))
        at.append(float(np.max(edge[:shared] - left[:shared])) + gap)
        edge = np.concatenate([at[-1] + right, edge[len(right) :]])
    return at


def _joined(outlines: list[Outline], at: list[float]) -> Outline:
    """Outline of all subtrees together."""
    depth = max((outline.shape[1] for outline in outlines), default=0)
    joined = np.repeat([[np.inf], [-np.inf]], depth, axis=1)
    for x, (left, right) in zip(at, outlines, strict=True):
        levels = slice(len(left))
        np.minimum(joined[0, levels], x + left, out=joined[0, levels])
        np.maximum(joined[1, levels], x + right, out=joined[1, levels])
    return joined
