"""How much each split reduced impurity, from the counts that a tree carries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.scoring import unsplit_scores
from hedgerow.trees.tree import Tree


def impurity_decrease(tree: Tree, criterion: str) -> NDArray[np.float64]:
    """Return the decrease of n * impurity at each split.

    It reads the tree alone, so for a private tree it is post-processing and costs nothing. Noisy
    counts below 0 are taken as 0, and so is a decrease below 0.

    `tree`: with counts or means in every node. `criterion`: key of
    `hedgerow.trees.growing.criteria.CRITERIA` that fits the tree's task. Returns float64
    (n_nodes,): 0 at leaves.
    """
    score = criterion_named(criterion, "classes" if tree.is_classifier else "sums")
    # An empty leaf shows its parent's distribution and holds no record.
    held = (tree.weight != 0)[:, None]
    if tree.is_classifier:
        channels = np.where(held, np.maximum(np.rint(tree.value), 0), 0).astype(np.int64)
    else:
        # The sum of squares is the same before and after a split, so 0 serves as well.
        weight = tree.weight[:, None]
        channels = np.hstack([weight, weight * tree.value, np.zeros_like(weight)])
    scores = unsplit_scores(channels, score)
    decrease = -scores
    np.add.at(decrease, tree.parents[1:], scores[1:])
    decrease[tree.feature < 0] = 0.0
    return np.maximum(decrease, 0.0)
