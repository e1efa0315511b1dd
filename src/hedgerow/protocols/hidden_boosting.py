"""Hidden gradient boosting: trees, scores of rows and queries stay secret-shared on three servers.

Paper: friedman2001greedy, algorithms 2 (squared loss) and 5 (logistic loss), on secret arrays. More
than two classes are one booster each against the rest, grown side by side.

A tree is a hidden regression tree of the gradients. With noise, rows get their scores from released
values alone, so that one record moves its own gradient and no other: the splits and leaves of every
tree are releases of their own, and all trees add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hedgerow.privacy import ROOT, Ledger, Scope, step
from hedgerow.protocols.boosting_plan import RATE_BITS, VALUE_BITS, BoostingPlan
from hedgerow.protocols.choices import Best, Drawn, Noisy, Splits, Valid, split_reason
from hedgerow.protocols.gradients import gradients, labels_of, prior
from hedgerow.protocols.hidden_id3 import Grown, grow
from hedgerow.protocols.hidden_regression import MEMBER, charge_exact
from hedgerow.protocols.masks import Masks
from hedgerow.protocols.means import (
    LEAF_SUMS,
    LEAF_WEIGHTS,
    NoisyQuotient,
    exact_values,
    lifted,
)
from hedgerow.protocols.model import SecretForest, forest
from hedgerow.protocols.scores import Scores
from hedgerow.protocols.table import SecretTable, check_slots
from hedgerow.protocols.training import LABELS, STRUCTURE
from hedgerow.secure.fixed_point import rescale
from hedgerow.secure.secret import Secret, concatenate, stack


def train_boosting(table: SecretTable, plan: BoostingPlan, ledger: Ledger) -> SecretForest:
    """Train hidden boosted trees (algorithms 2 and 5).

    1. What has no noise is charged as infinite: every answer will depend on it.
    2. Scores of all rows begin at the prior: mean or log-odds where there is no noise, else 0
       (step 1).
    3. For every round: gradients (step 3); a regression tree of them (step 4); leaf values, the
       mean or one Newton step (step 5), times the learning rate; rows add the value of their leaf
       to their scores (step 6).
    4. The prior is added to the leaves of the first round.

    Reveals: nothing. Answers are computed from the releases charged here.
    Cost: per round a tree's levels, an exponential and an inverse per row (logistic loss), and a
    product that gives rows the values of their leaves.

    Parameters
    ----------
    table : SecretTable
        Of ``plan.n_slots`` slots; columns are classes, or presence and target in ``plan.units``.
    plan : BoostingPlan
    ledger : Ledger
        Charged for each tree before its noise is drawn.

    Returns
    -------
    SecretForest
        ``plan.n_trees`` trees, round by round; leaves hold steps with ``plan.fraction`` bits.
    """
    check_slots(table, plan)
    charge_exact(tuple(dict.fromkeys(answers_rest_on(plan))), ledger)
    labels = labels_of(table, plan)
    start = prior(labels, plan)
    scores = start.broadcast_to((plan.n_scores, table.n_rows))
    coins = np.random.default_rng(plan.public_seed)
    choices: list[list[Secret]] = []
    steps: list[Secret] = []
    for turn in range(plan.n_rounds):
        scope = ROOT / step(f"round {turn}")
        gradient, weight = gradients(labels, scores, plan)
        present = labels.present.broadcast_to(gradient.shape)
        columns = stack([present, gradient], axis=2)
        frontier = Masks(SecretTable(table.layout, table.onehot, columns), member=MEMBER)
        grown = grow(frontier, plan.depth, _score(plan), _splits(plan, ledger, scope, coins))
        rows = frontier.leaves(grown.choices[-1])
        value = _values(grown, rows, weight, plan, ledger, scope)
        if turn + 1 < plan.n_rounds:
            scores = scores + (value[:, None, :] @ rows)[:, 0]
        choices.append(grown.choices)
        steps.append(value)
    steps[0] = steps[0] + start
    levels = [concatenate([grown[level] for grown in choices]) for level in range(plan.depth)]
    return forest(table.layout, levels, concatenate(steps)[:, :, None])


def answers_rest_on(plan: BoostingPlan) -> tuple[str, ...]:
    """Return the reasons of all releases that an answer is computed from."""
    splits: list[str] = []
    if plan.is_noisy_in_splits:
        splits = [split_reason(level) for level in range(plan.depth)]
    elif not plan.random_splits:
        splits = [STRUCTURE]
    if plan.noise == "none":
        return (*splits, LABELS)
    return (*splits, LEAF_SUMS, LEAF_WEIGHTS) * plan.n_rounds


@dataclass(frozen=True)
class NoisyEach:
    """Noisy max in every tree of one round: they see the same records, so their costs add up.

    Parameters
    ----------
    plan : BoostingPlan
    ledger : Ledger
    scope : Scope
        Of the round.
    """

    plan: BoostingPlan
    ledger: Ledger
    scope: Scope = field(default=ROOT)

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `hedgerow.protocols.choices.Splits`."""
        mechanism = self.plan.split_mechanism
        found = []
        for tree in range(scores.shape[0]):
            choose = Noisy(mechanism, self.ledger, scope=tree_scope(self.scope, tree))
            found.append(choose(level, scores[tree : tree + 1], bound, valid))
        return concatenate(found)


def tree_scope(scope: Scope, tree: int) -> Scope:
    """Return the scope of one tree of a round."""
    return scope / step(f"tree {tree}")


def _splits(plan: BoostingPlan, ledger: Ledger, scope: Scope, coins: np.random.Generator) -> Splits:
    if plan.random_splits:
        return Drawn(coins)
    return NoisyEach(plan, ledger, scope) if plan.is_noisy_in_splits else Best()


def _score(plan: BoostingPlan) -> Scores:
    exact = plan.noise == "none"
    return Scores(plan.layout.candidates, plan.score, plan.public, prefer_nonempty=exact)


def _values(
    grown: Grown,
    rows: Secret,
    weight: Secret | None,
    plan: BoostingPlan,
    ledger: Ledger,
    scope: Scope,
) -> Secret:
    """Return what the leaves of a round add to scores, shape (trees, leaves), over Z_2^32."""
    sums = lifted(grown.leaves, plan.capacity << plan.unit_bits)
    counts, tops = sums[..., 0], sums[..., 1]
    weights = counts
    if weight is not None:
        found = (rows @ weight[:, :, None])[:, :, 0]
        weights = lifted(found, 0)
    quotient = plan.quotient
    if plan.noise == "none":
        values = exact_values(counts, tops, weights, quotient, plan.depth)
    else:
        noisy = [
            NoisyQuotient(
                quotient,
                plan.sum_epsilon,
                plan.weight_epsilon,
                ledger,
                scope=tree_scope(scope, tree),
                least=plan.least_weight,
            )(tops[tree], weights[tree])
            for tree in range(len(tops))
        ]
        values = stack(noisy)
    shift = VALUE_BITS + RATE_BITS - plan.widening - plan.fraction
    return values.engine.reduce(rescale(values * plan.rate, shift), plan.ring)
