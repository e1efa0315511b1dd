"""Exponentials and logarithms of secret numbers in fixed point: base 2 and base e.

Polynomials interpolate at Chebyshev nodes on u in [-1, 1]; their coefficients, times 2^30, are
constants of the protocol, since every party must use the same.

Errors, in units of 2^-30. A rescaling costs 1, so in Estrin's scheme the pairs are off by 1, the
quadruples by 1 + 1 + 1 and what their small coefficients make of the error of u^2 (less than 0.1),
the next level by 3.1 + 3 + 1, the next by 7.1 + 3 + 1.

``exp2``  7.1 and 0.6 for the polynomial: below 16, relative to 2^f >= 1.
``exp``   1.4 for the rounding and 0.7 for the constant of the exponent more: below 32.
``log2``  11.1, 0.6 for the polynomial and 2.9 for the rounding of z: below 32.
``ln``    11.1, 1.2 and 2: below 32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hedgerow.secure.compare import cost_a2b
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.fixed.fixed_point import (
    FRACTION,
    MAX_BITS,
    check_range,
    check_ring,
    cost_digits,
    cost_normalise,
    cost_polynomial,
    cost_power_of_two,
    cost_rescale,
    flat,
    normalise,
    polynomial,
    power_of_two,
    rescale,
)
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, SecretBits

# 2^((u + 1) / 2); off by 0.6 units.
EXP2 = (1518500250, 526272083, 91196005, 10535375, 912811, 63272, 3670, 182)
# log2((u + 3) / 4); off by 0.6 units.
LOG2 = (
    *(-445643121, 516360668, -86060123, 19124473, -4780984, 1274924),
    *(-354717, 101360, -28463, 8420, -3504, 1067),
)
# ln((u + 3) / 4); off by 1.2 units.
LN = (
    *(-308896273, 357913941, -59652332, 13256074, -3313926, 883710),
    *(-245871, 70258, -19729, 5837, -2429, 739),
)

# Fraction bits of the exponent inside `exp`, and of the integer part inside `ln`.
_EXPONENT_FRACTION = 29
_SUM_FRACTION = 50
_WIDEST = 31
# ln(2) 2^50 and log2(e) 2^60, rounded.
_LN2_50 = 780_414_346_020_670
_LOG2_E_60 = 1_663_314_137_230_540_311


def exp2(x: Secret, *, fraction: int, low: int, high: int, out: int) -> Secret:
    """Raise 2 to secret numbers from a public range.

    1. x - low = i + f with i an integer, 0 <= f < 1: the digits of i from the bits of x - low.
    2. 2^i by `power_of_two`, 2^f by a polynomial of degree 7 in u = 2 f - 1.
    3. Multiply; 2^low is a public shift.

    `x`, over Z_2^64, has `fraction` bits (0 to 30); low <= x < high, high - low from 1 to 31. The
    result has `out` fraction bits, 0 to 60 - high, and is off by at most 2^-26 2^x + 2^-out.

    Reveals: nothing. Cost: `cost_exp2`.
    """
    check_ring(x)
    digits, shift = _check_exp2(fraction, low, high, out)
    column = flat(x) - (low << fraction)
    planes = column.a2b(fraction + digits)
    integer = x.engine.b2a(planes[fraction:], Z64)
    weights = np.left_shift(1, fraction + np.arange(digits))
    rest = column - (integer * weights[:, None]).sum(axis=0)
    u = rest * (1 << (FRACTION + 1 - fraction)) - (1 << FRACTION)
    return rescale(polynomial(u, EXP2) * power_of_two(integer), shift).reshape(*x.shape)


def cost_exp2(
    engine: Engine, shape: tuple[int, ...], *, fraction: int, low: int, high: int, out: int
) -> Cost:
    """State the cost of `exp2` for an array of a shape."""
    n = prod(shape)
    digits, shift = _check_exp2(fraction, low, high, out)
    return (
        cost_a2b(engine, n, Z64, fraction + digits)
        + engine.cost("b2a", shape=(digits, n), ring=Z64)
        + cost_polynomial(engine, n, len(EXP2))
        + cost_power_of_two(engine, digits, n)
        + engine.cost("mul", shape=(n,), ring=Z64)
        + cost_rescale(engine, (n,), shift)
    )


def exp(x: Secret, *, fraction: int, low: int, high: int, out: int) -> Secret:
    """Raise e to secret numbers from a public range: 2 to x log2(e).

    1. x times the public log2(e), with 29 fraction bits.
    2. `exp2`.

    `x`, over Z_2^64, has `fraction` bits (0 to 20); low <= x <= high, both from -30 to 30 and at
    most 20 apart. The result has `out` fraction bits, 0 to 58 - 1.45 high, and is off by at most
    2^-25 e^x + 2^-out.

    Reveals: nothing. Cost: `cost_exp`.
    """
    check_ring(x)
    to_base, shift, low2, high2 = _check_exp(fraction, low, high)
    exponent = rescale(x * to_base, shift)
    return exp2(exponent, fraction=_EXPONENT_FRACTION, low=low2, high=high2, out=out)


def cost_exp(
    engine: Engine, shape: tuple[int, ...], *, fraction: int, low: int, high: int, out: int
) -> Cost:
    """State the cost of `exp` for an array of a shape."""
    _, shift, low2, high2 = _check_exp(fraction, low, high)
    inner = cost_exp2(engine, shape, fraction=_EXPONENT_FRACTION, low=low2, high=high2, out=out)
    return cost_rescale(engine, shape, shift) + inner


def log2(x: Secret, *, bits: int, fraction: int, out: int) -> Secret:
    """Return binary logarithms of secret positive numbers.

    1. The bits of x.
    2. to 4. of `log_of_bits`.

    `x`, over Z_2^64, stands for x / 2**fraction, 1 <= x < 2**bits; `bits` is from 2 to 61,
    `fraction` from 0 to 61. The signed result has `out` fraction bits, 0 to 30, and is off by at
    most 2^-25 + 2^-out.

    Reveals: nothing. Cost: `cost_log`.
    """
    return _log(x, bits, fraction, out, natural=False)


def ln(x: Secret, *, bits: int, fraction: int, out: int) -> Secret:
    """Return natural logarithms; parameters, error, reveals and cost as for `log2`."""
    return _log(x, bits, fraction, out, natural=True)


def log_of_bits(
    x: Secret, planes: SecretBits, *, fraction: int, out: int, natural: bool = False
) -> Secret:
    """Return logarithms of numbers whose bits are shared already.

    2. Normalise: z = x 2^s / 2^bits in [1/2, 1).
    3. log z by a polynomial of degree 11 in u = 4 z - 3.
    4. Add (bits - s - fraction) times log 2.

    The bits of `x` (n,) are `planes` (bits, n), lowest first. `fraction` and `out` as in `log2`.

    Reveals: nothing. Cost: `cost_log` with ``shared_bits=True``.
    """
    check_ring(x)
    bits = len(planes)
    _check_log(bits, fraction, out)
    z, scale = normalise(x, planes)
    digits = scale.digits()
    value = polynomial(z * 4 - (3 << FRACTION), LN if natural else LOG2)
    # log 2 with many fraction bits, so that its multiples bring no error of their own.
    unit = _LN2_50 if natural else 1 << _SUM_FRACTION
    weights = np.left_shift(1, np.arange(len(digits))) * unit
    whole = (digits * weights[:, None]).sum(axis=0) * -1 + (bits - fraction) * unit
    return rescale(value * (1 << (_SUM_FRACTION - FRACTION)) + whole, _SUM_FRACTION - out)


def cost_log(
    engine: Engine,
    shape: tuple[int, ...],
    *,
    bits: int,
    out: int,
    shared_bits: bool = False,
) -> Cost:
    """State the cost of `log2`, `ln` or `log_of_bits` for an array of a shape."""
    n = prod(shape)
    return (
        (NOTHING if shared_bits else cost_a2b(engine, n, Z64, bits))
        + cost_normalise(engine, bits, n)
        + cost_digits(engine, bits, n)
        + cost_polynomial(engine, n, len(LOG2))
        + cost_rescale(engine, (n,), _SUM_FRACTION - out)
    )


def _log(x: Secret, bits: int, fraction: int, out: int, natural: bool) -> Secret:
    _check_log(bits, fraction, out)
    check_ring(x)
    column = flat(x)
    value = log_of_bits(column, column.a2b(bits), fraction=fraction, out=out, natural=natural)
    return value.reshape(*x.shape)


def _check_exp2(fraction: int, low: int, high: int, out: int) -> tuple[int, int]:
    """Return the digits of the integer part and the shift of the result."""
    check_range("fraction", fraction, 0, FRACTION)
    check_range("high - low", high - low, 1, _WIDEST)
    check_range("out", out, 0, 60 - high)
    return max(1, (high - low - 1).bit_length()), FRACTION - low - out


def _check_exp(fraction: int, low: int, high: int) -> tuple[int, int, int, int]:
    """Return log2(e) as an integer, the shift of the exponent, and its range."""
    check_range("fraction", fraction, 0, 20)
    check_range("low", low, -30, 30)
    check_range("high", high, low, min(30, low + 20))
    # A number below 2^(5 + fraction) times a constant below 2^(scale + 1).
    scale = 55 - fraction
    to_base = _LOG2_E_60 >> (60 - scale)
    slack = 1 << 40
    low2 = (low * _LOG2_E_60 - slack) >> 60
    high2 = ((high * _LOG2_E_60 + slack) >> 60) + 1
    return to_base, fraction + scale - _EXPONENT_FRACTION, low2, high2


def _check_log(bits: int, fraction: int, out: int) -> None:
    check_range("bits", bits, 2, MAX_BITS)
    check_range("fraction", fraction, 0, MAX_BITS)
    check_range("out", out, 0, FRACTION)
