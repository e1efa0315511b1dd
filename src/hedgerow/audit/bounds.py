"""What a number of runs proves: Clopper-Pearson bounds and the epsilon that follows.

If an event has probability p on one input and p' on its neighbour, every (epsilon, delta) that
holds has p <= exp(epsilon) * p' + delta. A lower bound on p and an upper bound on p' that hold
together with probability 1 - 2 * (1 - confidence) therefore give a lower bound on epsilon that
holds with that probability. They hold for any number of runs, small ones too.

Paper: clopper1934use.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from hedgerow.privacy.gaussian import curve_epsilon

FAILURE = 0.0005
"""Of each of the two one-sided bounds: together they fail at most once in 1,000 audits."""

CONFIDENCE = 1.0 - FAILURE

Floats = NDArray[np.float64]


def probability_lower(hits: ArrayLike, runs: ArrayLike, confidence: float = CONFIDENCE) -> Floats:
    """One-sided Clopper-Pearson lower bound on a probability; 0 where there were no hits.

    It holds with `confidence`, whatever the true probability is; arrays are broadcast.
    """
    k, n = np.asarray(hits, np.float64), np.asarray(runs, np.float64)
    bound = betaincinv(np.maximum(k, 1.0), n - k + 1.0, 1.0 - confidence)
    return np.asarray(np.where(k > 0, bound, 0.0), dtype=np.float64)


def probability_upper(hits: ArrayLike, runs: ArrayLike, confidence: float = CONFIDENCE) -> Floats:
    """One-sided Clopper-Pearson upper bound on a probability; 1 where every run was a hit."""
    k, n = np.asarray(hits, np.float64), np.asarray(runs, np.float64)
    bound = betaincinv(k + 1.0, np.maximum(n - k, 1.0), confidence)
    return np.asarray(np.where(k < n, bound, 1.0), dtype=np.float64)


def epsilon_lower(
    hits: ArrayLike,
    runs: ArrayLike,
    neighbour_hits: ArrayLike,
    neighbour_runs: ArrayLike,
    delta: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Floats:
    """Lower bound on epsilon from counts of one event on two neighbouring inputs.

    The event is the likelier one on the first. What delta forgives is taken off before the ratio;
    `confidence` is that of each of the two one-sided bounds: ``max(0, ln((p_lo - delta) /
    p'_hi))``.
    """
    ratio = ratio_lower(hits, runs, neighbour_hits, neighbour_runs, delta, confidence)
    return np.log(np.maximum(ratio, 1.0))


def ratio_lower(
    hits: ArrayLike,
    runs: ArrayLike,
    neighbour_hits: ArrayLike,
    neighbour_runs: ArrayLike,
    delta: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Floats:
    """Lower bound on (p - delta) / p', which may be below 1 or negative; see `epsilon_lower`."""
    low = probability_lower(hits, runs, confidence) - delta
    return low / probability_upper(neighbour_hits, neighbour_runs, confidence)


def mu_lower(
    hits: ArrayLike,
    runs: ArrayLike,
    neighbour_hits: ArrayLike,
    neighbour_runs: ArrayLike,
    confidence: float = CONFIDENCE,
) -> Floats:
    """Lower bound on the distance of two unit Gaussians that an event tells apart.

    Two Gaussians at distance mu have Phi^-1(p) - Phi^-1(p') <= mu for every event.
    """
    low = probability_lower(hits, runs, confidence)
    high = probability_upper(neighbour_hits, neighbour_runs, confidence)
    return np.asarray(ndtri(low) - ndtri(high), dtype=np.float64)


def epsilon_estimate(
    hits: int, neighbour_hits: int, runs: int, delta: float = 0.0, *, gaussian: bool = False
) -> float:
    """Epsilon of the frequencies of one event: a point estimate, which proves nothing.

    The event is the likelier one on the first input. `gaussian` takes the two laws for Gaussians at
    a distance: then every event tells the distance, also one that is far from the loss that delta
    forgives. Half a run is added to hits and to misses, so that it is finite.
    """
    p, q = ((k + 0.5) / (runs + 1.0) for k in (hits, neighbour_hits))
    if gaussian:
        mu = max(0.0, float(ndtri(p) - ndtri(q)))
        return curve_epsilon(mu**2 / 2, delta) if mu > 0.0 else 0.0
    return math.log(max((p - delta) / q, 1.0))


def ceiling(runs: int, delta: float = 0.0, confidence: float = CONFIDENCE) -> float:
    """Largest epsilon that `runs` runs on each input can prove; 0 where so few prove nothing.

    Reached by an event that always happens on one input and never on the other. With a = 1 -
    confidence the bounds are then p_lo = a^(1/n) and p'_hi = 1 - a^(1/n), so that

        ceiling(n) = ln((a^(1/n) - delta) / (1 - a^(1/n)))

    which for delta = 0 is -ln(expm1(-ln(a) / n)), about ln(n / 7.6) at 99.95%. Only runs that
    measure count, which in `hedgerow.audit.audit` are half of them.
    """
    rate = -math.log1p(-confidence) / runs
    low = math.exp(-rate) - delta
    if low <= 0.0:
        return 0.0
    return max(0.0, math.log(low) - math.log(-math.expm1(-rate)))
