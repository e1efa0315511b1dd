"""Leaves of a forest of private medians: noisy channels, and what is made of them for nothing.

A leaf releases noisy class counts, or a noisy count and a noisy centred sum. Everything after that
reads the releases alone. Inner nodes are the sums of their leaves. Then every node is drawn
towards the node above it, from the root down:

1. The node's channels are compared with what its parent's estimate predicts for as many records:
   r = c - n p. Noise and sampling give r a variance V that follows from the public scale of the
   noise, the number of leaves below, n and p.
2. How much nodes of one depth differ from their parents in truth, tau^2, is estimated over all
   trees: the sum of r^2 - V over the sum of n^2 (an empirical Bayes estimate by moments).
3. The estimate is p + w r / n with w = n^2 tau^2 / (n^2 tau^2 + V / T): 1 for a node that holds
   far more records than noise, 0 for one that holds none. The forest answers with the mean of T
   trees, which divides what is random in a tree by T, but not what shrinkage takes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import NoiseSource
from hedgerow.protocols.as_published import laplace
from hedgerow.protocols.median.plan import MedianPlan

Floats = NDArray[np.float64]


class ForestNodes(NamedTuple):
    """The nodes of all trees, parents before children; leaves in the order of the last frontier.

    `parent` is -1 for roots; it and `depth` are (n,), `leaves` (leaves,).
    """

    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    leaves: NDArray[np.int64]


class Values(NamedTuple):
    """What the nodes of trees hold: `Tree.value` (n, k) and `Tree.weight` (n,)."""

    value: Floats
    weight: Floats


def draw_leaves(channels: NDArray[np.int64], plan: MedianPlan, source: NoiseSource) -> Floats:
    """Release the channels of the leaves, (leaves, k), which must have been charged.

    Class counts, (leaves, classes); or count and sum in units, (leaves, 2); or, for the paper's
    leaves, the mean in units, (leaves, 1).
    """
    if plan.spending is None:
        return (channels if plan.is_classifier else channels[:, :2]).astype(np.float64)
    if plan.is_classifier:
        return plan.count(channels, source).astype(np.float64)
    if plan.accounting == "paper":
        return _paper_means(channels, plan, source)
    counts, sums = plan.count(channels[:, 0], source), plan.sum(channels[:, 1], source)
    return np.column_stack([counts, sums]).astype(np.float64)


def _paper_means(channels: NDArray[np.int64], plan: MedianPlan, source: NoiseSource) -> Floats:
    """Add Laplace(2 B / (N_i epsilon)) to the mean of each leaf: as published, not private.

    An empty leaf, of which the paper says nothing, counts as one record at the centre.
    """
    assert plan.units is not None
    assert plan.spending is not None
    held = np.maximum(channels[:, 0], 1)
    reach = max(abs(plan.units.low), abs(plan.units.high)) / plan.units.half * plan.units.most
    noise = laplace(len(held), source) * 2 * reach / (held * plan.spending.counts)
    means: Floats = channels[:, 1] / held + noise
    return means[:, None]


def node_values(drawn: Floats, nodes: ForestNodes, plan: MedianPlan) -> Values:
    """Turn released leaves into what every node of the trees holds."""
    if not plan.is_classifier and drawn.shape[1] == 1:
        value = np.full((len(nodes.parent), 1), np.nan)
        value[nodes.leaves] = _in_bounds(drawn, plan)
        return Values(value, np.full(len(nodes.parent), np.nan))
    totals = node_totals(drawn, nodes)
    if plan.is_classifier:
        estimates = _shares(totals, nodes, plan)
    else:
        estimates = _in_bounds(_means(totals, nodes, plan), plan)
    held = np.maximum(drawn.sum(axis=1) if plan.is_classifier else drawn[:, 0], 0.0)
    weight = node_totals(held[:, None], nodes)[:, 0]
    if not plan.is_classifier:
        return Values(estimates, weight)
    if plan.is_private and not plan.shrinkage:
        return Values(totals, totals.sum(axis=1))
    # A node that holds nothing still answers with its estimate.
    return Values(estimates * np.where(weight > 0, weight, 1.0)[:, None], weight)


def node_totals(drawn: Floats, nodes: ForestNodes) -> Floats:
    """Give each node the sum of its leaves; float64 (n, k)."""
    totals = np.zeros((len(nodes.parent), drawn.shape[1]))
    totals[nodes.leaves] = drawn
    for level in range(int(nodes.depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(nodes.depth == level)
        np.add.at(totals, nodes.parent[here], totals[here])
    return totals


def _levels(nodes: ForestNodes) -> list[NDArray[np.int64]]:
    return [np.flatnonzero(nodes.depth == level) for level in range(int(nodes.depth.max()) + 1)]


def _shares(totals: Floats, nodes: ForestNodes, plan: MedianPlan) -> Floats:
    """Estimate the class shares of every node; float64 (n, classes)."""
    k = totals.shape[1]
    noise = plan.count.variance if plan.spending is not None else 0.0
    below = node_totals(np.ones((len(nodes.leaves), 1)), nodes)[:, 0]
    shares = np.empty_like(totals)
    for here in _levels(nodes):
        parent = nodes.parent[here]
        prior = np.where(parent[:, None] < 0, 1.0 / k, shares[parent])
        records = np.maximum(totals[here].sum(axis=1), 0.0)
        r = totals[here] - records[:, None] * prior
        spread = np.sum(prior * (1 - prior), axis=1)
        if plan.shrinkage:
            added = noise * below[here] * np.sum((1 - prior) ** 2 + (k - 1) * prior**2, axis=1)
            moved = _weights(r, records, added + records * spread, spread, plan.n_trees)
        else:
            moved = 1.0 / np.maximum(records, 1.0)
        found = np.maximum(prior + moved[:, None] * r, 0.0)
        # Noise alone can leave nothing above 0.
        found = np.where(found.sum(axis=1, keepdims=True) > 0, found, prior)
        shares[here] = found / found.sum(axis=1, keepdims=True)
    return shares


def _means(totals: Floats, nodes: ForestNodes, plan: MedianPlan) -> Floats:
    """Estimate the mean of every node, in units; float64 (n, 1)."""
    of_count = of_sum = 0.0
    if plan.spending is not None:
        of_count, of_sum = plan.count.variance, plan.sum.variance
    below = node_totals(np.ones((len(nodes.leaves), 1)), nodes)[:, 0]
    means = np.empty((len(totals), 1))
    assert plan.units is not None
    for here in _levels(nodes):
        parent = nodes.parent[here]
        prior = np.where(parent < 0, 0.0, means[parent, 0])
        records = np.maximum(totals[here, 0], 0.0)
        r = (totals[here, 1] - records * prior)[:, None]
        if plan.shrinkage and plan.is_private:
            added = below[here] * (of_sum + prior**2 * of_count)
            moved = _weights(r, records, added, np.ones(len(here)), plan.n_trees)
        else:
            moved = 1.0 / np.maximum(records, 1.0)
        means[here, 0] = np.clip(prior + moved * r[:, 0], -plan.units.most, plan.units.most)
    return means


def _weights(r: Floats, records: Floats, added: Floats, spread: Floats, n_trees: int) -> Floats:
    """Return w / n of step 3, with tau^2 estimated over all the nodes that are given."""
    squared = records * records * spread
    among = float(squared.sum())
    tau2 = max(float((r * r).sum() - added.sum()) / among, 0.0) if among > 0 else 0.0
    whole = squared * tau2 + added / n_trees
    return np.divide(records * spread * tau2, whole, out=np.zeros_like(whole), where=whole > 0)


def _in_bounds(units: Floats, plan: MedianPlan) -> Floats:
    """Turn means in units into targets within their bounds."""
    assert plan.units is not None
    found = plan.units.centre + plan.units.half * (units / plan.units.most)
    return np.clip(found, plan.units.low, plan.units.high)
