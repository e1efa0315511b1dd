"""Hidden regression trees: splits, means and queries stay secret-shared on three servers.

Paper: hiddentrees, algorithms 1 to 4, with squared error in place of class counts.

Rows bring their presence and the target in whole units (`growers.units`), so that sums
and scores are exact integers and a tree without noise has the splits of a learner in the clear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, Ledger, Opening, Release, step
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.growers import grouped
from hedgerow.protocols.growers.choices import BestSplits, Noisy, SplitChooser, split_reason
from hedgerow.protocols.growers.frontier import Frontier
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.means import (
    LEAF_SUMS,
    LEAF_WEIGHTS,
    exact_values,
    lift_sums,
)
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, grow, no_progress
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.regression_plan import FRACTION, RegressionPlan
from hedgerow.protocols.hidden.training import LABELS, STRUCTURE
from hedgerow.protocols.kinds import Kind, Made, asks_value, stored_forest
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.secret import Secret

VALUE = "value of each query"
MEMBER = np.array([1, 0], dtype=np.uint8)
"""Presence is the first column alone."""


def train_regression(
    table: SecretTable,
    plan: RegressionPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train a hidden regression tree (algorithm 1 with squared error).

    1. What has no noise is charged as infinite: every answer will depend on it.
    2. `hedgerow.protocols.hidden.id3.grow` on counts and sums of the target.
    3. Leaves: the mean, of an empty one that of the node above; or a noisy sum over a noisy count,
       clipped to the bounds.

    Reveals: to the servers nothing, besides the random permutations of a grouped grower. To the
    analyst nothing yet; answers are computed from the releases charged here.
    Cost: that of `grow` and one division per node.

    Parameters
    ----------
    table : SecretTable
        Of ``plan.n_slots`` slots; columns are presence and the target in ``plan.units``.
    plan : RegressionPlan
    ledger : Ledger
        Charged before noise is drawn.
    progress : callable
        Told how many levels are done.
    keep : Checkpoints
        Has the levels that an earlier attempt has done, and gets those of this one.

    Returns
    -------
    SecretForest
        One tree; leaves hold one number with `FRACTION` bits, 1 for half the bounds' width.
    """
    check_slots(table, plan)
    charge_plan(plan, ledger)
    return train_rows(_frontier(table, plan), plan, ledger, progress, keep)


def train_rows(
    rows: Frontier,
    plan: RegressionPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
    audience: str = "analyst",
) -> SecretForest:
    """Train a hidden regression tree on rows, however and by whomever they are kept.

    Charges noisy splits and leaves to the audience of answers; what has no noise is charged before.
    """
    choose = _splits(plan, ledger, audience)
    grown = grow(rows, plan.depth, _score(plan), choose, progress, keep)
    sums = lift_sums(grown.leaves, plan.capacity * plan.units.most)
    if plan.noise == "none":
        values = exact_values(
            sums[..., 0], sums[..., 1], sums[..., 0], plan.quotient, plan.depth
        ).reshape(-1)
    else:
        noisy = replace(plan.noisy_quotient(ledger), audience=audience)
        values = noisy(sums[0, :, 1], sums[0, :, 0])
    held = values.engine.reduce(values, plan.ring)
    return forest(rows.layout, grown.choices, held.reshape(1, -1, 1))


def answer_regression(
    model: SecretForest, plan: RegressionPlan, queries: Secret
) -> NDArray[np.float64] | None:
    """Answer secret queries (algorithm 4) and open the answers to the analyst.

    Reveals: to the analyst, the value of each query, computed from what training released.
    Cost: that of `predict`, and one opening.

    Parameters
    ----------
    model : SecretForest
    plan : RegressionPlan
    queries : Secret, shape (n, B)

    Returns
    -------
    float64 array of shape (n,), or None where the analyst does not live
        Within the bounds of the target.
    """
    opened = model.engine.open(answered(model, queries), VALUE, "analyst")
    return None if opened is None else _values(plan, model.ring.signed(opened).astype(np.int64))


def answered(model: SecretForest, queries: Secret) -> Secret:
    """Answer secret queries without opening the answers, (n,) with `FRACTION` bits.

    Reveals: nothing.
    """
    return predict(model, queries)[:, 0, 0]


def _values(plan: RegressionPlan, opened: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return opened answers as targets."""
    return np.clip(plan.units.values(opened, FRACTION), plan.units.low, plan.units.high)


def answer_openings(plan: RegressionPlan, n: int, what: str = "value") -> list[Opening]:
    """Declare what answers to n queries open, to the analyst; H501 for anything but values."""
    if what != "value":
        raise Code.BAD_PARAMETER.error(
            expected="a question for values of a numeric target", found=repr(what)
        )
    return [Opening(VALUE, "analyst", (n,), derived=answers_rest_on(plan))]


def training_openings(plan: RegressionPlan, to: str = EVERYONE) -> list[Opening]:
    """Declare what training opens to all parties: nothing but the grouped grower's permutations."""
    if plan.grower != "grouped":
        return []
    return grouped.openings(plan.layout, plan.n_slots, plan.depth, to)


def answers_rest_on(plan: RegressionPlan) -> tuple[str, ...]:
    """Return the reasons of all releases that an answer is computed from."""
    splits = [STRUCTURE]
    if plan.is_noisy_in_splits:
        splits = [split_reason(level) for level in range(plan.depth)]
    return (*splits, *([LABELS] if plan.noise == "none" else [LEAF_SUMS, LEAF_WEIGHTS]))


def charge_plan(plan: RegressionPlan, ledger: Ledger) -> None:
    """Charge what has no noise, before anything is computed."""
    charge_exact(answers_rest_on(plan), ledger, plan.sum_epsilon + plan.count_epsilon)


def charge_exact(reasons: Iterable[str], ledger: Ledger, claimed: float = 0.0) -> None:
    """Charge, to the analyst, those reasons that stand for values without noise: infinity.

    Where only the leaves are noisy, the claim that hidden splits cost nothing stands beside it.
    """
    for reason in reasons:
        if reason in (STRUCTURE, LABELS):
            ledger.charge(
                Release(
                    mechanism="exact",
                    epsilon=math.inf,
                    delta=0.0,
                    sensitivity=1.0,
                    scope=ROOT / step(reason),
                    audience="analyst",
                    reason=reason,
                    claimed=0.0 if claimed and reason == STRUCTURE else None,
                )
            )


def _frontier(table: SecretTable, plan: RegressionPlan) -> Frontier:
    if plan.grower == "grouped":
        return grouped.Grouped(table, plan.depth, member=MEMBER)
    return Masks(table, member=MEMBER)


def _score(plan: RegressionPlan) -> Scores:
    exact = not plan.is_noisy_in_splits
    return Scores(plan.layout.candidates, plan.score, plan.public, prefer_nonempty=exact)


def _splits(plan: RegressionPlan, ledger: Ledger, audience: str = "analyst") -> SplitChooser:
    return (
        Noisy(plan.split_mechanism, ledger, audience) if plan.is_noisy_in_splits else BestSplits()
    )


def _train(
    table: SecretTable,
    plan: RegressionPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> Made:
    return Made(train_regression(table, plan, ledger, progress, keep).shares())


REGRESSION = Kind(
    read_plan=RegressionPlan.from_dict,
    n_columns=lambda plan: plan.n_columns,
    train=_train,
    training_openings=training_openings,
    model=stored_forest,
    answer=lambda model, plan, queries, what, ledger: answer_regression(model, plan, queries),
    answer_openings=answer_openings,
    asks=asks_value,
    answered=lambda model, plan, queries, what: answered(model, queries),
    read=lambda plan, opened, what: _values(plan, opened),
    units=lambda plan: plan.units,
)
