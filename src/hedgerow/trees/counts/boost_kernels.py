"""Kernels of private boosting: whole gradients of some rows, summed up by leaf."""

from __future__ import annotations

import numpy as np

from hedgerow.compiled import A, jit

LOGISTIC, SOFTMAX, SQUARED = 0, 1, 2
"""Losses."""

# Keeps a vector that was scaled to the limit below it, whatever the rounding of its parts.
_INSIDE = 1 - 1e-9


@jit
def _leaf(columns: A, i: int, features: A, tables: A) -> int:
    leaf = 0
    for q in range(features.size):
        leaf += tables[q, columns[features[q], i]]
    return leaf


@jit
def add_gradients(
    columns: A,
    present: A,
    target: A,
    scores: A,
    start: int,
    stop: int,
    features: A,
    tables: A,
    loss: int,
    half: float,
    limit: int,
    unit: float,
    out: A,
) -> None:
    """Add the clipped gradients of the rows from `start` to `stop` to their leaves.

    A gradient is how far the target lies above the score's prediction. In units of ``1 / unit``
    it is a vector of whole numbers whose length is at most `limit`, for every row and score.

    `columns`: uint8 or uint16 (d, n). `present`: bool (n,); rows that count. `target`: unsigned
    class index or int64 units (n,). `scores`: float64 (n, k). `features`: int64 (q,). `tables`:
    int64 (q, widest bins); what a bin adds to the number of the leaf. `loss`: one of the constants
    above. `half`: units of the target that make 1; used by SQUARED. `out`: int64 (leaves, k).
    """
    k = scores.shape[1]
    gradient = np.zeros(k)
    for i in range(start, stop):
        if not present[i]:
            continue
        leaf = _leaf(columns, i, features, tables)
        if loss == SOFTMAX:
            top = scores[i, 0]
            for c in range(1, k):
                top = max(top, scores[i, c])
            total = 0.0
            for c in range(k):
                gradient[c] = np.exp(scores[i, c] - top)
                total += gradient[c]
            square = 0.0
            for c in range(k):
                gradient[c] = (1.0 if target[i] == c else 0.0) - gradient[c] / total
                square += gradient[c] * gradient[c]
            length = np.sqrt(square) * unit
            scale = unit if length * _INSIDE <= limit else unit * limit / length
            for c in range(k):
                part = gradient[c] * scale * _INSIDE
                # Towards 0: no part gets longer. What is no number counts as nothing.
                if part == part:
                    out[leaf, c] += np.int64(part)
        else:
            if loss == LOGISTIC:
                reached = 1.0 / (1.0 + np.exp(-scores[i, 0]))
                found = (1.0 if target[i] == 1 else 0.0) - reached
            else:
                found = target[i] / half - scores[i, 0]
            # Compared as a float first: a score may be too large for an integer. What is no
            # number counts as nothing.
            found = min(max(np.rint(found * unit), -float(limit)), float(limit))
            if found == found:
                out[leaf, 0] += np.int64(found)


@jit
def add_values(
    columns: A, start: int, stop: int, features: A, tables: A, values: A, scores: A
) -> None:
    """Add the value of each row's leaf to its scores.

    `columns`, `features`, `tables`: as in `add_gradients`. `values`: float64 (leaves, k). `scores`:
    float64 (n, k); changed in place.
    """
    for i in range(start, stop):
        leaf = _leaf(columns, i, features, tables)
        for c in range(scores.shape[1]):
            scores[i, c] += values[leaf, c]
