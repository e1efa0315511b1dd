"""OpenDP's samplers for the laws of Hedgerow's mechanisms, as peers.

OpenDP draws with unlimited precision and without truncation; it takes about 10 microseconds per
element of a vector and 100 per call, and cannot be seeded. Its scale is a floating-point number: it
is rounded up, so the noise is never smaller than asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

dp.enable_features("contrib")


def scale_of(a: Fraction) -> float:
    """Smallest float that is at least 1 / a."""
    scale = float(1 / a)
    return scale if Fraction(scale) >= 1 / a else math.nextafter(scale, math.inf)


def two_sided(values: NDArray[np.int64], a: Fraction) -> NDArray[np.int64]:
    """Add two-sided geometric noise with p = exp(-a) to each value, int64 of shape (n,)."""
    return np.asarray(laplace(scale_of(a))(values.tolist()), dtype=np.int64)


def one_sided(n: int, a: Fraction) -> NDArray[np.int64]:
    """Draw n geometric variables with p = exp(-a).

    A two-sided geometric variable, given that it is not negative, is geometric. At least half
    are kept.
    """
    kept = np.empty(0, dtype=np.int64)
    while kept.size < n:
        drawn = two_sided(np.zeros(2 * (n - kept.size) + 4, dtype=np.int64), a)
        kept = np.concatenate([kept, drawn[drawn >= 0]])
    return kept[:n]


def choose(scores: NDArray[np.int64], a: Fraction, *, replace: bool) -> NDArray[np.int64]:
    """Choose an index per row by permute-and-flip, or (`replace`) by the exponential mechanism."""
    pick = noisy_max(scale_of(a), replace)
    return np.array([pick(row) for row in scores.tolist()], dtype=np.int64)


def gaussian(values: NDArray[np.int64], sigma2: Fraction) -> NDArray[np.int64]:
    """Add discrete Gaussian noise of this variance parameter to each value, int64 (n,)."""
    scale = math.sqrt(sigma2)
    while Fraction(scale) ** 2 < sigma2:
        scale = math.nextafter(scale, math.inf)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return np.asarray(dp.m.make_gaussian(*space, scale=scale)(values.tolist()), dtype=np.int64)


@lru_cache(maxsize=128)
def laplace(scale: float) -> Any:
    """OpenDP's two-sided geometric measurement of this scale."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@lru_cache(maxsize=128)
def noisy_max(scale: float, replace: bool) -> Any:
    """OpenDP's noisy max of this scale.

    It names the sampler by the measure it is accounted in: zCDP stands for Gumbel noise, which is
    the exponential mechanism, pure DP for permute-and-flip.
    """
    measure = dp.zero_concentrated_divergence() if replace else dp.max_divergence()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, measure, scale=scale)
