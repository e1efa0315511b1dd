"""Hidden trees: structure, leaves and queries stay secret-shared on three servers.

Paper: hiddentrees, algorithms 1 to 3 (`ODP+FMPC-ID3`), level by level instead of node by node.

What the paper says about the privacy of answers does not hold (docs/explanation/hidden-trees.md):
noise at the leaves alone leaves the structure a noiseless function of the data, on which every
answer depends. So splits are noisy too by default (`Noisy`), and a tree without noisy splits has
no finite epsilon in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints, Stage, restored
from hedgerow.protocols.growers.choices import OpenedSplits, RandomSplits, SplitChooser, Valid
from hedgerow.protocols.growers.frontier import Choice, Frontier
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.scores import Scores
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, stack


@dataclass(frozen=True, eq=False)
class GrownTrees:
    """What a level loop leaves behind, all of it secret but the parents.

    For each level `choices` (trees, nodes, C), one-hot over the ring of the table, and `totals`
    (trees, nodes, k), the sums of the columns; the same sums for `leaves` (trees, leaves, k).
    `parents` has the parent of each node for every level but the first, and for the leaves.
    """

    choices: list[Secret]
    totals: list[Secret]
    leaves: Secret
    parents: list[NDArray[np.int64]]


NOTHING_KEPT = NoCheckpoints()
Progress = Callable[[int], None]
"""Told the number of levels that are done."""


def no_progress(levels: int) -> None:
    """Say nothing."""


def grow(
    frontier: Frontier,
    depth: int,
    score: Scores,
    choose: SplitChooser,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
    stage_name: Callable[[int], str] = "level {}".format,
) -> GrownTrees:
    """Grow complete trees of a public depth (algorithm 1) from a frontier at the roots.

    For every level, all nodes of all trees at once:

    1. Class frequencies in every bin of every attribute: one secret matrix product (steps 5 to 7
       and the products of algorithm 2).
    2. Scores (steps 12 and 13) and the choice among attributes not yet used on the path (steps 14
       to 16); one-hot vectors take the place of `Indicator` (algorithm 3).
    3. Rows go down (steps 17 to 21). After the last choice they stay: the sums in the leaves are
       those of the chosen attribute's bins, which are known already.

    Levels that `keep` has, by `stage_name`, are not chosen again: their rows go down as they did.
    What `OpenedSplits` open is kept before.

    Reveals: nothing but what `OpenedSplits` open; what a chooser opens, it declares.
    Cost: per level one histogram, the scores, the choice and one descent; rounds depend neither on
    rows nor on nodes.
    """
    layout = frontier.layout
    layout.check_depth(depth)
    levels: list[Level] = []
    valid: Valid = None
    for level in range(depth):
        stage = stage_name(level)
        known = None if isinstance(choose, RandomSplits) else keep.load(stage)
        if known is not None:
            done, valid = _loaded(frontier.engine, known)
        else:
            done, valid = _level(frontier, level, score, choose, valid, last=level + 1 == depth)
            if not isinstance(choose, RandomSplits):
                keep.save(stage, _saved(done, valid))
        if isinstance(choose, OpenedSplits):
            done = done._replace(taken=choose.open(level, done.choice))
        levels.append(done)
        if level + 1 < depth:
            frontier.descend(done.taken, last=level + 2 == depth)
        progress(level + 1)
    leaves = levels[-1].leaves
    assert leaves is not None
    parents = [np.repeat(np.arange(at.totals.shape[1]), layout.arity) for at in levels]
    return GrownTrees([at.choice for at in levels], [at.totals for at in levels], leaves, parents)


class Level(NamedTuple):
    """One level that is done."""

    choice: Secret
    totals: Secret
    leaves: Secret | None
    taken: Choice


def _level(
    frontier: Frontier, level: int, score: Scores, choose: SplitChooser, valid: Valid, *, last: bool
) -> tuple[Level, Valid]:
    """Choose the splits of a level; also what remains valid below."""
    layout, hist = frontier.layout, frontier.histogram()
    taken: Choice
    if isinstance(choose, RandomSplits):
        # What is drawn without looking is public, and so are the attributes that remain.
        shape = (*hist.shape[:2], len(layout.candidates))
        taken = drawn = choose.draw(level, shape, valid)
        choice = frontier.engine.public(drawn, frontier.ring)
        valid = _still_public(valid, drawn, layout)
    else:
        chosen = choose(level, score(hist), score.bound, valid)
        taken = choice = narrowed(chosen, frontier.ring)
        if layout.branching == "wary":
            free = _all_valid(chosen) if valid is None else _known(valid, chosen)
            valid = _repeated(free - chosen, layout.arity)
    leaves = branch_sums(hist, taken, layout) if last else None
    return Level(choice, node_totals(hist, layout), leaves, taken), valid


def _saved(done: Level, valid: Valid) -> Stage:
    kept = {"choice": done.choice, "totals": done.totals, "leaves": done.leaves, "valid": valid}
    return {name: x.data for name, x in kept.items() if isinstance(x, Secret)}


def _loaded(engine: Engine, stage: Stage) -> tuple[Level, Valid]:
    choice, totals, leaves, valid = (
        restored(engine, stage[name]) if name in stage else None
        for name in ("choice", "totals", "leaves", "valid")
    )
    assert choice is not None
    assert totals is not None
    return Level(choice, totals, leaves, choice), valid


def branch_sums(hist: Secret, choice: Choice, layout: Layout) -> Secret:
    """Return the sums in the branches of chosen splits, from the histograms they were chosen by.

    Of histograms (trees, nodes, k, B) and one-hot choices (trees, nodes, C), sums of shape (trees,
    nodes * arity, k), children of a node side by side. One round.
    """
    t, nodes, k, _ = hist.shape
    if layout.branching == "binary":
        # (k, B) @ (B, 1) for every node.
        selected = (choice @ layout.left).reshape(t, nodes, layout.n_columns, 1)
        left = (hist @ selected).reshape(t, nodes, k)
        both = stack([left, node_totals(hist, layout) - left], axis=2)
        return both.reshape(t, 2 * nodes, k)
    m, w = layout.n_features, layout.width
    by_attribute = hist.reshape(t, nodes, k, m, w).transpose(0, 1, 3, 4, 2)
    found: Secret = choice.reshape(t, nodes, 1, m) @ by_attribute.reshape(t, nodes, m, w * k)  # type: ignore[assignment]
    return found.reshape(t, nodes * w, k)


def node_totals(hist: Secret, layout: Layout) -> Secret:
    """Return the sums of the columns in every node, (trees, nodes, k): those of attribute 0."""
    return hist[..., : int(layout.widths([0])[0])].sum(axis=-1)


def narrowed(x: Secret, ring: Ring) -> Secret:
    """Return 0 and 1 over a smaller ring, or the same."""
    return x if x.ring == ring else x.engine.reduce(x, ring)


def _all_valid(like: Secret) -> Secret:
    return like.engine.public(np.ones(like.shape, dtype=np.uint8), like.ring)


def _known(valid: Valid, like: Secret) -> Secret:
    if isinstance(valid, Secret):
        return valid
    return like.engine.public(np.asarray(valid, dtype=np.uint8), like.ring)


def _still_public(valid: Valid, taken: NDArray[np.uint8], layout: Layout) -> Valid:
    """Return the attributes that are free after public choices, for every child."""
    if layout.branching == "binary":
        return None
    free = taken == 0 if valid is None else np.asarray(valid) & (taken == 0)
    return np.repeat(free, layout.arity, axis=1)


def _repeated(x: Secret, arity: int) -> Secret:
    """Give every child what its parent has, (trees, nodes * arity, C)."""
    t, nodes, c = x.shape
    return x.reshape(t, nodes, 1, c).broadcast_to((t, nodes, arity, c)).reshape(t, -1, c)
