"""How much each attribute matters to a model, from what the model itself carries.

It reads the model alone, so for a private model it is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.boosted import Boosted
from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.scoring import unsplit_scores
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree


class Importances(NamedTuple):
    """Shares of the attributes (d,), which add up to 1 or are all 0, and how they are measured."""

    shares: NDArray[np.float64]
    measure: str


def importances(model: Model, criterion: str | None = None) -> Importances:
    """Return how much each attribute matters.

    In trees with counts it is the decrease of impurity, by the Gini index or the squared error
    unless another `criterion` is given; where counts tell of none, the share of the splits. In a
    sum of functions it is how far each moves the score: its standard deviation over its leaves,
    which the attributes of one function share.
    """
    total = np.zeros(len(model.domain.attributes))
    if isinstance(model, Boosted):
        for tree in model.trees:
            features = np.unique(tree.feature[tree.feature >= 0])
            if features.size:
                total[features] += float(np.std(tree.value[tree.leaves])) / features.size
        return Importances(normalise(total), "how far it moves the score")
    trees = (model,) if isinstance(model, Tree) else model.trees
    criterion = criterion or ("gini" if model.is_classifier else "squared_error")
    shares = impurity_shares(trees, criterion)
    if shares.any():
        return Importances(shares, "decrease of impurity")
    for tree in trees:
        np.add.at(total, tree.feature[tree.feature >= 0], 1.0)
    return Importances(normalise(total), "share of the splits")


def impurity_shares(trees: Sequence[Tree], criterion: str) -> NDArray[np.float64]:
    """Return the share of each attribute in the decrease of impurity of trees of one domain, (d,).

    Splits of which too little was released count nothing.
    """
    total = np.zeros(len(trees[0].domain.attributes))
    for tree in trees:
        inner = tree.feature >= 0
        decrease = np.nan_to_num(impurity_decrease(tree, criterion))
        np.add.at(total, tree.feature[inner], decrease[inner])
    return normalise(total)


def normalise(importances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide importances (d,) by their sum; where nothing matters they stay 0."""
    total = importances.sum()
    return importances / total if total > 0 else importances


def impurity_decrease(tree: Tree, criterion: str) -> NDArray[np.float64]:
    """Return the decrease of n * impurity at each split.

    Noisy counts below 0 are taken as 0, and so is a decrease below 0.

    `tree`: with counts or means in every node. `criterion`: key of
    `hedgerow.trees.growing.criteria.CRITERIA` that fits the tree's task. Returns float64
    (n_nodes,): 0 at leaves.
    """
    score = criterion_named(criterion, "classes" if tree.is_classifier else "sums")
    # An empty leaf shows its parent's distribution and holds no record.
    held = (tree.weight != 0)[:, None]
    # Nobody has released what came there: nothing is known of a split of it, or into it.
    unknown = np.isnan(tree.value.sum(axis=1))
    if tree.is_classifier:
        known = np.where(held & ~unknown[:, None], tree.value, 0)
        channels = np.maximum(np.rint(known), 0).astype(np.int64)
    else:
        # The sum of squares is the same before and after a split, so 0 serves as well.
        weight = tree.weight[:, None]
        channels = np.hstack([weight, weight * tree.value, np.zeros_like(weight)])
    scores = unsplit_scores(channels, score)
    decrease = -scores
    np.add.at(decrease, tree.parents[1:], scores[1:])
    decrease[tree.feature < 0] = 0.0
    decrease[unknown] = 0.0
    decrease[tree.parents[1:][unknown[1:]]] = 0.0
    return np.maximum(decrease, 0.0)
