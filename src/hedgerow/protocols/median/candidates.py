"""Compiled candidates of private medians: counts of a node to balances, a number to a cut.

A candidate divides the records of a node into `left` and the rest; its score is the balance
-abs(2 left - n), which one record moves by 1. Candidates of one ask are numbered from 0:

* numeric: the cut after bin low + j;
* up to `EXHAUSTIVE` possible categories: the set bits of j + 1 go left, of the possible categories
  but the first, which stays right: each bipartition once;
* above: the random bipartitions that separate possible categories.
"""

from __future__ import annotations

import numpy as np

from hedgerow.compiled import A, jit
from hedgerow.protocols.median.ranges import EXHAUSTIVE


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
def candidates_of(
    ask: int,
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
    left: A,
    names: A,
    members: A,
) -> tuple[int, int, int]:
    """Fill `left` for one ask; return how many candidates, how many members, and the records."""
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
def write_cut(
    pick: int,
    ask: int,
    k: int,
    nodes: A,
    features: A,
    low: A,
    tables: A,
    names: A,
    members: A,
    cuts: A,
    subset_row: A,
    subsets: A,
) -> None:
    """Write a picked candidate: a bin, or the row of `subsets` that says which bins go left."""
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
