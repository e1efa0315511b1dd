"""Compiled private medians: counts of a node to a cut, by exact coins, without a matrix of scores.

A candidate divides the records of a node into `left` and the rest; its score is the balance
-abs(2 left - n), which one record moves by 1. Candidates of one ask are numbered from 0:

* numeric: the cut after bin low + j;
* up to `EXHAUSTIVE` possible categories: the set bits of j + 1 go left, of the possible categories
  but the first, which stays right: each bipartition once;
* above: the random bipartitions that separate possible categories.

The draws are those of `hedgerow.privacy.mechanisms.coin_kernels.rejecting_choice`: propose, keep
with probability exp(-a gap). Proposals follow the base measure of the grid; permute-and-flip knows
none and proposes uniformly. Bytes that run out are added behind, so that running out never changes
the law.

Kernels take arrays together that belong together:

* `asks`: counts, offsets, nodes, features; histograms as `ForestCounts.histogram` returns them;
* `domain`: categorical and place of `Attributes`;
* `limits`: low, high and possible of `Ranges`, and the tables of `Attributes.bipartitions`, uint64
  (d, SAMPLED, words) or (0, SAMPLED, 1);
* `scratch`: left, names, members; what `candidates_of` writes for one ask;
* `written`: cuts, int32 (asks,); subset_row, int64 (asks,), the row of `subsets` that belongs to an
  ask, -1 if numeric; subsets, bool (categorical asks, widest attribute), True goes left.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hedgerow.compiled import A, jit
from hedgerow.privacy.mechanisms.coin_kernels import DONE, HEADS, MORE_BYTES, below, flip
from hedgerow.protocols.median.ranges import EXHAUSTIVE, SAMPLED

REPLACE: Final = 0
"""The exponential mechanism: a candidate that was not kept may be proposed again."""
LEAVE_OUT: Final = 1
"""Permute-and-flip."""
BEST: Final = 2
"""No noise: the first candidate of the best balance."""


@jit
def _numeric(counts: A, at: int, low: int, high: int, left: A) -> A:
    """Set left[j] for the cut after bin low + j; return the records in all.

    Of an empty node nothing is set: every cut is as good.
    """
    n = np.int64(0)
    for b in range(at + low, at + high + 1):
        n += counts[b]
    if n > 0:
        total = np.int64(0)
        for j in range(high - low):
            total += counts[at + low + j]
            left[j] = total
    return n


@jit
def _exhaustive(counts: A, at: int, members: A, k: int, left: A) -> A:
    """Set left[s - 1] for every set s of the members but the first; return the records in all."""
    total = counts[at + members[0]]
    for i in range(k - 1):
        more = counts[at + members[i + 1]]
        total += more
        bit = 1 << i
        left[bit - 1] = more
        for rest in range(1, bit):
            left[bit + rest - 1] = left[rest - 1] + more
    return total


@jit
def _sampled(counts: A, at: int, members: A, k: int, tables: A, left: A, names: A) -> tuple[int, A]:
    """Set left and names for the bipartitions that separate; return how many, and the records."""
    n_words = tables.shape[1]
    inside = np.zeros(n_words, np.uint64)
    occupied = np.empty(k, np.int64)
    filled, total = 0, np.int64(0)
    for i in range(k):
        b = members[i]
        inside[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
        if counts[at + b] != 0:
            occupied[filled] = b
            filled += 1
            total += counts[at + b]
    size = 0
    for t in range(tables.shape[0]):
        some, every = False, True
        for w in range(n_words):
            chosen = tables[t, w] & inside[w]
            some |= chosen != 0
            every &= chosen == inside[w]
        if not some or every:
            continue
        records = np.int64(0)
        for i in range(filled):
            b = occupied[i]
            if (tables[t, b >> 6] >> np.uint64(b & 63)) & np.uint64(1):
                records += counts[at + b]
        left[size] = records
        names[size] = t
        size += 1
    if size == 0:
        # No table separates them: the first against the rest.
        left[0], names[0], size = counts[at + members[0]], -1, 1
    return size, total


@jit
def _members(possible: A, node: int, begin: int, end: int, members: A) -> int:
    k = 0
    for b in range(end - begin):
        if possible[node, begin + b]:
            members[k] = b
            k += 1
    return k


@jit
def candidates_of(ask: int, asks: A, domain: A, limits: A, scratch: A) -> tuple[int, int, int]:
    """Fill `left` for one ask; return how many candidates, how many members, and the records."""
    counts, offsets, nodes, features = asks
    categorical, place = domain
    low, high, possible, tables = limits
    left, names, members = scratch
    p, f, at = nodes[ask], features[ask], offsets[ask]
    if not categorical[f]:
        n = _numeric(counts, at, low[p, f], high[p, f], left)
        return high[p, f] - low[p, f], 0, n
    k = _members(possible, p, place[f], place[f + 1], members)
    if k <= EXHAUSTIVE:
        return (1 << (k - 1)) - 1, k, _exhaustive(counts, at, members, k, left)
    size, n = _sampled(counts, at, members, k, tables[f], left, names)
    return size, k, n


@jit
def best_balance(left: A, size: int, n: int, rising: bool) -> int:
    """Return the first candidate of the best balance; `rising` if `left` never falls."""
    if not rising:
        best, best_at = abs(2 * left[0] - n), 0
        for j in range(1, size):
            balance = abs(2 * left[j] - n)
            if balance < best:
                best, best_at = balance, j
        return best_at
    # The first cut with at least half of the records to its left, or the last that has less;
    # of equal ones before it the first.
    above = _first_above(left, size, n)
    if above == size or (above > 0 and n - 2 * left[above - 1] <= 2 * left[above] - n):
        return _first_above(left, size, 2 * left[above - 1])
    return above


@jit
def _first_above(left: A, size: int, twice: int) -> int:
    """Return the first j with 2 left[j] >= twice, or `size`."""
    inner, outer = 0, size
    while inner < outer:
        middle = (inner + outer) // 2
        if 2 * left[middle] >= twice:
            outer = middle
        else:
            inner = middle + 1
    return inner


@jit
def _write_cut(pick: int, ask: int, k: int, asks: A, limits: A, scratch: A, written: A) -> None:
    """Write a picked candidate: a bin, or the row of `subsets` that says which bins go left."""
    _, _, nodes, features = asks
    low, _, _, tables = limits
    _, names, members = scratch
    cuts, subset_row, subsets = written
    p, f = nodes[ask], features[ask]
    if k == 0:
        cuts[ask] = low[p, f] + pick
        return
    row = subset_row[ask]
    cuts[ask] = row
    for i in range(k):
        b = members[i]
        if k <= EXHAUSTIVE:
            inside = i > 0 and ((pick + 1) >> (i - 1)) & 1 != 0
        elif names[pick] < 0:
            inside = i == 0
        else:
            bit = tables[f, names[pick], b >> 6] >> np.uint64(b & 63)
            inside = bit & np.uint64(1) != 0
        subsets[row, b] = inside


@jit
def _propose(stream: A, at: int, size: int, f: int, first: int, measures: A) -> tuple[int, int]:
    """Propose one of `size` cuts from bin `first` on, by the width of the bin below each."""
    measure, measure_first, uniform = measures
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
    asks: A,
    domain: A,
    measures: A,
    limits: A,
    mode: int,
    widest: int,
    written: A,
    begin: int,
    end: int,
    row: int,
    stream: A,
    coins: A,
) -> tuple[int, int, int]:
    """Draw the median of the asks begin + row to end.

    `measures` are measure, measure_first and uniform of `Attributes`; `mode` is REPLACE, LEAVE_OUT
    or BEST; no ask has more than `widest` candidates; `stream` are random bytes, and `coins` the
    constants of the coins exp(-a 2^i). Returns the ask (from `begin`) it has come to, the position
    of its first byte, and a status.
    """
    _, _, nodes, features = asks
    low, _, _, _ = limits
    left = np.empty(max(widest, SAMPLED), np.int64)
    scratch = (left, np.empty(SAMPLED, np.int64), np.empty(written[2].shape[1], np.int64))
    # Entry j of the random order is j unless stamped by this ask: no order has to be written out.
    order = np.empty(left.size, np.int64)
    stamp = np.full(left.size, -1, np.int64)
    at = 0
    for r in range(row, end - begin):
        ask, mark = begin + r, at
        size, k, n = candidates_of(ask, asks, domain, limits, scratch)
        pick, gone, best = 0, 0, np.int64(0)
        f = features[ask]
        if n > 0:
            pick = best_balance(left, size, n, k == 0)
            best = abs(2 * left[pick] - n)
        while mode != BEST:
            if mode == REPLACE and k == 0:
                at, pick = _propose(stream, at, size, f, low[nodes[ask], f], measures)
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
        _write_cut(pick, ask, k, asks, limits, scratch, written)
    return end - begin, at, DONE


@jit
def balance_scores(asks: A, domain: A, limits: A, scores: A, valid: A) -> None:
    """Write the balance of every candidate, int64 and bool (asks, widest), for noisy max."""
    left = np.empty(max(scores.shape[1], SAMPLED), np.int64)
    members = np.empty(left.size + limits[2].shape[1] + 1, np.int64)
    scratch = (left, np.empty(SAMPLED, np.int64), members)
    for ask in range(scores.shape[0]):
        size, _, n = candidates_of(ask, asks, domain, limits, scratch)
        for j in range(scores.shape[1]):
            valid[ask, j] = j < size
            scores[ask, j] = -abs(2 * left[j] - n) if n > 0 and j < size else 0


@jit
def write_picks(picks: A, asks: A, domain: A, limits: A, widest: int, written: A) -> None:
    """Turn candidates that were picked by their number into cuts and subsets."""
    left = np.empty(max(widest, SAMPLED), np.int64)
    scratch = (left, np.empty(SAMPLED, np.int64), np.empty(written[2].shape[1], np.int64))
    for ask in range(picks.size):
        _, k, _ = candidates_of(ask, asks, domain, limits, scratch)
        _write_cut(picks[ask], ask, k, asks, limits, scratch, written)
