"""Public coins of a forest: which rows a tree has, and among which attributes a node chooses.

They follow from a public seed alone, so that everybody can draw them again, and say nothing about
the records: `Cost` and `Reveals` of what they choose are those of what is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.public_choices import public_subset, public_words


def row_weights(plan: PivotPlan, n: int) -> NDArray[np.int64] | None:
    """Return how often each of n rows is in each tree, (trees, n); None if all are in all, once."""
    size = max(1, round(plan.max_samples * n))
    if not plan.bootstrap and size == n:
        return None
    weights = np.zeros((plan.n_trees, n), dtype=np.int64)
    for tree, own in enumerate(weights):
        address = f"rows of tree {tree}"
        if plan.bootstrap:
            # 2^64 words to n rows: off from uniform by less than n / 2^64.
            drawn = public_words(plan.public_seed, address, (size,)) % np.uint64(n)
            own += np.bincount(drawn.astype(np.int64), minlength=n)
        else:
            own += drawn_rows(plan.public_seed, address, n, plan.max_samples)
    return weights


def drawn_rows(public_seed: int, address: str, n: int, share: float) -> NDArray[np.int64]:
    """Return which of n rows are drawn, each once at most: 0 or 1, (n,)."""
    return public_subset(public_seed, address, (n,), max(1, round(share * n))).astype(np.int64)


def open_candidates(
    plan: PivotPlan, level: int, places: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return among which candidates nodes of a level choose, (nodes, C); None if among all.

    `places` are those of the nodes in a level of complete trees, tree after tree.
    """
    every, size = len(plan.owners), plan.n_chosen_from
    if size == every:
        return None
    shape = (plan.room(level), every)
    among = public_subset(plan.public_seed, f"attributes of level {level}", shape, size)[places]
    return among[:, plan.layout.candidates.feature]
