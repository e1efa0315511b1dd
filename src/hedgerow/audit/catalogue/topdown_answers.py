"""The coordinator's attack on DP-TopDown: the likelihood ratio of every number of an answer.

The coordinator knows both tables that the attacked owner may have, the plan with its mechanisms,
and the nodes that it asks about. So it computes what each number of an answer would be without
noise on either table, and from that how much likelier the number is on one of them. Numbers of one
node depend on each other only through the choice of a split, which is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.evidence import of_choice, of_counts
from hedgerow.protocols.topdown.answers import cells_of, n_of, of_candidates
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.scores import exact_scores, unsplit
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.protocols.topdown.wire import Arrays, Ask
from hedgerow.trees.counts.leaves import LeafCounts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Known(NamedTuple):
    """Counts of the two tables that an owner may have."""

    first: LeafCounts
    second: LeafCounts

    def after(self, splits: Sequence[tuple[int, int]]) -> Known:
        """Make splits (node, candidate)."""
        if not splits:
            return self
        nodes, choices = zip(*splits, strict=True)
        return Known(*(each.after(nodes, choices) for each in self))


def told_of_answer(
    plan: TopDownPlan, known: Known, ask: Ask, arrays: Arrays, shape: Shape
) -> float:
    """Return the log likelihood ratio of one answer, with the splits of the question made."""
    if ask.phase == "leaves":
        return float(told_of_leaves(plan, known, np.array(ask.nodes), arrays["classes"]).sum())
    depths, valid = shape.depths(ask.nodes), shape.undecided(ask.nodes)
    return float(told_of_nodes(plan, known, ask, arrays, depths, valid).sum())


def told_of_nodes(
    plan: TopDownPlan,
    known: Known,
    ask: Ask,
    arrays: Arrays,
    depths: Ints,
    valid: NDArray[np.bool_],
) -> Floats:
    """Return the log likelihood ratio of what was said about each node, (m,)."""
    if ask.phase == "recount":
        return _of_recounts(plan, known, ask, arrays["cells"], depths)
    told = np.zeros(len(ask.nodes))
    nodes, which = np.unique(np.array(ask.nodes), return_inverse=True)
    for i, node in enumerate(nodes.tolist()):
        here = np.flatnonzero(which == i)
        depth, allowed = int(depths[here[0]]), valid[here[0]]
        classes = [each.class_counts([node]) for each in known]
        histograms = [each.histogram([node]) for each in known]
        weights = (of_class.sum() for of_class in classes)
        told[here] += of_counts(plan.weigh(depth), arrays["weight"][here], *weights)
        if plan.method == "noisy-counts":
            cells = [cells_of(plan, histogram) for histogram in histograms]
            ratios = of_counts(plan.counts(depth), arrays["cells"][here], *cells)
            told[here] += ratios.reshape(len(here), -1).sum(axis=1)
            continue
        first, second = (exact_scores(plan, histogram)[0] for histogram in histograms)
        choice = arrays["choice"][here]
        told[here] += of_choice(plan.choose(depth), choice, first, second, allowed)
        if plan.method != "local-rnm":
            scores = zip((first, second), classes, strict=True)
            worth = [score[choice] - unsplit(plan, before) for score, before in scores]
            told[here] += of_counts(plan.value(depth), arrays["worth"][here], *worth)
    return told


def told_of_leaves(plan: TopDownPlan, known: Known, leaves: Ints, drawn: Ints) -> Floats:
    """Return the log likelihood ratio of the class counts of each leaf, (m,)."""
    exact = (each.class_counts(leaves) for each in known)
    return np.asarray(of_counts(plan.label, drawn, *exact).sum(axis=1))


def _of_recounts(plan: TopDownPlan, known: Known, ask: Ask, cells: Ints, depths: Ints) -> Floats:
    told = np.zeros(len(ask.nodes))
    alike: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for i, some in enumerate(ask.among):
        alike.setdefault((ask.nodes[i], int(depths[i]), some), []).append(i)
    sizes = np.zeros(len(ask.nodes), dtype=np.int64)
    exact = {}
    for key, where in alike.items():
        node, _, some = key
        exact[key] = [of_candidates(plan, each.histogram([node])[0], some) for each in known]
        sizes[where] = len(exact[key][0])
    ends = np.cumsum(sizes)
    for key, where in alike.items():
        _, depth, some = key
        size = len(exact[key][0])
        drawn = cells[ends[where][:, None] - size + np.arange(size)]
        mechanism = plan.recounts(depth, n_of(plan, some))
        told[where] = of_counts(mechanism, drawn, *exact[key]).sum(axis=1)
    return told
