"""The logistic function of secret numbers in fixed point: an exponential, then an inverse."""

from __future__ import annotations

from math import prod

from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.divide import cost_inverse, inverse
from hedgerow.secure.fixed.explog import cost_exp, exp
from hedgerow.secure.fixed.fixed_point import (
    FRACTION,
    check_range,
    check_ring,
    cost_rescale,
    rescale,
)
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, stack

LIMIT = 10
"""Beyond it the result stays as it is there: 1 / (1 + e^10) = 4.6e-5, or 1 less that."""


def sigmoid(x: Secret, *, bits: int, fraction: int, out: int) -> Secret:
    """Return 1 / (1 + e^-x).

    1. Three comparisons at once: x < 0, x > 10, x < -10; then m = min(abs(x), 10), one product.
    2. e = e^-m by `exp`, at most 1.
    3. z = (1 + e) / 2 is in [1/2, 1] already: its inverse, halved, is the result for m.
    4. For x < 0 it is 1 less that: one product.

    `x`, over Z_2^64, has `fraction` bits (0 to 20); abs(x) < 2**bits, with 1 to 58 bits. The
    result has `out` fraction bits, 0 to 30; it is from 0 to 2**out, off by at most 4.6e-5 + 2^-out.

    Reveals: nothing. Cost: `cost_sigmoid`.
    """
    check_ring(x)
    limit, width = _check(bits, fraction, out)
    below = less_than(stack([x, limit - x, x + limit]), 0, bits=width)
    moves = below * stack([x * -2, limit - x, x + limit])
    m = x + moves.sum(axis=0)
    e = exp(-m, fraction=fraction, low=-LIMIT, high=0, out=FRACTION - 1)
    # 1 / z is twice the result, so that its FRACTION bits are one more of the result's.
    y = inverse((e + (1 << (FRACTION - 1))).reshape(x.size)).reshape(*x.shape)
    result = y + below[0] * ((2 << FRACTION) - y * 2)
    return rescale(result, FRACTION + 1 - out)


def cost_sigmoid(
    engine: Engine, shape: tuple[int, ...], *, bits: int, fraction: int, out: int
) -> Cost:
    """State the cost of `sigmoid` for an array of a shape."""
    _, width = _check(bits, fraction, out)
    n = prod(shape)
    return (
        cost_less_than(engine, 3 * n, Z64, width)
        + engine.cost("mul", shape=(3, n), ring=Z64)
        + cost_exp(engine, shape, fraction=fraction, low=-LIMIT, high=0, out=FRACTION - 1)
        + cost_inverse(engine, n)
        + engine.cost("mul", shape=(n,), ring=Z64)
        + cost_rescale(engine, shape, FRACTION + 1 - out)
    )


def _check(bits: int, fraction: int, out: int) -> tuple[int, int]:
    """Return the limit in fixed point and the width of comparisons."""
    check_range("fraction", fraction, 0, 20)
    check_range("bits", bits, 1, 58)
    check_range("out", out, 0, FRACTION)
    limit = LIMIT << fraction
    return limit, ((1 << bits) + limit).bit_length() + 1
