"""Exact floor of the quotient of two secret integers: a reciprocal, then comparisons.

`fixed.divide` inverts a number up to a relative error of 2^-26, and truncations may end
one too low. Here a quotient is computed from that inverse in pieces of `PIECE` bits, each too small
by 0, 1 or 2 at most, and what is missing is found by looking at the remainder.
"""

from __future__ import annotations

from math import prod

from hedgerow.secure.compare import cost_a2b, cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.divide import cost_inverse, inverse
from hedgerow.secure.fixed.fixed_point import (
    FRACTION,
    MAX_BITS,
    check_range,
    check_ring,
    cost_normalise,
    cost_rescale,
    cost_scaled,
    flat,
    normalise,
    rescale,
)
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, stack

PIECE = 24
"""Bits of a quotient that one product with the inverse gives."""


def floor_divide(a: Secret, x: Secret, *, bits: int, quotient_bits: int) -> Secret:
    """Divide integers and round down, exactly; 0 where x is 0, whatever a is there.

    1. Normalise: z = x 2^s / 2^bits in [1/2, 1); y = 1/z up to a factor 1 + d, abs(d) <= 2^-26.
    2. With Q = quotient_bits and w = min(bits, 30 - Q): u = a 2^s / 2^(bits - w), rounded with an
       error of at most 1; u y / 2^(30 + w) is a / x with an error of at most
       2^Q abs(d) + y / 2^(30 + w) <= e(Q) = 2^(Q-26) + 1.01 * 2^(Q-29) < 1.2 * 2^(Q-26).
    3. While Q > 24: round that to an integer q, off by at most e(Q) + 1 < 2^(Q-24); go on with the
       remainder a - q x, which is at most 2^(Q-24) x in magnitude, in place of a. All q add up.
    4. Now Q <= 24 and e(Q) < 1/2. Truncate u y - 2^(29+w), which takes away 1/2 and then 0 or
       more but less than 2: q - a/x is above -3 and below 0, so that q = floor(a/x) - 2, - 1
       or - 0 and the remainder r = a - q x lies in [0, 3 x).
    5. q + [r >= x] + [r >= 2 x] is the floor. Where x is 0 the steps before meant nothing, so
       multiply by [x >= 1], which is compared together with the other two.

    For 0 <= x < 2**bits and 0 <= a <= 2**quotient_bits * x, over Z_2^64; a negative a of that
    magnitude is rounded down too. `bits` is from 2 to 61, `quotient_bits` from 0 to 61 - bits: the
    width of a where nothing else is known.

    Reveals: nothing. Cost: `cost_floor_divide`.
    """
    check_ring(a, x)
    *coarse, last = _pieces(bits, quotient_bits)
    column, rest = flat(x), flat(a.broadcast_to(x.shape))
    z, scale = normalise(column, column.a2b(bits))
    y = inverse(z)
    quotient: Secret | int = 0
    for reach in coarse:
        wide = _wide(bits, reach)
        q = rescale(rescale(scale.times(rest), bits - wide) * y, wide + FRACTION)
        rest, quotient = rest - q * column, q + quotient
    wide = _wide(bits, last)
    shift = wide + FRACTION
    product = rescale(scale.times(rest), bits - wide) * y
    q = x.engine.truncate(product - (1 << (shift - 1)), shift)
    rest = rest - q * column
    below = less_than(stack([rest - column, rest - column * 2, column - 1]), 0, bits=bits + 2)
    result = (q + quotient + 2 - below[0] - below[1]) * (1 - below[2])
    return result.reshape(*x.shape)


def cost_floor_divide(
    engine: Engine, shape: tuple[int, ...], *, bits: int, quotient_bits: int
) -> Cost:
    """State the cost of `floor_divide` for a result of a shape."""
    n = prod(shape)
    once = engine.cost("mul", shape=(n,), ring=Z64)
    total = cost_a2b(engine, n, Z64, bits) + cost_normalise(engine, bits, n)
    total += cost_inverse(engine, n)
    for reach in _pieces(bits, quotient_bits):
        wide = _wide(bits, reach)
        total += cost_scaled(engine, bits, n) + once * 2
        total += cost_rescale(engine, (n,), bits - wide)
        total += cost_rescale(engine, (n,), wide + FRACTION)
    return total + cost_less_than(engine, 3 * n, Z64, bits + 2) + once


def _pieces(bits: int, quotient_bits: int) -> list[int]:
    """Return the width of what is left of the quotient before each piece."""
    check_range("bits", bits, 2, MAX_BITS)
    check_range("quotient_bits", quotient_bits, 0, MAX_BITS - bits)
    pieces = [quotient_bits]
    while pieces[-1] > PIECE:
        pieces.append(pieces[-1] - PIECE)
    return pieces


def _wide(bits: int, quotient_bits: int) -> int:
    """Return the fraction bits, perhaps negative, with which a / x times z is held."""
    return min(bits, FRACTION - quotient_bits)
