"""Logistic regression as a `PeerProtocol`, and its answers: who asks alone learns them.

Paper: wu2020pivot, section 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, Stage
from hedgerow.protocols.hidden.id3 import Progress
from hedgerow.protocols.pivot.columns import transfers
from hedgerow.protocols.pivot.logistic.features import SCALE
from hedgerow.protocols.pivot.logistic.options import LogisticOptions
from hedgerow.protocols.pivot.logistic.plan import LogisticPlan
from hedgerow.protocols.pivot.logistic.training import (
    LinearModel,
    cost_functions,
    scores,
    train,
)
from hedgerow.protocols.pivot.options import PeerOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.protocol import PeerData, PeerProtocol
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.fixed_point import rescale
from hedgerow.secure.fixed.sigmoid import logistic
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Secret
from hedgerow.trees.additive import table_tree
from hedgerow.trees.boosted import Boosted, shares_of, step_domain

ANSWER_FRACTION = 16
"""Fraction bits of scores and probabilities in answers."""


class PeerLogisticProtocol(PeerProtocol):
    """Weights of a linear model, of which the logistic function makes probabilities."""

    options_type: ClassVar[type[PeerOptions]] = LogisticOptions
    plan_type: ClassVar[type[PeerPlan]] = LogisticPlan
    shares: ClassVar[tuple[str, ...]] = ("weights",)

    def train(
        self, data: PeerData, plan: LogisticPlan, progress: Progress, keep: Checkpoints
    ) -> LinearModel:
        """Train the weights. See `training.train`."""
        labels = data.columns[1:] if plan.n_scores == 1 else data.columns
        order = plan.schedule(labels.shape[1]).order()
        assert data.seeds is not None
        return train(plan, labels[:, order], data.seeds, progress, keep)

    def cost_ahead(self, engine: AdditiveEngine, plan: LogisticPlan) -> Cost:
        """State what logistic functions of all epochs cost."""
        return cost_functions(engine, plan, plan.capacity) * plan.epochs

    def read(self, engine: AdditiveEngine, plan: LogisticPlan, state: Stage) -> LinearModel:
        """Read weights."""
        del plan
        return LinearModel.from_state(engine, state)

    def opened(self, plan: LogisticPlan, model: LinearModel) -> Boosted | None:
        """Return a sum of one function for each attribute and score, which answers the same."""
        return None if model.opened is None else opened_model(plan, model)

    def asks(self, plan: LogisticPlan, proba: bool) -> str:
        """Return what is asked for: classes or probabilities."""
        del plan
        return "probabilities" if proba else "class"

    def shape_of_answers(self, plan: LogisticPlan, n: int, what: str) -> tuple[int, ...]:
        """Return the shape of n answers: a class, or a number for each score."""
        return (n,) if what == "class" else (n, plan.n_scores)

    def answers(
        self,
        engine: AdditiveEngine,
        plan: LogisticPlan,
        model: LinearModel,
        bins: Mapping[int, NDArray[Any]],
        n: int,
        what: str,
    ) -> Secret:
        """Answer rows: a class, probabilities, or scores.

        1. Scores: of opened weights, every peer shares the part of its own attributes; of hidden
           ones, as in training.
        2. The sign of the score, the place of the largest, or its logistic function.

        Reveals: nothing.
        Cost: planting seeds for n rows and a weighted sum where weights are hidden, else nothing;
        then a comparison, an argmax, a logistic function or a rescaling of all scores.
        """
        if model.opened is None:
            assert model.weights is not None
            seeds = plan.features.plant(transfers(engine), plan.owners, bins, n)
            found = scores(plan, model.weights, seeds)
        else:
            found = self._of_opened(engine, plan, model.opened, bins, n)
        fraction = model.fraction + SCALE
        if what == "class":
            if plan.n_scores == 1:
                return 1 - less_than(found[0], 1, bits=model.bits + 1)
            hot = argmax(found.transpose(), bits=model.bits + 1)
            return (hot * np.arange(plan.n_scores)).sum(axis=-1)
        if what == "scores":
            return rescale(found, fraction - ANSWER_FRACTION).transpose()
        chance = logistic(found, bits=model.bits, fraction=fraction, out=ANSWER_FRACTION)
        return chance.transpose()

    def read_answers(
        self, plan: LogisticPlan, opened: NDArray[np.int64], what: str
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return classes, probabilities (n, classes) or scores (n, scores)."""
        if what == "class":
            return opened
        numbers = opened / 2.0**ANSWER_FRACTION
        return numbers if what == "scores" else of_chances(numbers)

    def _of_opened(
        self,
        engine: AdditiveEngine,
        plan: LogisticPlan,
        weights: NDArray[np.int64],
        bins: Mapping[int, NDArray[Any]],
        n: int,
    ) -> Secret:
        """Return the scores (scores, n) of weights that all peers see."""
        parts = []
        for peer in range(engine.n_parties):
            own: NDArray[np.int64] | None = None
            if engine.core.at(peer) is not None:
                own = np.zeros((plan.n_scores, n), dtype=np.int64)
                for known in plan.features.known:
                    if plan.owners[known.attribute] == peer:
                        codes = known.code[np.asarray(bins[known.attribute])]
                        own += weights[:, known.features] @ known.weights[:, codes]
            parts.append(engine.input(own, peer, (plan.n_scores, n), Z64))
        total = reduce(add, parts)
        return total + weights[:, -1:] * (1 << SCALE) if plan.intercept else total


def of_chances(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of classes (n, k), of those of each against the rest, (n, scores).

    As scikit-learn does: shares of their sum, and where that is 0, all alike.
    """
    within = np.clip(chances, 0.0, 1.0)
    if within.shape[1] == 1:
        return np.concatenate([1 - within, within], axis=1)
    return shares_of(within)


def opened_model(plan: LogisticPlan, model: LinearModel) -> Boosted:
    """Return the model that the peers see: what an attribute adds to a score is a table by bin."""
    weights, step = model.values, step_domain(plan.domain)
    trees = [
        table_tree(step, [j], table[:, score])
        for j, table in enumerate(plan.features.steps(weights))
        for score in range(plan.n_scores)
    ]
    start = weights[:, -1] if plan.intercept else np.zeros(plan.n_scores)
    return Boosted(plan.domain, trees, start, "logistic" if plan.n_scores == 1 else "one-vs-rest")


PEER_LOGISTIC = PeerLogisticProtocol()
