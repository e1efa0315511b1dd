"""Gradients of secret rows: what the next tree of a booster is grown from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.growers.means import Quotient, lift_sums
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.compare import less_than
from hedgerow.secure.fixed.explog import ln
from hedgerow.secure.fixed.fixed_point import rescale
from hedgerow.secure.fixed.sigmoid import cost_sigmoid, sigmoid
from hedgerow.secure.fixed.softmax import cost_softmax, softmax
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Secret, stack
from hedgerow.secure.select import select


@dataclass(frozen=True, eq=False)
class Labels:
    """What a booster learns, over the ring of the table.

    `target` (scores, n): 0 and 1 for the class of each score, or whole units; 0 in empty slots.
    `known` (n,) is `present` where everybody knows which rows there are.
    """

    present: Secret
    target: Secret
    known: NDArray[np.int64] | None = None

    def where_present(self, x: Secret) -> Secret:
        """Return numbers (..., n), and 0 in empty slots. Cost: a product, if that is secret."""
        return x * (self.present if self.known is None else self.known)


def labels_of(table: SecretTable, plan: BoostingPlan) -> Labels:
    """Read presence and targets from the shared columns; local."""
    columns = table.columns.transpose()
    if plan.loss == "squared":
        return Labels(columns[0], columns[1:])
    return Labels(columns.sum(axis=0), columns if plan.n_scores > 1 else columns[1:])


def prior(labels: Labels, plan: BoostingPlan) -> Secret:
    """Return the score that every row begins with, shape (scores, 1).

    With noise it is 0, which is public. Without, the mean of the target, or the logarithm of the
    odds of the class, or of its share for `softmax`, counts of 0 taken as 1.

    Reveals: nothing.
    Cost: without noise a division, or a logarithm of two numbers, for every score.
    """
    target, bits = labels.target, plan.unit_bits
    if plan.noise != "none":
        return (target[:, :1] * 0)[:, :1]
    total, sums = labels.present.sum(), target.sum(axis=1)
    engine = total.engine
    if plan.loss == "squared":
        mean = Quotient(plan.capacity, bits, 0, 1, 0, plan.fraction)
        wide = lift_sums(stack([total, sums[0]]), plan.capacity << bits)
        found = mean(wide[1:], wide[:1])
    else:
        others = total - sums if plan.loss == "logistic" else total + sums * 0
        counts = engine.extend(stack([sums, others]), Z64)
        width = max(2, plan.capacity.bit_length())
        some = select(less_than(counts, 1, bits=width + 1), 1, counts)
        logs = ln(some, bits=width, fraction=0, out=plan.fraction)
        found = logs[0] - logs[1]
    return engine.reduce(found, plan.ring)[:, None]


def gradients(labels: Labels, scores: Secret, plan: BoostingPlan) -> tuple[Secret, Secret | None]:
    """Return negative gradients in units, and second derivatives for the logistic loss.

    Squared loss: residuals y - F, clipped to U units. Logistic loss: y - p and p (1 - p) with
    p = 1 / (1 + e^-F), off by at most 0.0118 / 4**``plan.knots`` and a unit of
    2^-``plan.unit_bits``; or `softmax` of all F, off by at most (k + 3) / 2048 and two units.

    All of shape (scores, n), and 0 in empty slots: gradients from -U to U, weights from 0 to
    U / 4 + 1, of scores with ``plan.fraction`` bits.

    Reveals: nothing. Cost: per row two comparisons; or `sigmoid` or `softmax`, and two products.
    """
    if plan.loss == "squared":
        return _residuals(labels, scores, plan), None
    public = {
        "bits": (plan.largest_score << plan.fraction).bit_length(),
        "fraction": plan.fraction,
        "out": plan.unit_bits,
    }
    work, cost = softmax, cost_softmax
    if plan.loss == "logistic":
        work, cost = partial(sigmoid, knots=plan.knots), partial(cost_sigmoid, knots=plan.knots)
    scores.engine.prepare(cost(scores.engine, scores.shape, scores.ring, **public))
    both = work(scores, **public)
    p = labels.where_present(stack(both))
    return labels.target * (1 << plan.unit_bits) - p[0], p[1]


def _residuals(labels: Labels, scores: Secret, plan: BoostingPlan) -> Secret:
    most = 1 << plan.unit_bits
    exact = labels.target * (1 << (plan.fraction - plan.unit_bits)) - scores
    r = rescale(exact, plan.fraction - plan.unit_bits + plan.widening)
    largest = (plan.largest_score + 1) << plan.unit_bits
    width = (largest + most).bit_length() + 1
    beyond = less_than(stack([most - r, r + most]), 0, bits=width)
    clipped = r + (beyond * stack([most - r, -most - r])).sum(axis=0)
    return labels.where_present(clipped)
