"""Compiled scores: what every candidate split of a node is worth, from counts alone.

A score is a sum over branches. `score_cuts` forms the branches of all candidates of one feature
from one histogram, whoever made it: rows in this process, a cluster, or an opened secret.

The number format follows `table`: float64 scores for a float64 table, exact integers for an int64
one (`hedgerow.trees.growing.criteria`). In both, ``table[0]`` is zero.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from hedgerow.compiled import A, jit
from hedgerow.errors import Code
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import (
    ENTROPY,
    FLOAT_TABLE,
    GAIN,
    GINI,
    MAX,
    SQUARED,
    Criterion,
    Public,
)
from hedgerow.trees.layout import SplitKind

THRESHOLD: Final = int(SplitKind.THRESHOLD)
VALUE: Final = int(SplitKind.VALUE)
WARY: Final = int(SplitKind.WARY)

# A row of a two-dimensional array is passed as (array, row): taking a view of it would cost more
# than all the arithmetic, because a view counts references atomically.


def _branch(counts: A, i: A, n: A, kernel: A, shift: A, table: A) -> A:
    """Score a branch of n records with the channels counts[i]."""


@overload(_branch)
def _branch_by_type(counts: A, i: A, n: A, kernel: A, shift: A, table: A) -> A:
    def real(counts: A, i: A, n: A, kernel: A, shift: A, table: A) -> A:
        if n == 0:
            return 0.0
        if kernel == GINI:
            return _squares(counts, i) / n - n
        if kernel == SQUARED:
            return counts[i, 1] * counts[i, 1] / n - counts[i, 2]
        if kernel == MAX:
            return np.float64(_largest(counts, i))
        total = -_n_log_n(n, table)
        for c in range(counts.shape[1]):
            total += _n_log_n(counts[i, c], table)
        return total

    def exact(counts: A, i: A, n: A, kernel: A, shift: A, table: A) -> A:
        if n == 0:
            return np.int64(0)
        if kernel == MAX:
            return np.int64(_largest(counts, i))
        if kernel in (ENTROPY, GAIN):
            total = -table[n]
            for c in range(counts.shape[1]):
                total += table[counts[i, c]]
            return total
        if kernel == GINI:
            squares, rest = _squares(counts, i), np.int64(n)
        else:
            squares = np.int64(counts[i, 1]) * np.int64(counts[i, 1])
            rest = np.int64(counts[i, 2])
        whole = squares // n
        return (whole << shift) + (((squares - whole * n) << shift) // n) - (rest << shift)

    return real if isinstance(table.dtype, types.Float) else exact


@jit
def _n_log_n(n: A, table: A) -> A:
    at = np.int64(n)
    return table[at] if at < table.size else n * np.log2(np.float64(n))


@jit
def _largest(counts: A, i: int) -> A:
    largest = counts[i, 0]
    for c in range(1, counts.shape[1]):
        largest = max(largest, counts[i, c])
    return largest


@jit
def _squares(counts: A, i: int) -> A:
    squares = np.int64(0)
    for c in range(counts.shape[1]):
        squares += np.int64(counts[i, c]) * np.int64(counts[i, c])
    return squares


@jit
def _size(counts: A, i: int, kernel: int) -> A:
    n = counts[i, 0]
    if kernel != SQUARED:
        for c in range(1, counts.shape[1]):
            n += counts[i, c]
    return n


@jit
def score_cuts(
    hist: A, kind: int, kernel: int, leaf: int, shift: int, table: A, lowest: A, work: A, out: A
) -> bool:
    """Score every candidate of one feature in one node.

    From `hist` (bins, channels), with (3, channels) as scratch space. A candidate with fewer than
    `leaf` records in one of two branches gets `lowest`. Returns whether all records lie in one bin.
    """
    n_bins, k = hist.shape
    total, left, right = 0, 1, 2  # rows of `work`
    for c in range(k):
        work[total, c] = work[left, c] = 0
    occupied = 0
    for b in range(n_bins):
        if _size(hist, b, kernel) != 0:
            occupied += 1
            for c in range(k):
                work[total, c] += hist[b, c]
    n = _size(work, total, kernel)
    before = _branch(work, total, n, kernel, shift, table) if kernel == GAIN else table[0]
    if kind == WARY:
        score = -before
        for b in range(n_bins):
            score += _branch(hist, b, _size(hist, b, kernel), kernel, shift, table)
        out[0] = score
        return occupied <= 1
    n_left = n - n
    for b in range(out.size):
        n_here = _size(hist, b, kernel)
        if kind == THRESHOLD and b > 0 and n_here == 0:
            out[b] = out[b - 1]
            continue
        n_left = n_left + n_here if kind == THRESHOLD else n_here
        for c in range(k):
            work[left, c] = work[left, c] + hist[b, c] if kind == THRESHOLD else hist[b, c]
            work[right, c] = work[total, c] - work[left, c]
        if n_left < leaf or n - n_left < leaf:
            out[b] = lowest
        else:
            score = _branch(work, left, n_left, kernel, shift, table) - before
            out[b] = score + _branch(work, right, n - n_left, kernel, shift, table)
    return occupied <= 1


@jit
def _score_histogram(
    hist: A, offset: A, kind: A, first: A, kernel: int, shift: int, table: A, out: A
) -> None:
    work = np.empty((3, hist.shape[2]), hist.dtype)
    for node in range(hist.shape[0]):
        for f in range(kind.size):
            score_cuts(
                hist[node, offset[f] : offset[f + 1]],
                kind[f],
                kernel,
                0,
                shift,
                table,
                table[0],
                work,
                out[node, first[f] : first[f + 1]],
            )


@jit
def _score_unsplit(counts: A, kernel: int, table: A, out: A) -> None:
    for node in range(counts.shape[0]):
        out[node] = _branch(counts, node, _size(counts, node, kernel), kernel, 0, table)


def unsplit_scores(counts: NDArray[Any], criterion: Criterion) -> NDArray[np.float64]:
    """Score nodes (nodes, k) as they are, as one branch."""
    out = np.empty(counts.shape[0], dtype=np.float64)
    kernel = ENTROPY if criterion.kernel == GAIN else criterion.kernel
    _score_unsplit(np.ascontiguousarray(counts), kernel, FLOAT_TABLE, out)
    return out


def integer_scores_from_histogram(
    hist: NDArray[np.int64],
    candidates: Candidates,
    criterion: Criterion,
    public: Public,
    shift: int,
) -> NDArray[np.int64]:
    """Score every candidate exactly from histograms, as `Rows.integer_scores` does.

    Raises H209 for counts below 0, H112 for more records than the capacity: the sensitivity would
    not hold, and tables are read without a look at their bounds.
    """
    if hist.size and hist.min() < 0 and criterion.channels == "classes":
        raise Code.BAD_MECHANISM_INPUT.error(expected="counts of at least 0", found="a lower one")
    sizes = hist[..., 0] if criterion.channels == "sums" else hist.sum(axis=-1)
    ends = candidates.offset[:-1]
    largest = int(np.add.reduceat(sizes, ends, axis=1).max(initial=0))
    if public.capacity is not None and largest > public.capacity:
        raise Code.CAPACITY_EXCEEDED.error(
            found=f"more than {public.capacity} records", expected=f"at most {public.capacity}"
        )
    return _from_histogram(hist, candidates, criterion, shift, criterion.table(public, shift))


def _from_histogram(
    hist: NDArray[Any],
    candidates: Candidates,
    criterion: Criterion,
    shift: int,
    table: NDArray[Any],
) -> NDArray[Any]:
    out = np.empty((hist.shape[0], len(candidates)), dtype=table.dtype)
    _score_histogram(
        np.ascontiguousarray(hist),
        candidates.offset,
        candidates.kinds,
        candidates.first,
        criterion.kernel,
        shift,
        table,
        out,
    )
    return out
