"""Compiled arithmetic that a party does for itself, in whatever engine: matrices, bits, orders.

Rings wrap around as unsigned integers do. NumPy's own matrix product of integers is slow.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, Final, Literal

import numpy as np
from numba import types
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.compiled import jit

Array = NDArray[Any]

ROWS: Final = 128
COLUMNS: Final = 256
"""A panel of the right matrix, 128 x 256 elements, stays in the second-level cache."""
THIN: Final = 8
"""Columns below which products run along rows."""
WORTH_A_THREAD = 1 << 17
"""Products below which handing work to another thread takes longer than the work."""


def add_product(a: Array, b: Array, c: Array, d: Array | None = None) -> None:
    """Add a @ b, or a @ (b + d), to c, unsigned; copies only a right side not in C order."""
    lead, (m, n), k = c.shape[:-2], c.shape[-2:], a.shape[-1]
    extra = b[..., :0, :] if d is None else d
    # One right side for all: its panels are read once for the rows of all left sides.
    one = prod(b.shape[:-2]) == 1
    batch, rows = ((1,), prod(lead) * m) if one else (lead, m)
    left = np.broadcast_to(a, (*lead, m, k)).reshape(prod(batch), rows, k)
    right, other = (
        np.ascontiguousarray(
            np.broadcast_to(v.reshape(v.shape[-2:]) if one else v, (*batch, *v.shape[-2:]))
        ).reshape(prod(batch), *v.shape[-2:])
        for v in (b, extra)
    )
    target = c.reshape(prod(batch), rows, n)
    # The longest axis is cut, so that every thread packs as little as possible for itself.
    axis = int(np.argmax(target.shape))
    longest = target.shape[axis]
    parts = min(threads.available(), longest) if target.size * k >= WORTH_A_THREAD else 1
    # Panels pay for themselves over several rows; a row alone is done as it comes.
    kernel = (_row_kernel if rows == 1 else _panel_kernel)(c.dtype.name)

    def run(p: int) -> None:
        part = np.array([(0, extent) for extent in target.shape])
        part[axis] = longest * p // parts, longest * (p + 1) // parts
        kernel(left, right, other, target, part.reshape(-1))

    threads.run(run, range(parts))


def _product(a: Array, b: Array, d: Array, c: Array, part: Array) -> None:
    """Add a @ (b + d) to c, or a @ b where d has no rows.

    Unsigned, with a leading axis; all but `a` in C order. `part` (int64, shape (6,)) has first and
    last matrix, row and column of c that this call computes.
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


def array_type(dtype: str, ndim: int, layout: Literal["A", "C"], *, written: bool = False) -> Any:
    """Return the type of an array argument of a kernel; `written` where the kernel writes."""
    return types.Array(getattr(types, dtype), ndim, layout, readonly=not written)


def compile_for(function: Any, *arguments: Any) -> Any:
    """Compile for one signature, which arrays of other strides convert to: once and for all."""
    return jit(function, types.void(*arguments))


@cache
def _panel_kernel(dtype: str) -> Any:
    return _of_matrices(_product, dtype)


@cache
def _row_kernel(dtype: str) -> Any:
    return _of_matrices(_rows, dtype)


def _of_matrices(function: Any, dtype: str) -> Any:
    left, right = array_type(dtype, 3, "A"), array_type(dtype, 3, "C")
    out, part = array_type(dtype, 3, "C", written=True), array_type("int64", 1, "C")
    return compile_for(function, left, right, right, out, part)


@jit
def order(words: Array, n: int) -> Array:
    """Return a uniform permutation of 0..n-1 (Fisher-Yates) from n or more uniform words.

    A word is rejected with probability below n / 2**64, so a handful of spare ones never runs out.
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


def bit_planes(values: Array, bits: int) -> Array:
    """Return the lowest bits of unsigned values (n,) as packed planes (bits, ceil(n / 64))."""
    planes = np.empty((bits, -(-values.size // 64)), np.uint64)
    transpose(np.ascontiguousarray(values), planes)
    return planes


@jit
def transpose(values: Array, planes: Array) -> None:
    """Set bit i of plane j to bit j of value i; the padding becomes 0.

    Eight blocks of 64 x 64 bits at a time, so that each operation fills a vector register and a
    plane is written by cache lines.
    Paper: warren2012hackers, section 7.3.

    Unsigned (n,) to uint64 (bits, ceil(n / 64)).
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
