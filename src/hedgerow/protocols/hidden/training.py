"""From a plan and a secret table to a secret model: what is charged, chosen and kept."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.privacy import EACH, ROOT, Ledger, NoisyMax, Opening, Release, Scope, part, step
from hedgerow.protocols.checkpoint import Checkpoints, restored
from hedgerow.protocols.growers import grouped
from hedgerow.protocols.growers.choices import (
    TREES,
    BestSplits,
    Exponential,
    Noisy,
    RandomSplits,
    Restricted,
    SplitChooser,
    split_reason,
)
from hedgerow.protocols.growers.frontier import Frontier
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.growers.leaves import (
    LEAF_COUNTS,
    LEAF_LABELS,
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
from hedgerow.protocols.hidden.sampling import SAMPLED, charge_sampled, sample_rows
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.protocols.votes.budget import ANSWERS
from hedgerow.protocols.votes.votes import reserve_answers
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.secret import Secret, concatenate

STRUCTURE = "splits without noise"
LABELS = "leaves without noise"
SAMPLE = "sampled rows"


def train_hidden(
    table: SecretTable,
    plan: HiddenPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train hidden trees, on disjoint slots or on sampled rows (algorithm 1 with the plan's noise).

    1. What has no noise is charged as infinite: every answer will depend on it. Voting trees
       reserve all answers that they will give instead. Trees on sampled rows are charged as a
       whole; a ledger inside a tree sees to it that no more is released.
    2. `hedgerow.protocols.hidden.id3.grow`.
    3. Labels, and counts where they may be shown.

    Reveals: to the servers nothing, besides the random permutations of a grouped grower. To the
    analyst nothing yet; answers are computed from the releases charged here.

    Parameters
    ----------
    table : SecretTable
        Of ``plan.n_slots`` slots.
    plan : HiddenPlan
    ledger : Ledger
        Charged before noise is drawn.
    progress : callable
        Told how many levels are done.
    keep : Checkpoints
        Has the levels that an earlier attempt has done, and gets those of this one.
    """
    check_slots(table, plan)
    charge_what_is_exact(plan, ledger)
    if plan.noise == "votes":
        reserve_answers(plan, ledger)
    if plan.sampling == "poisson":
        ledger = charge_sampled(plan, ledger, table.engine)
    return train_rows(frontier(table, plan, keep), plan, ledger, progress, keep)


def train_rows(
    rows: Frontier,
    plan: HiddenPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
    audience: str = "analyst",
) -> SecretForest:
    """Train hidden trees on rows, however and by whomever they are kept.

    Charges noisy splits and leaves to the audience of answers; what has no noise is charged before.
    """
    choose = splits_of(plan, ledger, audience)
    grown = grow(rows, plan.depth, score_of(plan), choose, progress, keep)
    leaves = leaf_update_of(plan, ledger, audience)(grown, plan.tree_rows)
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
        known = keep.load(SAMPLE)
        if known is None:
            sampled = sample_rows(table.engine, plan, table.ring)
            # Other coins would give other rows to trees whose splits are kept.
            keep.save(SAMPLE, {"rows": sampled.data})
        else:
            sampled = restored(table.engine, known["rows"])
        return Masks(table, n_trees=plan.n_trees, sampled=sampled)
    return Masks(table, n_trees=plan.n_trees)


def scope_of(plan: HiddenPlan) -> Scope:
    """Return the scope of one tree's releases: trees on disjoint slots are parts."""
    alone = plan.n_trees == 1 or plan.sampling == "poisson"
    return ROOT if alone else ROOT / part(TREES, EACH)


def splits_of(plan: HiddenPlan, ledger: Ledger, audience: str = "analyst") -> SplitChooser:
    """Return how splits are chosen."""
    if plan.random_splits:
        return RandomSplits(plan.public_seed)
    choose = _among_all(plan, ledger, audience)
    if not plan.max_features:
        return choose
    feature = plan.layout.candidates.feature
    return Restricted(choose, feature, plan.max_features, plan.public_seed)


def _among_all(plan: HiddenPlan, ledger: Ledger, audience: str) -> SplitChooser:
    if not plan.is_noisy_in_splits:
        return BestSplits()
    where = scope_of(plan)
    # Asked of the scores themselves, which refuse where no sensitivity covers them.
    sensitivity = score_of(plan).sensitivity
    if plan.mechanism == "discrete":
        mechanism = NoisyMax(
            plan.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone
        )
        return Noisy(mechanism, ledger, audience, where)
    return Exponential(plan.split_epsilon, sensitivity.add_remove, ledger, audience, where)


def leaf_update_of(plan: HiddenPlan, ledger: Ledger, audience: str = "analyst") -> LeafUpdate:
    """Return how leaves are labelled."""
    if plan.noise in ("none", "votes"):
        return Majority()
    where = scope_of(plan)
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


def answers_derive_from(plan: HiddenPlan) -> tuple[str, ...]:
    """Return the reasons of all releases that an answer is computed from."""
    if plan.sampling == "poisson":
        return (SAMPLED,)
    if plan.noise == "votes":
        return (ANSWERS,)
    reasons: list[str] = []
    if plan.is_noisy_in_splits:
        reasons += [split_reason(level) for level in range(plan.depth)]
    elif not plan.random_splits:
        reasons.append(STRUCTURE)
    if plan.noise == "none":
        return (*reasons, LABELS)
    labels = plan.leaf_release == "labels" if plan.mechanism == "discrete" else False
    labels = labels or plan.mechanism == "exponential"
    return (*reasons, LEAF_LABELS if labels else LEAF_COUNTS)


def charge_what_is_exact(plan: HiddenPlan, ledger: Ledger) -> None:
    """Charge, to the analyst, what answers depend on without noise: no finite epsilon.

    The paper's figure, where it claims one for such a model, stands beside it.
    """
    claimed = plan.leaf_epsilon or None
    for reason in answers_derive_from(plan):
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


def training_openings(plan: HiddenPlan, to: str = EVERYONE) -> list[Opening]:
    """Declare what training opens to all parties: nothing but the grouped grower's permutations."""
    if plan.grower != "grouped":
        return []
    return grouped.openings(plan.layout, plan.n_slots, plan.depth, to)
