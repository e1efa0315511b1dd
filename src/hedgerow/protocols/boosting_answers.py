"""Answers of hidden boosted trees: classes, scores or values, opened to the analyst alone."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.protocols.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden_boosting import answers_rest_on, train_boosting
from hedgerow.protocols.kinds import Kind, Made, stored_forest
from hedgerow.protocols.model import SecretForest
from hedgerow.protocols.predict import predict
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

    1. `hedgerow.protocols.predict.predict`; the steps of all rounds are added up, local.
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
    _check(plan, what)
    steps = predict(model, queries)
    found = steps.reshape(steps.shape[0], plan.n_rounds, plan.n_scores).sum(axis=1)
    if what == "class":
        found = _classes(found, plan)
    elif what == "value":
        found = found[:, 0]
    opened = model.engine.open(found, _NAMES[what], "analyst")
    if opened is None:
        return None
    numbers = model.ring.signed(opened).astype(np.int64)
    if what == "class":
        return numbers
    if what == "score":
        return numbers / 2.0**plan.fraction
    units = plan.units
    return np.clip(units.values(numbers, plan.fraction), units.low, units.high)


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


BOOSTING = Kind(
    read_plan=BoostingPlan.from_dict,
    n_columns=lambda plan: plan.n_columns,
    train=lambda table, plan, ledger: Made(train_boosting(table, plan, ledger).shares()),
    training_openings=lambda plan: [],
    model=stored_forest,
    answer=lambda model, plan, queries, what, ledger: answer_boosting(model, plan, queries, what),
    answer_openings=answer_openings,
    prepared=lambda plan, table: plan.units.count(table) if plan.loss == "squared" else table,
)
