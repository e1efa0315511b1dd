"""Laplace noise and the exponential mechanism by fixed-point logarithms and exponentials.

Paper: hiddentrees, algorithms 12 and 13 with appendix C.4.

For comparison with that paper only. Neither has a finite epsilon:

- The logarithm of a uniform number with finitely many bits takes few values, with gaps between
  them (mironov2012significance), and none beyond (fraction + 1) ln(2) sensitivity / epsilon; a
  neighbour's values may be impossible.
- Exponents below -5 get weight 0: a candidate that is possible on one table is impossible on a
  neighbouring one.

Ledgers therefore record infinity, with the paper's figure as claimed. For a release that is meant
to be private use `hedgerow.secure.noise.releases`.
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.privacy import Release, register_mechanism
from hedgerow.privacy.mechanisms.mechanism import check_epsilon, check_sensitivity
from hedgerow.privacy.release import MechanismRule
from hedgerow.secure.argmax import cost_max, max_
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.explog import cost_exp, cost_log, exp, log_of_bits
from hedgerow.secure.fixed.fixed_point import check_range, check_ring, cost_rescale, rescale
from hedgerow.secure.noise.releases import Charge
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, SecretBits, concatenate

CLIP = -5
"""Exponents below this have weight 0 (appendix C.4)."""

LAPLACE = register_mechanism(
    "fixed-point Laplace",
    argument="the law is approximate: few values, with gaps, in a bounded range",
    guarantee=False,
)
EXPONENTIAL = register_mechanism(
    "fixed-point exponential",
    argument="the law is approximate: candidates far below the best have probability 0",
    guarantee=False,
)


def approximate_release(
    rule: MechanismRule, epsilon: float, sensitivity: int, charge: Charge, m: int, times: int = 1
) -> Release:
    """Return what m values of one of the two are charged as: infinity, with epsilon as claimed."""
    return Release(
        mechanism=rule.name,
        epsilon=math.inf,
        delta=0.0,
        sensitivity=sensitivity,
        scope=charge.scope,
        audience=charge.audience,
        reason=charge.reason,
        claimed=epsilon,
        times=times,
        variables=max(1, 2 * m) if rule is LAPLACE else 1,
    )


def laplace(
    y: Secret, epsilon: float, sensitivity: int, charge: Charge, *, fraction: int = 16
) -> Secret:
    """Add approximate Laplace noise to secret integers (algorithm 12, MPC-LM).

    1. b = sensitivity / epsilon.
    2. For i in 1, 2:
    3. u_i uniform: (2 k + 1) / 2^(fraction + 1) with k of `fraction` random bits, so never 0.
    4. r_i = log2(u_i).
    5. r_i = r_i b ln 2, public.
    6. r = r_1 - r_2.
    7. y + r.

    Integers `y`, over Z_2^64, are of magnitude below 2**(60 - fraction); the result has `fraction`
    bits, 8 to 20. The ledger is charged infinity and records the paper's epsilon as claimed.

    Reveals: nothing; the sum may be opened to the audience of the charge. Cost: `cost_laplace`.
    """
    check_ring(y)
    factor = _check_laplace(epsilon, sensitivity, fraction)
    n = math.prod(y.shape)
    m = charge.size(y.shape)
    charge.pay(y.engine, approximate_release(LAPLACE, epsilon, sensitivity, charge, m))
    k = y.engine.random_bits((fraction, 2 * n))
    planes = concatenate([y.engine.public_bits(np.ones((1, 2 * n), dtype=np.bool_)), k])
    u = _number(k) * 2 + 1
    r = log_of_bits(u, planes, fraction=fraction + 1, out=fraction)
    r = rescale(r * factor, fraction)
    return y * (1 << fraction) + (r[:n] - r[n:]).reshape(*y.shape)


def cost_laplace(engine: Engine, shape: tuple[int, ...], *, fraction: int = 16) -> Cost:
    """State the cost of `laplace` for an array of a shape."""
    n = 2 * math.prod(shape)
    return (
        engine.cost("b2a", shape=(fraction, n), ring=Z64)
        + cost_log(engine, (n,), bits=fraction + 1, out=fraction, shared_bits=True)
        + cost_rescale(engine, (n,), fraction)
    )


def exponential(
    scores: Secret,
    epsilon: float,
    sensitivity: int,
    charge: Charge,
    *,
    bound: int,
    fraction: int = 16,
) -> Secret:
    """Choose per row by an approximate exponential mechanism (algorithm 13, MPC-EM), kept hidden.

    The printed algorithm compares u with the score q_i and keeps the last index; what the text
    describes, cumulative sums and the first index, is done here. Appendix C.4 adds the
    subtraction of the largest score and the clipping.

    1. p_0 = 0; the largest score of each row is subtracted.
    2. For i in 1, ..., d, all at once:
    3. s = q_i epsilon / (2 sensitivity).
    4. r = exp(s), or 0 where s < -5.
    5. p_i = p_(i-1) + r.
    6. u uniform: k / 2^fraction, k from 1 to 2^fraction.
    7. u = u p_d, without rounding.
    8. index = 0.
    9. For i in 1, ..., d, all at once:
    10. f_i = [u <= p_i].
    11. The index is the first i with f_i = 1: one-hot f_i - f_(i-1).

    Integer scores (..., d), over Z_2^64, are of magnitude up to the public `bound`; ``bound *
    epsilon / sensitivity`` is below 2**(58 - 2 * fraction). Weights have `fraction` bits, 8 to 20;
    the choice is one-hot. The ledger is charged infinity and records the paper's epsilon as
    claimed.

    Reveals: nothing; the choice may be opened to the audience of the charge.
    Cost: `cost_exponential`.
    """
    check_ring(scores)
    _check_exponential(epsilon, sensitivity, bound, fraction)
    *rows, d = scores.shape
    release = approximate_release(
        EXPONENTIAL, epsilon, sensitivity, charge, d, charge.times(tuple(rows))
    )
    charge.pay(scores.engine, release)
    return choose_by_weight(scores, epsilon, sensitivity, bound=bound, fraction=fraction)


def choose_by_weight(
    scores: Secret, epsilon: float, sensitivity: int, *, bound: int, fraction: int = 16
) -> Secret:
    """Take the steps of `exponential`; whoever calls has paid.

    Reveals: nothing. Cost: `cost_exponential`.
    """
    factor, bits, s_bits = _check_exponential(epsilon, sensitivity, bound, fraction)
    engine, (*rows, d) = scores.engine, scores.shape
    n = math.prod(rows)
    q = scores.reshape(n, d)
    q = q - max_(q, bits=bits).reshape(n, 1)
    s = rescale(q * factor, fraction)
    kept = 1 - less_than(s, CLIP << fraction, bits=s_bits)
    r = exp(s * kept, fraction=fraction, low=CLIP, high=1, out=fraction) * kept
    p = r.cumsum(axis=1)
    u = _number(engine.random_bits((fraction, n))) + 1
    f = 1 - less_than(p * (1 << fraction), u.reshape(n, 1) * p[:, d - 1 :])
    before = concatenate([f[:, :1] * 0, f[:, : d - 1]], axis=1)
    return (f - before).reshape(*rows, d)


def cost_exponential(
    engine: Engine,
    shape: tuple[int, ...],
    *,
    epsilon: float,
    sensitivity: int,
    bound: int,
    fraction: int = 16,
) -> Cost:
    """State the cost of `exponential` for scores of a shape."""
    _, bits, s_bits = _check_exponential(epsilon, sensitivity, bound, fraction)
    *rows, d = shape
    n = math.prod(rows)
    return (
        cost_max(engine, (n, d), Z64, bits=bits)
        + cost_rescale(engine, (n, d), fraction)
        + cost_less_than(engine, n * d, Z64, s_bits)
        + engine.cost("mul", shape=(n, d), ring=Z64) * 2
        + cost_exp(engine, (n, d), fraction=fraction, low=CLIP, high=1, out=fraction)
        + engine.cost("b2a", shape=(fraction, n), ring=Z64)
        + engine.cost("mul", shape=(n, 1), ring=Z64)
        + cost_less_than(engine, n * d, Z64)
    )


def _number(planes: SecretBits) -> Secret:
    """Return the numbers whose bits are the planes (k, n), lowest first, shape (n,)."""
    weights = np.left_shift(1, np.arange(len(planes)))
    return (planes.engine.b2a(planes, Z64) * weights[:, None]).sum(axis=0)


def _check_laplace(epsilon: float, sensitivity: int, fraction: int) -> int:
    """Return b ln 2 with `fraction` bits."""
    check_range("fraction", fraction, 8, 20)
    b = check_sensitivity(sensitivity) / check_epsilon(epsilon)
    return check_range("sensitivity / epsilon", round(b * math.log(2) * 2**fraction), 1, 2**36)


def _check_exponential(
    epsilon: float, sensitivity: int, bound: int, fraction: int
) -> tuple[int, int, int]:
    """Return epsilon / (2 sensitivity), 2 * fraction bits, and widths of scores and exponents."""
    check_range("fraction", fraction, 8, 20)
    rate = check_epsilon(epsilon) / check_sensitivity(sensitivity)
    check_range("bound", bound, 1, int(2 ** (58 - 2 * fraction) / rate))
    s_bits = (math.ceil(bound * rate) + 1 - CLIP).bit_length() + fraction + 1
    return round(rate / 2 * 4**fraction), (2 * bound).bit_length() + 1, s_bits
