"""The distribution function of a discrete Gaussian variable, exact to any number of bits.

The mass at k >= 0 is w_k exp(-x k^2) / W with x = 1 / (2 sigma^2) a public rational, w_k = 1 for
the half on k >= 0, or w_0 = 1 and w_k = 2 for the absolute value of the variable, and W the sum
over all k. A table holds T_k = floor(2^bits C_k), C_k = P[variable <= k], until 2^bits - 1 is
reached. Let U be uniform in [0, 1) and u its first `bits` bits. The variable is the smallest k
with U < C_k, and u decides that: U < C_k if u < T_k, U > C_k if u > T_k. Where u = T_k the
next bits of both are needed (`resolve`), which happens about once in 2^50 draws of 63 bits.
So the draws are exact: nothing is rounded and no tail is cut off.

Arithmetic is on whole numbers with rigorous error bounds. With F fraction bits, e = exp(-x) and
s = exp(-2x) are known within one unit; r_k = e s^k and g_k = exp(-x k^2) follow from
r_(k+1) = r_k s and g_(k+1) = g_k r_k, factors that are at most 1, so that a product adds up the
errors of its factors and one unit of its own: r_k is within 2k + 1 units, g_k within k^2 + k. What
is left out of W beyond K is less than twice g_K r_K / (1 - r_K).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.coins import expansion

WORD_BITS = 63
"""Bits of a 64-bit word that a draw compares with the table; the last one is the sign."""
_GUARD = 64


@dataclass(frozen=True)
class GaussianTable:
    """The law of |G|, or of G given G >= 0 (`halves`), for a discrete Gaussian variable G.

    `x` is 1 / (2 sigma^2).
    """

    x: Fraction
    halves: bool

    def floors(self, bits: int) -> tuple[int, ...]:
        """Return T_k = floor(2^bits C_k) for k = 0, 1, ..., the last one 2^bits - 1."""
        return _floors(self, bits)

    def words(self, bits: int) -> NDArray[np.uint64]:
        """Return the same as 64-bit words; `bits` is at most 63."""
        return _words(self, bits)

    def resolve(self, u: int, bits: int, more: Callable[[], int]) -> int:
        """Return the value of the uniform number that begins with the `bits` bits of `u`.

        `more` draws the next 64 bits.
        """
        while True:
            floors = self.floors(bits)
            k = next(k for k, floor in enumerate(floors) if u <= floor)
            if u < floors[k]:
                return k
            u, bits = u << 64 | more(), bits + 64


@lru_cache(maxsize=64)
def _words(table: GaussianTable, bits: int) -> NDArray[np.uint64]:
    words = np.array(table.floors(bits), dtype=np.uint64)
    words.flags.writeable = False
    return words


@lru_cache(maxsize=64)
def _floors(table: GaussianTable, bits: int) -> tuple[int, ...]:
    guard = _GUARD
    while (found := _try_floors(table, bits, guard)) is None:
        guard *= 2
    return found


def _try_floors(table: GaussianTable, bits: int, guard: int) -> tuple[int, ...] | None:
    """Compute with `guard` more bits than asked for; None if that leaves a floor open."""
    fraction = bits + guard
    masses, rest = _masses(table.x, fraction)
    if not table.halves:
        masses, rest = [masses[0], *(2 * mass for mass in masses[1:])], 2 * rest
    last = len(masses)
    # Errors of g_k, twice that for the weight 2, added up over k <= K.
    error = 2 * last * (last * last + last)
    total, full = sum(masses), 1 << bits
    floors: list[int] = []
    for mass in accumulate(masses):
        low = max(0, mass - error) * full // (total + error + rest)
        # C_k is below 1, so its floor is below 2^bits, however close it comes.
        high = min(full - 1, (mass + error) * full // max(1, total - error))
        if low != high:
            return None
        floors.append(low)
        if low == full - 1:
            return tuple(floors)
    return None


def _masses(x: Fraction, fraction: int) -> tuple[list[int], int]:
    """Return exp(-x k^2) in units of 2^-fraction until none is left, and what the tail may hold."""
    one = 1 << fraction
    ratio, step = expansion("power", x, fraction), expansion("power", 2 * x, fraction)
    masses, mass = [one], one
    while True:
        mass = mass * ratio >> fraction
        ratio = ratio * step >> fraction
        if mass == 0:
            # g_k and what follows: a geometric series of ratio r_k, both rounded up.
            k = len(masses)
            unit_error = k * k + k + 1
            ratio_error = 2 * k + 2
            gap = one - ratio - ratio_error
            return masses, (unit_error * one) // max(1, gap) + 1
        masses.append(mass)
