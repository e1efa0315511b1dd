"""Find the split of each of some nodes: scores in blocks, a draw of attributes, a choice.

A chooser sees scores and nothing else, so the same learner grows the best tree or a random one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.compiled import A, jit
from hedgerow.errors import Code
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import Criterion

MaxFeatures = Literal["sqrt", "log2"] | int | float | None


class Chooser(Protocol):
    """Picks one candidate per node."""

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a candidate per node, -1 for none; scores are maximised, -inf is not allowed."""
        ...


class HighestScore:
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
    attribute. Not private.
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


@dataclass(frozen=True)
class Search:
    """How the split of a node is looked for.

    With `n_drawn`, so many attributes are drawn at random for each node. As in scikit-learn, a node
    in which none of them can be split goes on, one at a time in random order, until one can.
    """

    criterion: Criterion
    chooser: Chooser
    min_leaf: int = 1
    n_drawn: int | None = None
    rng: np.random.Generator | None = None

    def __call__(
        self,
        rows: Rows,
        nodes: NDArray[np.int64],
        skip: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return candidate and score per node, -1 and -inf for none; `skip` (m, d) is not used."""
        choice = np.full(nodes.size, -1, dtype=np.int64)
        score = np.full(nodes.size, -np.inf)
        for block in rows.blocks(nodes):
            omit = None if skip is None else skip[block]
            choice[block], score[block] = self._block(rows, nodes[block], omit)
        return choice, score

    def _block(
        self, rows: Rows, nodes: NDArray[np.int64], omit: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self.n_drawn is None or self.rng is None:
            return self._choose(self._scores(rows, nodes, omit))
        keys = self.rng.random((nodes.size, rows.candidates.n_features))
        if omit is not None:
            keys[omit] = 2.0  # behind all others
        rank = np.argsort(np.argsort(keys, axis=1), axis=1)
        undrawn = (rank >= self.n_drawn) | (keys > 1.0)
        choice, score = self._choose(self._scores(rows, nodes, undrawn))
        stuck = np.flatnonzero(choice < 0)
        if stuck.size:
            rest = (rank[stuck] < self.n_drawn) | (keys[stuck] > 1.0)
            scores = self._scores(rows, nodes[stuck], rest)
            _keep_first_feature(scores, rows.candidates.feature, rank[stuck])
            choice[stuck], score[stuck] = self._choose(scores)
        return choice, score

    def _scores(
        self, rows: Rows, nodes: NDArray[np.int64], omit: NDArray[np.bool_] | None
    ) -> NDArray[np.float64]:
        return rows.scores(nodes, self.criterion, min_leaf=self.min_leaf, skip=omit)

    def _choose(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        choice = self.chooser.choose(scores)
        if scores.shape[1] == 0:
            return choice, np.full(choice.size, -np.inf)
        chosen = np.take_along_axis(scores, np.maximum(choice, 0)[:, None], axis=1)[:, 0]
        return choice, np.where(choice >= 0, chosen, -np.inf)


def _keep_first_feature(
    scores: NDArray[np.float64], feature: NDArray[np.int32], rank: NDArray[np.int64]
) -> None:
    """Set the scores of all attributes but the first splittable one of each node to -inf."""
    ranks = np.where(scores > -np.inf, rank[:, feature], rank.shape[1])
    scores[ranks > ranks.min(axis=1, keepdims=True, initial=rank.shape[1])] = -np.inf


def n_drawn(max_features: MaxFeatures, d: int) -> int | None:
    """Turn `max_features` into a number of attributes, None for all of `d`.

    It is ``"sqrt"``, ``"log2"``, a share in (0, 1], a number of attributes, or None.
    """
    match max_features:
        case None:
            return None
        case "sqrt":
            drawn = int(math.sqrt(d))
        case "log2":
            drawn = int(math.log2(d))
        case bool():
            raise _bad(max_features, d)
        case int() if 1 <= max_features <= d:
            drawn = max_features
        case float() if 0.0 < max_features <= 1.0:
            drawn = int(max_features * d)
        case _:
            raise _bad(max_features, d)
    drawn = max(1, drawn)
    return None if drawn >= d else drawn


def _bad(found: object, d: int) -> Exception:
    return Code.BAD_PARAMETER.error(
        found=f"max_features={found!r}",
        expected=f"'sqrt', 'log2', a share in (0, 1], a number from 1 to {d}, or None",
    )
