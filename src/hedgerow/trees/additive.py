"""Functions of one attribute or two as trees with one leaf per value, and read back from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables import Domain
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree


@dataclass
class _Nodes:
    """A tree under construction: nodes in the order of their numbers."""

    width: int
    kind: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    first_child: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    subsets: list[NDArray[np.bool_]] = field(default_factory=list)

    def append(self) -> int:
        """Add a node that is a leaf until it is told otherwise."""
        self.kind.append(SplitKind.LEAF)
        self.feature.append(-1)
        self.cut.append(-1)
        self.first_child.append(-1)
        self.value.append(np.nan)
        return len(self.kind) - 1

    def split(self, node: int, feature: int, below: NDArray[np.bool_]) -> int:
        """Send the bins in `below` to a first child, the others to a second."""
        last = int(np.flatnonzero(below)[-1])
        if below[: last + 1].all():
            self.kind[node], self.cut[node] = SplitKind.THRESHOLD, last
        else:
            row = np.zeros(self.width, dtype=np.bool_)
            row[: len(below)] = below
            self.kind[node], self.cut[node] = SplitKind.SUBSET, len(self.subsets)
            self.subsets.append(row)
        self.feature[node] = feature
        self.first_child[node] = self.append()
        self.append()
        return self.first_child[node]


def table_tree(domain: Domain, features: Sequence[int], table: NDArray[np.float64]) -> Tree:
    """Return the tree that answers with an entry of a table.

    `domain`: with a number as its target. `features`: attributes that the axes of the table stand
    for. `table`: float64 (bins of the first, bins of the second, ...); bins with equal rows of the
    table share a branch.
    """
    nodes = _Nodes(int(domain.n_bins.max()))
    # Nodes in order of their numbers: children come after all that was made before.
    waiting = [(nodes.append(), 0, table)]
    for node, depth, rest in waiting:
        if rest.ndim == 0:
            nodes.value[node] = float(rest)
            continue
        waiting += _branches(nodes, node, int(features[depth]), depth, rest)
    weight = np.full(len(nodes.kind), np.nan)
    value = np.array(nodes.value)[:, None]
    subsets = np.array(nodes.subsets) if nodes.subsets else None
    return Tree(
        domain,
        kind=nodes.kind,
        feature=nodes.feature,
        cut=nodes.cut,
        first_child=nodes.first_child,
        value=value,
        weight=weight,
        subsets=subsets,
    )


def _branches(
    nodes: _Nodes, node: int, feature: int, depth: int, table: NDArray[np.float64]
) -> list[tuple[int, int, NDArray[np.float64]]]:
    """Split a node by one attribute into its different rows; return the ends."""
    rows = table.reshape(len(table), -1)
    _, first, part = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    part = part.reshape(-1)
    # Parts in the order of their first bin: a table along a number is cut by thresholds.
    rank = np.argsort(np.argsort(first))
    part, first = rank[part], np.sort(first)
    runs = np.cumsum(np.concatenate([[False], part[1:] != part[:-1]]))
    if runs[-1] + 1 <= 2 * len(first):
        # Few runs: thresholds alone, equal rows in different places have leaves of their own.
        part, first = runs, np.flatnonzero(np.diff(runs, prepend=-1))
    ends = []
    waiting = [(node, 0, len(first))]
    while waiting:
        here, low, high = waiting.pop()
        if high - low == 1:
            ends.append((here, depth + 1, table[first[low]]))
            continue
        middle = (low + high) // 2
        child = nodes.split(here, feature, part < middle)
        waiting += [(child, low, middle), (child + 1, middle, high)]
    return ends


class Effect(NamedTuple):
    """What one attribute alone adds to the score of a sum of trees, and what is not in it.

    `values` (bins, k) for each bin. `deviation` (bins, k) is the standard deviation of the noise in
    them that `Boosted.noise` is about; None where the model does not know it. `joint` counts
    functions of this attribute together with others.
    """

    values: NDArray[np.float64]
    deviation: NDArray[np.float64] | None
    joint: int


def effect(model: Boosted, feature: int) -> Effect | None:
    """Add up the functions of one attribute alone; None if there is none."""
    k = model.n_scores
    values = np.zeros((model.domain.attributes[feature].n_bins, k))
    variance = np.zeros_like(values)
    known, alone, joint = model.noise is not None, 0, 0
    rows = np.zeros((len(values), len(model.domain.attributes)), dtype=model.domain.dtype)
    rows[:, feature] = np.arange(len(values))
    for number, tree in enumerate(model.trees):
        used = np.unique(tree.feature[tree.feature >= 0])
        if feature not in used:
            continue
        if used.size > 1:
            joint += 1
            continue
        alone += 1
        at = tree.apply(rows)
        values[:, number % k] += tree.value[at, 0]
        deviations = None if model.noise is None else model.noise[number]
        if deviations is None:
            known = False
        else:
            variance[:, number % k] += deviations[np.searchsorted(tree.leaves, at)] ** 2
    if not alone:
        return None
    return Effect(values, np.sqrt(variance) if known else None, joint)
