"""Compiled local arithmetic of one server: products, conjunctions, flips.

Rings wrap around as unsigned integers do. A kernel works on one server's shares; which thread does
what is the caller's business.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from numba import types
from numpy.typing import NDArray

from hedgerow.secure.kernels import array_type, compile_for

Array = NDArray[Any]


def _multiply(x0: Array, x1: Array, y0: Array, y1: Array, a: Array, b: Array, out: Array) -> None:
    """Set out to x_0 y_0 + x_0 y_1 + x_1 y_0 + a - b.

    A server holds two shares of each factor. `a` and `b` are masks of its two keys; a - b sums to 0
    over the servers.
    """
    for i in range(out.size):
        out[i] = x0[i] * (y0[i] + y1[i]) + x1[i] * y0[i] + a[i] - b[i]


def _conjoin(x0: Array, x1: Array, y0: Array, y1: Array, a: Array, b: Array, out: Array) -> None:
    """Set out to x_0 y_0 ^ x_0 y_1 ^ x_1 y_0 ^ a ^ b on words of bits, as `_multiply` does."""
    for i in range(out.size):
        out[i] = (x0[i] & (y0[i] ^ y1[i])) ^ (x1[i] & y0[i]) ^ a[i] ^ b[i]


def _flip(c: Array, d: Array, plus: Any, out: Array) -> None:
    """Set out to ``plus - c`` where the bit d (uint8) is set, else to c."""
    for i in range(out.size):
        out[i] = plus - c[i] if d[i] else c[i]


@cache
def _of_two_shares(function: Any, dtype: str) -> Any:
    given, out = array_type(dtype, 1, "C"), array_type(dtype, 1, "C", written=True)
    return compile_for(function, *(given,) * 6, out)


multiply, conjoin = partial(_of_two_shares, _multiply), partial(_of_two_shares, _conjoin)
"""For the name of an element's type, the compiled kernel."""


@cache
def flip(dtype: str) -> Any:
    """Return `_flip` for elements of a type."""
    given, out = array_type(dtype, 1, "C"), array_type(dtype, 1, "C", written=True)
    return compile_for(_flip, given, array_type("uint8", 1, "C"), getattr(types, dtype), out)
