"""Batched evaluation of trees on encoded rows.

A block of rows descends one level at a time, all rows of the block together: the step of one row
does not wait for the step of another and no branch depends on the data, which keeps the processor
busy where a row-by-row descent would stall at every node.

Every split kind is one formula on a row's bin ``b``::

    next = child + stride * b + ((b < low) | (b > high)) + table[base + (base > 0) * b]

THRESHOLD and VALUE use the interval, WARY the stride, SUBSET the table, whose entry 0 is 0 and
which holds 1 for every bin that is not in the subset; a leaf steps to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.compiled import A, jit
from hedgerow.trees.layout import Bins, SplitKind

BLOCK = 512
"""Rows that descend together: a block's nodes and bins stay in the first-level cache."""

CHUNK = 1 << 16
"""Rows that one task takes; smaller inputs run in the calling thread."""

_ANY_BIN = np.iinfo(np.uint32).max
_FEATURE, _LOW, _HIGH, _CHILD, _STRIDE, _BASE = range(6)


class PackedTrees(NamedTuple):
    """Trees laid out for the kernels; node numbers run through all trees.

    Unsigned numbers, because Numba guards every signed index against being negative: that alone
    makes the descent three times slower.

    `nodes`: uint32 (6, n_nodes); feature, low, high, child, stride, base. `table`: 0, then the
    children of the SUBSET splits, one entry per bin of the attribute. `roots`: uint32 (n_trees,);
    first node of each tree.
    """

    nodes: NDArray[np.uint32]
    table: NDArray[np.uint8]
    roots: NDArray[np.uint32]


def plan(
    n_bins: NDArray[np.int32],
    kind: NDArray[np.uint8],
    feature: NDArray[np.int32],
    cut: NDArray[np.int32],
    first_child: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> PackedTrees:
    """Lay out the arrays of one checked tree (shapes as in `Tree`) for the kernels.

    `n_bins` (d,) are the bins of the attributes.
    """
    nodes = np.empty((6, len(kind)), dtype=np.uint32)
    leaf, threshold, value, subset, wary = (kind == k for k in SplitKind)
    nodes[_FEATURE] = np.where(leaf, 0, feature)
    nodes[_LOW] = np.where(value, cut, 0)
    nodes[_HIGH] = np.where(threshold | value, cut, _ANY_BIN)
    nodes[_CHILD] = np.where(leaf, np.arange(len(kind)), first_child)
    nodes[_STRIDE] = wary
    nodes[_BASE], table = _branch_table(np.flatnonzero(subset), n_bins, feature, cut, subsets)
    return _freeze(nodes, table, np.zeros(1, dtype=np.uint32))


def _branch_table(
    nodes: NDArray[np.int64],
    n_bins: NDArray[np.int32],
    feature: NDArray[np.int32],
    cut: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Write the rows that the SUBSET splits `nodes` use behind each other, without unread bins.

    Returns uint32 (n_nodes,), 0 where there is no subset, and uint8, as in `PackedTrees`. Close
    together, the rows of narrow attributes share lines of the cache.
    """
    base = np.zeros(len(feature), dtype=np.uint32)
    if not len(nodes):
        return base, np.zeros(1, dtype=np.uint8)
    rows, which = np.unique(cut[nodes], return_inverse=True)
    widths = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(widths, which, n_bins[feature[nodes]])
    base[nodes] = (1 + np.cumsum(widths) - widths)[which]
    table = np.zeros(1 + widths.sum(), dtype=np.uint8)
    table[1:] = ~subsets[rows][np.arange(subsets.shape[1]) < widths[:, None]]
    return base, table


def join(plans: Sequence[PackedTrees]) -> PackedTrees:
    """Lay several trees out behind each other, as a forest is evaluated."""
    sizes = [p.nodes.shape[1] for p in plans]
    roots = np.cumsum([0, *sizes[:-1]]).astype(np.uint32)
    shifts = np.cumsum([0, *(len(p.table) for p in plans[:-1])]).astype(np.uint32)
    nodes = np.concatenate([p.nodes for p in plans], axis=1)
    nodes[_CHILD] += np.repeat(roots, sizes)
    nodes[_BASE] += np.where(nodes[_BASE] > 0, np.repeat(shifts, sizes), np.uint32(0))
    return _freeze(nodes, np.concatenate([p.table for p in plans]), roots)


def _freeze(
    nodes: NDArray[np.uint32], table: NDArray[np.uint8], roots: NDArray[np.uint32]
) -> PackedTrees:
    # Numba compiles read-only and writable arrays apart: one kind means one compilation.
    for array in (nodes, table, roots):
        array.setflags(write=False)
    return PackedTrees(nodes, table, roots)


def leaves(plan: PackedTrees, bins: Bins) -> NDArray[np.int32]:
    """Find the leaf of every row in the plan's first tree.

    `bins`: uint8 or uint16 (n, d); encoded rows, every bin inside its attribute; fastest in Fortran
    order. Returns int32 (n,).
    """
    columns = _columns(bins)
    out = np.empty(len(bins), dtype=np.int32)
    _in_chunks(lambda lo, hi: _leaves(plan.nodes, plan.table, columns, lo, hi, out), len(bins))
    return out


def total(
    plan: PackedTrees, values: NDArray[np.float64], bins: Bins, start: float = 0.0
) -> NDArray[np.float64]:
    """Add up, over all trees of the plan, the value of the leaf that each row falls into.

    `values`: float64 (n_nodes, k); one row per node of the plan. `bins`: uint8 or uint16 (n, d).
    `start`: what the first tree's value is added to. Returns float64 (n, k): trees are added in
    their order, so that the sum does not depend on the chunks.
    """
    columns = _columns(bins)
    out = np.full((len(bins), values.shape[1]), start)
    table = np.ascontiguousarray(values)
    table.setflags(write=False)
    _in_chunks(
        lambda lo, hi: _total(plan.nodes, plan.table, plan.roots, table, columns, lo, hi, out),
        len(bins),
    )
    return out


def _columns(bins: Bins) -> NDArray[Any]:
    columns: NDArray[Any] = np.asfortranarray(bins).T.view()
    columns.setflags(write=False)
    return columns


def _in_chunks(work: Callable[[int, int], None], n: int) -> None:
    """Run ``work(lo, hi)`` over all rows, on every core when there are many."""
    threads.each(lambda lo: work(lo, min(lo + CHUNK, n)), range(0, n, CHUNK))


@jit
def _descend(nodes: A, table: A, columns: A, start: int, m: int, node: A) -> None:
    """Move the first m entries of `node` from where they are to their leaves."""
    feature, low, high = nodes[_FEATURE], nodes[_LOW], nodes[_HIGH]
    child, stride, base = nodes[_CHILD], nodes[_STRIDE], nodes[_BASE]
    moved = True
    while moved:
        changed = np.uint32(0)
        for i in range(m):
            v = node[i]
            b = np.uint32(columns[feature[v], np.uint64(start + i)])
            outside = np.uint32((b < low[v]) | (b > high[v]))
            branch = table[np.uint64(base[v] + (base[v] > 0) * b)]
            w = np.uint32(child[v] + stride[v] * b + outside + branch)
            changed |= w ^ v
            node[i] = w
        moved = changed != 0


@jit
def _leaves(nodes: A, table: A, columns: A, lo: int, hi: int, out: A) -> None:
    node = np.empty(BLOCK, dtype=np.uint32)
    for start in range(lo, hi, BLOCK):
        m = min(BLOCK, hi - start)
        node[:m] = 0
        _descend(nodes, table, columns, start, m, node)
        out[start : start + m] = node[:m]


@jit
def _total(nodes: A, table: A, roots: A, values: A, columns: A, lo: int, hi: int, out: A) -> None:
    node = np.empty(BLOCK, dtype=np.uint32)
    for start in range(lo, hi, BLOCK):
        m = min(BLOCK, hi - start)
        for t in range(roots.shape[0]):
            node[:m] = roots[t]
            _descend(nodes, table, columns, start, m, node)
            for i in range(m):
                for j in range(values.shape[1]):
                    out[start + i, j] += values[node[i], j]


@jit
def depths(parent: A) -> A:
    """Depth of every node (int32, root 0) from parents that come before their children."""
    out = np.zeros(parent.shape[0], dtype=np.int32)
    for v in range(1, parent.shape[0]):
        out[v] = out[parent[v]] + 1
    return out
