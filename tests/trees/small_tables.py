"""Encoded tables straight from bins, and slow reference computations on them."""

from __future__ import annotations

import numpy as np

from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.growing.criteria import FLOAT_TABLE
from hedgerow.trees.growing.scoring import _from_histogram


def encoded(
    bins, target, *, n_bins=None, ordered=True, n_classes=None, bounds=(-1e6, 1e6), present=None
):
    """Wrap `bins` (n, d) and class indices (unsigned) or numbers (float64) as an `Encoded`."""
    bins = np.asarray(bins)
    target = np.asarray(target)
    n_bins = np.maximum(bins.max(axis=0) + 1, 2) if n_bins is None else np.asarray(n_bins)
    ordered = np.broadcast_to(ordered, n_bins.shape)
    attributes = tuple(
        Attribute(name=f"a{j}", kind="numeric", bounds=(0.0, float(m)), bins=int(m))
        if is_ordered
        else Attribute(name=f"a{j}", kind="categorical", categories=tuple(range(int(m))))
        for j, (m, is_ordered) in enumerate(zip(n_bins, ordered, strict=True))
    )
    if target.dtype.kind == "f":
        label = Target(bounds=bounds)
    else:
        n_classes = max(2, int(target.max()) + 1) if n_classes is None else n_classes
        label = Target(classes=tuple(range(n_classes)))
        target = target.astype(np.uint8)
    domain = Domain(attributes=attributes, target=label)
    present = np.ones(len(bins), dtype=bool) if present is None else present
    return Encoded(domain, np.asfortranarray(bins, dtype=domain.dtype), target, present)


def random_table(seed, n, n_bins, *, n_classes=3, ordered=True, regression=False):
    """Make a table whose target depends on its first attributes, with noise."""
    rng = np.random.default_rng(seed)
    n_bins = np.asarray(n_bins)
    bins = (rng.random((n, n_bins.size)) ** 1.5 * n_bins).astype(np.int64)
    signal = bins[:, 0] * 2.0 - bins[:, -1] + rng.normal(0, n_bins.max() / 2, n)
    if regression:
        return encoded(bins, np.round(signal, 2), n_bins=n_bins, ordered=ordered)
    edges = np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1])
    target = np.searchsorted(edges, signal).astype(np.uint8)
    return encoded(bins, target, n_bins=n_bins, ordered=ordered, n_classes=n_classes)


def channels(target, k):
    """Channels of some targets: class counts, or (n, sum y, sum y^2)."""
    if target.dtype.kind == "u":
        return np.bincount(target, minlength=k)
    return np.array([target.size, target.sum(), (target * target).sum()])


def branch_score(name, counts):
    """Real-valued score of one branch, from the definition."""
    n = counts[0] if name == "squared_error" else counts.sum()
    if n == 0:
        return 0.0
    if name == "max":
        return float(counts.max())
    if name == "gini":
        return -n * (1.0 - ((counts / n) ** 2).sum())
    if name == "squared_error":
        return counts[1] ** 2 / n - counts[2]
    p = counts[counts > 0] / n
    return n * float((p * np.log2(p)).sum())


def split_score(name, branches):
    """Real-valued score of a split whose branches have these channels (branches, k)."""
    branches = np.asarray(branches, dtype=float)
    if name == "gain":
        return split_score("entropy", branches) - branch_score("entropy", branches.sum(axis=0))
    return sum(branch_score(name, branch) for branch in branches)


def children(column, kind, cut, n_bins):
    """Child of every row under a split, int (n,)."""
    column = column.astype(np.int64)
    return {1: (column > cut).astype(int), 2: (column != cut).astype(int), 4: column}[int(kind)]


def scores_from_histogram(hist, candidates, criterion):
    """Score every candidate from histograms (nodes, total bins, k), as `Rows.scores` does."""
    return _from_histogram(hist, candidates, criterion, 0, FLOAT_TABLE)
