"""Which bins a record can still have in a node, given the splits above it.

For a private tree these are released already: to leave out what they have decided costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.layout import SplitKind


def undecided_candidates(possible: NDArray[np.bool_], candidates: Candidates) -> NDArray[np.bool_]:
    """Tell which candidates have two branches that a record can take, (nodes, candidates).

    All where every split of a node is decided, so that one can be chosen all the same.
    """
    feature, cut = candidates.feature, candidates.cut
    at = candidates.offset[feature] + cut
    counted = np.zeros((possible.shape[0], possible.shape[1] + 1), dtype=np.int32)
    np.cumsum(possible, axis=1, out=counted[:, 1:])
    start, stop = candidates.offset[feature], candidates.offset[feature + 1]
    total = counted[:, stop] - counted[:, start]
    left = counted[:, at + 1] - counted[:, start]
    valid = np.where(
        candidates.kind == SplitKind.THRESHOLD,
        (left > 0) & (left < total),
        (total > 1) & ((candidates.kind == SplitKind.WARY) | possible[:, at]),
    )
    return valid | ~valid.any(axis=1, keepdims=True)


def below(
    possible: NDArray[np.bool_], split: NodeSplits, candidates: Candidates
) -> NDArray[np.bool_]:
    """Return the bins that remain possible in the children of a split, (children, total bins).

    `possible` is in the order of ``split.nodes``.
    """
    owner = split.owner
    child = np.arange(owner.size) - split.first[owner]
    feature, value = candidates.owner, candidates.value
    cut, kind = split.cut[owner][:, None], split.kind[owner][:, None]
    first = np.where(kind == SplitKind.THRESHOLD, value <= cut, value == cut)
    taken = np.where(
        kind == SplitKind.WARY, value == child[:, None], first == (child == 0)[:, None]
    )
    remain: NDArray[np.bool_] = possible[owner] & (
        (feature != split.feature[owner][:, None]) | taken
    )
    return remain
