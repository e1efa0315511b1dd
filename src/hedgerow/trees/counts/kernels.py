"""Compiled kernels: rows to histograms, histograms to scores, rows to the next level.

Every kernel takes nodes as ranges ``order[start:stop]`` of row numbers and works on a histogram
buffer of four features that stays in the cache: a histogram is scored as soon as it is full and
then forgotten. Which thread does what is the caller's business; a kernel writes only to the nodes
and features it is given.

Number formats are told apart by type. A target of unsigned integers is a class index, and its
histogram has a channel per class; any other target has the channels (n, sum y, sum y^2). A float64
`table` asks for float64 scores, an int64 one for exact integers (`growing.criteria`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types
from numba.extending import overload

from hedgerow.compiled import A, jit
from hedgerow.trees.growing.scoring import THRESHOLD, VALUE, WARY, score_cuts

GROUP: Final = 4
"""Features counted in one pass: additions to four histograms hide each other's latency."""


def _fill(columns: A, f: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
    """Set buffer[j] to the histogram of feature f[j] over the rows order[lo:hi]."""


@overload(_fill)
def _fill_by_type(columns: A, f: A, order: A, target: A, lo: A, hi: A, buffer: A) -> A:
    def classes(columns: A, f: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
        c0, c1, c2, c3 = columns[f[0]], columns[f[1]], columns[f[2]], columns[f[3]]
        h0, h1, h2, h3 = _flat(buffer, 0), _flat(buffer, 1), _flat(buffer, 2), _flat(buffer, 3)
        # Unsigned indices spare a test for negative ones, a third of the time.
        width = np.uint64(buffer.shape[2])
        one = np.int32(1)
        for i in range(lo, hi):
            row, label = np.uint32(order[i]), np.uint64(target[i])
            h0[np.uint64(c0[row]) * width + label] += one
            h1[np.uint64(c1[row]) * width + label] += one
            h2[np.uint64(c2[row]) * width + label] += one
            h3[np.uint64(c3[row]) * width + label] += one

    def sums(columns: A, f: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
        c0, c1, c2, c3 = columns[f[0]], columns[f[1]], columns[f[2]], columns[f[3]]
        h0, h1, h2, h3 = _flat(buffer, 0), _flat(buffer, 1), _flat(buffer, 2), _flat(buffer, 3)
        for i in range(lo, hi):
            row, y = np.uint32(order[i]), target[i]
            square = y * y
            _add(h0, c0[row], y, square)
            _add(h1, c1[row], y, square)
            _add(h2, c2[row], y, square)
            _add(h3, c3[row], y, square)

    return classes if target.dtype in types.unsigned_domain else sums


def _fill_one(column: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
    """Add up one feature over the rows order[lo:hi], a quarter of them in each buffer[j]."""


@overload(_fill_one)
def _fill_one_by_type(column: A, order: A, target: A, lo: A, hi: A, buffer: A) -> A:
    def classes(column: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
        h0, h1, h2, h3 = _flat(buffer, 0), _flat(buffer, 1), _flat(buffer, 2), _flat(buffer, 3)
        width = np.uint64(buffer.shape[2])
        one = np.int32(1)
        quarter = (hi - lo) // GROUP
        for i in range(lo, lo + quarter):
            j, k, m = i + quarter, i + 2 * quarter, i + 3 * quarter
            h0[np.uint64(column[np.uint32(order[i])]) * width + np.uint64(target[i])] += one
            h1[np.uint64(column[np.uint32(order[j])]) * width + np.uint64(target[j])] += one
            h2[np.uint64(column[np.uint32(order[k])]) * width + np.uint64(target[k])] += one
            h3[np.uint64(column[np.uint32(order[m])]) * width + np.uint64(target[m])] += one
        for i in range(lo + GROUP * quarter, hi):
            h0[np.uint64(column[np.uint32(order[i])]) * width + np.uint64(target[i])] += one

    def sums(column: A, order: A, target: A, lo: A, hi: A, buffer: A) -> None:
        h0, h1, h2, h3 = _flat(buffer, 0), _flat(buffer, 1), _flat(buffer, 2), _flat(buffer, 3)
        quarter = (hi - lo) // GROUP
        for i in range(lo, lo + quarter):
            j, k, m = i + quarter, i + 2 * quarter, i + 3 * quarter
            _add(h0, column[np.uint32(order[i])], target[i], target[i] * target[i])
            _add(h1, column[np.uint32(order[j])], target[j], target[j] * target[j])
            _add(h2, column[np.uint32(order[k])], target[k], target[k] * target[k])
            _add(h3, column[np.uint32(order[m])], target[m], target[m] * target[m])
        for i in range(lo + GROUP * quarter, hi):
            _add(h0, column[np.uint32(order[i])], target[i], target[i] * target[i])

    return classes if target.dtype in types.unsigned_domain else sums


@jit
def _flat(buffer: A, j: int) -> A:
    return buffer[j].reshape(-1)


@jit
def _add(h: A, b: A, y: A, square: A) -> None:
    at = np.uint64(b) * np.uint64(3)
    h[at] += 1
    h[at + np.uint64(1)] += y
    h[at + np.uint64(2)] += square


# Loops in place of slices: a slice assignment takes seconds to compile.


@jit
def _clear(buffer: A, j: int, n_bins: int) -> None:
    for b in range(n_bins):
        for c in range(buffer.shape[2]):
            buffer[j, b, c] = 0


@jit
def _fill_group(
    columns: A, group: A, used: int, order: A, target: A, lo: int, hi: int, n_bins: A, buffer: A
) -> None:
    """Fill the first `used` histograms; the rest of a group repeats the last feature."""
    for j in range(GROUP):
        if j >= used:
            group[j] = group[used - 1]
        _clear(buffer, j, n_bins[group[j]])
    _fill(columns, group, order, target, lo, hi, buffer)


@jit
def score_nodes(
    columns: A,
    order: A,
    target: A,
    start: A,
    stop: A,
    features: A,
    skip: A,
    n_bins: A,
    kind: A,
    first: A,
    kernel: int,
    leaf: int,
    shift: int,
    table: A,
    lowest: A,
    buffer: A,
    out: A,
    constant: A,
) -> None:
    """Score all candidates of some features in some nodes straight from the rows.

    `columns`: uint8 or uint16 (d, rows). `order`, `target`: shape (active rows,); row numbers
    (int32) and their targets, both arranged by node. `start`, `stop`: int64 (nodes,). `skip`: bool
    (nodes, d); where a feature gets `lowest` without being looked at. `n_bins`: int32 (d,). `kind`:
    uint8 (d,); kind of the candidates of each feature. `first`: int64 (d + 1,); candidates of
    feature j are first[j]:first[j + 1]. `kernel`, `leaf`, `shift`, `table`: criterion, least number
    of records in a branch (0: no limit), grid, look-up table. `lowest`: score of a candidate that
    is not allowed. `buffer`: int32, int64 or float64 (4, max bins, channels). `out`: float64 or
    int64 (nodes, candidates). `constant`: bool (nodes, d); set where all rows of the node lie in
    one bin.
    """
    group = np.empty(GROUP, np.int64)
    work = np.empty((3, buffer.shape[2]), buffer.dtype)
    for node in range(start.size):
        used = 0
        for at in range(features.size + 1):
            if at < features.size:
                j = features[at]
                if skip[node, j]:
                    for c in range(first[j], first[j + 1]):
                        out[node, c] = lowest
                else:
                    group[used] = j
                    used += 1
            if used == GROUP or (used > 0 and at == features.size):
                _fill_group(
                    columns, group, used, order, target, start[node], stop[node], n_bins, buffer
                )
                for i in range(used):
                    f = group[i]
                    constant[node, f] = score_cuts(
                        buffer[i, : n_bins[f]],
                        kind[f],
                        kernel,
                        leaf,
                        shift,
                        table,
                        lowest,
                        work,
                        out[node, first[f] : first[f + 1]],
                    )
                used = 0


@jit
def histogram_nodes(
    columns: A,
    order: A,
    target: A,
    start: A,
    stop: A,
    features: A,
    n_bins: A,
    offset: A,
    buffer: A,
    out: A,
) -> None:
    """Write the histograms of some features into `out`, shape (nodes, total bins, channels)."""
    group = np.empty(GROUP, np.int64)
    for node in range(start.size):
        for at in range(0, features.size, GROUP):
            used = min(GROUP, features.size - at)
            for i in range(used):
                group[i] = features[at + i]
            _fill_group(
                columns, group, used, order, target, start[node], stop[node], n_bins, buffer
            )
            for i in range(used):
                for b in range(n_bins[group[i]]):
                    for c in range(out.shape[2]):
                        out[node, offset[group[i]] + b, c] = buffer[i, b, c]


@jit
def _child(b: A, kind: int, cut: int) -> A:
    if kind == THRESHOLD:
        return 1 if b > cut else 0
    if kind == VALUE:
        return 1 if b != cut else 0
    return b


@jit
def tally_children(
    columns: A,
    order: A,
    target: A,
    start: A,
    stop: A,
    feature: A,
    kind: A,
    cut: A,
    n_bins: A,
    first: A,
    buffer: A,
    counts: A,
    gap: A,
) -> None:
    """Count what each child of a chosen split would hold, without moving a row.

    `counts` (children, channels) is added to, from first[node] on. `gap` (nodes, 2) becomes the
    largest occupied bin of child 0 and the smallest one of the others.
    """
    for node in range(start.size):
        f = feature[node]
        for j in range(GROUP):
            _clear(buffer, j, n_bins[f])
        _fill_one(columns[f], order, target, start[node], stop[node], buffer)
        gap[node, 0], gap[node, 1] = -1, n_bins[f]
        for b in range(n_bins[f]):
            child = _child(b, kind[node], cut[node])
            occupied = False
            for j in range(GROUP):
                for c in range(counts.shape[1]):
                    counts[first[node] + child, c] += buffer[j, b, c]
                    occupied |= buffer[j, b, c] != 0
            if occupied and child == 0:
                gap[node, 0] = b
            elif occupied and b < gap[node, 1]:
                gap[node, 1] = b


@jit
def move_rows(
    columns: A,
    order: A,
    target: A,
    start: A,
    stop: A,
    feature: A,
    kind: A,
    cut: A,
    first: A,
    begin: A,
    spare_order: A,
    spare_target: A,
) -> None:
    """Arrange the rows of each node by child, keeping their order within each child.

    Child c begins at begin[first[node] + c], which moves on; the spare arrays hold one node.
    """
    for node in range(start.size):
        lo, hi = start[node], stop[node]
        column = columns[feature[node]]
        if kind[node] == WARY:
            for i in range(lo, hi):
                child = first[node] + column[np.uint32(order[i])]
                at = begin[child] - lo
                spare_order[at], spare_target[at] = order[i], target[i]
                begin[child] += 1
            for i in range(lo, hi):
                order[i], target[i] = spare_order[i - lo], spare_target[i - lo]
            continue
        # Child 0 closes ranks in place and child 1 waits aside. Every row is written to both
        # places and one of the two counters moves on: no branch to be predicted wrongly.
        at, aside = lo, 0
        for i in range(lo, hi):
            row, label = order[i], target[i]
            child = _child(np.int64(column[np.uint32(row)]), kind[node], cut[node])
            order[at], target[at] = row, label
            spare_order[aside], spare_target[aside] = row, label
            aside += child
            at += 1 - child
        for i in range(aside):
            order[at + i], target[at + i] = spare_order[i], spare_target[i]
