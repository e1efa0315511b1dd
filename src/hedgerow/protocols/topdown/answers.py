"""What an owner draws for a question: the data side of PrivateSplit, weights and labels.

Paper: wang2020topdown, section 3 and appendix A.4.

Every function here releases; the caller has charged the ledger and asks about each node once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import NoiseSource, TwoSidedGeometric
from hedgerow.protocols.as_published import laplace
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.scores import exact_scores, first_branches, node_scores, totals
from hedgerow.trees.counts.leaves import LeafCounts
from hedgerow.trees.layout import SplitKind

Counts = NDArray[np.int64]
CountArrays = dict[str, Counts]

WORTH_BITS = 20
"""A released decrease per record stands on a grid of 2^-20 (as published only)."""
_BLOCK_CELLS = 1 << 22


def weigh_and_split(
    counts: LeafCounts,
    plan: TopDownPlan,
    nodes: Sequence[int],
    depths: Counts,
    valid: NDArray[np.bool_],
    source: NoiseSource,
) -> CountArrays:
    """Answer about weights and splits; `valid` (m, candidates) is what earlier splits left open."""
    where = np.asarray(nodes, dtype=np.int64)
    classes = counts.class_counts(where)
    weights = classes.sum(axis=1)
    if plan.is_private:
        weights = noisy_by_depth(depths, weights, plan.weigh, source)
    found: list[CountArrays] = []
    for block in _blocks(len(where), counts):
        at = (where[block], depths[block], valid[block], classes[block])
        found.append(_of_block(counts, plan, *at, source))
    joined = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    return {"weight": weights, **joined}


def _of_block(
    counts: LeafCounts,
    plan: TopDownPlan,
    nodes: Counts,
    depths: Counts,
    valid: NDArray[np.bool_],
    classes: Counts,
    source: NoiseSource,
) -> CountArrays:
    histogram = counts.histogram(nodes)
    if plan.method == "noisy-counts":
        cells = cells_of(plan, histogram)
        return {
            "cells": noisy_by_depth(depths, cells, plan.counts, source)
            if plan.is_private
            else cells
        }
    scores = exact_scores(plan, histogram)
    before = node_scores(plan, classes)
    if not plan.is_private:
        lowest = np.iinfo(np.int64).min
        choice = np.argmax(np.where(valid, scores, lowest), axis=1)
        worth = np.take_along_axis(scores, choice[:, None], axis=1)[:, 0] - before
    elif plan.accounting == "paper":
        choice, worth = _published(plan, scores - before[:, None], classes, depths, valid, source)
    else:
        choice = np.empty(len(nodes), dtype=np.int64)
        for depth, here in places_by_depth(depths):
            choice[here] = plan.choose(depth)(scores[here], source, valid=valid[here])
        worth = np.take_along_axis(scores, choice[:, None], axis=1)[:, 0] - before
        if plan.method != "local-rnm":
            worth = noisy_by_depth(depths, worth, plan.value, source)
    return {"choice": choice} if plan.method == "local-rnm" else {"choice": choice, "worth": worth}


def _published(
    plan: TopDownPlan,
    gains: Counts,
    classes: Counts,
    depths: Counts,
    valid: NDArray[np.bool_],
    source: NoiseSource,
) -> tuple[Counts, Counts]:
    """Report noisy max as published: Laplace of scale 20 lg(m)/(alpha m) on J, value included.

    The scale falls with m, the number of records of the node, which is private; for Gini 40/m
    takes the place of 20 lg(m)/m (lemma 18).
    """
    m = np.maximum(classes.sum(axis=1), 2).astype(np.float64)
    sensitivity = 10 * np.log2(m) / m if plan.criterion == "entropy" else 20 / m
    epsilon = np.array([plan.at(int(depth)).choice for depth in depths])
    j = gains / 2.0**plan.shift / m[:, None]
    # The paper's Gini is 4 q (1 - q), twice the usual one.
    j *= 2.0 if plan.criterion == "gini" else 1.0
    noise = laplace(j.size, source).reshape(j.shape) * (2 * sensitivity / epsilon)[:, None]
    noisy = np.where(valid, j + noise, -np.inf)
    choice = np.argmax(noisy, axis=1)
    value = np.take_along_axis(noisy, choice[:, None], axis=1)[:, 0]
    value /= 2.0 if plan.criterion == "gini" else 1.0
    scaled = np.rint(np.clip(value, -1e9, 1e9) * 2.0**WORTH_BITS)
    return choice.astype(np.int64), scaled.astype(np.int64)


def recount(
    counts: LeafCounts,
    plan: TopDownPlan,
    nodes: Sequence[int],
    depths: Counts,
    among: Sequence[Sequence[int]],
    source: NoiseSource,
) -> CountArrays:
    """Count the locally best splits of each node (LocalRNM's second step), one after the other."""
    where = np.asarray(nodes, dtype=np.int64)
    parts: list[Counts] = []
    for block in _blocks(len(where), counts):
        histogram = counts.histogram(where[block])
        parts += [count_candidates(plan, histogram[i], some) for i, some in enumerate(among[block])]
    if plan.is_private:
        keys = [
            (int(depth), n_histograms_of(plan, some))
            for depth, some in zip(depths, among, strict=True)
        ]
        for key in sorted(set(keys)):
            here = [i for i, each in enumerate(keys) if each == key]
            sizes = np.cumsum([len(parts[i]) for i in here])[:-1]
            noisy = plan.recounts(*key)(np.concatenate([parts[i] for i in here]), source)
            for i, part in zip(here, np.split(noisy, sizes), strict=True):
                parts[i] = part
    return {"cells": np.concatenate(parts)}


def label(
    counts: LeafCounts, plan: TopDownPlan, leaves: Sequence[int], source: NoiseSource
) -> CountArrays:
    """Count the classes of the leaves (line 14)."""
    classes = counts.class_counts(np.asarray(leaves, dtype=np.int64))
    return {"classes": plan.label(classes, source) if plan.is_private else classes}


def groups_of(plan: TopDownPlan, some: Sequence[int]) -> list[list[int]]:
    """Divide candidates into those that are counted in one histogram: by attribute, or alone."""
    if plan.histograms == "split":
        return [[candidate] for candidate in some]
    found: dict[int, list[int]] = {}
    for candidate in sorted(some):
        found.setdefault(int(plan.candidates.feature[candidate]), []).append(candidate)
    return list(found.values())


def n_histograms_of(plan: TopDownPlan, some: Sequence[int]) -> int:
    """Return the number of histograms for candidates."""
    return len(groups_of(plan, some))


def count_candidates(plan: TopDownPlan, histogram: Counts, some: Sequence[int]) -> Counts:
    """Count a node (total bins, k) by candidates: q thresholds make q + 1 cells; flat."""
    those = plan.candidates
    cells: list[Counts] = []
    for group in groups_of(plan, some):
        feature = int(those.feature[group[0]])
        bins = histogram[those.offset[feature] : those.offset[feature + 1]]
        cuts = those.cut[group]
        if those.kind[group[0]] == SplitKind.THRESHOLD:
            cells.append(np.add.reduceat(bins, np.concatenate([[0], cuts + 1]), axis=0))
        else:
            cells.append(np.vstack([bins[cuts], bins.sum(axis=0) - bins[cuts].sum(axis=0)]))
    return np.concatenate(cells).reshape(-1)


def cells_of(plan: TopDownPlan, histogram: Counts) -> Counts:
    """Return what noisy counts count: the histograms themselves, or both sides of every split."""
    if plan.histograms == "feature":
        # Attributes without a split have no histogram: what is sent for them is noise alone.
        used = np.repeat(plan.candidates.per_feature > 0, plan.candidates.n_bins)
        return np.asarray(histogram * used[:, None])
    first = first_branches(histogram, plan.candidates)
    return np.stack([first, totals(histogram, plan.candidates) - first], axis=2)


def places_by_depth(depths: Counts) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield every depth with the places where it stands, the smallest first."""
    for depth in np.unique(depths):
        yield int(depth), np.flatnonzero(depths == depth)


def noisy_by_depth(
    depths: Counts,
    values: Counts,
    mechanism: Callable[[int], TwoSidedGeometric],
    source: NoiseSource,
) -> Counts:
    """Add noise to values (m, ...), the noise of each node that of its depth."""
    out = np.empty_like(values)
    for depth, here in places_by_depth(depths):
        out[here] = mechanism(depth)(values[here], source)
    return out


def _blocks(n: int, counts: LeafCounts) -> Iterator[slice]:
    step = max(1, _BLOCK_CELLS // (counts.candidates.total_bins * counts.n_classes))
    for at in range(0, n, step):
        yield slice(at, min(at + step, n))
