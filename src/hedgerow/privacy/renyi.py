"""Renyi curves: of pure releases, of zCDP releases, and of releases made from a secret sample.

Paper: mironov2017renyi.

**Sampling.** Every record is in the sample with probability q, by a coin that nobody sees. With J
what else is in the sample, L = P1/P0 the ratio of the laws with and without the record, and
M = (1-q) P0 + q P1, the divergences to bound are those of M from P0 and of P0 from M, for one J:
moments are jointly convex, so that the average over J is no worse. All orders a below are whole
numbers; in between, the logarithm of a moment is convex in the order, so that interpolation bounds
it.

(1) M from P0. E_0[(1-q + q L)^a] is the mean of E_0[L^k] over k ~ Binomial(a, q). With rho-zCDP
    E_0[L^k] <= e^(k (k-1) rho): the moment is at most A = E_k[e^(k (k-1) rho)]. For Gaussian noise
    this is an equation, known from sampled gradients. Paper: mironov2019sampled.
(2) P0 from M, E_0[(1-q + q L)^(1-a)], if outcomes are mirrored: A again. Proof for one release.
    Take an outcome and its mirror image, with P0 = x, P1 = y on one and swapped on the other,
    x >= y. M is u = x - t and v = y + t there, t = q (x-y). With h(z) = (z+t)^a z^(1-a) -
    z^a (z+t)^(1-a), the two terms of (1) exceed those of (2) by h(y) - h(x-t), and y <= x-t.
    So it is enough that h falls. With r = 1 + t/z it is t (r^a - r^(1-a)) / (r-1), a slope of
    r^a - r^(1-a) from 1 to r, which is convex for r >= 1: so it rises with r and falls with z.
    For several releases from one sample, each chosen by the outcomes before it, by induction from
    the last one: after the outcomes of the first, M has the weight q' = q L / (1-q + q L) for q,
    and the bound on the moment of the rest, w(q') = E_k[e^(k (k-1) rho')] over Binomial(a, q'),
    rises with q', which is at least as large where P0 = y as where P0 = x. The two terms are
    multiplied by it, and the excess h(y) is multiplied by no less than the deficit h(x-t).
    A pure release is a randomised response, which is mirrored, with something done to its answer.
    For a release with a delta beside its rho (2) is not used: the laws that have the curve are then
    conditional ones, on events that a reflection need not keep.
(3) P0 from M, for any rho-zCDP release: at most the smallest of three. M >= (1-q) P0, so the
    divergence is at most ln(1/(1-q)). It is convex in M, so it is at most q times that of P0 from
    P1, q a rho. And f(z) = (1-q + q z)^(1-a) lies below the parabola through f(0) that touches it
    at m = e^(2 rho) (the error of interpolation has the sign of f''' < 0), whose mean depends on
    E[L] = 1 and rises with E[L^2] <= m: the moment is at most (1 - 1/m) f(0) + f(m)/m.
    Another bound for any mechanism, which does not vanish with rho: Paper: zhu2019poisson.

**Replacing** a record in the sample: from one table P to the other R by way of Q, the table without
it. By Cauchy and Schwarz the sum of P^a R^(1-a) = (P^a Q^(1/2-a)) (Q^(a-1/2) R^(1-a)) gives
D_a(P, R) <= (a - 1/2)/(a - 1) D_2a(P, Q) + D_(2a-1)(Q, R). Or by joint convexity: the moment is at
most 1-q + q e^(4 a (a-1) rho).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]
_UP = 1 + 1e-12
_SAMPLED_UP = 1 + 1e-8  # logarithms of binomials are off by less
_LARGEST = 2**13
"""Largest order at which sampling is counted; beyond, as if there were none."""

ORDERS: Curve = 1 + np.geomspace(0.02, 1e6, 300)
"""Orders for pure releases."""
RHO_ORDERS: Curve = np.unique(
    np.concatenate(
        [
            1 + np.geomspace(0.02, 7, 120),
            np.arange(2, 65),
            np.round(np.geomspace(65, _LARGEST, 80)),
            np.geomspace(_LARGEST, 1e7, 120),
        ]
    )
)
"""Orders where releases state a rho: whole numbers, where sampling is counted tightly."""


def response_curve(epsilon: float, orders: Curve) -> Curve:
    """Return the Renyi divergences of randomised response, the largest of any eps-DP mechanism.

    With x = (a-1) eps: E[(P/Q)^a] - 1 = (1 - e^-x)(e^(a eps) - 1) / (1 + e^eps), which has no
    cancellation for small eps.

    Orders are above 1.
    """
    x = (orders - 1) * epsilon
    a = orders * epsilon
    with np.errstate(over="ignore"):
        small = np.log1p(-np.expm1(-x) * np.expm1(a) / (1 + np.exp(min(epsilon, 709.0))))
    large = np.logaddexp(a, -x) - np.logaddexp(0, epsilon)
    curve = np.where(a < 500, small, large) / (orders - 1)
    return np.asarray(np.minimum(epsilon, curve * _UP))


def sampled_curve(rho: float, rate: float, orders: Curve, *, mirrored: bool) -> Curve:
    """Return Renyi divergences of a rho-zCDP release from a secret sample, under add/remove.

    Orders are above 1, the rate is in (0, 1]. `mirrored` is that of `MechanismRule`, False for a
    release with a delta. Never above orders * rho, the curve without sampling.
    """
    plain = orders * rho * _UP
    if rate == 1 or rho == 0:
        return plain
    curve = plain.copy()
    counted = orders <= _LARGEST
    curve[counted] = _log_moments(rho, rate, orders[counted]) / (orders[counted] - 1)
    if not mirrored:
        curve = np.maximum(curve, _reverse(rho, rate, orders))
    return np.minimum(curve, plain)


def sampled_replace_curve(rho: float, rate: float, orders: Curve, *, mirrored: bool) -> Curve:
    """Return the same when a record is replaced; at least twice `sampled_curve`.

    (Twice, so that it covers two records in two parts, of which each is met once.)
    """
    plain = 4 * orders * rho * _UP
    if rate == 1 or rho == 0:
        return plain
    one, two, three = (
        sampled_curve(rho, rate, at, mirrored=mirrored)
        for at in (orders, 2 * orders, 2 * orders - 1)
    )
    chained = (orders - 0.5) / (orders - 1) * two + three
    with np.errstate(over="ignore"):
        exponent = (orders - 1) * plain
    mixed = np.logaddexp(math.log1p(-rate), math.log(rate) + exponent) / (orders - 1)
    found = np.minimum(np.minimum(chained, mixed) * _SAMPLED_UP, plain)
    return np.asarray(np.maximum(found, 2 * one))


def epsilon_at(orders: Curve, curve: Curve, delta: float) -> float:
    """Return the epsilon that a Renyi curve gives at delta, by Google's dp-accounting."""
    # Imported here: it takes longer than the rest of the package, and only this needs it.
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    epsilon, _ = compute_epsilon(orders, curve * _UP, delta)
    return float(epsilon) * _UP + 1e-14


def _log_moments(rho: float, rate: float, orders: Curve) -> Curve:
    """Return ln A of (1) at each order, interpolated between whole ones; ln A is 0 at order 1."""
    wanted = np.unique(np.concatenate([np.floor(orders), np.ceil(orders)]))
    whole = wanted[wanted >= 2].astype(np.int64)
    found = np.concatenate([[0.0], _log_moments_at(rho, rate, tuple(whole.tolist()))])
    known = np.concatenate([[1.0], whole])
    return np.asarray(np.interp(orders, known, found))


def _log_moments_at(rho: float, rate: float, orders: tuple[int, ...]) -> Curve:
    """Return ln(1 + E_k[expm1(k (k-1) rho)]) over k ~ Binomial(order, rate), rounded up."""
    k, log_weights, starts = _binomials(rate, orders)
    y = k * (k - 1) * rho
    with np.errstate(divide="ignore", over="ignore"):
        log_terms = log_weights + np.where(y < 1, np.log(np.expm1(y)), y + np.log1p(-np.exp(-y)))
    top = np.maximum.reduceat(log_terms, starts)
    sizes = np.diff(np.append(starts, k.size))
    sums = np.add.reduceat(np.exp(log_terms - np.repeat(top, sizes)), starts)
    return np.asarray(np.logaddexp(0, top + np.log(sums)) * _SAMPLED_UP)


@lru_cache(maxsize=8)
def _binomials(rate: float, orders: tuple[int, ...]) -> tuple[Curve, Curve, NDArray[np.int64]]:
    """Return k = 2, ..., n for each order n in a row, ln P[Binomial(n, rate) = k], and starts."""
    from scipy.special import gammaln

    sizes = np.array(orders) - 1
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    n = np.repeat(np.array(orders, dtype=np.float64), sizes)
    k = np.arange(n.size, dtype=np.float64) - np.repeat(starts, sizes) + 2
    log_choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return k, log_choose + k * math.log(rate) + (n - k) * math.log1p(-rate), starts


def _reverse(rho: float, rate: float, orders: Curve) -> Curve:
    """Bound the divergence of P0 from M as in (3)."""
    out = -math.log1p(-rate)
    beyond = float(np.logaddexp(math.log1p(-rate), math.log(rate) + 2 * rho))
    share = -math.expm1(-2 * rho)
    with np.errstate(over="ignore"):
        rise = share * np.expm1((orders - 1) * out)
        fall = (1 - share) * np.expm1(-(orders - 1) * beyond)
    # The two nearly cancel: what rounding may take away is added.
    moment = np.maximum(rise + fall, 0) + 1e-14 * rise
    parabola = np.log1p(moment) / (orders - 1)
    found = np.minimum(np.minimum(parabola, rate * orders * rho), out)
    return np.asarray(found * _SAMPLED_UP)
