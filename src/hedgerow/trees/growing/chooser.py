"""Choosers: from the scores of some nodes to one candidate each, in the clear.

A chooser sees scores and nothing else, so the same learner grows the best tree or a random one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.compiled import A, jit
from hedgerow.trees.growing.candidates import Candidates


class Chooser(Protocol):
    """Picks one candidate per node."""

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Choose.

        Parameters
        ----------
        scores : float64, shape (nodes, candidates)
            To be maximised; -inf marks a split that is not allowed.

        Returns
        -------
        int64, shape (nodes,)
            Index of a candidate; -1 where nothing is allowed.
        """
        ...


class Best:
    """The highest score wins, of equal ones the lowest index."""

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Choose the best. See `Chooser.choose`."""
        nodes, candidates = scores.shape
        if candidates == 0:
            return np.full(nodes, -1, dtype=np.int64)
        choice = np.argmax(scores, axis=1)
        return np.where(scores[np.arange(nodes), choice] > -np.inf, choice, -1)


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

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Choose the best of one random cut per attribute. See `Chooser.choose`."""
        uniform = self._rng.random((scores.shape[0], self._first.size - 1))
        choice = np.empty(scores.shape[0], dtype=np.int64)
        _best_of_random(scores, self._first, uniform, choice)
        return choice


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
