"""From a plan and a secret table to a secret model: what is charged, chosen and kept."""

from __future__ import annotations

import numpy as np

from hedgerow.privacy import Ledger, NoisyMax
from hedgerow.protocols.checkpoint import Checkpoints, kept
from hedgerow.protocols.growers import grouped
from hedgerow.protocols.growers.choices import (
    BestSplits,
    Exponential,
    Noisy,
    RandomSplits,
    Restricted,
    SplitChooser,
)
from hedgerow.protocols.growers.frontier import Frontier
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.growers.leaves import (
    LeafUpdate,
    Leaves,
    Majority,
    NoisyLabels,
    NoisyLeafCounts,
    PaperLeaves,
)
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, grow, narrowed, no_progress
from hedgerow.protocols.hidden.model import SecretForest, class_index, forest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.sampling import sample_rows
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.noise.releases import Payer
from hedgerow.secure.secret import Secret, concatenate

SAMPLE = "sampled rows"


def train_hidden(
    table: SecretTable,
    plan: HiddenPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train hidden trees, on disjoint slots or on sampled rows (algorithm 1 with the plan's noise).

    1. `ServerPlan.charge`. What has no noise is infinite: every answer will depend on it. Voting
       trees reserve all answers that they will give instead. Trees on sampled rows are charged as a
       whole.
    2. `hedgerow.protocols.hidden.id3.grow`, on a table of ``plan.n_slots`` slots. Levels that
       `keep` has are not drawn again.
    3. Labels, and counts where they may be shown.

    Reveals: to the servers nothing, besides the random permutations of a grouped grower. To the
    analyst nothing yet; answers are computed from the releases charged here.
    """
    check_slots(table, plan)
    return train_rows(frontier(table, plan, keep), plan, plan.charge(ledger), progress, keep)


def train_rows(
    rows: Frontier,
    plan: HiddenPlan,
    paid: Payer,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train hidden trees on rows, however and by whomever they are kept; the plan is paid for."""
    grown = grow(rows, plan.depth, score_of(plan), splits_of(plan, paid), progress, keep)
    leaves = leaf_update_of(plan, paid)(grown, plan.tree_rows)
    return forest(rows.layout, grown.choices, leaf_values(leaves, plan))


def leaf_values(leaves: Leaves, plan: HiddenPlan) -> Secret:
    """Return what the leaves of a model hold, shape (trees, leaves, v).

    One-hot labels where trees vote; else the class index, with the noisy counts it was taken from
    behind it where answers may be distributions.
    """
    if plan.n_trees > 1 or plan.noise == "votes":
        # Votes are small numbers, whatever ring the trees were grown in.
        return narrowed(leaves.labels, counting_ring(plan.n_trees))
    if plan.shows_counts and leaves.counts is not None:
        index = class_index(leaves.labels, leaves.labels.ring)
        return concatenate([index, leaves.counts], axis=-1)
    return class_index(leaves.labels, plan.ring)


def frontier(table: SecretTable, plan: HiddenPlan, keep: Checkpoints = NOTHING_KEPT) -> Frontier:
    """Return the rows at the roots."""
    if plan.grower == "grouped":
        return grouped.Grouped(table, plan.depth, member=np.ones(plan.n_classes, dtype=np.uint8))
    if plan.sampling == "poisson":
        # Other coins would give other rows to trees whose splits are kept.
        of = (table.engine, plan.n_trees, plan.n_slots, plan.rate, table.ring)
        sampled = kept(keep, SAMPLE, table.engine, "rows", lambda: sample_rows(*of))
        return Masks(table, n_trees=plan.n_trees, sampled=sampled)
    return Masks(table, n_trees=plan.n_trees)


def splits_of(plan: HiddenPlan, ledger: Payer) -> SplitChooser:
    """Return how splits are chosen."""
    if plan.random_splits:
        return RandomSplits(plan.public_seed)
    choose = _among_all(plan, ledger)
    if not plan.max_features:
        return choose
    feature = plan.layout.candidates.feature
    return Restricted(choose, feature, plan.max_features, plan.public_seed)


def _among_all(plan: HiddenPlan, ledger: Payer) -> SplitChooser:
    if not plan.is_noisy_in_splits:
        return BestSplits()
    # Asked of the scores themselves, which refuse where no sensitivity covers them.
    sensitivity = score_of(plan).sensitivity
    if plan.mechanism == "discrete":
        mechanism = NoisyMax(
            plan.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone
        )
        return Noisy(mechanism, ledger, plan.audience, plan.scope)
    return Exponential(
        plan.split_epsilon, sensitivity.add_remove, ledger, plan.audience, plan.scope
    )


def leaf_update_of(plan: HiddenPlan, ledger: Payer) -> LeafUpdate:
    """Return how leaves are labelled."""
    if plan.noise in ("none", "votes"):
        return Majority()
    audience, where = plan.audience, plan.scope
    if plan.mechanism != "discrete":
        is_exponential = plan.mechanism == "exponential"
        return PaperLeaves(plan.leaf_epsilon, is_exponential, ledger, audience, where)
    if plan.leaf_release == "labels":
        return NoisyLabels(plan.label_mechanism, ledger, audience, where)
    return NoisyLeafCounts(plan.count_mechanism, ledger, audience, where)


def score_of(plan: HiddenPlan) -> Scores:
    """Return the score of the plan's criterion, on its grid."""
    return Scores(
        plan.layout.candidates,
        plan.score,
        plan.public,
        plan.shift,
        prefer_nonempty=plan.prefers_nonempty,
    )
