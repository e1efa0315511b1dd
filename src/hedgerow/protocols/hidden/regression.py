"""Hidden regression trees: splits, means and queries stay secret-shared on three servers.

Paper: hiddentrees, algorithms 1 to 4, with squared error in place of class counts.

Rows bring their presence and the target in whole units (`growers.units`), so that sums
and scores are exact integers and a tree without noise has the splits of a learner in the clear.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.growers import grouped
from hedgerow.protocols.growers.choices import BestSplits, Noisy, SplitChooser
from hedgerow.protocols.growers.frontier import Frontier
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.means import exact_values, lift_sums
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, grow, no_progress
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.options import RegressionOptions, ServerOptions
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.protocol import HiddenProtocol
from hedgerow.protocols.hidden.regression_plan import FRACTION, RegressionPlan
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.noise.releases import Payer
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

    1. `ServerPlan.charge`. What has no noise is infinite: every answer will depend on it.
    2. `hedgerow.protocols.hidden.id3.grow` on counts and sums of the target.
    3. Leaves: the mean, of an empty one that of the node above; or a noisy sum over a noisy count,
       clipped to the bounds.

    The table has ``plan.n_slots`` slots; its columns are presence and the target in ``plan.units``.
    Leaves hold one number with `FRACTION` bits, 1 for half the bounds' width. Levels that `keep`
    has are not drawn again.

    Reveals: to the servers nothing, besides the random permutations of a grouped grower. To the
    analyst nothing yet; answers are computed from the releases charged here.
    Cost: that of `grow` and one division per node.
    """
    check_slots(table, plan)
    return train_rows(_frontier(table, plan), plan, plan.charge(ledger), progress, keep)


def train_rows(
    rows: Frontier,
    plan: RegressionPlan,
    paid: Payer,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train hidden regression trees on rows, however and by whomever they are kept."""
    grown = grow(rows, plan.depth, _score(plan), _splits(plan, paid), progress, keep)
    sums = lift_sums(grown.leaves, plan.capacity * plan.units.most)
    if plan.noise == "none":
        values = exact_values(
            sums[..., 0], sums[..., 1], sums[..., 0], plan.quotient, plan.depth
        ).reshape(-1)
    else:
        each = sums.reshape(-1, 2)
        values = plan.noisy_quotient(paid)(each[:, 1], each[:, 0])
    held = values.engine.reduce(values, plan.ring)
    return forest(rows.layout, grown.choices, held.reshape(len(sums), -1, 1))


def _frontier(table: SecretTable, plan: RegressionPlan) -> Frontier:
    if plan.grower == "grouped":
        return grouped.Grouped(table, plan.depth, member=MEMBER)
    return Masks(table, member=MEMBER)


def _score(plan: RegressionPlan) -> Scores:
    exact = not plan.is_noisy_in_splits
    return Scores(plan.layout.candidates, plan.score, plan.public, prefer_nonempty=exact)


def _splits(plan: RegressionPlan, ledger: Payer) -> SplitChooser:
    return (
        Noisy(plan.split_mechanism, ledger, plan.audience)
        if plan.is_noisy_in_splits
        else BestSplits()
    )


class HiddenRegressionProtocol(HiddenProtocol):
    """One tree of numbers that nobody sees."""

    options_type: ClassVar[type[ServerOptions]] = RegressionOptions
    plan_type: ClassVar[type[ServerPlan]] = RegressionPlan
    grow = staticmethod(train_regression)

    def answer_openings(self, plan: RegressionPlan, n: int, what: str = "value") -> list[Opening]:
        """Return what answers open; H501 for anything but values."""
        if what != "value":
            raise Code.BAD_PARAMETER.error(
                expected="a question for values of a numeric target", found=repr(what)
            )
        return [Opening(VALUE, "analyst", (n,), derived=plan.answers_derive_from())]

    def answers(
        self, model: SecretForest, plan: RegressionPlan, queries: Secret, what: str, ledger: Ledger
    ) -> Secret:
        """Answer secret queries (algorithm 4), (n,) with `FRACTION` bits. Reveals: nothing."""
        del what, ledger
        return predict(model, queries)[:, 0, 0]

    def read(
        self, plan: RegressionPlan, opened: NDArray[np.int64], what: str = "value"
    ) -> NDArray[np.float64]:
        """Return opened answers as targets, within their bounds."""
        return np.clip(plan.units.values(opened, FRACTION), plan.units.low, plan.units.high)


HIDDEN_REGRESSION = HiddenRegressionProtocol()
