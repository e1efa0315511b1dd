"""Choosers: from the scores of a level's nodes to one candidate each.

A chooser sees scores and nothing else, so the same learner grows the best tree, a random one, or a
private one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.trees.candidates import Candidates
from hedgerow.trees.scoring import A, jit


class Chooser(Protocol):
    """Picks one candidate per node."""

    def choose(
        self, scores: NDArray[Any], valid: NDArray[np.bool_] | None, depth: int
    ) -> NDArray[np.int64]:
        """Choose.

        Parameters
        ----------
        scores : float64 or int64, shape (nodes, candidates)
            To be maximised. A float score of -inf marks a split that is not allowed.
        valid : bool, shape (nodes, candidates), optional
            Candidates that may be chosen; all if None.
        depth
            Depth of the nodes, 0 for the root.

        Returns
        -------
        int64, shape (nodes,)
            Index of a candidate; -1 to stop at that node.
        """
        ...


class Best:
    """The highest score wins, of equal ones the lowest index."""

    def choose(
        self, scores: NDArray[Any], valid: NDArray[np.bool_] | None, depth: int
    ) -> NDArray[np.int64]:
        """Choose the best; -1 where nothing is allowed. See `Chooser.choose`."""
        nodes, candidates = scores.shape
        if candidates == 0:
            return np.full(nodes, -1, dtype=np.int64)
        if valid is not None:
            scores = np.where(valid, scores, _lowest(scores))
        choice = np.argmax(scores, axis=1)
        at = np.arange(nodes)
        allowed = np.isfinite(scores[at, choice])
        if valid is not None:
            allowed &= valid[at, choice]
        return np.where(allowed, choice, -1)


class RandomCuts:
    """Extra trees: one random cut per attribute, the best of those wins.

    The cut is drawn uniformly from the candidates of the attribute that are allowed in the node.
    With at least one record on either side these are the cuts within the occupied bins, or the
    occupied values; a larger least size of a branch narrows the choice instead of losing the
    attribute.

    Parameters
    ----------
    candidates
        The candidates that the columns of `scores` stand for.
    rng
        Source of the draws. Not private.
    """

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._first = candidates.first
        self._rng = rng

    def choose(
        self, scores: NDArray[Any], valid: NDArray[np.bool_] | None, depth: int
    ) -> NDArray[np.int64]:
        """Choose the best of one random cut per attribute. See `Chooser.choose`."""
        if valid is not None:
            scores = np.where(valid, scores, -np.inf)
        uniform = self._rng.random((scores.shape[0], self._first.size - 1))
        choice = np.empty(scores.shape[0], dtype=np.int64)
        _best_of_random(
            np.ascontiguousarray(scores, dtype=np.float64), self._first, uniform, choice
        )
        return choice


def _lowest(scores: NDArray[Any]) -> Any:
    return -np.inf if scores.dtype.kind == "f" else np.iinfo(scores.dtype).min


@jit
def _best_of_random(scores: A, first: A, uniform: A, choice: A) -> None:
    for node in range(scores.shape[0]):
        choice[node], best = -1, -np.inf
        for f in range(first.size - 1):
            allowed = 0
            for c in range(first[f], first[f + 1]):
                allowed += scores[node, c] > -np.inf
            left = np.int64(uniform[node, f] * allowed)
            for c in range(first[f], first[f + 1]):
                if scores[node, c] > -np.inf:
                    if left == 0 and scores[node, c] > best:
                        choice[node], best = c, scores[node, c]
                    left -= 1
