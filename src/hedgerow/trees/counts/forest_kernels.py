"""Compiled kernels of forests: rows by node, and what is counted over them.

Rows of a batch are never moved. `order` lists row numbers node by node, ``order[start[p] :
start[p + 1]]`` for node p of the frontier; a row of an unpartitioned forest is listed once per
tree. Counts are added to what `out` holds, so that batches add up in place.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hedgerow.compiled import A, jit
from hedgerow.trees.growing.criteria import SQUARED
from hedgerow.trees.growing.scoring import _branch, _size
from hedgerow.trees.layout import SplitKind

LEAF: Final = int(SplitKind.LEAF)
THRESHOLD: Final = int(SplitKind.THRESHOLD)


@jit
def _side(b: A, threshold: bool, cut: int, subsets: A) -> int:
    if threshold:
        return 1 if b > cut else 0
    return 0 if subsets[cut, b] else 1


@jit
def move_down(
    columns: A, where: A, feature: A, kind: A, cut: A, subsets: A, first: A, out: A
) -> None:
    """Write the next node of every row.

    `columns`: uint8 or uint16 (d, rows). `where`, `out`: int32 (copies, rows); node on the
    frontier, -1 for an empty slot; before and after. `feature`, `kind`, `cut`: shape (frontier,).
    `subsets`: bool (tables, widest); bins that go left, for the splits that are neither leaf nor
    threshold. `first`: int64 (frontier + 1,); first child of each node; a leaf is its own and only
    child.
    """
    for c in range(where.shape[0]):
        for i in range(where.shape[1]):
            p = where[c, i]
            if p < 0:
                out[c, i] = -1
                continue
            right = 0
            if kind[p] != LEAF:
                b = columns[feature[p], i]
                right = _side(b, kind[p] == THRESHOLD, cut[p], subsets)
            out[c, i] = first[p] + right


@jit
def rows_by_node(where: A, order: A, start: A) -> None:
    """Sort row numbers by node, keeping their order within each (counting sort).

    ``order`` int32 of as many entries as there are nodes >= 0 in ``where``; ``start`` int64
    (frontier + 1,), zero at first.
    """
    for c in range(where.shape[0]):
        for i in range(where.shape[1]):
            if where[c, i] >= 0:
                start[where[c, i] + 1] += 1
    for p in range(start.size - 1):
        start[p + 1] += start[p]
    for c in range(where.shape[0]):
        for i in range(where.shape[1]):
            p = where[c, i]
            if p >= 0:
                order[start[p]] = i
                start[p] += 1
    for p in range(start.size - 1, 0, -1):
        start[p] = start[p - 1]
    start[0] = 0


@jit
def histogram_asks(
    columns: A, order: A, start: A, nodes: A, features: A, offset: A, lo: int, hi: int, out: A
) -> None:
    """Count records by bin for the asks lo:hi, (node, feature) each, from out[offset[ask]] on."""
    for ask in range(lo, hi):
        p, f = nodes[ask], features[ask]
        at = np.uint64(offset[ask])
        for i in range(start[p], start[p + 1]):
            out[at + np.uint64(columns[f, np.uint32(order[i])])] += 1


@jit
def sides_asks(
    columns: A,
    target: A,
    classes: bool,
    order: A,
    start: A,
    nodes: A,
    feature: A,
    kind: A,
    cut: A,
    subsets: A,
    lo: int,
    hi: int,
    out: A,
) -> None:
    """Add up the channels left and right of the candidate splits lo:hi.

    ``target`` (rows,) holds class indices, or units where not `classes`; ``out`` int64
    (asks, 2, channels).
    """
    for ask in range(lo, hi):
        p, f = nodes[ask], feature[ask]
        threshold = kind[ask] == THRESHOLD
        for i in range(start[p], start[p + 1]):
            row = np.uint32(order[i])
            side = _side(columns[f, row], threshold, cut[ask], subsets)
            y = np.int64(target[row])
            if classes:
                out[ask, side, y] += 1
            else:
                out[ask, side, 0] += 1
                out[ask, side, 1] += y
                out[ask, side, 2] += y * y


@jit
def channels_nodes(target: A, classes: bool, order: A, start: A, lo: int, hi: int, out: A) -> None:
    """Add up the channels of the nodes lo:hi; ``out`` int64 (frontier, channels)."""
    for p in range(lo, hi):
        for i in range(start[p], start[p + 1]):
            y = np.int64(target[np.uint32(order[i])])
            if classes:
                out[p, y] += 1
            else:
                out[p, 0] += 1
                out[p, 1] += y
                out[p, 2] += y * y


@jit
def score_sides(sides: A, kernel: int, shift: int, table: A, out: A) -> None:
    """Score candidate splits from the channels of their two branches, exactly.

    ``sides`` int64 (asks, 2, channels); ``table`` int64 as `Criterion.table` gives it; ``out``
    int64 (asks,).
    """
    for ask in range(sides.shape[0]):
        branches = sides[ask]
        total = np.int64(0)
        for side in range(2):
            n = branches[side, 0] if kernel == SQUARED else _size(branches, side, kernel)
            total += _branch(branches, side, n, kernel, shift, table)
        out[ask] = total
