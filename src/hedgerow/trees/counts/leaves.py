"""`LeafCounts`: what a learner that grows best-first may ask of one table.

Equal records count together: a table is kept as its distinct cells (bins and class) with the number
of records in each, arranged by node. Tables with few distinct rows (binned sensors, logs) are then
counted in a fraction of the time; the counts are the same.

Nodes are numbered by the order in which they were made: the root is 0, and the i-th split that was
made, from 0, has the children 2i + 1 and 2i + 2. Everybody who makes the same splits in the same
order has the same numbers.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow import threads
from hedgerow.compiled import A, jit
from hedgerow.errors import Code
from hedgerow.tables import Encoded
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.scoring import THRESHOLD

# Additions below which a second thread costs more than it brings.
_FEW = 1 << 16
# Odd constants of a multiplicative hash: public, and of no importance to the counts.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@jit
def _add_cells(
    bins: A, label: A, number: A, order: A, start: A, stop: A, offset: A, out: A
) -> None:
    """Add the records of each node to its histogram, out (nodes, total bins, classes)."""
    d = bins.shape[1]
    for node in range(start.size):
        flat = out[node].reshape(-1)
        width = np.uint64(out.shape[2])
        for i in range(start[node], stop[node]):
            row = np.uint32(order[i])
            n, c = number[row], np.uint64(label[row])
            for f in range(d):
                flat[np.uint64(offset[f] + bins[row, f]) * width + c] += n


@jit
def _add_classes(label: A, number: A, order: A, start: A, stop: A, out: A) -> None:
    for node in range(start.size):
        for i in range(start[node], stop[node]):
            row = np.uint32(order[i])
            out[node, label[row]] += number[row]


@jit
def _divide(
    bins: A, order: A, start: A, stop: A, feature: A, threshold: A, cut: A, spare: A, middle: A
) -> None:
    """Put the cells of child 0 of each node before those of child 1; both keep their order."""
    for node in range(start.size):
        at, aside = start[node], 0
        f, c = feature[node], cut[node]
        for i in range(start[node], stop[node]):
            row = order[i]
            b = bins[np.uint32(row), f]
            second = b > c if threshold[node] else b != c
            order[at] = row
            spare[aside] = row
            aside += second
            at += 1 - second
        for i in range(aside):
            order[at + i] = spare[i]
        middle[node] = at


class LeafCounts:
    """Counts of one table in the nodes of a tree that grows by binary splits.

    `encoded`: table with classes; absent rows are left out.
    """

    def __init__(self, encoded: Encoded, candidates: Candidates) -> None:
        target = encoded.domain.target
        if encoded.target is None or target is None or target.classes is None:
            raise Code.BAD_TARGET.error(found="a table without classes")
        present = encoded.present
        bins, label = encoded.bins, encoded.target
        if not present.all():
            bins, label = bins[present], label[present]
        cells = merge_equal_rows(bins, label)
        self._begin(*cells, candidates, len(target.classes))

    @classmethod
    def of_cells(
        cls,
        bins: NDArray[Any],
        label: NDArray[Any],
        number: NDArray[np.int64],
        candidates: Candidates,
        n_classes: int,
    ) -> LeafCounts:
        """Count cells (n, d) of classes (n,) that hold `number` (n,) records each."""
        self = cls.__new__(cls)
        held = number > 0
        self._begin(
            np.ascontiguousarray(bins[held]), label[held], number[held], candidates, n_classes
        )
        return self

    def _begin(
        self,
        bins: NDArray[Any],
        label: NDArray[Any],
        number: NDArray[np.int64],
        candidates: Candidates,
        n_classes: int,
    ) -> None:
        self.candidates, self.n_classes = candidates, n_classes
        self._bins, self._label, self._number = bins, label, number
        self._order = np.arange(len(bins), dtype=np.int32)
        self._start = [0]
        self._stop = [len(bins)]

    @property
    def n_records(self) -> int:
        """Records in the table."""
        return int(self._number.sum())

    @property
    def n_nodes(self) -> int:
        """Nodes so far."""
        return len(self._start)

    def split(self, nodes: ArrayLike, choices: ArrayLike) -> None:
        """Split some nodes, none of them split before, by candidates; see the numbers above."""
        where = np.asarray(nodes, dtype=np.int64)
        chosen = np.asarray(choices, dtype=np.int64)
        those = self.candidates
        start, stop = self._ranges(where)
        middle = np.empty(where.size, dtype=np.int64)
        threshold = those.kind[chosen] == THRESHOLD

        def work(part: slice) -> None:
            lengths = stop[part] - start[part]
            _divide(
                self._bins,
                self._order,
                start[part],
                stop[part],
                those.feature[chosen[part]],
                threshold[part],
                those.cut[chosen[part]],
                np.empty(int(lengths.max(initial=0)) + 1, dtype=np.int32),
                middle[part],
            )

        threads.run(work, self._parts(stop - start, 4))
        for first, between, last in zip(
            start.tolist(), middle.tolist(), stop.tolist(), strict=True
        ):
            self._start += [first, between]
            self._stop += [between, last]

    def after(self, nodes: ArrayLike, choices: ArrayLike) -> LeafCounts:
        """Return a copy in which some nodes are split; this one stays as it is."""
        other = copy.copy(self)
        other._order = self._order.copy()
        other._start, other._stop = self._start.copy(), self._stop.copy()
        other.split(nodes, choices)
        return other

    def class_counts(self, nodes: ArrayLike) -> NDArray[np.int64]:
        """Return the records of each class in some nodes, int64 (nodes, classes)."""
        where = np.asarray(nodes, dtype=np.int64)
        out = np.zeros((where.size, self.n_classes), dtype=np.int64)
        start, stop = self._ranges(where)
        _add_classes(self._label, self._number, self._order, start, stop, out)
        return out

    def histogram(self, nodes: ArrayLike) -> NDArray[np.int64]:
        """Return records by bin and class, int64 (nodes, total bins, classes)."""
        where = np.asarray(nodes, dtype=np.int64)
        shape = (where.size, self.candidates.total_bins, self.n_classes)
        out = np.zeros(shape, dtype=np.int64)
        start, stop = self._ranges(where)

        def work(part: slice) -> None:
            _add_cells(
                self._bins,
                self._label,
                self._number,
                self._order,
                start[part],
                stop[part],
                self.candidates.offset,
                out[part],
            )

        threads.run(work, self._parts(stop - start, self._bins.shape[1]))
        return out

    def _ranges(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < len(self._start):
            raise Code.BAD_PARAMETER.error(
                expected=f"nodes below {len(self._start)}",
                found=f"node {nodes.max() if nodes.min() >= 0 else nodes.min()}",
            )
        start, stop = np.array(self._start)[nodes], np.array(self._stop)[nodes]
        return start, stop

    @staticmethod
    def _parts(lengths: NDArray[np.int64], work: int) -> list[slice]:
        parts = threads.available() if int(lengths.sum()) * work >= _FEW else 1
        return threads.balanced(lengths + 1, parts)


def merge_equal_rows(
    bins: NDArray[Any], label: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Merge equal rows.

    Rows are sorted by a hash, and neighbours that are equal in every column are joined: a clash of
    hashes costs a join that could have been made and never a wrong one.

    `bins`: unsigned integers (n, d). `label`: unsigned integers (n,). Returns bins (cells, d),
    label (cells,), int64 (cells,): contiguous by row, and the rows of each.
    """
    n, d = bins.shape
    key = label.astype(np.uint64)
    for j in range(d):
        key *= _SPREAD
        key ^= key >> np.uint64(29)
        key += bins[:, j]
    order = np.argsort(key, kind="stable")
    rows, classes = np.ascontiguousarray(bins[order]), label[order]
    same = key[order][1:] == key[order][:-1]
    same &= classes[1:] == classes[:-1]
    at = np.flatnonzero(same)
    same[at] = (rows[at] == rows[at + 1]).all(axis=1)
    first = np.flatnonzero(np.concatenate([[True], ~same])) if n else np.zeros(0, dtype=np.int64)
    number = np.diff(np.append(first, n)).astype(np.int64)
    return np.ascontiguousarray(rows[first]), classes[first], number
