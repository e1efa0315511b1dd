"""Compiled private medians: counts of a node to a cut, by exact coins, without a matrix of scores.

Candidates, their numbers and their balances are those of `hedgerow.protocols.median.candidates`.
The draws are those of `hedgerow.privacy.mechanisms.coin_kernels.rejecting_choice`: propose, keep
with probability exp(-a gap). Proposals follow the base measure of the grid; permute-and-flip knows
none and proposes uniformly. Bytes that run out are added behind, so that running out never changes
the law.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hedgerow.compiled import A, jit
from hedgerow.privacy.mechanisms.coin_kernels import DONE, HEADS, MORE_BYTES, below, flip
from hedgerow.protocols.median.candidates import best_balance, candidates_of, write_cut
from hedgerow.protocols.median.ranges import SAMPLED

REPLACE: Final = 0
"""The exponential mechanism: a candidate that was not kept may be proposed again."""
LEAVE_OUT: Final = 1
"""Permute-and-flip."""
BEST: Final = 2
"""No noise: the first candidate of the best balance."""


@jit
def _propose(
    stream: A, at: int, size: int, f: int, first: int, measure: A, measure_first: A, uniform: A
) -> tuple[int, int]:
    """Propose one of `size` cuts from bin `first` on, by the width of the bin below each."""
    if uniform[f]:
        return below(stream, at, size)
    begin = measure_first[f] + first
    at, mass = below(stream, at, measure[begin + size] - measure[begin])
    if mass < 0:
        return at, mass
    inner, outer = 0, size - 1
    while inner < outer:
        middle = (inner + outer) // 2
        if measure[begin + middle + 1] - measure[begin] > mass:
            outer = middle
        else:
            inner = middle + 1
    return at, inner


@jit
def draw_cuts(
    counts: A,
    offsets: A,
    nodes: A,
    features: A,
    categorical: A,
    place: A,
    measure: A,
    measure_first: A,
    uniform: A,
    low: A,
    high: A,
    possible: A,
    tables: A,
    mode: int,
    widest: int,
    cuts: A,
    subset_row: A,
    subsets: A,
    begin: int,
    end: int,
    row: int,
    stream: A,
    coins: A,
) -> tuple[int, int, int]:
    """Draw the median of the asks begin + row to end; see the head of this module.

    Parameters
    ----------
    counts, offsets, nodes, features
        Histograms of the asks, as `ForestCounts.histogram` returns them.
    categorical, place, measure, measure_first, uniform
        Of `Attributes`.
    low, high, possible
        Of `Ranges`.
    tables : uint64, shape (d, SAMPLED, words), or (0, SAMPLED, 1)
    mode : int
        REPLACE, LEAVE_OUT or BEST.
    widest : int
        Candidates of an ask at most.
    cuts : int32, shape (asks,)
        Written.
    subset_row : int64, shape (asks,)
        Row of `subsets` that belongs to an ask, -1 if numeric.
    subsets : bool, shape (categorical asks, widest categorical attribute)
        Written; True goes left.
    stream, coins
        Random bytes, and the constants of the coins exp(-a 2^i).

    Returns
    -------
    tuple of int
        The ask (from `begin`) it has come to, the position of its first byte, and a status.
    """
    left = np.empty(max(widest, SAMPLED), np.int64)
    names = np.empty(SAMPLED, np.int64)
    members = np.empty(subsets.shape[1], np.int64)
    # Entry j of the random order is j unless stamped by this ask: no order has to be written out.
    order = np.empty(left.size, np.int64)
    stamp = np.full(left.size, -1, np.int64)
    at = 0
    for r in range(row, end - begin):
        ask, mark = begin + r, at
        size, k, n = candidates_of(
            ask,
            counts,
            offsets,
            nodes,
            features,
            categorical,
            place,
            low,
            high,
            possible,
            tables,
            left,
            names,
            members,
        )
        pick, gone, best = 0, 0, np.int64(0)
        f = features[ask]
        if n > 0:
            pick = best_balance(left, size, n, k == 0)
            best = abs(2 * left[pick] - n)
        while mode != BEST:
            if mode == REPLACE and k == 0:
                at, pick = _propose(
                    stream, at, size, f, low[nodes[ask], f], measure, measure_first, uniform
                )
            else:
                at, pick = below(stream, at, size - gone)
            if pick < 0:
                return r, mark, MORE_BYTES
            if n == 0:
                break
            slot = gone + pick
            if mode == LEAVE_OUT:
                pick = order[slot] if stamp[slot] == r else slot
            gap = abs(2 * left[pick] - n) - best
            side = HEADS
            i = 62
            while gap > 0 and side == HEADS:
                if gap >> i:
                    at, side = flip(stream, at, coins[i])
                    gap -= 1 << i
                i -= 1
            if side < 0:
                return r, mark, side
            if side == HEADS:
                break
            if mode == LEAVE_OUT:
                order[slot] = order[gone] if stamp[gone] == r else gone
                stamp[slot] = r
                gone += 1
        write_cut(
            pick,
            ask,
            k,
            nodes,
            features,
            low,
            tables,
            names,
            members,
            cuts,
            subset_row,
            subsets,
        )
    return end - begin, at, DONE


@jit
def balance_scores(
    counts: A,
    offsets: A,
    nodes: A,
    features: A,
    categorical: A,
    place: A,
    low: A,
    high: A,
    possible: A,
    tables: A,
    scores: A,
    valid: A,
) -> None:
    """Write the balance of every candidate, int64 and bool (asks, widest), for noisy max."""
    left = np.empty(max(scores.shape[1], SAMPLED), np.int64)
    names = np.empty(SAMPLED, np.int64)
    members = np.empty(left.size + possible.shape[1] + 1, np.int64)
    for ask in range(nodes.size):
        size, _, n = candidates_of(
            ask,
            counts,
            offsets,
            nodes,
            features,
            categorical,
            place,
            low,
            high,
            possible,
            tables,
            left,
            names,
            members,
        )
        for j in range(scores.shape[1]):
            valid[ask, j] = j < size
            scores[ask, j] = -abs(2 * left[j] - n) if n > 0 and j < size else 0


@jit
def write_picks(
    picks: A,
    counts: A,
    offsets: A,
    nodes: A,
    features: A,
    categorical: A,
    place: A,
    low: A,
    high: A,
    possible: A,
    tables: A,
    widest: int,
    cuts: A,
    subset_row: A,
    subsets: A,
) -> None:
    """Turn candidates that were picked by their number into cuts and subsets."""
    left = np.empty(max(widest, SAMPLED), np.int64)
    names = np.empty(SAMPLED, np.int64)
    members = np.empty(subsets.shape[1], np.int64)
    for ask in range(nodes.size):
        _, k, _ = candidates_of(
            ask,
            counts,
            offsets,
            nodes,
            features,
            categorical,
            place,
            low,
            high,
            possible,
            tables,
            left,
            names,
            members,
        )
        write_cut(
            picks[ask],
            ask,
            k,
            nodes,
            features,
            low,
            tables,
            names,
            members,
            cuts,
            subset_row,
            subsets,
        )
