"""What is known of the nodes of a growing tree: where their rows lie, how they are split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.layout import SplitKind


class Nodes:
    """Growing arrays with one entry per node, numbered as in `Tree`.

    `start` and `stop` are the range of the node's rows, empty where the rows are not kept; `counts`
    has shape (>= size, k). `constant` (>= size, d) marks attributes known to have one occupied bin
    in the node, and so in every descendant.
    """

    def __init__(self, n_rows: int, counts: NDArray[Any], n_features: int) -> None:
        self.size = 1
        self.start = np.zeros(1, dtype=np.int64)
        self.stop = np.full(1, n_rows, dtype=np.int64)
        self.counts = counts
        self.constant = np.zeros((1, n_features), dtype=np.bool_)

    def lengths(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of rows kept for some nodes, int64 (nodes,)."""
        lengths: NDArray[np.int64] = self.stop[nodes] - self.start[nodes]
        return lengths

    def append(
        self,
        start: NDArray[np.int64],
        stop: NDArray[np.int64],
        counts: NDArray[Any],
        constant: NDArray[np.bool_],
    ) -> None:
        """Add nodes at the end."""
        old, self.size = self.size, self.size + start.size
        if self.size > self.start.size:
            room = max(self.size, 2 * self.start.size)
            self.start, self.stop = _widen(self.start, room), _widen(self.stop, room)
            self.counts = _widen(self.counts, room)
            self.constant = _widen(self.constant, room)
        new = slice(old, self.size)
        self.start[new], self.stop[new] = start, stop
        self.counts[new], self.constant[new] = counts, constant


def _widen(array: NDArray[Any], room: int) -> NDArray[Any]:
    more = np.zeros((room - array.shape[0], *array.shape[1:]), dtype=array.dtype)
    return np.concatenate([array, more])


@dataclass(frozen=True, eq=False)
class NodeSplits:
    """Chosen splits of some nodes, with what their children would hold.

    The children of the i-th node are ``first[i]:first[i + 1]`` of `counts` (children, channels).
    `gap` (m, 2): largest occupied bin of child 0, smallest one of the other children.
    """

    nodes: NDArray[np.int64]
    feature: NDArray[np.int32]
    kind: NDArray[np.uint8]
    cut: NDArray[np.int32]
    first: NDArray[np.int64]
    counts: NDArray[Any]
    gap: NDArray[np.int64]

    def centre_cuts(self) -> NodeSplits:
        """Put each threshold into the middle of the empty bins around it."""
        between = (self.gap[:, 0] >= 0) & (self.kind == SplitKind.THRESHOLD)
        cut = np.where(between, self.gap.sum(axis=1) // 2, self.cut).astype(np.int32)
        return replace(self, cut=cut)

    @property
    def owner(self) -> NDArray[np.int64]:
        """For each child the position of its parent in `nodes`, int64 (children,)."""
        return np.repeat(np.arange(self.nodes.size), np.diff(self.first))
