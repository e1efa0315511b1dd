"""Answers of hidden boosted trees: classes, scores or values, opened to the analyst alone."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.hidden.boosting import answers_rest_on, train_boosting
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, no_progress
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.kinds import Classified, Kind, Made, asks_value, stored_forest
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.secret import Secret

What = Literal["class", "score", "value"]

_NAMES = {
    "class": "class of each query",
    "score": "score of each query",
    "value": "value of each query",
}


def answer_openings(plan: BoostingPlan, n: int, what: What) -> list[Opening]:
    """Declare what answers to n queries open, to the analyst."""
    _check(plan, what)
    shape = (n, plan.n_scores) if what == "score" else (n,)
    return [Opening(_NAMES[what], "analyst", shape, derived=answers_rest_on(plan))]


def answer_boosting(
    model: SecretForest, plan: BoostingPlan, queries: Secret, what: What
) -> NDArray[Any] | None:
    """Answer secret queries and open the answers to the analyst.

    1. `hedgerow.protocols.hidden.predict.predict`; the steps of all rounds are added up, local.
    2. Class: of two, the second if the score is not negative; of more, that of the largest score,
       the lowest index of equals.
    3. Open the class, the scores, or the value.

    Reveals: to the analyst, what was asked for, computed from what training released.
    Cost: that of `predict`, a comparison or an argmax for classes, and one opening.

    Parameters
    ----------
    model : SecretForest
    plan : BoostingPlan
    queries : Secret, shape (n, B)
    what : {"class", "score", "value"}
        The first two for classes, the last for a numeric target.

    Returns
    -------
    array or None where the analyst does not live
        Class indices, int64 (n,); log-odds of each score, float64 (n, scores); or values within
        the bounds of the target, float64 (n,).
    """
    found = answered(model, plan, queries, what)
    opened = model.engine.open(found, _NAMES[what], "analyst")
    return None if opened is None else read(plan, model.ring.signed(opened).astype(np.int64), what)


def answered(model: SecretForest, plan: BoostingPlan, queries: Secret, what: What) -> Secret:
    """Answer secret queries without opening the answers: steps 1 and 2 of `answer_boosting`.

    Reveals: nothing.

    Returns
    -------
    Secret, shape (n,), or (n, scores) for scores
    """
    _check(plan, what)
    steps = predict(model, queries)
    found = steps.reshape(steps.shape[0], plan.n_rounds, plan.n_scores).sum(axis=1)
    if what == "class":
        return _classes(found, plan)
    return found[:, 0] if what == "value" else found


def read(plan: BoostingPlan, opened: NDArray[np.int64], what: What) -> NDArray[Any]:
    """Return opened answers as classes, scores or values; see `answer_boosting`."""
    if what == "class":
        return opened
    if what == "score":
        return opened / 2.0**plan.fraction
    units = plan.units
    return np.clip(units.values(opened, plan.fraction), units.low, units.high)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return class probabilities (n, k) of scores (n, 1), of the second class, or (n, k)."""
    odds = 1.0 / (1.0 + np.exp(-scores))
    if scores.shape[1] == 1:
        return np.concatenate([1.0 - odds, odds], axis=1)
    shares: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
    return shares


def _classified(plan: BoostingPlan, answers: NDArray[Any], what: What) -> Classified:
    """Return the classes that would have been answered, also where scores were."""
    if what == "class":
        return answers, None
    # Of the scores: probabilities near 1 are equal where scores are not.
    alone = answers.shape[1] == 1
    index = (answers[:, 0] >= 0).astype(np.int64) if alone else answers.argmax(axis=1)
    return index, probabilities(answers)


def _asks(plan: BoostingPlan, proba: bool) -> str:
    if plan.loss == "squared":
        return asks_value(plan, proba)
    return "score" if proba else "class"


def _classes(scores: Secret, plan: BoostingPlan) -> Secret:
    """Return class indices (n,) of scores (n, s)."""
    bound = plan.largest_score << plan.fraction
    if plan.n_scores == 1:
        return 1 - less_than(scores[:, 0], 0, bits=bound.bit_length() + 1)
    hot = argmax(scores, bits=bound.bit_length() + 2)
    return (hot * np.arange(plan.n_scores)).sum(axis=-1)


def _check(plan: BoostingPlan, what: What) -> None:
    allowed = ("value",) if plan.loss == "squared" else ("class", "score")
    if what not in allowed:
        raise Code.BAD_PARAMETER.error(
            expected=f"answers of {plan.loss} loss: {' or '.join(allowed)}", found=f"{what!r}"
        )


def _train(
    table: SecretTable,
    plan: BoostingPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> Made:
    return Made(train_boosting(table, plan, ledger, progress, keep).shares())


BOOSTING = Kind(
    read_plan=BoostingPlan.from_dict,
    n_columns=lambda plan: plan.n_columns,
    train=_train,
    training_openings=lambda plan: [],
    model=stored_forest,
    answer=lambda model, plan, queries, what, ledger: answer_boosting(model, plan, queries, what),
    answer_openings=answer_openings,
    asks=_asks,
    answered=answered,
    read=read,
    classified=_classified,
    units=lambda plan: plan.units if plan.loss == "squared" else None,
    levels=lambda plan: plan.n_rounds * plan.depth,
    # The same at all levels: rounds take as long as each other.
    nodes=lambda plan, done: plan.n_scores * plan.layout.n_nodes(plan.depth),
)
