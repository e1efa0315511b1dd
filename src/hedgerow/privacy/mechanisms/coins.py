"""Biased coins with exact public probabilities, and what geometric variables cost in them.

A coin lands heads if a uniform number U in [0, 1) is below a public constant P. Both are compared
byte by byte, most significant first, and only as far as needed: after the first byte 255 of 256
coins are decided. P is held as the first bytes of its binary expansion, rounded down, which
decides nothing wrongly: where U agrees with all of them (once in 2**128 coins) the expansion is
computed further. So the coins are exact, whatever epsilon is, and what finite precision costs is
truncation alone.

Two families are used, both indexed by a power of two:

``digit``  P_i = 1 / (1 + exp(a 2^i)). The binary digits of a geometric variable with p = exp(-a)
    are independent, and digit i is 1 with this probability: p^k is the product of p^(2^i) over
    the digits of k that are 1, so the mass function factors.
``power``  P_i = exp(-a 2^i). A coin with probability exp(-a k) is the conjunction of these over
    the digits of k that are 1.

Under secure computation a coin compares a fixed number t of bits with the nearest multiple of
2^-t (`CoinTable.rounded`); `Geometric.log_tau` states what either form costs.
"""

from __future__ import annotations

import decimal
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code

Family = Literal["digit", "power"]

# Bytes of each constant that a draw starts with.
PREFIX_BYTES = 16
# Noise stays below 2**61 in magnitude, and values are clamped to it: sums fit into 64 bits.
MAX_DIGITS = 61
# Lengths are chosen so that a release of this many values has delta below 2**-60.
DESIGN_VARIABLES = 2**20
DESIGN_LOG_DELTA = -60 * math.log(2)


@lru_cache(maxsize=4096)
def expansion(family: Family, x: Fraction, bits: int) -> int:
    """Return floor(P * 2**bits) exactly, for P = 1/(1 + exp(x)) or exp(-x), x > 0.

    P is transcendental, so it never lies on a boundary and the loop ends.
    """
    if x >= bits:
        return 0  # P < exp(-x) < 2**-bits
    digits = math.ceil(bits * math.log10(2)) + 20
    while True:
        with decimal.localcontext() as context:
            context.prec = digits
            context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
            power = (-decimal.Decimal(x.numerator) / x.denominator).exp()
            value = power / (1 + power) if family == "digit" else power
            scaled = value * (1 << bits)
            # x is off by half a unit in its last place, which exp multiplies by x < bits; the
            # other operations add a few units.
            error = scaled * (bits + 16) * decimal.Decimal(10) ** (1 - digits)
            low, high = math.floor(scaled - error), math.floor(scaled + error)
        if low == high:
            return low
        digits *= 2


@dataclass(frozen=True)
class CoinTable:
    """The constants of `count` coins of one family, at a * 2^i for i = 0, ..., count - 1."""

    family: Family
    a: Fraction
    count: int

    def prefix(self, n_bytes: int) -> NDArray[np.uint8]:
        """First `n_bytes` of each probability, rounded down, most significant first."""
        return _prefix(self, n_bytes)

    def rounded(self, t: int) -> tuple[int, ...]:
        """Each probability as the nearest multiple of 2**-t, times 2**t."""
        return tuple(
            (expansion(self.family, self.a * 2**i, t + 1) + 1) // 2 for i in range(self.count)
        )


@lru_cache(maxsize=256)
def _prefix(table: CoinTable, n_bytes: int) -> NDArray[np.uint8]:
    rows = b"".join(
        expansion(table.family, table.a * 2**i, 8 * n_bytes).to_bytes(n_bytes, "big")
        for i in range(table.count)
    )
    prefix = np.frombuffer(rows, dtype=np.uint8).reshape(table.count, n_bytes)
    prefix.flags.writeable = False
    return prefix


@dataclass(frozen=True)
class Geometric:
    """A geometric variable, P[G = k] = (1 - p) p^k with p = exp(-a), made of `length` coins.

    It takes the values 0, ..., 2**length - 1: the law of G given G < 2**length.
    """

    a: Fraction
    length: int

    @cached_property
    def coins(self) -> CoinTable:
        """The coins, one per binary digit, least significant first."""
        return CoinTable("digit", self.a, self.length)

    @property
    def log_tail(self) -> float:
        """Natural logarithm of P[G >= 2**length] = p^(2^L)."""
        # Beyond the range of floats its exponential is 0 all the same.
        return -float(min(self.a * 2**self.length, Fraction(sys.float_info.max)))

    def log_tau(self, m: int, t: int | None = None) -> float:
        """Logarithm of the distance in total variation between m variables drawn and ideal.

        tau = m (p^(2^L) + L 2^-(t+1)): an ideal variable differs from its low L digits with
        probability p^(2^L), and each coin that is rounded to t bits is off by at most 2^-(t+1).

        Exact coins, `t` None, have no rounding term.
        """
        tail = self.log_tail
        if t is not None:
            tail = float(np.logaddexp(tail, math.log(self.length) - (t + 1) * math.log(2)))
        return math.log(m) + tail


@lru_cache(maxsize=1024)
def shortest(a: Fraction, log_weight: float) -> Geometric:
    """Find the fewest coins for which weight * p^(2^L) <= 2**-60, p = exp(-a)."""
    for length in range(1, MAX_DIGITS + 1):
        variable = Geometric(a, length)
        if variable.log_tail + log_weight < DESIGN_LOG_DELTA:
            return variable
    raise Code.BAD_MECHANISM_INPUT.error(
        expected=f"noise below 2**{MAX_DIGITS}, so that sums fit into 64 bits",
        found=f"epsilon / sensitivity of about {float(a):.3g}",
        fix="raise epsilon, or put the scores on a coarser grid so that the sensitivity is smaller",
    )


def upper(log_value: float) -> float:
    """Turn a logarithm into a probability, rounded up, never 0 and at most 1."""
    if log_value >= 0:
        return 1.0
    return min(1.0, max(math.exp(log_value) * (1 + 1e-9), math.nextafter(0.0, 1.0)))
