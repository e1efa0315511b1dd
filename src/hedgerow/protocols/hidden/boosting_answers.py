"""Answers of hidden boosted trees: classes, scores or values, opened to the analyst alone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.hidden.boosting import train_boosting
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, no_progress
from hedgerow.protocols.hidden.kind import Classified, Kind, Made
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import BoostingOptions, ServerOptions
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.secret import Secret

_NAMES = {
    "class": "class of each query",
    "score": "score of each query",
    "value": "value of each query",
}


class BoostingKind(Kind):
    """Boosted trees that nobody sees, of classes or of numbers.

    What may be asked is "class" or "score" for classes, and "value" for a numeric target.
    """

    options_type: ClassVar[type[ServerOptions]] = BoostingOptions
    plan_type: ClassVar[type[ServerPlan]] = BoostingPlan

    def train(
        self,
        table: SecretTable,
        plan: BoostingPlan,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        """Train. See `hedgerow.protocols.hidden.boosting.train_boosting`."""
        return Made(train_boosting(table, plan, ledger, progress, keep).shares())

    def asks(self, plan: BoostingPlan, proba: bool) -> str:
        """Ask for values, for scores, from which probabilities follow, or for classes."""
        if plan.loss == "squared":
            return super().asks(plan, proba)
        return "score" if proba else "class"

    def answer_openings(self, plan: BoostingPlan, n: int, what: str) -> list[Opening]:
        """Return what answers open."""
        _check(plan, what)
        shape = (n, plan.n_scores) if what == "score" else (n,)
        return [Opening(_NAMES[what], "analyst", shape, derived=plan.answers_derive_from())]

    def answers(
        self, model: SecretForest, plan: BoostingPlan, queries: Secret, what: str
    ) -> Secret:
        """Answer secret queries, shape (n,), or (n, scores) for scores.

        1. `hedgerow.protocols.hidden.predict.predict`; the steps of all rounds are added up, local.
        2. Class: of two, the second if the score is not negative; of more, that of the largest
           score, the lowest index of equals.

        Reveals: nothing.
        Cost: that of `predict`, and a comparison or an argmax for classes.
        """
        _check(plan, what)
        steps = predict(model, queries)
        found = steps.reshape(steps.shape[0], plan.n_rounds, plan.n_scores).sum(axis=1)
        if what == "class":
            return _classes(found, plan)
        return found[:, 0] if what == "value" else found

    def read(self, plan: BoostingPlan, opened: NDArray[np.int64], what: str) -> NDArray[Any]:
        """Return class indices, log-odds of each score, or values within the target's bounds."""
        if what == "class":
            return opened
        if what == "score":
            return opened / 2.0**plan.fraction
        units = plan.units
        return np.clip(units.values(opened, plan.fraction), units.low, units.high)

    def classified(self, plan: BoostingPlan, answers: NDArray[Any], what: str) -> Classified:
        """Return the classes that would have been answered, also where scores were."""
        if what == "class":
            return answers, None
        # Of the scores: probabilities near 1 are equal where scores are not.
        alone = answers.shape[1] == 1
        index = (answers[:, 0] >= 0).astype(np.int64) if alone else answers.argmax(axis=1)
        return index, probabilities(answers)


BOOSTING = BoostingKind()


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return class probabilities (n, k) of scores (n, 1), of the second class, or (n, k)."""
    odds = 1.0 / (1.0 + np.exp(-scores))
    if scores.shape[1] == 1:
        return np.concatenate([1.0 - odds, odds], axis=1)
    shares: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
    return shares


def _classes(scores: Secret, plan: BoostingPlan) -> Secret:
    """Return class indices (n,) of scores (n, s)."""
    bound = plan.largest_score << plan.fraction
    if plan.n_scores == 1:
        return 1 - less_than(scores[:, 0], 0, bits=bound.bit_length() + 1)
    hot = argmax(scores, bits=bound.bit_length() + 2)
    return (hot * np.arange(plan.n_scores)).sum(axis=-1)


def _check(plan: BoostingPlan, what: str) -> None:
    allowed = ("value",) if plan.loss == "squared" else ("class", "score")
    if what not in allowed:
        raise Code.BAD_PARAMETER.error(
            expected=f"answers of {plan.loss} loss: {' or '.join(allowed)}", found=f"{what!r}"
        )
