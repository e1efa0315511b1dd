"""The exact curve of Gaussian noise, and why discrete Gaussian releases may be read off it.

Renyi curves lose 5 to 8% of epsilon, and a third at a delta of 0.01, on their way to a pair
(epsilon, delta). What is lost is not in the noise: the curve of Gaussian noise is known exactly,
and discrete Gaussian noise is Gaussian noise with something done to it, up to a factor next to 1.

**One Gaussian curve for a sequence.** Release i adds standard Gaussian noise to a vector that one
record moves by v_i, chosen by the outcomes before, with |v_i| <= m_i, fixed in advance. One more
coordinate, of which nobody is told, makes |v_i| = m_i. The privacy loss is the sum over i of
<v_i, y_i> - m_i^2 / 2 for outcomes y_i. If the record is not there, each term is Gaussian with mean
-m_i^2 / 2 and variance m_i^2, whatever went before; so their sum is Gaussian with m^2 = sum of
m_i^2, and likewise, with the other sign of the mean, if it is there. With F the distribution
function of the standard normal law,

    delta(epsilon) = F(m/2 - epsilon/m) - e^epsilon F(-m/2 - epsilon/m)

for the two in either order: an equation, not a bound. In terms of zCDP, m^2 = 2 rho.

**Discrete noise.** Let D be the law of x + discrete Gaussian noise of parameter s^2, x whole, and
t^2 < s^2. Draw u from the Gaussian law around x of variance s^2 - t^2, and then a whole number z
with probability exp(-(z-u)^2 / (2 t^2)) / N_t(u), N_t(u) the sum of these numerators over z; let C
be the law of z. By Poisson's summation formula N_t(u) is t sqrt(2 pi) times a number from 1 - h to
1 + h,

    h = 2 * sum over k >= 1 of exp(-2 pi^2 t^2 k^2).

Without that number the integral over u is a convolution of two Gaussian densities. So C(z) is g(z),
the density of variance s^2 around x, over a number from 1 - h to 1 + h; and D(z) = g(z) / (1 + h')
with 0 <= h' <= h, as s > t. So D(z) / C(z) lies between (1-h)/(1+h) and 1+h, and

    |ln(D(z) / C(z))| <= n = ln((1+h) / (1-h))   for every z.

Replace the noise of those entries that the record changes, in all releases, on both sides. The laws
P, Q of the whole transcript become P', Q', and logarithms of ratios are at most M n, M the number
of such entries. P', Q' follow from Gaussian noise of variances s_i^2 - t^2 without another look at
the data. If they are (e, d)-DP, P(S) <= e^(M n) P'(S) <= e^(M n) (e^e Q'(S) + d)
<= e^(e + 2 M n) Q(S) + e^(M n) d. An entry that changes moves by 1 at least, so that M is at most
the sum of squares that a record moves: the squared sensitivities, added up over the releases.

**Samples.** A record takes part in a round with probability q, by a coin that nobody sees. Given
what went before and who else is in the sample, the laws with and without it are P0 and
(1-q) P0 + q P1, and the logarithm of P1 / P0 is Gaussian as above, also where a round is a sequence
of releases; so that the curve of a round is that of one number, N(0, 1) against
(1-q) N(0, 1) + q N(m, 1), by convexity whoever else is in the sample. Rounds compose as if they
were independent, adding and removing each for itself, by the distribution of losses that Google's
dp-accounting computes: rounded against us on a grid, its far tails counted as told. Discrete noise
enters as before: ratios of mixtures are no larger than those of their parts.

Each release has a t of its own. With t^2 = 4, n is 2e-34; what it costs is s^2 / (s^2 - t^2), next
to nothing for noise that is of any use. The best of a few is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_UP = 1 + 1e-12
_SLACKS = (0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12)
"""Sums of M n that are tried: the more of it, the less noise goes into the t^2."""
_LEAST = 0.1
"""Smallest t^2, where h is below 1."""
_SAMPLED_SLACK = 1e-6
_STEP = 1e-3
"""Grid of losses, as a share of epsilon: what it costs is of this order."""
_LEAST_DELTA, _LEAST_NEAR, _MOST_NEAR = 1e-11, 1e-3, 100.0
_LARGEST = 1e6  # a curve of more standard deviations than this promises nothing worth a search


class GaussianRelease(NamedTuple):
    """A discrete Gaussian release.

    `rho` is that of one time, inside its sample, and `entries` the most that one record changes in
    it. Each time has a fresh sample.
    """

    rho: float
    times: int
    variance: float
    entries: float
    rate: float = 1.0


def gaussian_epsilon(releases: Sequence[GaussianRelease], delta: float) -> float:
    """Return an epsilon that holds at `delta`, in (0, 1), for a sequence without samples.

    Noise is fixed in advance, what the releases are about need not be. Never below the truth;
    infinity where noise is too small for this way of counting.
    """
    best = math.inf
    for slack in _SLACKS:
        found = _as_continuous(releases, slack)
        if found is not None:
            rhos, apart = found
            rho = math.fsum(rho * r.times for rho, r in zip(rhos, releases, strict=True)) * _UP
            best = min(best, curve_epsilon(rho, delta * math.exp(-apart)) + 2 * apart)
    return best


def sampled_epsilon(releases: Sequence[GaussianRelease], delta: float, near: float) -> float:
    """Return the same for a sequence with samples, under add/remove.

    An epsilon that holds and is not far off, `near`, chooses the grid of losses. Infinity also
    where the distribution of losses would not be accurate enough.
    """
    if delta < _LEAST_DELTA or not _LEAST_NEAR <= near <= _MOST_NEAR:
        return math.inf
    found = _as_continuous(releases, _SAMPLED_SLACK)
    if found is None:
        return math.inf
    rhos, apart = found
    rounds = tuple((rho, r.times, r.rate) for rho, r in zip(rhos, releases, strict=True))
    # Fourier transforms are off by far less than this share of the smallest delta.
    left = delta * math.exp(-apart) * (1 - 1e-3)
    return _losses_epsilon(rounds, left, near * _STEP) + 2 * apart


def _as_continuous(
    releases: Sequence[GaussianRelease], slack: float
) -> tuple[list[float], float] | None:
    """Return the rho of each as Gaussian noise, and M n of all; None if noise is too small."""
    rhos, apart = [], 0.0
    for release in releases:
        entries = release.entries * release.times
        t2 = _smooth(entries, slack / len(releases))
        if release.variance <= t2 * (1 + 1e-9):
            return None
        rhos.append(release.rho * (release.variance / (release.variance - t2)) * _UP)
        apart += entries * _log_ratio(t2) * _UP
    return rhos, apart


@lru_cache(maxsize=256)
def _losses_epsilon(
    rounds: tuple[tuple[float, int, float], ...], delta: float, step: float
) -> float:
    """Return epsilon by Google's dp-accounting, from (rho, times, rate) of Gaussian releases."""
    # Imported here: it takes longer than the rest of the package, and only this needs it.
    from dp_accounting.pld import privacy_loss_distribution as losses

    plain = math.fsum(rho * times for rho, times, rate in rounds if rate == 1)
    sampled = [(rho, times, rate) for rho, times, rate in rounds if rate < 1]
    all_of_them = [(plain, 1, 1.0), *sampled] if plain else sampled
    found = [
        losses.from_gaussian_mechanism(
            1 / math.sqrt(2 * rho),
            pessimistic_estimate=True,
            value_discretization_interval=step,
            sampling_prob=rate,
            use_connect_dots=True,
        ).self_compose(times)
        for rho, times, rate in all_of_them
    ]
    total = found[0]
    for other in found[1:]:
        total = total.compose(other)
    return float(total.get_epsilon_for_delta(delta)) * _UP


def _smooth(entries: float, slack: float) -> float:
    """Return a variance t^2 at which so many entries are about `slack` apart."""
    # n is about 2 h, and h about 2 exp(-2 pi^2 t^2).
    return max(_LEAST, math.log(max(4 * entries / slack, 1.0)) / (2 * math.pi**2))


@lru_cache(maxsize=4096)
def curve_epsilon(rho: float, delta: float) -> float:
    """Return epsilon of the Gaussian curve of this rho at `delta`, rounded up."""
    m = math.sqrt(2 * rho) * _UP
    if not 0 < m <= _LARGEST or not 0 < delta < 1:
        return math.inf
    if curve_delta(m, 0.0) <= delta:
        return 0.0
    # Above m z + m^2 / 2 the first term alone is below delta, F(-z) = delta.
    low, high = 0.0, m * m / 2 + m * math.sqrt(2 * -math.log(delta)) + m
    if curve_delta(m, high) > delta:
        return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve_delta(m, middle) <= delta else (middle, high)
    return high * _UP


def curve_delta(m: float, epsilon: float) -> float:
    """Return delta of the Gaussian curve with shift `m` at `epsilon`, rounded up."""
    # Loaded here: SciPy takes longer than all else that a verb of the command line needs.
    from scipy.special import log_ndtr

    first = float(log_ndtr(m / 2 - epsilon / m))
    second = float(log_ndtr(-m / 2 - epsilon / m))
    # Both logarithms, and the arguments, are off by roundings; what they make is added.
    off = 1e-14 * (1 + epsilon + abs(first) + abs(second))
    if not math.isfinite(off):
        return 1.0
    return min(1.0, math.exp(first) * (-math.expm1(min(0.0, epsilon + second - first)) + off))


@lru_cache(maxsize=1024)
def _log_ratio(smooth: float) -> float:
    """Return n = ln((1+h) / (1-h)) for a variance t^2, rounded up."""
    # The terms after the first are below the first to the fourth.
    first = 2 * math.exp(-2 * math.pi**2 * smooth) * (1 + 1e-9)
    h = first + 2 * first**4
    if h >= 1:
        return math.inf
    return (math.log1p(h) - math.log1p(-h)) * (1 + 1e-9)
