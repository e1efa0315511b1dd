"""Hidden gradient boosting: trees, scores of rows and queries stay secret-shared on three servers.

Paper: friedman2001greedy, algorithms 2 (squared loss) and 5 (logistic loss), on secret arrays. More
than two classes are one booster each against the rest, grown side by side.

A tree is a hidden regression tree of the gradients. With noise, rows get their scores from released
values alone, so that one record moves its own gradient and no other: the splits and leaves of every
tree are releases of their own, and all trees add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening, Scope
from hedgerow.protocols.checkpoint import Checkpoints, Stage, restored
from hedgerow.protocols.growers.choices import (
    HIDDEN,
    BestSplits,
    Noisy,
    OpenedSplits,
    RandomSplits,
    SplitChooser,
    Valid,
)
from hedgerow.protocols.growers.frontier import Choice, LeafFrontier, LeafRows
from hedgerow.protocols.growers.gradients import Labels, gradients, labels_of, prior
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.means import (
    NoisyQuotient,
    cost_exact_values,
    exact_values,
    lift_sums,
)
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.hidden.boosting_plan import (
    RATE_BITS,
    VALUE_BITS,
    BoostingPlan,
    round_scope,
    tree_scope,
)
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, GrownTrees, Progress, grow, no_progress
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.options import BoostingOptions, ServerOptions
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.protocol import Classified, HiddenProtocol, Places, between
from hedgerow.protocols.hidden.regression import MEMBER
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.fixed.fixed_point import cost_rescale, rescale
from hedgerow.secure.noise.releases import Payer
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.trees.boosted import probabilities

_NAMES = {
    "class": "class of each query",
    "score": "score of each query",
    "value": "value of each query",
}


RowsOf = Callable[[int, Secret, Secret | None], LeafFrontier]
"""From a round, gradients and second derivatives (trees, n) to the rows at the roots."""


def train_boosting(
    table: SecretTable,
    plan: BoostingPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> SecretForest:
    """Train hidden boosted trees (algorithms 2 and 5).

    1. `ServerPlan.charge`. What has no noise is infinite: every answer will depend on it.
    2. `boost`.

    The table has ``plan.n_slots`` slots; its columns are classes, or presence and target in
    ``plan.units``. Trees come round by round; leaves hold steps with ``plan.fraction`` bits, of the
    first round with the prior.

    Reveals: nothing. Answers are computed from the releases charged here.
    Cost: per round a tree's levels, `sigmoid` of every row (logistic loss), and a product that
    gives rows the values of their leaves.
    """
    check_slots(table, plan)
    paid = plan.charge(ledger)

    labels, of = labels_of(table, plan), partial(RoundReleases, plan, paid)

    def rows_of(turn: int, gradient: Secret, weight: Secret | None) -> Masks:
        del turn, weight
        columns = stack([labels.present.broadcast_to(gradient.shape), gradient], axis=2)
        return Masks(SecretTable(table.layout, table.onehot, columns), member=MEMBER)

    rounds = boost(labels, plan, of, rows_of, progress, keep)
    levels = [concatenate([done.choices[at] for done in rounds]) for at in range(plan.depth)]
    return forest(table.layout, levels, concatenate([done.values for done in rounds])[:, :, None])


def boost(
    labels: Labels,
    plan: BoostingPlan,
    releases_of: Callable[[int], RoundReleases],
    rows_of: RowsOf,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> list[Round]:
    """Boost trees of rows, however and by whomever they are kept.

    1. Scores of all rows begin at the prior (step 1): mean or log-odds without noise, else 0.
    2. For every round: gradients (step 3); a regression tree of them (step 4); leaf values, the
       mean or one Newton step (step 5), times the learning rate; rows add the value of their leaf
       to their scores (step 6).
    3. The prior is in the leaves of the first round.

    A round that `keep` has, with the scores of rows after it, is not drawn again.

    Reveals: what `RoundReleases` opens.
    """
    scores: Secret | None = None
    rounds: list[Round] = []
    for turn in range(plan.n_rounds):
        known = keep.load(f"round {turn}")
        if known is not None:
            done = _loaded(labels.target.engine, known, plan)
            progress((turn + 1) * plan.depth)
        else:
            told = _from(progress, turn * plan.depth)
            done = _round(labels, scores, releases_of(turn), told, keep, rows_of)
            keep.save(f"round {turn}", _saved(done))
        scores = done.scores
        rounds.append(replace(done, scores=None))
    return rounds


@dataclass(frozen=True, eq=False)
class Round:
    """A round that is done, all of it secret.

    `choices`: (trees, nodes, C) for each level. `values`: (trees, leaves), what leaves add to
    scores; with the prior in the first round. `scores`: (scores, n) of all rows after it; None
    after the last. `shown` is what of it was opened: the candidates (trees, inner nodes), level by
    level, and values.
    """

    choices: list[Secret]
    values: Secret
    scores: Secret | None
    shown: Stage = field(default_factory=dict)


def _round(
    labels: Labels,
    before: Secret | None,
    releases: RoundReleases,
    progress: Progress,
    keep: Checkpoints,
    rows_of: RowsOf,
) -> Round:
    """Take the steps 3 to 6 of one round; `before` are the scores of rows, if there was one."""
    plan = releases.plan
    start = prior(labels, plan) if before is None else None
    scores = before if start is None else start.broadcast_to(labels.target.shape)
    assert scores is not None
    gradient, weight = gradients(labels, scores, plan)
    frontier, choose = rows_of(releases.turn, gradient, weight), releases.splits()
    if isinstance(choose, OpenedSplits):
        grown = grow(frontier, plan.depth, _score(plan), choose, progress, keep, choose.name)
        last: Choice = as_one_hot(choose.opened[-1], len(plan.layout.candidates))
    else:
        grown = grow(frontier, plan.depth, _score(plan), choose, progress)
        last = grown.choices[-1]
    rows = frontier.leaves(last)
    value = _values(grown, rows, weight, releases)
    if start is not None:
        value = value + start
    shown = releases.shown(choose, value, keep)
    after = None
    if releases.turn + 1 < plan.n_rounds:
        # Every row is in a leaf, of which the first round's have the prior in them.
        step = rows.spread(shown.get("values", value))
        after = step if before is None else before + step
    return Round(grown.choices, value, after, shown)


def _saved(done: Round) -> Stage:
    kept = {f"choices {level}": choice for level, choice in enumerate(done.choices)}
    kept["values"] = done.values
    if done.scores is not None:
        kept["scores"] = done.scores
    shown = {f"shown {name}": opened for name, opened in done.shown.items()}
    return {name: x.data for name, x in kept.items()} | shown


def _loaded(engine: Engine, stage: Stage, plan: BoostingPlan) -> Round:
    choices = [restored(engine, stage[f"choices {level}"]) for level in range(plan.depth)]
    scores = restored(engine, stage["scores"]) if "scores" in stage else None
    shown = {
        name.removeprefix("shown "): opened
        for name, opened in stage.items()
        if name.startswith("shown ")
    }
    return Round(choices, restored(engine, stage["values"]), scores, shown)


def _from(progress: Progress, before: int) -> Progress:
    return lambda levels: progress(before + levels)


@dataclass(frozen=True)
class RoundReleases:
    """What one round releases: its trees see the same records, so their costs add up."""

    plan: BoostingPlan
    paid: Payer
    turn: int

    def splits(self) -> SplitChooser:
        """Return how the splits of the round are chosen."""
        if self.plan.random_splits:
            return RandomSplits(self.plan.public_seed, f"{HIDDEN}/round {self.turn}")
        return self.noisy_max if self.plan.is_noisy_in_splits else BestSplits()

    def noisy_max(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose in every tree by noisy max. See `growers.choices.SplitChooser`."""
        mechanism, found = self.plan.split_mechanism, []
        for tree in range(scores.shape[0]):
            choose = Noisy(mechanism, self.paid, self.plan.audience, self._scope(tree))
            found.append(choose(level, scores[tree : tree + 1], bound, valid))
        return concatenate(found)

    def shown(self, choose: SplitChooser, values: Secret, keep: Checkpoints) -> Stage:
        """Return what is opened of a round: `Round.shown`, here nothing."""
        del choose, values, keep
        return {}

    def quotient(self, tree: int) -> NoisyQuotient:
        """Return the noisy values of the leaves of a tree."""
        return self.plan.noisy_quotient(self.paid, self._scope(tree))

    def _scope(self, tree: int) -> Scope:
        return tree_scope(round_scope(self.turn), tree)


def _score(plan: BoostingPlan) -> Scores:
    exact = plan.noise == "none"
    return Scores(plan.layout.candidates, plan.score, plan.public, prefer_nonempty=exact)


def _values(
    grown: GrownTrees, rows: LeafRows, weight: Secret | None, releases: RoundReleases
) -> Secret:
    """Return what the leaves of a round add to scores, shape (trees, leaves), over Z_2^32."""
    plan, engine = releases.plan, grown.leaves.engine
    shift = VALUE_BITS + RATE_BITS - plan.widening - plan.fraction
    if plan.noise == "none":
        ahead = cost_exact_values(engine, plan.n_scores, plan.quotient, plan.depth)
        engine.prepare(ahead + cost_rescale(engine, grown.leaves.shape[:2], shift))
    sums = lift_sums(grown.leaves, plan.capacity << plan.unit_bits)
    counts, tops = sums[..., 0], sums[..., 1]
    weights = counts
    if weight is not None:
        weights = lift_sums(rows.sums(weight), 0)
    if plan.noise == "none":
        values = exact_values(counts, tops, weights, plan.quotient, plan.depth)
    else:
        values = stack(
            [releases.quotient(tree)(tops[tree], weights[tree]) for tree in range(len(tops))]
        )
    return engine.reduce(rescale(values * plan.rate, shift), plan.ring)


class HiddenBoostingProtocol(HiddenProtocol):
    """Boosted trees that nobody sees; asked for "class" or "score", or for "value" of numbers."""

    options_type: ClassVar[type[ServerOptions]] = BoostingOptions
    plan_type: ClassVar[type[ServerPlan]] = BoostingPlan
    grow = staticmethod(train_boosting)

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
        self, model: SecretForest, plan: BoostingPlan, queries: Secret, what: str, ledger: Ledger
    ) -> Secret:
        """Answer secret queries, shape (n,), or (n, scores) for scores.

        1. `hedgerow.protocols.hidden.predict.predict`; the steps of all rounds are added up, local.
        2. Class: of two, the second if the score is above 0; of more, that of the largest score,
           the lowest index of equals.

        Reveals: nothing. Cost: that of `predict`, and a comparison or an argmax for classes.
        """
        del ledger
        _check(plan, what)
        found = _scores(model, plan, queries)
        if what == "class":
            return classes_of(found, plan)
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
        index = (answers[:, 0] > 0).astype(np.int64) if alone else answers.argmax(axis=1)
        return index, probabilities(answers, joint=False)

    def places(self, plan: BoostingPlan, ranges: int) -> Places:
        """Return the classes; of two, ranges of their probability."""
        if plan.loss == "squared":
            return super().places(plan, ranges)
        if plan.n_scores > 1:
            return Places(plan.n_classes, None, ranges)
        return Places(ranges, ranges // 2, ranges)

    def place(
        self, model: SecretForest, plan: BoostingPlan, rows: Secret, places: Places
    ) -> Secret:
        """Return where rows fall: their score is compared with the log-odds of every range.

        Reveals: nothing. Cost: that of `answers`, and a comparison for every two places.
        """
        scores = _scores(model, plan, rows)
        bits = (plan.largest_score << plan.fraction).bit_length() + 2
        if places.boundary is None:
            return argmax(scores, bits=bits)
        share = np.arange(1, places.ranges) / places.ranges
        odds = np.clip(np.log(share / (1 - share)), -plan.largest_score, plan.largest_score)
        least = np.rint(odds * 2.0**plan.fraction).astype(np.int64)
        return between(1 - less_than(scores, least[None], bits=bits))


HIDDEN_BOOSTING = HiddenBoostingProtocol()


def _scores(model: SecretForest, plan: BoostingPlan, rows: Secret) -> Secret:
    """Return the scores of secret rows, (n, s): the steps of all rounds."""
    steps = predict(model, rows)
    return steps.reshape(steps.shape[0], plan.n_rounds, plan.n_scores).sum(axis=1)


def classes_of(scores: Secret, plan: BoostingPlan) -> Secret:
    """Return class indices (n,) of scores (n, s)."""
    bound = plan.largest_score << plan.fraction
    if plan.n_scores == 1:
        return 1 - less_than(scores[:, 0], 1, bits=bound.bit_length() + 1)
    hot = argmax(scores, bits=bound.bit_length() + 2)
    return (hot * np.arange(plan.n_scores)).sum(axis=-1)


def _check(plan: BoostingPlan, what: str) -> None:
    allowed = ("value",) if plan.loss == "squared" else ("class", "score")
    if what not in allowed:
        raise Code.BAD_PARAMETER.error(
            expected=f"answers of {plan.loss} loss: {' or '.join(allowed)}", found=f"{what!r}"
        )
