"""What fixed-point functions share: rescaling, polynomials, powers of two, normalisation.

A fixed-point number is an element of Z_2^64 that stands for itself divided by 2**fraction, with a
public fraction. Inside the functions numbers of magnitude up to 2 are held with `FRACTION` bits, so
that products stay below 2**62, which `Engine.truncate` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hedgerow.errors import Code
from hedgerow.secure.circuits import sklansky
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits, concatenate

FRACTION = 30
"""Fraction bits inside the functions."""
ONE = 1 << FRACTION
MAX_BITS = 61
"""Widest numbers that may be normalised."""


def check_ring(*numbers: Secret | object) -> None:
    """Refuse secrets that are not over Z_2^64."""
    for x in numbers:
        if isinstance(x, Secret) and x.ring != Z64:
            raise Code.SECRETS_DO_NOT_FIT.error(
                expected="fixed-point numbers over Z_2^64", found=repr(x)
            )


def check_range(name: str, value: int, low: int, high: int) -> int:
    """Return a public parameter that lies within its range, or raise H501."""
    if not low <= value <= high:
        raise Code.BAD_PARAMETER.error(
            expected=f"{name} from {low} to {high}", found=f"{name}={value}"
        )
    return value


def rescale(x: Secret, shift: int) -> Secret:
    """Divide by ``2**shift``; the error is above -1 and at most 1 unit. A negative shift is exact.

    1. Truncate, which rounds down and may end one lower still; add 1 to centre the error.

    Numbers are of magnitude below 2**62, also after a negative shift.

    Reveals: nothing. Cost: `cost_rescale`; one `Engine.truncate`.
    """
    if shift <= 0:
        return x * (1 << -shift)
    return x.engine.truncate(x, shift) + 1


def cost_rescale(engine: Engine, shape: tuple[int, ...], shift: int, ring: Ring = Z64) -> Cost:
    """State the cost of `rescale`."""
    if shift <= 0:
        return NOTHING
    return engine.cost("truncate", shape=shape, ring=ring, shift=shift)


def cost_product(engine: Engine, shape: tuple[int, ...]) -> Cost:
    """State the cost of a product of two numbers of `FRACTION` bits, rescaled to as many."""
    return engine.cost("mul", shape=shape, ring=Z64) + cost_rescale(engine, shape, FRACTION)


def polynomial(u: Secret, coefficients: Sequence[int]) -> Secret:
    """Evaluate a polynomial with public coefficients by Estrin's scheme.

    1. c_2i + c_(2i+1) u for all i, and u^2.
    2. Join neighbours: a + b u^2, then a + b u^4, ..., all of a level at once.

    `u` (n,) and the result have `FRACTION` bits, `u` of magnitude up to 1. `coefficients` are times
    ``2**FRACTION``, lowest power first; where their sums are below 2, rounding costs at most ``3 *
    2**depth`` units.

    Reveals: nothing.
    Cost: `cost_polynomial`; ceil(log2(len(coefficients))) multiplications and truncations deep.
    """
    c = np.array([*coefficients, *[0] * (len(coefficients) % 2)], dtype=np.int64)
    pairs = u * c[1::2, None] + (c[::2, None] << FRACTION)
    level = rescale(concatenate([pairs, (u * u).reshape(1, *u.shape)]), FRACTION)
    terms, power = level[:-1], level[-1:]
    while len(terms) > 1:
        half = len(terms) // 2
        a, b, rest = terms[0 : 2 * half : 2], terms[1 : 2 * half : 2], terms[2 * half :]
        factors = concatenate([b, power]) if len(terms) > 2 else b
        products = rescale(factors * power, FRACTION)
        terms, power = concatenate([a + products[:half], rest]), products[half:]
    return terms[0]


def cost_polynomial(engine: Engine, n: int, terms: int) -> Cost:
    """State the cost of `polynomial` with so many coefficients, for n numbers."""
    pairs = (terms + 1) // 2
    total = engine.cost("mul", shape=(n,), ring=Z64)
    total += cost_rescale(engine, (pairs + 1, n), FRACTION)
    while pairs > 1:
        total += cost_product(engine, (pairs // 2 + (pairs > 2), n))
        pairs -= pairs // 2
    return total


def power_of_two(digits: Secret) -> Secret:
    """Raise 2 to secret exponents that are given by their binary digits.

    1. 2^(sum of 2^k d_k) is the product of 1 + d_k (2^(2^k) - 1), multiplied in a tree.

    The 1 to 6 digits come lowest first.

    Reveals: nothing. Cost: `cost_power_of_two`; k - 1 multiplications in ceil(log2 k) rounds.
    """
    weights = np.array([2 ** (2**k) - 1 for k in range(len(digits))], dtype=np.uint64)
    factors = digits * weights[:, None] + 1
    while len(factors) > 1:
        half = len(factors) // 2
        products = factors[:half] * factors[half : 2 * half]
        factors = concatenate([products, factors[2 * half :]])
    return factors[0]


def cost_power_of_two(engine: Engine, digits: int, n: int) -> Cost:
    """State the cost of `power_of_two`."""
    total = NOTHING
    while digits > 1:
        total += engine.cost("mul", shape=(digits // 2, n), ring=Z64)
        digits -= digits // 2
    return total


@dataclass(frozen=True, eq=False)
class Scale:
    """2^s of secret s: one-hot bits (bits, n), or a number where products of numbers are cheaper.

    Where no bit is set the number is 1, and the bits stand for 0.
    """

    hot: SecretBits
    number: Secret | None
    _digits: Secret | None

    @classmethod
    def of(cls, hot: SecretBits) -> Scale:
        """Take one-hot bits. Cost: `cost_scale`."""
        if hot.engine.multiplies_bits:
            return cls(hot, None, None)
        digits = hot.engine.b2a(_digit_planes(hot), Z64)
        return cls(hot, power_of_two(digits), digits)

    def times(self, x: Secret) -> Secret:
        """Return x 2^s, (n,). Cost: `cost_scaled`."""
        return x.engine.mul_bits(x, self.hot) if self.number is None else x * self.number

    def digits(self) -> Secret:
        """Return the digits of s, lowest first. Cost: `cost_digits`."""
        if self._digits is None:
            return self.hot.engine.b2a(_digit_planes(self.hot), Z64)
        return self._digits


def cost_scale(engine: Engine, bits: int, n: int) -> Cost:
    """State the cost of `Scale.of`."""
    if engine.multiplies_bits:
        return NOTHING
    digits = (bits - 1).bit_length()
    made = engine.cost("b2a", shape=(digits, n), ring=Z64)
    return made + cost_power_of_two(engine, digits, n)


def cost_scaled(engine: Engine, bits: int, n: int) -> Cost:
    """State the cost of `Scale.times`."""
    if engine.multiplies_bits:
        return engine.cost("mul_bits", shape=(n,), ring=Z64, bits=bits)
    return engine.cost("mul", shape=(n,), ring=Z64)


def cost_digits(engine: Engine, bits: int, n: int) -> Cost:
    """State the cost of `Scale.digits`."""
    if not engine.multiplies_bits:
        return NOTHING
    return engine.cost("b2a", shape=((bits - 1).bit_length(), n), ring=Z64)


def _digit_planes(hot: SecretBits) -> SecretBits:
    """Return the digits of where one-hot bits are set, lowest first: XORs."""
    data, bits = hot.data, len(hot)
    rows = np.zeros((*data.shape[:-2], (bits - 1).bit_length(), data.shape[-1]), dtype=data.dtype)
    for s in range(bits):
        for k in range(s.bit_length()):
            if s >> k & 1:
                rows[..., k, :] ^= data[..., s, :]
    return hot.like(rows)


def normalise(x: Secret, planes: SecretBits) -> tuple[Secret, Scale]:
    """Shift numbers up until their most significant bit is the highest.

    1. Prefix ORs from the highest plane down (Sklansky's tree); where one differs from the next
       higher is the most significant bit: a one-hot vector over the planes.
    2. `Scale` 2^s of the shift s; multiply.

    `x` (n,) has 1 <= x < 2**bits and `planes` (bits, n), lowest first; bits from 2 to `MAX_BITS`.
    Returns z with `FRACTION` bits, 1/2 <= z <= 1, off by at most one unit and by none if bits <=
    FRACTION; and the scale, s = bits - 1 - position of the most significant bit. For x = 0, z is 0.

    Reveals: nothing. Cost: `cost_normalise`.
    """
    bits = check_range("bits", len(planes), 2, MAX_BITS)
    none = ~planes[::-1]
    for lower, upper in sklansky(bits):
        joined = none[upper] & none[lower]
        source = np.arange(bits)
        source[upper] = bits + np.arange(upper.size)
        none = concatenate([none, joined])[source]
    # none[i]: the i + 1 highest bits are all 0. The shift is s where none[s - 1] and not none[s].
    scale = Scale.of(concatenate([~none[:1], none[:-1] ^ none[1:]]))
    return rescale(scale.times(x), bits - FRACTION), scale


def cost_normalise(engine: Engine, bits: int, n: int) -> Cost:
    """State the cost of `normalise`."""
    total = NOTHING
    for lower, _ in sklansky(bits):
        total += engine.cost("and_", shape=(lower.size, n))
    total += cost_scale(engine, bits, n) + cost_scaled(engine, bits, n)
    return total + cost_rescale(engine, (n,), bits - FRACTION)


def flat(x: Secret) -> Secret:
    """Return the elements in one axis."""
    return x.reshape(prod(x.shape))
