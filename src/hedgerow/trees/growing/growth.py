"""What every learner shares: when to stop, and the tree that comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.domain import Domain
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.criteria import Criterion
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.growing.scoring import unsplit_scores
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

_EPSILON: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Limits:
    """When a node stays a leaf; the meaning and the defaults are scikit-learn's.

    Depth is that of a leaf, at least 1. The decrease of impurity is weighted by the node's share of
    all records; at 0 a split without any decrease is made too. `max_leaf_nodes` needs the
    best-first learner. Raises H501 for a value of another type or out of range.
    """

    max_depth: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0
    max_leaf_nodes: int | None = None

    def __post_init__(self) -> None:
        for name, least, optional in (
            ("max_depth", 1, True),
            ("min_samples_split", 2, False),
            ("min_samples_leaf", 1, False),
            ("max_leaf_nodes", 2, True),
        ):
            value = getattr(self, name)
            if not (optional and value is None) and not _is_number(value, Integral, least):
                none = "None or " if optional else ""
                self._refuse(name, f"{none}a whole number of at least {least}")
        if not _is_number(self.min_impurity_decrease, Real, 0):
            self._refuse("min_impurity_decrease", "a finite number of at least 0")

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise Code.BAD_PARAMETER.error(
            found=f"{name}={getattr(self, name)!r}", expected=f"{name} as {expected}"
        )


def _is_number(value: Any, kind: type, least: int) -> bool:
    # True and False are whole numbers to Python, and never meant as such.
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return bool(least <= cast(float, value) < math.inf)


class GrowingTree:
    """A tree while it grows: the splits made so far over the nodes of `Rows`."""

    def __init__(self, domain: Domain, rows: Rows, criterion: Criterion, limits: Limits) -> None:
        self.rows = rows
        self._domain = domain
        self._criterion = criterion
        self._limits = limits
        self._n_records = max(1, int(rows.sizes([0])[0]))
        self._splits: list[tuple[NodeSplits, NDArray[np.int64]]] = []

    def splittable(
        self, counts: NDArray[np.int64] | NDArray[np.float64], depth: int
    ) -> NDArray[np.bool_]:
        """Tell which nodes may be split, from their channels (nodes, k) and their depth."""
        limits = self._limits
        if limits.max_depth is not None and depth >= limits.max_depth:
            return np.zeros(counts.shape[0], dtype=np.bool_)
        if self.rows.has_classes:
            sizes = counts.sum(axis=1)
            impure = counts.max(axis=1) < sizes
        else:
            sizes = counts[:, 0]
            n = np.maximum(sizes, 1)
            mean_square = counts[:, 2] / n
            variance = mean_square - (counts[:, 1] / n) ** 2
            # scikit-learn stops at epsilon; sums of n rounded numbers are not known better than
            # by the second term.
            impure = variance > _EPSILON * np.maximum(1.0, 4.0 * np.sqrt(n) * mean_square)
        least = max(limits.min_samples_split, 2 * limits.min_samples_leaf)
        enough: NDArray[np.bool_] = impure & (sizes >= least)
        return enough

    def decrease(self, nodes: NDArray[np.int64], score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the decrease of the impurity by splits of that score, (nodes,).

        Weighted by the node's share of all records, in the units of scikit-learn.
        """
        before = unsplit_scores(self.rows.counts(nodes), self._criterion)
        return (score - before) / self._n_records

    def worth(self, choice: NDArray[np.int64], decrease: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which nodes have a split, and one that decreases the impurity enough."""
        least = self._limits.min_impurity_decrease
        if least == 0.0:
            return choice >= 0
        return (choice >= 0) & (decrease + _EPSILON >= least)

    def make(self, split: NodeSplits, depth: int) -> NDArray[np.int64]:
        """Make the children of a split of nodes of that depth; return those worth a look."""
        splittable = self.splittable(split.counts, depth + 1)
        keep = np.logical_or.reduceat(splittable, split.first[:-1])
        first = self.rows.move(split, keep)
        self._splits.append((split, first))
        return int(first[0]) + np.flatnonzero(splittable)

    def tree(self) -> Tree:
        """Build the tree; an empty leaf has the distribution of its parent and weight 0."""
        n = self.rows.n_nodes
        kind = np.full(n, SplitKind.LEAF, dtype=np.uint8)
        feature, cut, first_child, parent = np.full((4, n), -1, dtype=np.int32)
        for split, first in self._splits:
            kind[split.nodes], feature[split.nodes] = split.kind, split.feature
            cut[split.nodes], first_child[split.nodes] = split.cut, first
            parent[first[0] : first[0] + split.first[-1]] = split.nodes[split.owner]
        counts = self.rows.counts(np.arange(n))
        weight = self.rows.sizes(np.arange(n)).astype(np.float64)
        if self.rows.has_classes:
            value = counts.astype(np.float64)
        else:
            value = (counts[:, 1] / np.maximum(weight, 1.0))[:, None]
        empty = np.flatnonzero((weight == 0) & (parent >= 0))
        value[empty] = value[parent[empty]]
        return Tree(self._domain, kind, feature, cut, first_child, value, weight)
