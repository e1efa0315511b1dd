"""Gradient boosting among peers, of classes or of a number.

Papers: wu2020pivot, section 6.2; friedman2001greedy, algorithms 2 and 5. Labels of later rounds are
gradients, which depend on the labels of all records: they stay shared, and so do the scores of
rows. The rounds are those of `hidden.boosting.boost`, on the shares of the peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, Stage, kept
from hedgerow.protocols.growers.choices import (
    BestSplits,
    OpenedSplits,
    Restricted,
    SplitChooser,
)
from hedgerow.protocols.growers.frontier import Choice, LeafFrontier, LeafRows
from hedgerow.protocols.growers.gradients import Labels
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.hidden.boosting import (
    Round,
    RoundReleases,
    boost,
    classes_of,
)
from hedgerow.protocols.hidden.id3 import Progress
from hedgerow.protocols.pivot.boosting_plan import PivotBoostingPlan, level_name, round_values
from hedgerow.protocols.pivot.coins import drawn_rows
from hedgerow.protocols.pivot.columns import PeerColumns, left_tables, route_bits, transfers
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PeerOptions, PivotBoostingOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.predict import marked_leaves, of_hidden
from hedgerow.protocols.pivot.protocol import PeerData, PeerProtocol
from hedgerow.protocols.pivot.shape import Shape
from hedgerow.protocols.pivot.trees import trees_of
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.bit_products import every_peer, times_bits
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.argmax import cost_argmax
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.releases import NOBODY
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.trees.boosted import Boosted, Link, probabilities, step_domain

Array = NDArray[Any]
COUNTED = 2
"""Columns of histograms, presence and gradient; what is behind them goes down beside them."""


class BoostedColumns(PeerColumns, LeafFrontier):
    """Rows of the trees of a round.

    `columns` (trees, k, n) are presence and gradient, of which histograms are made; then, if there
    are such, second derivatives; then, if trees are grown from some of the rows only, ones. `ahead`
    states what the choices of a level with so many nodes will use up.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Secret,
        seeds: PuncturedBins,
        *,
        weighted: bool,
        ahead: Callable[[int], Cost],
    ) -> None:
        super().__init__(layout, columns, seeds)
        self._weighted, self._ahead = weighted, ahead
        self._routes: list[Array] = []

    def histogram(self) -> Secret:
        """Return sums. See `Frontier.histogram`."""
        self.engine.prepare(self._ahead(self.n_nodes))
        return super().histogram()

    def _counted(self, nodes: NDArray[np.int64]) -> Secret:
        whole, self._masks = self._masks, self._masks[:, :COUNTED]
        found = super()._counted(nodes)
        self._masks = whole
        return found

    def _routed(self, choice: Secret) -> Array:
        """Look up which rows go left by secret choices (nodes, C), and remember it."""
        every = [list(range(len(self.owners)))] * len(choice)
        bits = route_bits(self._seeds, left_tables(choice, self.layout, every), every)
        self._routes.append(bits)
        return bits

    def descend(self, choice: Choice, *, last: bool = False) -> None:
        """Go down one level. See `Frontier.descend`."""
        if not isinstance(choice, Secret):
            super().descend(choice, last=last)
            return
        bits = self._routed(choice.reshape(self.n_nodes, -1))
        self._divide(np.arange(self.n_nodes), bits, self._stages())

    def leaves(self, choice: Choice) -> LeafRows:
        """Return the rows in their leaves. See `LeafFrontier.leaves`.

        Of hidden trees, second derivatives alone go down once more.
        """
        hidden, weight = isinstance(choice, Secret), [COUNTED] * self._weighted
        # Of all rows or, if trees were grown from some of them, of those that they were grown from.
        inside = self._masks.shape[1] - 1 if self._masks.shape[1] > COUNTED + self._weighted else 0
        self._masks = self._masks[:, weight if hidden else [inside, *weight]]
        if not isinstance(choice, Secret):
            self.descend(choice)
            weights = self._masks[:, 1].sum(-1) if self._weighted else None
            return OpenedLeaves(self._in_trees(self._masks[:, 0]), self._per_tree(weights))
        bits = self._routed(choice.reshape(self.n_nodes, -1))
        weights = None
        if self._weighted:
            self._divide(np.arange(self.n_nodes), bits, self._stages())
            weights = self._masks[:, 0].sum(-1)
        return RoutedLeaves(self._routes, self._per_tree(weights), self.n_rows)

    def _stages(self) -> Any:
        return every_peer(self.engine.n_parties, self.n_nodes * self.n_rows)

    def _in_trees(self, x: Secret) -> Secret:
        return x.reshape(self.n_trees, -1, *x.shape[1:])

    def _per_tree(self, sums: Secret | None) -> Secret | None:
        return None if sums is None else self._in_trees(sums)


@dataclass(frozen=True, eq=False)
class OpenedLeaves(LeafRows):
    """Rows in the leaves of public trees: masks (trees, leaves, n), and sums of weights."""

    masks: Secret
    weights: Secret | None

    def sums(self, weight: Secret) -> Secret:
        """Return the weight of each leaf. See `LeafRows.sums`; local."""
        del weight
        assert self.weights is not None
        return self.weights

    def spread(self, values: Secret | NDArray[np.int64]) -> Secret:
        """Return the value of each row's leaf, which is public. See `LeafRows.spread`; local."""
        assert not isinstance(values, Secret)
        return (self.masks * values[:, :, None]).sum(axis=1)


@dataclass(frozen=True, eq=False)
class RoutedLeaves(LeafRows):
    """Rows of hidden trees: shares of whether they go left at each node, level by level."""

    routes: list[Array]
    weights: Secret | None
    n: int

    def sums(self, weight: Secret) -> Secret:
        """Return the weight of each leaf. See `LeafRows.sums`; local."""
        del weight
        assert self.weights is not None
        return self.weights

    def spread(self, values: Secret | NDArray[np.int64]) -> Secret:
        """Return the value of each row's leaf. See `LeafRows.spread`.

        From the leaves up, each node passes on the value of the child that a row takes.

        Cost: a bit product for every inner node and row, level by level.
        """
        assert isinstance(values, Secret)
        engine = values.engine
        assert isinstance(engine, AdditiveEngine)
        trees, leaves = values.shape
        found = values.reshape(trees * leaves, 1).broadcast_to((trees * leaves, self.n))
        for bits in reversed(self.routes):
            pairs = found.reshape(-1, 2, self.n)
            apart = np.ascontiguousarray((pairs[:, 0] - pairs[:, 1]).data)
            here, n = len(apart), pairs.shape[0] * self.n
            rows, flat = apart.reshape(here, n, 1), bits.reshape(here, n)
            stages = every_peer(engine.n_parties, n)
            taken = times_bits(transfers(engine), flat, rows, values.ring, stages)
            found = pairs[:, 1] + values.like(taken.reshape(apart.shape))
        return found


@dataclass(frozen=True)
class PeerRound(RoundReleases):
    """What one round among peers opens, if anything."""

    public: PivotBoostingPlan = field(kw_only=True)

    def splits(self) -> SplitChooser:
        """Return how the splits of the round are chosen: the best of all, or of some attributes."""
        public, choose = self.public, BestSplits()
        chooser: SplitChooser = choose
        if public.n_chosen_from < len(public.owners):
            chooser = Restricted(
                choose,
                public.layout.candidates.feature,
                public.n_chosen_from,
                public.public_seed,
                f"round {self.turn}",
            )
        return chooser if public.hides else OpenedSplits(chooser, partial(level_name, self.turn))

    def shown(self, choose: SplitChooser, values: Secret, keep: Checkpoints) -> Stage:
        """Open the leaves of the round, kept before. See `RoundReleases.shown`."""
        if not isinstance(choose, OpenedSplits):
            return {}
        name, engine = round_values(self.turn), values.engine
        values = kept(keep, name, engine, "values", lambda: values)
        opened = engine.open_to_all(values, name)
        return {
            "splits": np.concatenate(choose.opened, axis=1),
            "values": values.ring.signed(opened).astype(np.int64),
        }


class PeerBoostingProtocol(PeerProtocol):
    """Boosted trees: asked for classes, for scores, from which probabilities follow, or values."""

    options_type: ClassVar[type[PeerOptions]] = PivotBoostingOptions
    plan_type: ClassVar[type[PeerPlan]] = PivotBoostingPlan
    shares: ClassVar[tuple[str, ...]] = ("choices", "leaves")

    def train(
        self, data: PeerData, plan: PivotBoostingPlan, progress: Progress, keep: Checkpoints
    ) -> PeerTrees:
        """Boost. See `hidden.boosting.boost`.

        Attributes are planted once for all rounds. Of trees that are opened rows go down by public
        splits, and their scores grow by public values: both are bit products of one peer, or local.
        """
        seeds = data.seeds
        assert seeds is not None
        numbers, n = plan.numbers, data.columns.shape[1]
        everybody = np.ones(n, dtype=np.int64)
        target = data.columns if numbers.n_scores > 1 else data.columns[1:]
        labels = Labels(data.engine.public(everybody, plan.ring), target, everybody)

        def rows_of(turn: int, gradient: Secret, weight: Secret | None) -> BoostedColumns:
            drawn = everybody
            if plan.subsample < 1:
                drawn = drawn_rows(plan.public_seed, f"rows of round {turn}", n, plan.subsample)
            ones = data.engine.public(np.ones(gradient.shape, dtype=np.uint8), plan.ring)
            columns = [ones * drawn, gradient * drawn]
            columns += [] if weight is None else [weight * drawn]
            columns += [ones] if plan.subsample < 1 and not plan.hides else []
            return BoostedColumns(
                plan.layout,
                stack(columns, axis=1),
                seeds,
                weighted=weight is not None,
                ahead=partial(cost_level, data.engine, plan),
            )

        of = partial(_round_of, plan)
        return _trees(plan, boost(labels, numbers, of, rows_of, progress, keep))

    def cost_ahead(self, engine: AdditiveEngine, plan: PivotBoostingPlan) -> Cost:
        """State what choosing the splits of all rounds costs. See `cost_level`."""
        trees = plan.numbers.n_scores
        levels = (cost_level(engine, plan, trees << level) for level in range(plan.depth))
        return sum(levels, NOTHING) * plan.n_rounds

    def read(self, engine: AdditiveEngine, plan: PivotBoostingPlan, state: Stage) -> PeerTrees:
        """Read trees."""
        del plan
        return PeerTrees.from_state(engine, state)

    def opened(self, plan: PivotBoostingPlan, model: PeerTrees) -> Boosted | None:
        """Return boosted trees."""
        return None if model.opened is None else opened_model(plan, model)

    def asks(self, plan: PivotBoostingPlan, proba: bool) -> str:
        """Ask for values, for scores, from which probabilities follow, or for classes."""
        if not plan.classes:
            return super().asks(plan, proba)
        return "score" if proba else "class"

    def shape_of_answers(self, plan: PivotBoostingPlan, n: int, what: str) -> tuple[int, ...]:
        """Return the shape of n answers."""
        return (n, plan.numbers.n_scores) if what == "score" else (n,)

    def answers(
        self,
        engine: AdditiveEngine,
        plan: PivotBoostingPlan,
        model: PeerTrees,
        bins: Mapping[int, NDArray[Any]],
        n: int,
        what: str,
    ) -> Secret:
        """Answer rows: add up the steps of all trees, of classes compare what comes out.

        Reveals: nothing.
        Cost: that of `predict.marked_leaves` and a conversion of leaves * n bits, or of
        `predict.of_hidden`; a comparison or an argmax for classes.
        """
        if plan.hides:
            every = [list(range(len(plan.owners)))] * model.shape.n_splits
            found = of_hidden(engine, plan, model, every, bins, n).transpose()
        else:
            assert model.opened is not None
            marked = engine.b2a(marked_leaves(engine, plan, model, bins, n), plan.ring)
            found = marked.transpose() @ model.opened
        if what == "class":
            return classes_of(found, plan.numbers)
        return found[:, 0] if what == "value" else found

    def read_answers(
        self, plan: PivotBoostingPlan, opened: NDArray[np.int64], what: str
    ) -> NDArray[Any]:
        """Return class indices, probabilities, or values within the target's bounds."""
        if what == "class":
            return opened
        fraction = plan.numbers.fraction
        if what == "score":
            return probabilities(opened / 2.0**fraction, joint=plan.numbers.loss == "softmax")
        units = plan.units
        return np.clip(units.values(opened, fraction), units.low, units.high)


PEER_BOOSTING = PeerBoostingProtocol()


def cost_level(engine: Engine, plan: PivotBoostingPlan, nodes: int) -> Cost:
    """State the cost of choosing the splits of so many nodes, without histograms and openings."""
    score, layout = plan.score, plan.layout
    reach = (2 * score.bound + 1).bit_length() + 1
    scored = score.cost(engine, (nodes, COUNTED, layout.n_columns), plan.ring)
    return scored + cost_argmax(engine, (nodes, len(layout.candidates)), Z64, reach)


def opened_model(plan: PivotBoostingPlan, trees: PeerTrees) -> Boosted:
    """Return the model that the peers see."""
    numbers = plan.numbers
    assert trees.opened is not None
    steps, start = trees.opened.sum(axis=1, keepdims=True) / 2.0**numbers.fraction, 0.0
    if not plan.classes:
        steps, start = steps * plan.units.half, plan.units.centre
    made = trees_of(step_domain(plan.domain), plan.layout.candidates, trees, steps)
    links: dict[str, Link] = {"squared": "identity", "logistic": "logistic", "softmax": "softmax"}
    link = links[numbers.loss]
    if link == "logistic" and numbers.n_scores > 1:
        link = "one-vs-rest"
    return Boosted(plan.domain, made, np.full(numbers.n_scores, start), link)


def _round_of(plan: PivotBoostingPlan, turn: int) -> PeerRound:
    return PeerRound(plan.numbers, NOBODY, turn, public=plan)


def _trees(plan: PivotBoostingPlan, rounds: list[Round]) -> PeerTrees:
    """Put the trees of all rounds side by side; leaves have a column for every score.

    Complete trees stand round by round, each with the trees of all scores; levels come first.
    """
    depth, scores, trees = plan.depth, plan.numbers.n_scores, plan.n_trees
    inner = np.zeros(trees * (2**depth - 1), dtype=np.bool_)
    ends = np.ones(trees * 2**depth, dtype=np.bool_)
    shape = Shape.of_leaves(np.concatenate([inner, ends]), trees)
    # Which score the tree of each leaf belongs to.
    own = np.repeat(np.tile(np.arange(scores), plan.n_rounds), 2**depth)
    mine = own[:, None] == np.arange(scores)
    if plan.hides:
        choices = [
            concatenate([done.choices[level] for done in rounds]).reshape(trees << level, -1)
            for level in range(depth)
        ]
        values = concatenate([done.values for done in rounds]).reshape(-1, 1)
        none = [np.zeros(0, dtype=np.int64)] * depth
        return PeerTrees(shape, none, concatenate(choices), values * mine)
    splits = np.concatenate([done.shown["splits"] for done in rounds])
    opened = np.concatenate([done.shown["values"] for done in rounds]).reshape(-1, 1)
    ends_of = [(2**level - 1, 2 ** (level + 1) - 1) for level in range(depth)]
    groups = [splits[:, first:last].reshape(-1) for first, last in ends_of]
    return PeerTrees(shape, groups, opened=opened * mine)
