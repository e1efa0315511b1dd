"""What a released tree tells about one record: the splits above it, and its own leaf.

The attacker knows all other records. Of a tree only the nodes on the record's path were drawn from
counts that it is in; all others have one law on both tables. So the tree comes down to the splits
of the path, in one number, and to the leaf's noisy counts less what the others put into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.tables import AuditTable, Side

Ints = NDArray[np.int64]
Level = tuple[NDArray[Any], NDArray[Any]]
"""Attribute and cut of the nodes of a level, (copies, nodes) each."""
_CODES = 256


def record_of(side: Side) -> tuple[Ints, int]:
    """Return bins and class of the record that only the larger of two tables has."""
    rows = [np.column_stack([table.rows, table.classes]) for table in (side.first, side.second)]
    short, long = sorted(rows, key=len)
    kinds, counts = np.unique(long, axis=0, return_counts=True)
    for kind, n in zip(kinds, counts, strict=True):
        if n > int((short == kind).all(axis=1).sum()):
            return kind[:-1], int(kind[-1])
    raise AssertionError("tables that are not neighbours")


def known_of(side: Side) -> AuditTable:
    """Return the smaller of two tables: what the attacker knows for certain."""
    return min(side.first, side.second, key=lambda table: len(table.classes))


def path_evidence(
    levels: Sequence[Level], leaves: NDArray[Any], side: Side, values: NDArray[Any]
) -> Ints:
    """Reduce trees in which every node has been split to what they tell about the record.

    `levels` (copies, nodes): child 0 has the bins up to the cut, and each bin is a child where the
    cut is negative. `leaves` (copies, leaves, channels) are noisy, `values` (n, channels) what each
    record of `known_of` adds to its leaf. Returns int64 (copies, 1 + channels): a code of the path;
    and the values of its leaf, less what is known, rounded down.
    """
    record, _ = record_of(side)
    known = known_of(side).rows
    every = np.arange(len(leaves))
    node = np.zeros(len(leaves), dtype=np.int64)
    code = np.zeros(len(leaves), dtype=np.int64)
    path: list[tuple[Ints, Ints]] = []
    for feature, cut in levels:
        f, c = feature[every, node].astype(np.int64), cut[every, node].astype(np.int64)
        path.append((f, c))
        code = code * _CODES + f * 32 + c + 1
        ways = np.where(c < 0, record[f], record[f] > c)
        node = node * (leaves.shape[1] if np.all(c < 0) else 2) + ways
    seen = np.asarray(leaves[every, node], dtype=np.float64)
    _, which, same = np.unique(code, return_index=True, return_inverse=True)
    inside = np.zeros((len(which), values.shape[1]))
    for i, at in enumerate(which):
        with_it = np.ones(len(known), dtype=np.bool_)
        for f, c in path:
            bins, own = known[:, f[at]], record[f[at]]
            with_it &= (bins == own) if c[at] < 0 else ((bins > c[at]) == (own > c[at]))
        inside[i] = values[with_it].sum(axis=0)
    return np.column_stack([code, np.floor(seen - inside[same.ravel()])]).astype(np.int64)


def class_values(table: AuditTable) -> Ints:
    """Return what each record adds to the class counts of its leaf."""
    return np.eye(table.n_classes, dtype=np.int64)[table.classes]
