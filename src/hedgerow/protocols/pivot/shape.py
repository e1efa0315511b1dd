"""`Shape`: which nodes of trees are leaves, as everybody sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Shape:
    """Nodes of binary trees, level by level from the roots, and in each from left to right.

    Trees lie side by side. `first_child` is -1 for a leaf. Splits and leaves are numbered in the
    same order: `split` and `leaf` have the number of each node among them, else -1.
    """

    first_child: NDArray[np.int64]
    split: NDArray[np.int64]
    leaf: NDArray[np.int64]
    n_trees: int = 1

    @classmethod
    def of(cls, levels: Sequence[NDArray[np.bool_]]) -> Shape:
        """Return the shape of levels that tell which of their nodes are leaves.

        Below the last of them, all nodes are leaves.
        """
        below = np.ones(2 * int(np.sum(~levels[-1])), dtype=np.bool_)
        return cls.of_leaves(np.concatenate([*levels, below]), levels[0].size)

    @classmethod
    def of_leaves(cls, is_leaf: NDArray[np.bool_], n_trees: int = 1) -> Shape:
        """Return the shape of nodes, in order, that are leaves or not."""
        split = np.where(is_leaf, -1, np.cumsum(~is_leaf) - 1)
        leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, -1)
        return cls(np.where(is_leaf, -1, 2 * split + n_trees), split, leaf, n_trees)

    @property
    def n_nodes(self) -> int:
        """Nodes of all trees."""
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
    def tree(self) -> NDArray[np.int64]:
        """Number of the tree of each node."""
        found = np.arange(self.n_nodes)
        for node in np.flatnonzero(self.first_child >= 0):
            child = self.first_child[node]
            found[child : child + 2] = found[node]
        return found
