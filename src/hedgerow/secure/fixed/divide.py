"""Division of secret numbers in fixed point, by Goldschmidt's iteration."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.secure.compare import cost_a2b
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.fixed.fixed_point import (
    FRACTION,
    MAX_BITS,
    ONE,
    check_range,
    check_ring,
    cost_normalise,
    cost_product,
    cost_rescale,
    cost_scaled,
    flat,
    normalise,
    rescale,
)
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, stack

# c - 2 z with c = 4 (sqrt(3) - 1) is the line of slope -2 that is closest to 1/z on [1/2, 1] in
# relative error: at most 0.0718 = 2^-3.8. A slope of -2 needs no truncation.
_LINE = 3_144_134_277


def divide(
    a: Secret | ArrayLike, x: Secret, *, bits: int, fraction: int, quotient_bits: int = 0
) -> Secret:
    """Divide: a / x as a fixed-point number.

    1. Normalise: z = x 2^s / 2^bits in [1/2, 1).
    2. y = c - 2 z; e = 1 - z y, at most 0.072.
    3. y <- y (1 + e), e <- e^2, twice; y <- y (1 + e): now y = 1/z but for e^8.
    4. a 2^s / 2^bits, of magnitude up to 2**quotient_bits, times y.

    For 1 <= x < 2**bits and abs(a) <= 2**quotient_bits * x, over Z_2^64; where x is 0 the result
    means nothing. Where a and x are fixed-point numbers of one fraction, it is their quotient too.
    `quotient_bits` is from 0 to 29, `bits` from 2 and `fraction` from 0 to 61 - quotient_bits. The
    result is off by at most 2^(quotient_bits - 26) + 2^-fraction, and by 2^(quotient_bits - 29)
    more if bits > 30 - quotient_bits. For a = 1 and bits <= 30 the first term is 2^-26 / x.

    Reveals: nothing. Cost: `cost_divide`.
    """
    check_ring(a, x)
    wide = _check(bits, fraction, quotient_bits)
    column = flat(x)
    z, scale = normalise(column, column.a2b(bits))
    if isinstance(a, Secret):
        top = scale.times(flat(a.broadcast_to(x.shape)))
    else:
        public = np.broadcast_to(a, x.shape).reshape(-1)
        number = scale.number
        top = scale.times(x.engine.public(public, Z64)) if number is None else number * public
    top = rescale(top, bits - wide)
    result = rescale(top * inverse(z), wide + FRACTION - fraction)
    return result.reshape(*x.shape)


def cost_divide(
    engine: Engine,
    shape: tuple[int, ...],
    *,
    bits: int,
    fraction: int,
    quotient_bits: int = 0,
    secret_numerator: bool = True,
) -> Cost:
    """State the cost of `divide` for a result of a shape."""
    n, wide = prod(shape), _check(bits, fraction, quotient_bits)
    once = engine.cost("mul", shape=(n,), ring=Z64)
    # A public number times a scale that is a number is local.
    scaled = secret_numerator or engine.multiplies_bits
    return (
        cost_a2b(engine, n, Z64, bits)
        + cost_normalise(engine, bits, n)
        + (cost_scaled(engine, bits, n) if scaled else NOTHING)
        + cost_rescale(engine, (n,), bits - wide)
        + cost_inverse(engine, n)
        + once
        + cost_rescale(engine, (n,), wide + FRACTION - fraction)
    )


def inverse(z: Secret) -> Secret:
    """Return 1 / z for 1/2 <= z <= 1; both have `FRACTION` bits.

    Rounding costs 1 unit in e, 3 in y after the first step, 6.3 after the second and 9.4 after the
    third. The method leaves 0.072^8, 0.8 units, and the rounding of z at most 2 relative to z:
    with z <= 1 the relative error is below 16 units, 2^-26.
    """
    y = z * -2 + _LINE
    e = rescale(z * y, FRACTION) * -1 + ONE
    for _ in range(2):
        both = rescale(stack([y, e]) * stack([e + ONE, e]), FRACTION)
        y, e = both[0], both[1]
    return rescale(y * (e + ONE), FRACTION)


def cost_inverse(engine: Engine, n: int) -> Cost:
    """State the cost of `inverse` of n numbers."""
    return (cost_product(engine, (n,)) + cost_product(engine, (2, n))) * 2


def _check(bits: int, fraction: int, quotient_bits: int) -> int:
    """Return the fraction bits with which a / x is held before the last product."""
    check_range("quotient_bits", quotient_bits, 0, FRACTION - 1)
    check_range("bits", bits, 2, MAX_BITS - quotient_bits)
    check_range("fraction", fraction, 0, MAX_BITS - quotient_bits)
    return min(bits, FRACTION - quotient_bits)
