"""Scores of splits from counts: exact ones on the owner's side, noisy ones at the coordinator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import n_log_n
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from hedgerow.trees.layout import SplitKind

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def exact_scores(plan: TopDownPlan, histogram: Counts) -> Counts:
    """Score every candidate, integers on the plan's grid, int64 (m, candidates)."""
    return integer_scores_from_histogram(
        histogram, plan.candidates, plan.score, plan.public, plan.shift
    )


def node_scores(plan: TopDownPlan, classes: Counts) -> Counts:
    """Score nodes as they are, on the same grid; classes (m, k) gives int64 (m,)."""
    n = classes.sum(axis=1)
    if plan.criterion == "max":
        return np.asarray(classes.max(axis=1))
    if plan.criterion == "entropy":
        table = n_log_n(plan.public.records(), plan.shift)
        return np.asarray(table[classes].sum(axis=1) - table[n])
    squares, held = (classes * classes).sum(axis=1), np.maximum(n, 1)
    whole = squares // held
    rest = ((squares - whole * held) << plan.shift) // held
    return np.asarray((whole << plan.shift) + rest - (n << plan.shift))


def first_branches(histogram: NDArray[Any], candidates: Candidates) -> NDArray[Any]:
    """Return what goes to the first branch of each candidate, (m, candidates, k)."""
    below = np.cumsum(histogram, axis=1)
    at = candidates.offset[candidates.feature] + candidates.cut
    start = candidates.offset[candidates.feature]
    before = np.where((start > 0)[None, :, None], below[:, start - 1], 0)
    threshold = (candidates.kind == SplitKind.THRESHOLD)[None, :, None]
    return np.where(threshold, below[:, at] - before, histogram[:, at])


def totals(histogram: NDArray[Any], candidates: Candidates) -> NDArray[Any]:
    """Return the sum over the bins of each candidate's attribute, (m, candidates, k)."""
    sums = np.add.reduceat(histogram, candidates.offset[:-1], axis=1)
    return np.asarray(sums[:, candidates.feature])


class Branches(NamedTuple):
    """Estimates (m, candidates, k) of both branches; `variance` in units of one noisy cell's."""

    first: Floats
    second: Floats
    variance: tuple[Floats, Floats]


def best_branches(histogram: NDArray[Any], candidates: Candidates) -> Branches:
    """Estimate the branches from noisy histograms of all attributes, each cell with equal noise.

    Every attribute's histogram adds up to the same node, whose class counts are the mean over the
    attributes, weighted by 1/bins. A branch is the sum of its own bins, or the node less those of
    the other branch: the mean of the two, weighted by their noise.
    """
    sums = np.add.reduceat(histogram, candidates.offset[:-1], axis=1)
    shares = 1.0 / candidates.n_bins
    shares = shares * (candidates.per_feature > 0)
    node = np.einsum("mfk,f->mk", sums, shares / shares.sum())[:, None]
    of_node = 1.0 / shares.sum()
    own = first_branches(histogram, candidates).astype(np.float64)
    rest = sums[:, candidates.feature] - own
    bins = candidates.n_bins[candidates.feature].astype(np.float64)
    threshold = candidates.kind == SplitKind.THRESHOLD
    held = np.where(threshold, candidates.cut + 1.0, 1.0)
    # The attribute's own histogram is part of the mean, by this share.
    share = of_node / bins
    first, v_first = _mean(own, node - rest, held, bins - held, share, of_node)
    second, v_second = _mean(rest, node - own, bins - held, held, share, of_node)
    return Branches(first, second, (v_first[None], v_second[None]))


def _mean(
    own: NDArray[Any],
    by_rest: NDArray[Any],
    held: Floats,
    others: Floats,
    share: Floats,
    of_node: float,
) -> tuple[Floats, Floats]:
    """Return the mean of two estimates with the least variance, and that variance.

    One is the sum of `held` bins, the other is the node (of variance `of_node`) less the sum of
    the `others`; they have `share` of `held` in common.
    """
    v_rest = of_node + others - 2 * share * others
    common = share * held
    both = held + v_rest - 2 * common
    # Of a single attribute the two are one estimate.
    alone = both < 1e-9
    both = np.where(alone, 1.0, both)
    weight = np.where(alone, 1.0, (v_rest - common) / both)
    mean = weight[None, :, None] * own + (1 - weight)[None, :, None] * by_rest
    return mean, np.where(alone, held, (held * v_rest - common * common) / both)


def decrease(
    first: NDArray[Any],
    second: NDArray[Any],
    criterion: str,
    noise: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Floats:
    """Return the decrease of the impurity per record from noisy counts (..., k) of branches.

    Counts below 0 count as 0; the decrease is 0 where nothing is left to divide. A count with noise
    of variance v has an expected square that is v too large, so the smallest branches would win by
    their noise. Where `noise` has the variance of a count of either branch, that is subtracted, to
    second order.
    """
    left, right = np.maximum(first, 0.0), np.maximum(second, 0.0)
    whole = left + right
    n = whole.sum(axis=-1)
    gain = impurity(whole, criterion) - impurity(left, criterion) - impurity(right, criterion)
    if noise is not None:
        bias = _excess(left, noise[0], criterion) + _excess(right, noise[1], criterion)
        bias = bias - _excess(whole, noise[0] + noise[1], criterion)
        gain = gain - bias
    return np.asarray(np.where(n > 0, gain / np.where(n > 0, n, 1.0), 0.0))


def _excess(counts: NDArray[Any], variance: NDArray[Any], criterion: str) -> Floats:
    """Return by how much noise lowers n times the impurity, to second order.

    Gini: S / n with S = sum n_c^2 grows by v (k - 2 + k S / n^2) / n. Entropy: sum n_c lg n_c -
    n lg n grows by half of sum v/n_c - k v/n, over ln 2. A count is not taken for less than the
    deviation of its noise, where the expansion ends.
    """
    if criterion == "max":
        return np.zeros(counts.shape[:-1])
    k = counts.shape[-1]
    least = np.sqrt(variance)
    n = np.maximum(counts.sum(axis=-1), np.sqrt(k) * least)
    n = np.where(n > 0, n, 1.0)
    if criterion == "gini":
        squares = np.minimum((counts * counts).sum(axis=-1) / (n * n), 1.0)
        return np.asarray(variance * (k - 2 + k * squares) / n)
    each = np.maximum(counts, least[..., None])
    each = np.where(each > 0, each, 1.0)
    grown = (variance[..., None] / each).sum(axis=-1) - k * variance / n
    return np.asarray(np.maximum(grown, 0.0) / (2 * np.log(2)))


def impurity(counts: NDArray[Any], criterion: str) -> Floats:
    """Return n times the impurity of nodes with such counts (..., k)."""
    n = counts.sum(axis=-1)
    if criterion == "max":
        return np.asarray(n - counts.max(axis=-1))
    if criterion == "entropy":
        return np.asarray(_n_log_n(n) - _n_log_n(counts).sum(axis=-1))
    squares = (counts * counts).sum(axis=-1)
    return np.asarray(n - squares / np.where(n > 0, n, 1.0))


def _n_log_n(n: NDArray[Any]) -> Floats:
    positive = np.where(n > 0, n, 1.0)
    return np.asarray(positive * np.log2(positive))
