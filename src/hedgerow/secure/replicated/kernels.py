"""Compiled local arithmetic of one server: products, conjunctions, matrix products.

Rings wrap around as unsigned integers do. A kernel works on one server's shares; which thread does
what is the caller's business.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numba import types
from numpy.typing import NDArray

from hedgerow.compiled import jit

Array = NDArray[Any]

ROWS: Final = 128
COLUMNS: Final = 256
"""A panel of the right matrix, 128 x 256 elements, stays in the second-level cache."""
THIN: Final = 8
"""Columns below which products run along rows."""


def _multiply(x0: Array, x1: Array, y0: Array, y1: Array, a: Array, b: Array, out: Array) -> None:
    """Set out to x_0 y_0 + x_0 y_1 + x_1 y_0 + a - b.

    Parameters
    ----------
    x0, x1, y0, y1 : unsigned, shape (n,)
        The two shares that a server holds of each factor.
    a, b : unsigned, shape (n,)
        Masks of its two keys; a - b sums to 0 over the servers.
    out : unsigned, shape (n,)
    """
    for i in range(out.size):
        out[i] = x0[i] * (y0[i] + y1[i]) + x1[i] * y0[i] + a[i] - b[i]


def _conjoin(x0: Array, x1: Array, y0: Array, y1: Array, a: Array, b: Array, out: Array) -> None:
    """Set out to x_0 y_0 ^ x_0 y_1 ^ x_1 y_0 ^ a ^ b on words of bits, as `_multiply` does."""
    for i in range(out.size):
        out[i] = (x0[i] & (y0[i] ^ y1[i])) ^ (x1[i] & y0[i]) ^ a[i] ^ b[i]


def _flip(c: Array, d: Array, plus: Any, out: Array) -> None:
    """Set out to ``plus - c`` where the bit d is set, else to c.

    Parameters
    ----------
    c : unsigned, shape (n,)
    d : uint8, shape (n,)
    plus : unsigned
    out : unsigned, shape (n,)
    """
    for i in range(out.size):
        out[i] = plus - c[i] if d[i] else c[i]


def _product(a: Array, b: Array, d: Array, c: Array, part: Array) -> None:
    """Add a @ (b + d) to c, or a @ b where d has no rows.

    Parameters
    ----------
    a : unsigned, shape (s, m, k)
        Of any strides.
    b : unsigned, shape (s, k, n), C order
    d : unsigned, shape (s, k, n) or (s, 0, n), C order
    c : unsigned, shape (s, m, n), C order
    part : int64, shape (6,)
        First and last matrix, row and column of c that this call computes.
    """
    k = a.shape[2]
    both = d.shape[1] > 0
    panel = np.empty((ROWS, COLUMNS), b.dtype)
    flipped = np.empty((THIN, ROWS), b.dtype)
    row = np.empty(ROWS, a.dtype)
    for s in range(part[0], part[1]):
        for left in range(part[4], part[5], COLUMNS):
            width = min(COLUMNS, part[5] - left)
            for top in range(0, k, ROWS):
                depth = min(ROWS, k - top)
                for p in range(depth):
                    if both:
                        for j in range(width):
                            panel[p, j] = b[s, top + p, left + j] + d[s, top + p, left + j]
                    else:
                        for j in range(width):
                            panel[p, j] = b[s, top + p, left + j]
                if width <= THIN:
                    for p in range(depth):
                        for j in range(width):
                            flipped[j, p] = panel[p, j]
                for i in range(part[2], part[3]):
                    for p in range(depth):
                        row[p] = a[s, i, top + p]
                    line = c[s, i, left : left + width]
                    if width <= THIN:
                        # Too few columns to fill a vector: sum along the row instead.
                        for j in range(width):
                            total = row[0] - row[0]
                            for p in range(depth):
                                total += row[p] * flipped[j, p]
                            line[j] += total
                        continue
                    # Four rows of the panel at a time: one load and store of c for four products.
                    p = 0
                    while p + 4 <= depth:
                        f0, f1, f2, f3 = row[p], row[p + 1], row[p + 2], row[p + 3]
                        p0, p1, p2, p3 = panel[p], panel[p + 1], panel[p + 2], panel[p + 3]
                        for j in range(width):
                            line[j] += f0 * p0[j] + f1 * p1[j] + f2 * p2[j] + f3 * p3[j]
                        p += 4
                    while p < depth:
                        for j in range(width):
                            line[j] += row[p] * panel[p, j]
                        p += 1


def _rows(a: Array, b: Array, d: Array, c: Array, part: Array) -> None:
    """Do what `_product` does without panels, which takes less where left sides have one row."""
    both = d.shape[1] > 0
    for s in range(part[0], part[1]):
        for i in range(part[2], part[3]):
            for p in range(a.shape[2]):
                factor = a[s, i, p]
                for j in range(part[4], part[5]):
                    term = b[s, p, j] + d[s, p, j] if both else b[s, p, j]
                    c[s, i, j] += factor * term


def _array(dtype: str, ndim: int, layout: Literal["A", "C"], *, written: bool = False) -> Any:
    return types.Array(getattr(types, dtype), ndim, layout, readonly=not written)


def _compiled(function: Any, *arguments: Any) -> Any:
    """Compile for one signature, which arrays of other strides convert to: once and for all."""
    return jit(function, types.void(*arguments))


@cache
def multiply(dtype: str) -> Any:
    """Return `_multiply` for elements of a type."""
    given, out = _array(dtype, 1, "C"), _array(dtype, 1, "C", written=True)
    return _compiled(_multiply, *(given,) * 6, out)


@cache
def conjoin(dtype: str) -> Any:
    """Return `_conjoin` for words of a type."""
    given, out = _array(dtype, 1, "C"), _array(dtype, 1, "C", written=True)
    return _compiled(_conjoin, *(given,) * 6, out)


@cache
def flip(dtype: str) -> Any:
    """Return `_flip` for elements of a type."""
    given, out = _array(dtype, 1, "C"), _array(dtype, 1, "C", written=True)
    return _compiled(_flip, given, _array("uint8", 1, "C"), getattr(types, dtype), out)


@cache
def product(dtype: str) -> Any:
    """Return `_product` for elements of a type."""
    return _of_matrices(_product, dtype)


@cache
def rows(dtype: str) -> Any:
    """Return `_rows` for elements of a type."""
    return _of_matrices(_rows, dtype)


def _of_matrices(function: Any, dtype: str) -> Any:
    left, right = _array(dtype, 3, "A"), _array(dtype, 3, "C")
    out, part = _array(dtype, 3, "C", written=True), _array("int64", 1, "C")
    return _compiled(function, left, right, right, out, part)


@jit
def order(words: Array, n: int) -> Array:
    """Return a uniform permutation of 0..n-1 (Fisher-Yates) from uniform words.

    Parameters
    ----------
    words : uint64, shape (n + spare,)
        A word is rejected with probability below n / 2**64, so a handful of spare ones never runs
        out.
    """
    result = np.arange(n)
    at = 0
    for last in range(n - 1, 0, -1):
        bound = np.uint64(last + 1)
        # 2**64 modulo the bound: words below it would make small results too likely.
        least = (np.uint64(0) - bound) % bound
        while words[at] < least:
            at += 1
        other = np.int64(words[at] % bound)
        at += 1
        result[last], result[other] = result[other], result[last]
    return result


@jit
def transpose(values: Array, planes: Array) -> None:
    """Set bit i of plane j to bit j of value i; the padding becomes 0.

    Eight blocks of 64 x 64 bits at a time, so that each operation fills a vector register and a
    plane is written by cache lines.
    Paper: warren2012hackers, section 7.3.

    Parameters
    ----------
    values : unsigned, shape (n,)
    planes : uint64, shape (bits, ceil(n / 64))
    """
    n, (bits, width) = values.size, planes.shape
    block = np.empty((64, 8), np.uint64)
    for first in range(0, width, 8):
        used = min(8, width - first)
        for q in range(8):
            start = 64 * (first + q)
            filled = min(64, max(0, n - start))
            for r in range(filled):
                block[r, q] = values[start + r]
            for r in range(filled, 64):
                block[r, q] = 0
        half, mask = 32, np.uint64(0xFFFFFFFF)
        while half:
            shift = np.uint64(half)
            for r in range(0, 64, 2 * half):
                for s in range(r, r + half):
                    for q in range(8):
                        swap = ((block[s, q] >> shift) ^ block[s + half, q]) & mask
                        block[s + half, q] ^= swap
                        block[s, q] ^= swap << shift
            half >>= 1
            mask ^= mask << np.uint64(half)
        for j in range(bits):
            for q in range(used):
                planes[j, first + q] = block[j, q]
