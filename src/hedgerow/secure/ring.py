"""Rings of integers modulo a power of two, as NumPy's unsigned types wrap around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code


@dataclass(frozen=True)
class Ring:
    """The integers modulo ``2**bits``; negative numbers are the upper half."""

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (16, 32, 64):
            raise Code.BAD_PARAMETER.error(
                expected="a ring of 16, 32 or 64 bits", found=f"{self.bits} bits"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Unsigned NumPy type of an element."""
        return np.dtype(f"u{self.bits // 8}")

    @property
    def bytes(self) -> int:
        """Bytes of an element on the wire."""
        return self.bits // 8

    def encode(self, values: ArrayLike) -> NDArray[Any]:
        """Reduce integers, of either sign and any integer type, into the ring."""
        array = np.asarray(values)
        if array.dtype == np.bool_:
            array = array.astype(np.uint8)
        if array.dtype.kind not in "iu":
            raise Code.WRONG_TYPE.error(
                expected="integers", found=f"an array of {array.dtype}", fix="scale and round first"
            )
        return array.astype(self.dtype)

    def signed(self, elements: NDArray[Any]) -> NDArray[Any]:
        """Read elements as numbers from ``-2**(bits-1)`` to ``2**(bits-1) - 1``."""
        return elements.astype(self.dtype).view(f"i{self.bytes}")


Z16: Final = Ring(16)
Z32: Final = Ring(32)
Z64: Final = Ring(64)


def product_ring(source: Ring, ring: Ring, shift: int) -> Ring:
    """Return the smallest ring whose elements, times ``2**(k-shift)``, fill another ring.

    k is the number of bits of `source`.
    """
    wanted = ring.bits - (source.bits - shift)
    return next(one for one in (Z16, Z32, Z64) if one.bits >= wanted)
