"""OpenDP's samplers behind the same mechanisms, for single choices.

OpenDP draws with unlimited precision and without truncation, so delta is 0; it takes about 10
microseconds per element of a vector and 100 per call, and cannot be seeded. Its scale is a
floating-point number: it is rounded up, so the noise is never smaller than asked for.

OpenDP is imported on first use, since most programs never need it here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import LIMIT

_FEATURE = "contrib"
_LOCK = Lock()


def scale_of(a: Fraction) -> float:
    """Smallest float that is at least 1 / a."""
    scale = 1 / a
    try:
        value = float(scale)
    except OverflowError:
        value = math.inf
    if math.isfinite(value) and Fraction(value) < scale:
        value = math.nextafter(value, math.inf)
    if not math.isfinite(value):
        raise Code.BAD_MECHANISM_INPUT.error(
            expected="a noise scale that is a finite number",
            found=f"1 / ({a})",
            fix="raise epsilon or lower the sensitivity",
        )
    return value


def two_sided(values: NDArray[np.int64], a: Fraction) -> NDArray[np.int64]:
    """Add two-sided geometric noise with p = exp(-a) to each value, int64 of shape (n,)."""
    if values.size == 0:
        return values.copy()
    clamped = np.clip(values, -LIMIT, LIMIT)
    return np.asarray(_laplace(scale_of(a))(clamped.tolist()), dtype=np.int64)


def one_sided(n: int, a: Fraction) -> list[int]:
    """Draw n geometric variables with p = exp(-a).

    A two-sided geometric variable, given that it is not negative, is geometric. At least half
    are kept, and a call costs as much as ten draws, so some more are asked for.
    """
    noise = _laplace(scale_of(a))
    out: list[int] = []
    while len(out) < n:
        out += [draw for draw in noise([0] * (2 * (n - len(out)) + 4)) if draw >= 0]
    return out[:n]


def choose(scores: list[int], a: Fraction, *, replace: bool) -> int:
    """Choose an index by permute-and-flip, or with replacement by the exponential mechanism."""
    return int(_noisy_max(scale_of(a), replace)(scores))


def gaussian(values: NDArray[np.int64], sigma2: Fraction) -> NDArray[np.int64]:
    """Add discrete Gaussian noise of this variance parameter to each value, int64 (n,)."""
    if values.size == 0:
        return values.copy()
    scale = math.sqrt(sigma2)
    while Fraction(scale) ** 2 < sigma2:
        scale = math.nextafter(scale, math.inf)
    clamped = np.clip(values, -LIMIT, LIMIT)
    return np.asarray(_gaussian(scale)(clamped.tolist()), dtype=np.int64)


@lru_cache(maxsize=128)
def _gaussian(scale: float) -> Any:
    import opendp.prelude as dp

    with _enabled():
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return dp.m.make_gaussian(*space, scale=scale)


@lru_cache(maxsize=128)
def _laplace(scale: float) -> Any:
    import opendp.prelude as dp

    with _enabled():
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return dp.m.make_laplace(*space, scale=scale)


@lru_cache(maxsize=128)
def _noisy_max(scale: float, replace: bool) -> Any:
    import opendp.prelude as dp

    # OpenDP names the sampler by the measure it is accounted in: zCDP stands for Gumbel noise,
    # which is the exponential mechanism, pure DP for permute-and-flip.
    measure = dp.zero_concentrated_divergence() if replace else dp.max_divergence()
    with _enabled():
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        return dp.m.make_noisy_max(*space, measure, scale=scale)


@contextmanager
def _enabled() -> Iterator[None]:
    """Enable the feature that OpenDP's constructors ask for, and leave no trace of it."""
    from opendp.mod import GLOBAL_FEATURES

    with _LOCK:
        before = _FEATURE in GLOBAL_FEATURES
        GLOBAL_FEATURES.add(_FEATURE)
        try:
            yield
        finally:
            if not before:
                GLOBAL_FEATURES.discard(_FEATURE)
