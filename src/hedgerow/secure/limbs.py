"""The integers modulo ``2**128``: two words each, the low one first, on the last axis.

The rings of `hedgerow.secure.ring` are types of NumPy and wrap around by themselves; here the carry
between the words is made by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from hedgerow.compiled import jit
from hedgerow.errors import Code

Limbs = NDArray[np.uint64]

LIMBS: Final = 2
"""Words of an element."""
_WORD: Final = 64
_MASK: Final = (1 << _WORD) - 1
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class WideRing:
    """The integers modulo ``2**128``; negative numbers are the upper half."""

    @property
    def bits(self) -> int:
        """Width of an element."""
        return LIMBS * _WORD

    @property
    def bytes(self) -> int:
        """Bytes of an element on the wire."""
        return self.bits // 8

    def encode(self, values: ArrayLike) -> Limbs:
        """Reduce integers into the ring.

        Parameters
        ----------
        values : integers of any NumPy type, or Python's in an array of objects; any shape

        Returns
        -------
        uint64 array, shape (*shape, 2)
        """
        array = np.asarray(values)
        if array.dtype == np.bool_:
            array = array.astype(np.uint8)
        if array.dtype.kind in "iu":
            low = array.astype(np.uint64)
            high = np.where(array < 0, np.uint64(_MASK), np.uint64(0))
            return np.stack([low, high], axis=-1)
        whole = array.reshape(-1).tolist()
        if array.dtype != np.object_ or not all(type(value) is int for value in whole):
            raise Code.WRONG_TYPE.error(
                expected="integers",
                found=f"an array of {array.dtype}",
                fix="scale and round first; give large integers as dtype=object",
            )
        pairs = [(value & _MASK, value >> _WORD & _MASK) for value in whole]
        return np.array(pairs, dtype=np.uint64).reshape(*array.shape, LIMBS)

    def decode(self, elements: Limbs) -> NDArray[np.object_]:
        """Return elements (*shape, 2) as Python's integers from 0 to ``2**128 - 1``."""
        pairs = elements.reshape(-1, LIMBS).tolist()
        out = np.empty(len(pairs), dtype=np.object_)
        out[:] = [low | high << _WORD for low, high in pairs]
        return out.reshape(elements.shape[:-1])


Z128: Final = WideRing()


def add(a: Limbs, b: Limbs, out: Limbs | None = None) -> Limbs:
    """Return a + b; shapes (..., 2) broadcast. `out` may be one of them."""
    # NumPy's functions, as its operators warn where scalars wrap around.
    low = np.add(a[..., 0], b[..., 0])
    # The low words have passed 2**64 exactly where their sum is less than either.
    high = np.add(np.add(a[..., 1], b[..., 1]), low < b[..., 0])
    return _joined(low, high, out)


def subtract(a: Limbs, b: Limbs, out: Limbs | None = None) -> Limbs:
    """Return a - b; shapes (..., 2) broadcast. `out` may be one of them."""
    low = np.subtract(a[..., 0], b[..., 0])
    high = np.subtract(np.subtract(a[..., 1], b[..., 1]), a[..., 0] < b[..., 0])
    return _joined(low, high, out)


def negative(a: Limbs) -> Limbs:
    """Return -a, shape (..., 2)."""
    return subtract(np.zeros(LIMBS, np.uint64), a)


def summed(a: Limbs, fold: Callable[[Limbs], Limbs]) -> Limbs:
    """Return sums of up to ``2**32`` elements.

    Parameters
    ----------
    a : uint64, shape (..., 2)
    fold : callable
        Adds up words modulo ``2**64`` over axes of the elements: `numpy.sum`, `numpy.cumsum`.

    Returns
    -------
    uint64 array, shape (*shape that fold leaves, 2)
    """
    # Sums of half words do not wrap around, so no carry is lost.
    lower, upper = (np.asarray(fold(half)) for half in (a[..., 0] & _LOW, a[..., 0] >> _HALF))
    high = np.asarray(fold(a[..., 1])) + (upper >> _HALF)
    zero = np.zeros_like(lower)
    return add(np.stack([lower, high], axis=-1), np.stack([upper << _HALF, zero], axis=-1))


def multiply(a: Limbs, b: Limbs) -> Limbs:
    """Return a * b; shapes (..., 2) broadcast."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    out = np.empty(shape, np.uint64)
    left, right = (np.ascontiguousarray(np.broadcast_to(v, shape)).reshape(-1) for v in (a, b))
    _kernel_of_products()(left, right, out.reshape(prod(shape)))
    return out


@jit
def _product(a0: Any, a1: Any, b0: Any, b1: Any) -> Any:
    """Return the two words of a * b, from four products of half words.

    Paper: warren2012hackers, section 8.2.
    """
    u0, u1, v0, v1 = a0 & _LOW, a0 >> _HALF, b0 & _LOW, b0 >> _HALF
    lowest, one, other = u0 * v0, u1 * v0, u0 * v1
    # At most 3 (2**32 - 1): what the two middle products and the carry leave in the middle.
    middle = (lowest >> _HALF) + (one & _LOW) + (other & _LOW)
    high = u1 * v1 + (one >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    return a0 * b0, high + a0 * b1 + a1 * b0


def _multiply(a: Limbs, b: Limbs, out: Limbs) -> None:
    """Set out to a * b.

    Parameters
    ----------
    a, b, out : uint64, shape (2 n,)
    """
    for i in range(0, out.size, 2):
        out[i], out[i + 1] = _product(a[i], a[i + 1], b[i], b[i + 1])


def _multiply_shares(
    x0: Limbs, x1: Limbs, y0: Limbs, y1: Limbs, a: Limbs, b: Limbs, out: Limbs
) -> None:
    """Set out to x_0 (y_0 + y_1) + x_1 y_0 + a - b.

    Parameters
    ----------
    x0, x1, y0, y1 : uint64, shape (2 n,)
        The two shares that a server holds of each factor.
    a, b : uint64, shape (2 n,)
        Masks of its two keys; a - b sums to 0 over the servers.
    out : uint64, shape (2 n,)
    """
    for i in range(0, out.size, 2):
        j = i + 1
        s0 = y0[i] + y1[i]
        s1 = y0[j] + y1[j] + np.uint64(s0 < y0[i])
        p0, p1 = _product(x0[i], x0[j], s0, s1)
        q0, q1 = _product(x1[i], x1[j], y0[i], y0[j])
        z0 = p0 + q0
        z1 = p1 + q1 + np.uint64(z0 < p0)
        m0 = a[i] - b[i]
        m1 = a[j] - b[j] - np.uint64(a[i] < b[i])
        out[i] = z0 + m0
        out[j] = z1 + m1 + np.uint64(out[i] < z0)


def _vector(*, written: bool = False) -> Any:
    return types.Array(types.uint64, 1, "C", readonly=not written)


@cache
def _kernel_of_products() -> Any:
    return jit(_multiply, types.void(_vector(), _vector(), _vector(written=True)))


@cache
def multiply_shares(dtype: str) -> Any:
    """Return `_multiply_shares`, compiled; words are the only type there is."""
    assert dtype == "uint64"
    return jit(_multiply_shares, types.void(*(_vector(),) * 6, _vector(written=True)))


def _joined(low: Limbs, high: Limbs, out: Limbs | None) -> Limbs:
    if out is None:
        return np.stack([low, high], axis=-1)
    out[..., 0], out[..., 1] = low, high
    return out
