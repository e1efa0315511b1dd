"""`Shape`: which nodes of a tree are leaves, as everybody sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Shape:
    """Nodes of a binary tree, level by level from the root, and in each from left to right.

    `first_child` is -1 for a leaf. Splits and leaves are numbered in the same order:
    `split` and `leaf` have the number of each node among them, else -1.
    """

    first_child: NDArray[np.int64]
    split: NDArray[np.int64]
    leaf: NDArray[np.int64]

    @classmethod
    def of(cls, levels: Sequence[NDArray[np.bool_]]) -> Shape:
        """Return the shape of levels that tell which of their nodes are leaves.

        Below the last of them, all nodes are leaves.
        """
        below = 2 * int(np.sum(~levels[-1])) if levels else 1
        return cls.of_leaves(np.concatenate([*levels, np.ones(below, dtype=np.bool_)]))

    @classmethod
    def of_leaves(cls, is_leaf: NDArray[np.bool_]) -> Shape:
        """Return the shape of nodes, in order, that are leaves or not."""
        split = np.where(is_leaf, -1, np.cumsum(~is_leaf) - 1)
        leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, -1)
        return cls(np.where(is_leaf, -1, 2 * split + 1), split, leaf)

    @property
    def n_nodes(self) -> int:
        """Nodes of the tree."""
        return int(self.first_child.size)

    @property
    def n_splits(self) -> int:
        """Nodes that are split."""
        return int(np.sum(self.split >= 0))

    @property
    def n_leaves(self) -> int:
        """Nodes that are not."""
        return int(np.sum(self.leaf >= 0))

    @property
    def parent(self) -> NDArray[np.int64]:
        """Parent of each node, -1 of the root."""
        found = np.full(self.n_nodes, -1, dtype=np.int64)
        inner = np.flatnonzero(self.first_child >= 0)
        found[self.first_child[inner]] = inner
        found[self.first_child[inner] + 1] = inner
        return found
