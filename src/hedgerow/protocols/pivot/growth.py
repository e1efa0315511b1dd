"""Algorithm 2 of Pivot, level by level instead of node by node, with whatever is hidden.

Paper: wu2020pivot, algorithm 2 (training) and section 5.2 (the enhanced protocol).

A node is a leaf at the largest depth, and where it has too few rows, is pure, has no split that
leaves enough rows on both sides, or none that brings enough. Which of these it was stays secret.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, Stage, kept, restored
from hedgerow.protocols.growers.choices import check_shares, fitting_ring, widen
from hedgerow.protocols.growers.frontier import Choice
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.growers.means import lift_sums
from hedgerow.protocols.growers.scores import some_branches
from hedgerow.protocols.hidden.id3 import (
    NOTHING_KEPT,
    Progress,
    branch_sums,
    narrowed,
    no_progress,
    node_totals,
)
from hedgerow.protocols.hidden.plan import LEAF, split_name
from hedgerow.protocols.pivot.coins import open_candidates
from hedgerow.protocols.pivot.columns import PeerRows, node_splits
from hedgerow.protocols.pivot.noise import GrowthNoise, noise_of
from hedgerow.protocols.pivot.plan import PivotPlan, leaf_name
from hedgerow.protocols.pivot.shape import Shape
from hedgerow.secure.argmax import argmax, cost_argmax, max_and_place
from hedgerow.secure.compare import cost_equal, cost_less_than, equal, less_than
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.releases import NOBODY, Payer
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate


@dataclass(frozen=True, eq=False)
class PeerTrees:
    """Trees among peers: their public shape, and what is hidden of them as shares.

    `groups` has for the nodes of each level that are split what was opened: their candidate,
    attribute or owner, or nothing. `choices` (splits, C) are one-hot, and `leaves` (leaves, 1) the
    class or the mean with `FRACTION` bits, where these are hidden; one-hot classes (leaves, k) of a
    forest, which votes. `opened` (leaves, k) where nothing is hidden.
    """

    shape: Shape
    groups: list[NDArray[np.int64]]
    choices: Secret | None = None
    leaves: Secret | None = None
    opened: NDArray[np.int64] | None = None

    def to_state(self) -> Stage:
        """Return all of it as arrays; shares are those of the peers that live here."""
        state = {
            "trees": np.array([self.shape.n_trees], dtype=np.int64),
            "first_child": self.shape.first_child,
            "sizes": np.array([group.size for group in self.groups], dtype=np.int64),
            "groups": np.concatenate([*self.groups, np.zeros(0, dtype=np.int64)]),
        }
        hidden = {"choices": self.choices, "leaves": self.leaves}
        state |= {name: x.data for name, x in hidden.items() if x is not None}
        return state if self.opened is None else state | {"opened": self.opened}

    @classmethod
    def from_state(cls, engine: Engine, state: Stage) -> PeerTrees:
        """Read what `to_state` wrote; `Stage` arrays of several peers may be put together."""
        first, trees = np.asarray(state["first_child"]), int(state.get("trees", [1])[0])
        groups = np.split(state["groups"], np.cumsum(state["sizes"])[:-1])
        choices, leaves = (
            restored(engine, state[name]) if name in state else None
            for name in ("choices", "leaves")
        )
        return cls(Shape.of_leaves(first < 0, trees), groups, choices, leaves, state.get("opened"))


def grow_trees(
    rows: PeerRows,
    plan: PivotPlan,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
    paid: Payer = NOBODY,
) -> PeerTrees:
    """Grow a tree, or several side by side (algorithm 2).

    For every level, all nodes at once:

    1. Histograms of the columns (steps 4 to 9).
    2. Scores and the best candidate of those that leave enough rows, hidden (steps 10 to 13); of a
       forest, of those among which public coins let the node choose.
    3. Whether a node is a leaf is opened, and nothing else of those that are (steps 1 to 3).
    4. Of the others the candidate is opened, or its attribute, its owner or nothing, as `hide` says
       (step 14), and rows go down by it (steps 15 to 17; section 5.2).

    Then the labels of all leaves, opened or kept.

    With noise (section 8.2; `pivot.noise`) choices, the counts that make leaves and the labels are
    noisy, and no other test makes a leaf; `paid` is asked before anything is drawn.

    What a level opens or draws is saved before it is opened, so that a run that goes on opens the
    same.

    Reveals: what `PivotPlan.openings` declares, to the peers.
    Cost: per level a histogram, scores, an argmax, three comparisons and a descent; rounds depend
    neither on rows nor on nodes.
    """
    levels, groups = [], []
    choices: list[Secret] = []
    found: list[Secret] = []
    records: Secret | None = None
    places, noise = np.arange(plan.n_trees), noise_of(plan, paid)
    for level in range(plan.depth):
        known = keep.load(leaf_name(level))
        if known is None:
            among = Among.at(plan, level, places)
            rows.engine.prepare(cost_choose(rows.engine, plan, places.size, among))
            hist = rows.sums()
            totals = node_totals(hist, plan.layout)
            if records is None:
                records = _counts(totals, plan)
            if noise is None:
                chosen, leaf = _choose(hist, totals, records[places >> level], plan, among)
            else:
                chosen, leaf = _choose_noisily(level, hist, totals, plan, among, noise)
            saved = {"leaf": leaf.data, "choice": chosen.data, "totals": totals.data}
            keep.save(leaf_name(level), saved)
        else:
            leaf, chosen, totals = (
                restored(rows.engine, known[name]) for name in ("leaf", "choice", "totals")
            )
            records = _counts(totals, plan) if records is None else records
        is_leaf = np.zeros(places.size, dtype=np.bool_)
        if plan.opens_leaves:
            bits = _opened(leaf, leaf_name(level), plan, level)
            check_shares(leaf_name(level), bits < 2)
            is_leaf = bits != 0
        levels.append(is_leaf)
        split = np.flatnonzero(~is_leaf)
        places = (2 * places[split][:, None] + np.arange(2)).reshape(-1)
        choices.append(chosen[split])
        groups.append(_opened_choice(choices[-1], plan, level, keep))
        found.append(totals[np.flatnonzero(is_leaf)])
        if not split.size:
            break
        if level + 1 < plan.depth:
            _go_down(rows, plan, split, choices[-1], groups[-1])
        else:
            found.append(_children(rows, split, choices[-1], groups[-1], plan))
        progress(level + 1)
    shape = Shape.of(levels)
    if plan.hides and not plan.is_noisy:
        # Neither opened nor drawn.
        keep = NOTHING_KEPT
    leaves = kept(
        keep, LEAF, rows.engine, "leaves", lambda: _leaves(concatenate(found), plan, noise)
    )
    if plan.hides:
        return PeerTrees(shape, groups, concatenate(choices), leaves)
    opened = _opened(leaves, LEAF, plan, plan.depth)
    return PeerTrees(shape, groups, opened=leaves.ring.signed(opened))


@dataclass(frozen=True, eq=False)
class Among:
    """Candidates among which nodes choose: `index` (nodes, c), of which `real` ones count."""

    index: NDArray[np.int64]
    real: NDArray[np.bool_]

    @classmethod
    def at(cls, plan: PivotPlan, level: int, places: NDArray[np.int64]) -> Among | None:
        """Return those of nodes of a level; with noise of the width that its release has."""
        width = plan.n_candidates if plan.is_noisy else None
        return cls.of(open_candidates(plan, level, places), width)

    @classmethod
    def of(cls, allowed: NDArray[np.bool_] | None, width: int | None = None) -> Among | None:
        """Return the candidates that are allowed in each node, (nodes, C), in their order.

        As many for each node as the one with the most has, or as `width` says.
        """
        if allowed is None:
            return None
        counts = allowed.sum(axis=1)
        # Those that are not come behind, as far as others have more.
        width = max(1, int(counts.max())) if width is None else width
        index = np.argsort(~allowed, axis=1, kind="stable")[:, :width]
        return cls(index, np.arange(index.shape[1]) < counts[:, None])

    def spread(self, chosen: Secret, candidates: int) -> Secret:
        """Return one-hot choices (nodes, c) among all candidates, (nodes, C); local."""
        every = np.zeros((*chosen.data.shape[:-1], candidates), chosen.data.dtype)
        place = np.broadcast_to(self.index, chosen.data.shape)
        np.put_along_axis(every, place, chosen.data, axis=-1)
        return chosen.like(every)


def _choose(
    hist: Secret, totals: Secret, records: Secret, plan: PivotPlan, among: Among | None
) -> tuple[Secret, Secret]:
    """Return the best candidates of nodes, one-hot (nodes, C), and whether each is a leaf.

    `records` are those of the nodes' trees. Scores are floors on the grid 2^-shift: of two splits
    whose gains, times their records, differ by less than twice that either may win.
    """
    score, engine, bits = plan.score, hist.engine, plan.capacity.bit_length() + 1
    branches = score.branches(hist)
    index = None if among is None else among.index
    if index is not None:
        branches = some_branches(branches, index)
    sizes = branches.sum(1) if plan.classes else branches[:, 0]
    fits = 1 - less_than(sizes, plan.fewest(plan.least_leaf), bits=bits)
    half = sizes.shape[1] // 2
    scores = score(hist, index)
    ring = fitting_ring(scores.ring, 2 * score.bound + 1)
    fit = fits[:, :half] * fits[:, half:]
    valid = engine.extend(fit if among is None else fit * among.real.astype(np.uint8), ring)
    z = (widen(scores, ring, score.bound) + (score.bound + 1)) * valid
    best, chosen = max_and_place(z, bits=(2 * score.bound + 1).bit_length() + 1)
    if among is not None:
        chosen = among.spread(chosen, len(plan.layout.candidates))
    count = _counts(totals, plan)
    least = plan.fewest(max(plan.least_split, 2 * plan.least_leaf))
    grows = 1 - less_than(count, least, bits=bits)
    if plan.classes:
        pure = equal(totals, count.reshape(-1, 1), bits=bits)
        # An empty node, which is equal in all of its classes, has too few rows.
        grows = grows * (1 - pure.sum(-1))
    gains = 1 - less_than(best, _needed(totals, records, plan, ring))
    grows = grows * engine.reduce(gains, hist.ring)
    return engine.reduce(chosen, hist.ring), 1 - grows


def _choose_noisily(
    level: int,
    hist: Secret,
    totals: Secret,
    plan: PivotPlan,
    among: Among | None,
    noise: GrowthNoise,
) -> tuple[Secret, Secret]:
    """Return noisy choices, one-hot (nodes, C), and whether each node has too few rows for one."""
    counts = _counts(totals, plan)
    index, real = (None, None) if among is None else (among.index, among.real)
    chosen = narrowed(noise.choose(level, plan.score(hist, index), counts, real), hist.ring)
    if among is not None:
        chosen = among.spread(chosen, len(plan.layout.candidates))
    return chosen, noise.stop(level, counts)


def cost_choose(engine: Engine, plan: PivotPlan, nodes: int, among: Among | None = None) -> Cost:
    """State the cost of choosing the splits of so many nodes, without histograms and openings."""
    score, k, ring = plan.score, plan.n_columns, plan.ring
    some = None if among is None else among.index.shape[1]
    noise = noise_of(plan, NOBODY)
    if noise is not None:
        scored = score.cost(engine, (nodes, k, plan.layout.n_columns), ring, some)
        return scored + noise.cost_level(engine, nodes)
    bits, each = plan.capacity.bit_length() + 1, some or len(plan.layout.candidates)
    wide = fitting_ring(Z64, 2 * score.bound + 1)
    reach = (2 * score.bound + 1).bit_length() + 1
    total = cost_less_than(engine, nodes * 2 * each, ring, bits)
    total += score.cost(engine, (nodes, k, plan.layout.n_columns), ring, some)
    total += engine.cost("mul", shape=(nodes, each), ring=ring)
    total += engine.cost("extend", shape=(nodes, each), ring=wide, source=ring)
    total += engine.cost("mul", shape=(nodes, each), ring=wide)
    total += cost_argmax(engine, (nodes, each), wide, reach)
    total += cost_less_than(engine, nodes, ring, bits)
    if plan.classes:
        total += cost_equal(engine, nodes * k, ring, bits)
        total += engine.cost("mul", shape=(nodes,), ring=ring)
    if not plan.classes or plan.least_decrease:
        total += engine.cost("extend", shape=(nodes, k, 1), ring=wide, source=ring)
        total += score.cost_values(engine, nodes, k)
        if plan.decrease:
            total += engine.cost("extend", shape=(nodes,), ring=wide, source=ring)
    total += cost_less_than(engine, nodes, wide)
    return total + engine.cost("mul", shape=(nodes,), ring=ring)


def cost_choices(engine: Engine, plan: PivotPlan) -> Cost:
    """State the cost of `cost_choose` at all levels, each as wide as it can be."""
    total = NOTHING
    for level in range(plan.depth):
        places = np.arange(plan.n_trees << level)
        among = Among.at(plan, level, places)
        total += cost_choose(engine, plan, places.size, among)
    return total


def _counts(totals: Secret, plan: PivotPlan) -> Secret:
    """Return the rows of nodes, of their sums (nodes, k)."""
    return totals.sum(-1) if plan.classes else totals[:, 0]


def _needed(totals: Secret, records: Secret, plan: PivotPlan, ring: Ring) -> Secret | int:
    """Return what the best of valid candidates has to reach; others stand at 0.

    Of classes any valid split will do where no decrease is asked for, as in `CARTClassifier`. Of
    numbers one that brings nothing is none: without the sum of squares nobody can tell a node whose
    targets are all equal, which `CARTRegressor` can.
    """
    score, engine = plan.score, totals.engine
    if plan.classes and not plan.least_decrease:
        return 1
    lifted = score.lifted(totals[:, :, None])[..., 0]
    whole = score.values(lifted)
    if plan.classes:
        whole = whole - lifted.sum(-1) * (1 << score.shift)
    above = widen(whole, ring, score.bound) + (score.bound + 1)
    if not plan.decrease:
        return above + (0 if plan.classes else 1)
    return above + engine.extend(records, ring) * plan.decrease


def _children(
    rows: PeerRows,
    split: NDArray[np.int64],
    choice: Secret,
    group: NDArray[np.int64],
    plan: PivotPlan,
) -> Secret:
    """Return the sums in both children of the last splits, (2 splits, k)."""
    hist = rows.sums()[split][None]
    taken: Choice = choice[None]
    if plan.hide == "nothing":
        taken = as_one_hot(group, len(plan.layout.candidates))[None]
    return branch_sums(hist, taken, plan.layout)[0]


def _opened_choice(
    choice: Secret, plan: PivotPlan, level: int, keep: Checkpoints
) -> NDArray[np.int64]:
    """Open of the splits of a level what is not hidden."""
    name, engine, shown = split_name(level), choice.engine, plan.shown
    if shown is None:
        return np.zeros(0, dtype=np.int64)
    ring = fitting_ring(choice.ring, int(shown.max()))
    index = kept(
        keep, name, engine, "index", lambda: (engine.extend(choice, ring) * shown).sum(axis=-1)
    )
    found = _opened(index, name, plan, level)
    check_shares(name, np.isin(found, shown))
    return found


def _go_down(
    rows: PeerRows,
    plan: PivotPlan,
    split: NDArray[np.int64],
    choice: Secret,
    group: NDArray[np.int64],
) -> None:
    if plan.hide == "nothing":
        rows.go_down(node_splits(plan.layout, split, group))
    else:
        rows.descend_among(split, choice, plan.attributes(group, split.size))


def _leaves(sums: Secret, plan: PivotPlan, noise: GrowthNoise | None) -> Secret:
    """Return what stands in leaves, of their sums (leaves, k): (leaves, k) or (leaves, 1)."""
    if plan.classes:
        bits = plan.capacity.bit_length() + 1
        hot = argmax(sums, bits=bits) if noise is None else noise.leaves(sums)
        hot = narrowed(hot, plan.ring)
        if plan.hide == "nothing" or plan.n_trees > 1:
            return hot
        return (hot * np.arange(hot.shape[-1])).sum(axis=-1, keepdims=True)
    if noise is None:
        lifted = lift_sums(sums, plan.capacity * plan.units.most)
        value = plan.quotient(lifted[:, 1], lifted[:, 0])
    else:
        value = noise.leaves(sums)
    return value.engine.reduce(value, plan.ring).reshape(-1, 1)


def _opened(x: Secret, name: str, plan: PivotPlan, level: int) -> NDArray[np.int64]:
    """Open an array of nodes of a level, behind which stand public zeros."""
    engine, n = x.engine, x.shape[0]
    room = plan.room(level) - n
    zeros = engine.public(np.zeros((room, *x.shape[1:]), dtype=np.uint8), x.ring)
    return engine.open_to_all(concatenate([x, zeros]), name)[:n].astype(np.int64)
