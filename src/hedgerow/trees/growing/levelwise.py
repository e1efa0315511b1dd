"""Level-wise growth: all nodes of a level at once, counts to scores to choice to next level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables.domain import Domain
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.growth import Growth, Limits
from hedgerow.trees.growing.search import Search
from hedgerow.trees.tree import Tree


def grow_levelwise(
    domain: Domain,
    rows: Rows,
    search: Search,
    limits: Limits,
    *,
    centre: bool = True,
    once: bool = False,
) -> Tree:
    """Grow a tree level by level.

    (1) The nodes of the level that are worth splitting are scored and a split is chosen for each.
    (2) The children's counts are read from the histogram of the chosen split.
    (3) Children that are pure, too small or too deep are leaves; if all children of a node are,
        its rows do not move.

    Parameters
    ----------
    domain
        Domain of the tree.
    rows
        The rows, all of them in the root.
    search
        How a split is found.
    limits
        When to stop; ``max_leaf_nodes`` is not looked at.
    centre
        Put each threshold into the middle of the empty bins around it.
    once
        Use an attribute at most once on a path, as ID3 does.

    Returns
    -------
    Tree
        Values of inner nodes are filled in too.
    """
    growth = Growth(domain, rows, search.criterion, limits)
    nodes = np.flatnonzero(growth.splittable(rows.counts([0]), 0))
    used = np.zeros((1, rows.candidates.n_features), dtype=np.bool_) if once else None
    depth = 0
    while nodes.size:
        skip = None if used is None else used[nodes]
        choice, score = search(rows, nodes, skip)
        worth = growth.worth(choice, growth.decrease(nodes, score))
        if not worth.any():
            break
        split = rows.tally(nodes[worth], choice[worth])
        if centre:
            split = split.centred()
        nodes = growth.make(split, depth)
        if used is not None:
            used = _inherited(used, split.nodes, split.feature, split.owner)
        depth += 1
    return growth.tree()


def _inherited(
    used: NDArray[np.bool_],
    nodes: NDArray[np.int64],
    feature: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Append the children's used attributes: those of their parent, and the one it is split by."""
    parents = used[nodes]
    parents[np.arange(nodes.size), feature] = True
    return np.concatenate([used, parents[owner]])
