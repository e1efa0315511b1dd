"""Compiled local work of one peer: products by triples, by punctured seeds, and switches."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from hedgerow.compiled import jit
from hedgerow.secure.kernels import array_type, compile_for

Array = NDArray[Any]


def _multiply(d: Array, e: Array, a: Array, b: Array, c: Array, first: bool, out: Array) -> None:
    """Set out to c + d b + a e, and d e more at the first peer."""
    for i in range(out.size):
        out[i] = c[i] + d[i] * (b[i] + e[i] if first else b[i]) + a[i] * e[i]


def _conjoin(d: Array, e: Array, a: Array, b: Array, c: Array, first: bool, out: Array) -> None:
    """Set out to c ^ d b ^ a e on words of bits, and d e more at the first peer."""
    for i in range(out.size):
        out[i] = c[i] ^ (d[i] & (b[i] ^ e[i] if first else b[i])) ^ (a[i] & e[i])


@cache
def _of_triples(function: Any, dtype: str) -> Any:
    given, out = array_type(dtype, 1, "C"), array_type(dtype, 1, "C", written=True)
    return compile_for(function, *(given,) * 5, types.boolean, out)


multiply, conjoin = partial(_of_triples, _multiply), partial(_of_triples, _conjoin)
"""For the name of an element's type, the compiled kernel."""


@jit
def route(order: Array, bits: Array) -> None:
    """Set the switches (2 d - 1, N / 2) of a network of N = 2**d rows: output o is row order[o].

    Layer s has blocks of N / 2**s rows, whose row p and row p + half meet in a switch; so have the
    layers after the middle, backwards. A block sends one of the two on to its upper half and the
    other to its lower, both where rows come in and where they go out. Going round from an output
    to its input, to the other input of that switch, to its output and to the other output of that
    switch gives every row a half.
    Paper: waksman1968permutation.
    """
    n, layers = order.size, bits.shape[0]
    now, after = order.copy(), np.empty_like(order)
    where, inward, outward = np.empty_like(order), np.empty_like(order), np.empty_like(order)
    for level in range((layers + 1) // 2):
        size = n >> level
        half = size // 2
        for start in range(0, n, size):
            first = start // 2
            if half == 1:
                bits[level, first] = now[start]
                continue
            for o in range(size):
                where[now[start + o]] = o
                outward[o] = -1
            for begin in range(size):
                o = begin
                while outward[o] < 0:
                    outward[o], i = 0, now[start + o]
                    other = i - half if i >= half else i + half
                    inward[i], inward[other] = 0, 1
                    o = where[other]
                    outward[o] = 1
                    o = o - half if o >= half else o + half
            for p in range(half):
                bits[level, first + p] = inward[p]
                bits[layers - 1 - level, first + p] = outward[p]
                upper, lower = (p + half, p) if outward[p] else (p, p + half)
                after[start + p] = now[start + upper] % half
                after[start + half + p] = now[start + lower] % half
        now, after = after, now


@jit
def scatter(x: Array, bins: Array, out: Array) -> None:
    """Add rows x (n, c) to the columns of out (c, B) that their bins name."""
    for row in range(x.shape[0]):
        for i in range(x.shape[1]):
            out[i, bins[row]] += x[row, i]


@jit
def send_sums(r: Array, d: Array, hist: Array, first: int) -> None:
    """Take r (k, B, few) from d (k, c), over bins, and add it to hist (c, B), over records."""
    few = min(r.shape[2], d.shape[1] - first)
    for row in range(r.shape[0]):
        for b in range(r.shape[1]):
            for i in range(few):
                d[row, first + i] -= r[row, b, i]
                hist[first + i, b] += r[row, b, i]


@jit
def receive_sums(r: Array, d: Array, bins: Array, hist: Array, first: int) -> None:
    """Add d (k, c) and r (k, B, few) to hist (c, B) at each record's bin; take r elsewhere."""
    few = min(r.shape[2], d.shape[1] - first)
    for row in range(r.shape[0]):
        for b in range(r.shape[1]):
            if b != bins[row]:
                for i in range(few):
                    d[row, first + i] += r[row, b, i]
                    hist[first + i, b] -= r[row, b, i]
        for i in range(few):
            hist[first + i, bins[row]] += d[row, first + i]


@jit
def send_weighted(r: Array, d: Array, weights: Array, out: Array, first: int) -> None:
    """Take r (k, B, few) from d (k, q c), over bins, and add it, times weights (q, B), to out.

    Number `first` of the q c belongs to weight first // c and to column first % c of out (k, c).
    """
    c = out.shape[1]
    for i in range(min(r.shape[2], d.shape[1] - first)):
        own, column = weights[(first + i) // c], (first + i) % c
        for row in range(r.shape[0]):
            for b in range(r.shape[1]):
                d[row, first + i] -= r[row, b, i]
                out[row, column] += r[row, b, i] * own[b]


@jit
def receive_weighted(
    r: Array, d: Array, weights: Array, bins: Array, out: Array, first: int
) -> None:
    """Undo `send_weighted` at each record's bin, whose r is not known; take r elsewhere."""
    c = out.shape[1]
    for i in range(min(r.shape[2], d.shape[1] - first)):
        own, column = weights[(first + i) // c], (first + i) % c
        for row in range(r.shape[0]):
            for b in range(r.shape[1]):
                if b != bins[row]:
                    d[row, first + i] += r[row, b, i]
                    out[row, column] -= r[row, b, i] * own[b]
            out[row, column] += d[row, first + i] * own[bins[row]]


@jit
def send_look_up(r: Array, table: Array, d: Array, found: Array, first: int) -> None:
    """Hide the bytes of a table under the sum of r (k, B, 16), and keep bit b of every r_b.

    `table` has the bits of all entries, of which r has those from number `first`; d is (k, bytes),
    found (q, k).
    """
    n_bins = r.shape[1]
    here = min(8 * r.shape[2], found.shape[0] * n_bins - first)
    for row in range(r.shape[0]):
        for i in range((here + 7) // 8):
            hidden = table[first // 8 + i]
            for b in range(n_bins):
                hidden ^= r[row, b, i]
            d[row, first // 8 + i] = hidden
        for u in range(here):
            entry = first + u
            bit = (r[row, entry % n_bins, u // 8] >> (u % 8)) & 1
            found[entry // n_bins, row] ^= bit


@jit
def receive_look_up(r: Array, d: Array, bins: Array, found: Array, first: int) -> None:
    """Undo `send_look_up` at each record's bin, whose r is not known."""
    n_bins = r.shape[1]
    here = min(8 * r.shape[2], found.shape[0] * n_bins - first)
    for row in range(r.shape[0]):
        own = bins[row]
        for u in range(here):
            entry = first + u
            b = entry % n_bins
            if b != own:
                bit = (r[row, b, u // 8] >> (u % 8)) & 1
            else:
                bit = (d[row, entry // 8] >> (entry % 8)) & 1
                for c in range(n_bins):
                    if c != own:
                        bit ^= (r[row, c, u // 8] >> (u % 8)) & 1
            found[entry // n_bins, row] ^= bit
