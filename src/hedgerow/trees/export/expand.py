"""Rewrite of any tree into thresholds on bins, the only split that other libraries know.

A split on a feature is a map from bins to children. Within the bins that can still arrive at a
node, neighbouring bins with the same child form a run; a balanced search over the runs sends each
to its child. VALUE so becomes two thresholds, WARY about log2(bins) levels. A child that several
runs lead to is written once per run, and splits that earlier ones have decided disappear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

MAX_NODES = 1 << 22
"""Repeated children can multiply; past this the rewrite is refused."""

_Box = dict[int, tuple[int, int]]
"""First and last bin that can still arrive, for the features that were split on."""
_Run = tuple[int, int, int]
"""First bin, last bin, child."""


class Thresholds(NamedTuple):
    """A binary tree in depth-first order: ``bin <= cut`` goes left.

    `feature`, `cut`, `left`, `right`: int32 (m,); -1 in leaves. `source`: int32 (m,); node of the
    original tree that stands behind each node; -1 for the inner steps of a search.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    source: NDArray[np.int32]
    depth: int


def expand(tree: Tree) -> Thresholds:
    """Rewrite a tree into thresholds on bins; it sends every encoded row to the same leaf.

    Raises `Code.CANNOT_EXPORT` if more than `MAX_NODES` nodes come out.
    """
    rows: list[list[int]] = []
    depth = 0
    # Each entry: where it hangs (parent and column, 2 left or 3 right), its depth, the node, the
    # box, and the runs of the node that are left to tell apart (None: the node was just reached).
    stack: list[tuple[int, int, int, int, _Box, list[_Run] | None]] = [(-1, 2, 0, 0, {}, None)]
    while stack:
        parent, side, level, v, box, runs = stack.pop()
        source = v if runs is None else -1
        if runs is None:
            runs = _runs(tree, v, box)
        while len(runs) == 1:
            first, last, child = runs[0]
            box = {**box, int(tree.feature[v]): (first, last)}
            source = v = child
            runs = _runs(tree, v, box)
        if len(rows) == MAX_NODES:
            raise Code.CANNOT_EXPORT.error(
                found=f"a tree of {tree.n_nodes:,} nodes that needs more than {MAX_NODES:,} "
                "as thresholds",
                expected="a tree that thresholds can express",
                fix="use the JSON export, or grow a smaller tree",
            )
        if parent >= 0:
            rows[parent][side] = len(rows)
        depth = max(depth, level)
        if not runs:
            rows.append([-1, -1, -1, -1, source])
            continue
        half = len(runs) // 2
        here, below = len(rows), level + 1
        rows.append([int(tree.feature[v]), runs[half - 1][1], -1, -1, source])
        stack.append((here, 3, below, v, box, runs[half:]))
        stack.append((here, 2, below, v, box, runs[:half]))
    feature, cut, left, right, origin = np.array(rows, dtype=np.int32).T.copy()
    return Thresholds(feature, cut, left, right, origin, depth)


def _runs(tree: Tree, v: int, box: _Box) -> list[_Run]:
    """List the runs of a node's bins inside the box, in order; none for a leaf."""
    kind, cut, first_child = int(tree.kind[v]), int(tree.cut[v]), int(tree.first_child[v])
    if kind == SplitKind.LEAF:
        return []
    j = int(tree.feature[v])
    lo, hi = box.get(j, (0, int(tree.domain.n_bins[j]) - 1))
    bins = np.arange(lo, hi + 1)
    if kind == SplitKind.THRESHOLD:
        child = (bins > cut).astype(np.int64)
    elif kind == SplitKind.VALUE:
        child = (bins != cut).astype(np.int64)
    elif kind == SplitKind.SUBSET:
        child = (~tree.subsets[cut, bins]).astype(np.int64)
    else:
        child = bins
    starts = np.flatnonzero(np.diff(child, prepend=-1))
    ends = np.append(starts[1:], len(bins)) - 1
    return [
        (lo + int(a), lo + int(b), first_child + int(child[a]))
        for a, b in zip(starts, ends, strict=True)
    ]
