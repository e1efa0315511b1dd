"""Best-first growth: the split with the largest decrease of impurity is made next."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.domain import Domain
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.growth import Growth, Limits
from hedgerow.trees.growing.search import Search
from hedgerow.trees.tree import Tree

_Entry = tuple[float, int, int, int]  # minus the decrease, node, candidate, depth


def grow_best_first(
    domain: Domain, rows: Rows, search: Search, limits: Limits, *, centre: bool = True
) -> Tree:
    """Grow a tree of at most ``limits.max_leaf_nodes`` leaves, best split first.

    The frontier is a heap by decrease of the impurity, weighted by the node's share of all
    records, as in scikit-learn's best-first builder; of equal ones the oldest node comes first.

    Parameters
    ----------
    domain
        Domain of the tree.
    rows
        The rows, all of them in the root.
    search
        How a split is found.
    limits
        When to stop.
    centre
        Put each threshold into the middle of the empty bins around it.

    Returns
    -------
    Tree
        Values of inner nodes are filled in too.
    """
    if limits.max_leaf_nodes is None:
        raise Code.BAD_PARAMETER.error(found="max_leaf_nodes=None", expected="a number of leaves")
    growth = Growth(domain, rows, search.criterion, limits)
    frontier: list[_Entry] = []

    def look_at(nodes: NDArray[np.int64], depth: int) -> None:
        choice, score = search(rows, nodes)
        decrease = growth.decrease(nodes, score)
        for i in np.flatnonzero(growth.worth(choice, decrease)):
            entry = (-float(decrease[i]), int(nodes[i]), int(choice[i]), depth)
            heapq.heappush(frontier, entry)

    if growth.splittable(rows.counts([0]), 0)[0]:
        look_at(np.zeros(1, dtype=np.int64), 0)
    for left in range(limits.max_leaf_nodes - 2, -1, -1):
        if not frontier:
            break
        _, node, candidate, depth = heapq.heappop(frontier)
        split = rows.tally([node], [candidate])
        children = growth.make(split.centred() if centre else split, depth)
        if children.size and left:
            look_at(children, depth + 1)
    return growth.tree()
