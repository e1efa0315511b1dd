"""Trees as the attributes of ONNX's newer operator, ``TreeEnsemble`` of ``ai.onnx.ml`` 5.

Unlike the classic operators it tests membership in a set, so that a subset is one node where
thresholds would repeat what is below it once per run of bins, and it adds up in double precision.
A leaf holds one number for one column of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.export.sklearn import On, thresholds
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

ML_OPSET = 5
LEQ, EQ, MEMBER = 0, 4, 6
"""Codes of the operator for how a node compares; true goes to the first child."""
_SUM, _NO_TRANSFORM = 1, 0
_TRUE, _FALSE = 3, 4


class Structure(NamedTuple):
    """Inner nodes and leaves of one tree, in depth-first order.

    Attributes
    ----------
    feature, mode : int64 arrays of shape (m,)
    split : float64 array of shape (m,)
        What the feature is compared with; not read by `MEMBER`.
    true, false : int64 arrays of shape (m,)
        Number of an inner node, or ``~`` the number of a leaf.
    members : float64 array
        Bins of the `MEMBER` nodes, in their order, with NaN after each set.
    leaves : int64 array
        Node of the original tree that stands behind each leaf.
    """

    feature: NDArray[np.int64]
    mode: NDArray[np.int64]
    split: NDArray[np.float64]
    true: NDArray[np.int64]
    false: NDArray[np.int64]
    members: NDArray[np.float64]
    leaves: NDArray[np.int64]


class Part(NamedTuple):
    """A tree, the number that each of its nodes (n,) adds, and the column it is added to."""

    tree: Tree
    values: NDArray[np.float64]
    column: int


def ensemble(parts: Sequence[Part], n_columns: int, on: On) -> dict[str, Any]:
    """Return the operator's attributes; float64 and uint8 arrays are to be tensors.

    Parameters
    ----------
    parts : sequence of Part
        Added up in the output.
    n_columns : int
        Columns of the output.
    on : {"values", "bins"}
        What the input holds.
    """
    written: dict[int, Structure] = {}
    for part in parts:
        if id(part.tree) not in written:
            written[id(part.tree)] = structure(part.tree, on)
    found = [written[id(part.tree)] for part in parts]
    nodes = _starts([len(s.feature) for s in found])
    leaves = _starts([len(s.leaves) for s in found])
    members = np.concatenate([s.members for s in found])
    made: dict[str, Any] = {
        "n_targets": n_columns,
        "aggregate_function": _SUM,
        "post_transform": _NO_TRANSFORM,
        "tree_roots": nodes,
        "nodes_featureids": np.concatenate([s.feature for s in found]).tolist(),
        "nodes_modes": np.concatenate([s.mode for s in found]).astype(np.uint8),
        "nodes_splits": np.concatenate([s.split for s in found]),
        # The bin of missing values is the last one, which is never on the true side.
        "nodes_missing_value_tracks_true": [0] * sum(len(s.feature) for s in found),
        "leaf_targetids": np.repeat(
            [part.column for part in parts], [len(s.leaves) for s in found]
        ).tolist(),
        "leaf_weights": np.concatenate(
            [part.values[s.leaves] for part, s in zip(parts, found, strict=True)]
        ),
    }
    for side in ("true", "false"):
        to = [getattr(s, side) for s in found]
        ends = np.concatenate(to) < 0
        moved = [np.where(t < 0, ~t + e, t + n) for t, n, e in zip(to, nodes, leaves, strict=True)]
        made[f"nodes_{side}leafs"] = ends.astype(np.int64).tolist()
        made[f"nodes_{side}nodeids"] = np.concatenate(moved).tolist()
    if len(members):
        made["membership_values"] = members
    return made


def structure(tree: Tree, on: On) -> Structure:
    """Rewrite one tree; every row arrives at the same leaf.

    A split with one branch per bin becomes a balanced search; nothing is repeated.
    """
    split = thresholds(tree, tree.feature, tree.cut, on)
    rows: list[list[float]] = []
    members: list[float] = []
    leaves: list[int] = []
    # Each entry: where it hangs (row and column), the node, and the bins that are left to tell
    # apart if the node has one branch per bin.
    stack: list[tuple[int, int, int, tuple[int, int] | None]] = [(-1, _TRUE, 0, None)]
    while stack:
        parent, side, v, span = stack.pop()
        span = span or _span(tree, v)
        while span is not None and span[0] == span[1]:
            v = int(tree.first_child[v]) + span[0]
            span = _span(tree, v)
        leaf = tree.kind[v] == SplitKind.LEAF
        here = ~len(leaves) if leaf else len(rows)
        if parent >= 0:
            rows[parent][side] = here
        if leaf:
            leaves.append(v)
            continue
        feature, first = int(tree.feature[v]), int(tree.first_child[v])
        if span is not None:
            middle = sum(span) // 2
            rows.append([feature, LEQ, middle + 0.5, 0, 0])
            stack.append((here, _FALSE, v, (middle + 1, span[1])))
            stack.append((here, _TRUE, v, (span[0], middle)))
            continue
        mode, at, bins = _compared(tree, v, float(split[v]))
        members += bins
        rows.append([feature, mode, at, 0, 0])
        stack += [(here, _FALSE, first + 1, None), (here, _TRUE, first, None)]
    if not rows:
        # The operator has no tree without an inner node.
        rows.append([0, LEQ, 0.0, ~0, ~0])
    columns = np.array(rows, dtype=np.float64).T
    feature_, mode_, true, false = columns[[0, 1, _TRUE, _FALSE]].astype(np.int64)
    return Structure(
        feature_, mode_, columns[2], true, false, np.array(members, dtype=np.float64),
        np.array(leaves, dtype=np.int64),
    )  # fmt: skip


def _span(tree: Tree, v: int) -> tuple[int, int] | None:
    """First and last bin of a node with one branch per bin."""
    return (0, int(tree.arity[v]) - 1) if tree.kind[v] == SplitKind.WARY else None


def _compared(tree: Tree, v: int, split: float) -> tuple[int, float, list[float]]:
    """How a node with two branches compares, with what number, or with which bins and NaN."""
    if tree.kind[v] == SplitKind.THRESHOLD:
        return LEQ, split, []
    if tree.kind[v] == SplitKind.VALUE:
        return EQ, float(tree.cut[v]), []
    row = tree.subsets[tree.cut[v], : tree.domain.n_bins[tree.feature[v]]]
    if not row.any():
        return LEQ, -0.5, []
    return MEMBER, 0.0, [*np.flatnonzero(row).astype(np.float64).tolist(), np.nan]


def _starts(sizes: list[int]) -> list[int]:
    return list(accumulate(sizes[:-1], initial=0))
