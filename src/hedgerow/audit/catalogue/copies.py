"""Many independent models from one run of the servers, for the auditor.

Training makes one model of a table. An attack needs thousands, each with noise of its own, and the
functions here take the steps of `train_regression`, `train_boosting` and `train_open` with an axis
for the models: every tree sees all rows of one shared table. One copy is bit for bit what training
makes. Ledgers have the charges of one model, which is all that an attacker gets to see.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import ROOT, Ledger, step
from hedgerow.protocols.growers.choices import Noisy
from hedgerow.protocols.growers.gradients import gradients, labels_of, prior
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.means import NoisyQuotient, lifted
from hedgerow.protocols.hidden import boosting as hidden_boosting
from hedgerow.protocols.hidden import open_id3
from hedgerow.protocols.hidden import regression as hidden_regression
from hedgerow.protocols.hidden.boosting_plan import RATE_BITS, VALUE_BITS, BoostingPlan
from hedgerow.protocols.hidden.id3 import Grown, branch_sums, grow, node_totals
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.regression_plan import RegressionPlan
from hedgerow.protocols.hidden.training import leaf_update_of, score_of, splits_of
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.fixed.fixed_point import rescale
from hedgerow.secure.secret import Secret, concatenate, stack


def regressions(
    table: SecretTable,
    plan: RegressionPlan,
    ledger: Ledger,
    runs: int,
    leaves: type[NoisyQuotient] = NoisyQuotient,
) -> SecretForest:
    """Train `runs` regression trees on one table; see `train_regression`."""
    reasons = hidden_regression.answers_rest_on(plan)
    hidden_regression.charge_exact(reasons, ledger, plan.sum_epsilon + plan.count_epsilon)
    rows = Masks(_copied(table, runs), member=hidden_regression.MEMBER)
    choose = hidden_regression._splits(plan, ledger)
    grown = grow(rows, plan.depth, hidden_regression._score(plan), choose)
    sums = lifted(grown.leaves, plan.capacity * plan.units.most).reshape(-1, 2)
    noisy = leaves(plan.quotient, plan.sum_epsilon, plan.count_epsilon, ledger)
    values = noisy(sums[:, 1], sums[:, 0])
    held = values.engine.reduce(values, plan.ring)
    return forest(table.layout, grown.choices, held.reshape(runs, -1, 1))


def boosters(table: SecretTable, plan: BoostingPlan, ledger: Ledger, runs: int) -> SecretForest:
    """Train `runs` boosters of one score on one table; see `train_boosting`.

    Trees stand round by round, those of all models side by side.
    """
    labels = labels_of(table, plan)
    scores = prior(labels, plan).broadcast_to((runs, table.n_rows))
    score = hidden_boosting._score(plan)
    shift = VALUE_BITS + RATE_BITS - plan.widening - plan.fraction
    choices: list[list[Secret]] = []
    steps: list[Secret] = []
    for turn in range(plan.n_rounds):
        scope = hidden_boosting.tree_scope(ROOT / step(f"round {turn}"), 0)
        gradient, weight = gradients(labels, scores, plan)
        columns = stack([labels.present.broadcast_to(gradient.shape), gradient], axis=2)
        rows = Masks(
            SecretTable(table.layout, table.onehot, columns), member=hidden_regression.MEMBER
        )
        choose = Noisy(plan.split_mechanism, ledger, scope=scope)
        grown = grow(rows, plan.depth, score, choose)
        inside = rows.leaves(grown.choices[-1])
        sums = lifted(grown.leaves, plan.capacity << plan.unit_bits)
        weights = sums[..., 0]
        if weight is not None:
            weights = lifted((inside @ weight[:, :, None])[:, :, 0], 0)
        noisy = NoisyQuotient(
            plan.quotient,
            plan.sum_epsilon,
            plan.weight_epsilon,
            ledger,
            scope=scope,
            least=plan.least_weight,
        )
        values = noisy(sums[..., 1].reshape(-1), weights.reshape(-1)).reshape(runs, -1)
        value = values.engine.reduce(rescale(values * plan.rate, shift), plan.ring)
        if turn + 1 < plan.n_rounds:
            scores = scores + (value[:, None, :] @ inside)[:, 0]
        choices.append(grown.choices)
        steps.append(value)
    levels = [concatenate([found[level] for found in choices]) for level in range(plan.depth)]
    return forest(table.layout, levels, concatenate(steps)[:, :, None])


def opened_trees(
    table: SecretTable, plan: HiddenPlan, ledger: Ledger, runs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Train and open `runs` trees with one split on one table; see `train_open`.

    Returns
    -------
    split : int64 array of shape (runs,)
    counts : int64 array of shape (runs, 2, classes)
    """
    layout, audience = plan.layout, open_id3.AUDIENCE
    score, choose = score_of(plan), splits_of(plan, ledger, audience)
    hist = Masks(_copied(table, runs)).histogram()
    chosen = choose(0, score(hist), score.bound, None)
    index = (chosen * np.arange(chosen.shape[-1])).sum(axis=-1)
    split = table.engine.open(index, open_id3.split_name(0), open_id3.SERVERS)
    assert split is not None
    public = np.asarray(split)[..., None] == np.arange(chosen.shape[-1])
    choice = table.engine.public(public, table.ring)
    sums = branch_sums(hist, choice, layout)
    grown = Grown([choice], [node_totals(hist, layout)], sums, [np.zeros(2, dtype=np.int64)])
    counts = leaf_update_of(plan, ledger, audience)(grown, plan.tree_rows).counts
    assert counts is not None
    opened = table.engine.open(counts, open_id3.LEAF, open_id3.SERVERS)
    assert opened is not None
    return split[:, 0].astype(np.int64), counts.ring.signed(opened).astype(np.int64)


def _copied(table: SecretTable, runs: int) -> SecretTable:
    """Return a table whose columns every model has for itself."""
    columns = table.columns.broadcast_to((runs, *table.columns.shape))
    return SecretTable(table.layout, table.onehot, columns)
