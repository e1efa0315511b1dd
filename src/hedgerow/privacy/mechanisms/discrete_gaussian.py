"""The discrete Gaussian mechanism for counts and integer sums, counted by zCDP.

Paper: canonne2020discrete.

Law: value + Y with P[Y = k] proportional to exp(-k^2 / (2 sigma^2)) on the integers, for every
entry on its own, sigma^2 = sensitivity_squared / (2 rho).

Privacy: rho-zCDP if one record moves the values by at most sensitivity_squared, as a sum of squares
(L2). Proof. For one entry that moves by c, with N(s) the sum over k of exp(-(k - s)^2 /
(2 sigma^2)): completing the square, the sum of P^a Q^(1-a) is exp(a (a-1) c^2 / (2 sigma^2))
N((1-a) c) / N(0). By Poisson's summation formula N is a series of cosines with positive
coefficients, largest at 0. So the divergence of order a is at most a c^2 / (2 sigma^2), and entries
add up. Outcomes are mirrored: x -> v + v' - x, for values v and v', is a bijection of the integers
that swaps the two laws (see `hedgerow.privacy.renyi` for what that is good for).

Drawing, exact: up to sigma = 512 by inversion on an exact table (`gaussian_tables`). Beyond, the
noise is 2^b h + l with h from the table of the half-law of parameter sigma / 2^b, l uniform below
2^b and kept with probability exp(-l (l + 2^(b+1) h) / (2 sigma^2)), which makes the mass of
2^b h + l what it should be; more than 99 of 100 tries are kept. Their sign is a fair bit, and 0
with the sign minus is not kept. (Rejection from a discrete Laplace, as the paper does, keeps 3 of
4.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms import gaussian_tables
from hedgerow.privacy.mechanisms.coin_kernels import MORE_BYTES, gaussian
from hedgerow.privacy.mechanisms.coin_streams import in_lanes
from hedgerow.privacy.mechanisms.coins import expansion
from hedgerow.privacy.mechanisms.gaussian_tables import GaussianTable
from hedgerow.privacy.mechanisms.mechanism import (
    LIMIT,
    check_count,
    check_epsilon,
    check_integers,
    check_sensitivity,
)
from hedgerow.privacy.release import register_mechanism
from hedgerow.privacy.source import NoiseSource

_TABLE_SIGMA = 512
_MAX_LOW_DIGITS = 24  # l (l + 2^(b+1) h) stays below 2^62
_GUIDE_BITS = 12
_MOST = np.iinfo(np.int64).max
_COINS_PER_VALUE = 8  # a value takes as long as so many coins
_WORDS = 2**14  # drawn at a time


def l2_sensitivity(squared: int) -> float:
    """Return the root of a sum of squares, rounded up."""
    return math.nextafter(math.sqrt(squared), math.inf)


@dataclass(frozen=True)
class DiscreteGaussian:
    """Add discrete Gaussian noise to integers; one release is rho-zCDP.

    `sensitivity_squared` is the sum of squares, over all released values, of what one record
    changes: the square of the L2 sensitivity.
    """

    rho: float
    sensitivity_squared: int = 1
    name: ClassVar[str] = "discrete gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", check_epsilon(self.rho))
        squared = check_sensitivity(self.sensitivity_squared)
        object.__setattr__(self, "sensitivity_squared", squared)
        if self._low_digits > _MAX_LOW_DIGITS:
            raise Code.BAD_MECHANISM_INPUT.error(
                expected=f"sigma up to {_TABLE_SIGMA * 2**_MAX_LOW_DIGITS:.3g}",
                found=f"sigma^2 of about {self.sensitivity_squared / self.rho / 2:.3g}",
                fix="raise rho, or put the values on a coarser grid so that they move less",
            )

    @property
    def epsilon(self) -> float:
        """Infinite: no pure epsilon holds; `rho` is what one release costs."""
        return math.inf

    @property
    def sensitivity(self) -> float:
        """The L2 sensitivity, the root of `sensitivity_squared`, rounded up."""
        return l2_sensitivity(self.sensitivity_squared)

    @property
    def sigma2(self) -> float:
        """The parameter sigma^2 of the law; the variance is next to it, and never above."""
        return float(1 / (2 * self._x))

    @cached_property
    def _x(self) -> Fraction:
        return Fraction(self.rho) / self.sensitivity_squared

    @cached_property
    def _low_digits(self) -> int:
        """Fewest binary digits b with sigma / 2^b within the table's reach."""
        b = 0
        while 2 * self._x * (_TABLE_SIGMA * 2**b) ** 2 < 1:
            b += 1
        return b

    @cached_property
    def _table(self) -> GaussianTable:
        b = self._low_digits
        return GaussianTable(self._x * 4**b, halves=b > 0)

    def delta(self, m: int) -> float:
        """Price of finite precision for one release of m values: 0, as the law is exact.

        Bits are compared as far as it takes to tell, no tail is cut off, and what does not fit
        into 64 bits is clamped after the noise was added, which looks at the noisy value only.

        A law that is only within tau of this one, in total variation, would be dearer than tau:
        an outcome that one input cannot produce leaves no finite Renyi divergence. If the ideal
        releases P and Q together are (epsilon, d)-DP and the distances of those drawn, P' and Q',
        add up to tau, then P'[S] <= P[S] + tau <= e^epsilon Q[S] + d + tau <= e^epsilon Q'[S] + d
        + (1 + e^epsilon) tau: whoever rounds charges (1 + e^epsilon) tau at the largest epsilon
        that will ever be read off.
        """
        check_count(m)
        return 0.0

    def __call__(self, values: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """Add noise to all values, clamped to magnitude 2**61 so that sums fit: one release."""
        array = check_integers(values, "values")
        flat = np.ascontiguousarray(array).reshape(-1)
        out = np.empty(flat.size, dtype=np.int64)

        def work(start: int, stop: int, stream: NoiseSource) -> None:
            self._draw(flat[start:stop], out[start:stop], stream)

        in_lanes(flat.size, _COINS_PER_VALUE, source, work)
        return out.reshape(array.shape)

    def law(self, values: ArrayLike) -> NDArray[np.float64]:
        """Probability that the noise equals each of the given integers, same shape."""
        k = np.asarray(values, dtype=np.float64)
        return np.asarray(np.exp(-float(self._x) * k * k) / self._total, dtype=np.float64)

    @cached_property
    def _total(self) -> float:
        """Sum of exp(-x k^2) over the integers, directly or by Poisson's summation formula."""
        x = float(self._x)
        k = np.arange(1, 40, dtype=np.float64)
        if x > 0.1:
            return 1 + 2 * math.fsum(np.exp(-x * k * k))
        dual = math.pi * math.pi / x
        return math.sqrt(math.pi / x) * (1 + 2 * math.fsum(np.exp(-dual * k * k)))

    def _draw(self, values: NDArray[np.int64], out: NDArray[np.int64], stream: NoiseSource) -> None:
        bits, b = gaussian_tables.WORD_BITS, self._low_digits
        floors = self._table.words(bits)
        guide_bits = min(_GUIDE_BITS, bits)
        starts = np.arange(2**guide_bits, dtype=np.uint64) << np.uint64(bits - guide_bits)
        guide = np.searchsorted(floors, starts)
        fixed = floors, guide, 64 - bits, bits - guide_bits, b, float(self._x)
        row, words = 0, np.empty(0, dtype=np.uint64)
        status = MORE_BYTES
        while row < values.size:
            if status == MORE_BYTES:
                need = (values.size - row) * (3 if b else 1)
                fresh = stream.words(max(4, min(need, _WORDS)))
                words = np.concatenate([words, fresh])
            else:
                tried, words = words[: 3 if b else 1].tolist(), words[3 if b else 1 :]
                noise = self._resolve(tried, lambda: int(stream.words(1)[0]))
                if noise is not None:
                    value = min(max(int(values[row]), -LIMIT), LIMIT)
                    out[row] = min(max(value + noise, -_MOST), _MOST)
                    row += 1
            row, used, status = gaussian(values, out, row, words, *fixed)
            words = words[used:]

    def _resolve(self, tried: list[int], more: Callable[[], int]) -> int | None:
        """Return the noise that a try stands for, however many bits it takes; None: not kept."""
        bits, b = gaussian_tables.WORD_BITS, self._low_digits
        noise = self._table.resolve(tried[0] >> (64 - bits), bits, more)
        negative = tried[0] & 1
        if b:
            low = tried[1] & ((1 << b) - 1)
            exponent = self._x * low * (low + 2 * (noise << b))
            noise = (noise << b) + low
            if (negative and noise == 0) or not _coin(exponent, tried[2], more):
                return None
        return -noise if negative else noise


def _coin(exponent: Fraction, u: int, more: Callable[[], int]) -> bool:
    """Whether the uniform number with the first 64 bits u is below exp(-exponent)."""
    if exponent == 0:
        return True
    bits = 64
    while (floor := expansion("power", exponent, bits)) == u:
        u, bits = u << 64 | more(), bits + 64
    return u < floor


register_mechanism(
    DiscreteGaussian.name,
    argument="no outcome is out of reach, and Renyi divergences grow linearly with the order",
    guarantee=False,
    concentrated=True,
    mirrored=True,
    gaussian=True,
)
