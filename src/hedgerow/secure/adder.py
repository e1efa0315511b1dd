"""Adders on bit planes: from numbers that add up to a value to the bits of the value.

A plane holds bit j of every element, packed. A position j of two summands a and b is the pair
v = a_j, p = a_j ^ b_j: its carry out is the carry in where p is set, and v elsewhere. Two
neighbouring positions, 1 above 0, behave as one:

    v = v1 ^ p1 & (v0 ^ v1),    p = p1 & p0.

Below position 0 the carry in is zero, which makes a first position (0, 0) whose p is never needed:
joining onto it takes one AND, any other join two. Taking v = a instead of a & b saves the ANDs of
a first level. All ANDs of a level are one call.

Paper: sklansky1960conditional.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, SecretBits, concatenate


def summands(x: Secret, bits: int | None = None) -> list[SecretBits]:
    """Return the bits of one or two numbers that add up to x modulo ``2**bits``.

    1. The engine shares the bits of its addends.
    2. While there are more than two, three of them become two (carry-save):
       a ^ b ^ c, and a ^ (a ^ b) & (a ^ c) one place higher; all triples in one call.

    Reveals: nothing.
    Cost: `cost_summands`; `Engine.addends`, and one round for every carry-save step.

    Parameters
    ----------
    x : Secret of any shape
        Flattened.
    bits : int, optional
        Width, the ring's by default.

    Returns
    -------
    list of SecretBits, each of shape (bits, x.size)
    """
    k = _width(x.ring, bits)
    parts = x.engine.addends(x, k)
    zero = x.engine.public_bits(np.zeros((1, x.size), dtype=np.bool_))
    while len(parts) > 2:
        triples = len(parts) // 3
        a, b, c = (concatenate(parts[place : 3 * triples : 3]) for place in range(3))
        total, carry = a ^ b ^ c, a ^ ((a ^ b) & (a ^ c))
        rest = parts[3 * triples :]
        parts = [total[i * k : (i + 1) * k] for i in range(triples)]
        parts += [concatenate([zero, carry[i * k : (i + 1) * k - 1]]) for i in range(triples)]
        parts += rest
    return parts


def a2b(x: Secret, bits: int | None = None) -> SecretBits:
    """Return the lowest bits of secret numbers.

    1. x = a + b modulo ``2**bits`` as bits (`summands`).
    2. Prefix joins (Sklansky's) give every carry; each bit is a_j ^ b_j ^ carry_j.

    Reveals: nothing.
    Cost: `cost_a2b`; for two summands those of `Engine.addends`, then ceil(log2 bits) rounds.

    Parameters
    ----------
    x : Secret of any shape
        Flattened.
    bits : int, optional
        How many, all by default.

    Returns
    -------
    SecretBits, shape (bits, x.size)
        Plane j holds bit j of every element.
    """
    parts = summands(x, bits)
    return parts[0] if len(parts) == 1 else parts[0] ^ parts[1] ^ _carries(*parts)


def carry_into_top(a: SecretBits, b: SecretBits) -> SecretBits:
    """Return the carry that the lower bits of a + b send into the top bit.

    1. k - 1 positions (a_j, a_j ^ b_j) and the zero below them are k positions.
    2. Neighbours are joined, level by level, until one is left.

    Reveals: nothing.
    Cost: `cost_carry_into_top`; 2 (k - 1) - ceil(log2 k) ANDs in ceil(log2 k) rounds.

    Parameters
    ----------
    a, b : SecretBits, shape (k, n)
        Planes of the summands, lowest first.

    Returns
    -------
    SecretBits, shape (n,)
    """
    k, n = a.shape
    lowest = a.engine.public_bits(np.zeros((1, n), dtype=np.bool_))
    v, p = a[: k - 1], a[: k - 1] ^ b[: k - 1]
    # v and p are those of the positions above the lowest, which joins with the first of them.
    while len(v) > 0:
        pairs = (1 + len(v)) // 2
        v0, p0 = v[1 : 2 * pairs - 2 : 2], p[1 : 2 * pairs - 2 : 2]
        v1, p1 = v[0 : 2 * pairs - 1 : 2], p[0 : 2 * pairs - 1 : 2]
        unlike = [lowest ^ v1[:1], v0 ^ v1[1:]]
        joined = concatenate([p1, p1[1:]]) & concatenate([*unlike, p0])
        carries = v1 ^ joined[:pairs]
        lowest, v = carries[:1], concatenate([carries[1:], v[2 * pairs - 1 :]])
        p = concatenate([joined[pairs:], p[2 * pairs - 1 :]])
    return lowest[0]


def msb(x: Secret, bits: int | None = None) -> SecretBits:
    """Return the top bit of the lowest `bits` of secret numbers: 1 where they are negative.

    1. x = a + b modulo ``2**bits`` as bits (`summands`).
    2. The top bit is that of a, that of b and the carry into them, by XOR.

    Reveals: nothing.
    Cost: `cost_msb`.

    Parameters
    ----------
    x : Secret of any shape
        Flattened.
    bits : int, optional
        Width, the ring's by default.

    Returns
    -------
    SecretBits, shape (x.size,)
    """
    parts = summands(x, bits)
    top = parts[0][-1]
    return top if len(parts) == 1 else top ^ parts[1][-1] ^ carry_into_top(*parts)


def cost_summands(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `summands` for `size` elements."""
    width = _width(ring, bits)
    total = engine.cost("addends", shape=(size,), bits=width)
    left = engine.n_addends
    while left > 2:
        triples = left // 3
        total += _cost_and(engine, triples * width, size)
        left -= triples
    return total


def cost_a2b(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `a2b` for `size` elements."""
    width = _width(ring, bits)
    total = cost_summands(engine, size, ring, bits)
    if engine.n_addends > 1:
        for reach in _reaches(width):
            lower, upper = _sklansky(width, reach)
            total += _cost_and(engine, len(upper) + int(np.sum(lower >= reach)), size)
    return total


def cost_carry_into_top(engine: Engine, bits: int, size: int) -> Cost:
    """State the cost of `carry_into_top` for `size` pairs of `bits` bits."""
    total, positions = NOTHING, bits
    while positions > 1:
        pairs = positions // 2
        total += _cost_and(engine, 2 * pairs - 1, size)
        positions -= pairs
    return total


def cost_msb(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `msb` for `size` elements."""
    width = _width(ring, bits)
    total = cost_summands(engine, size, ring, bits)
    return total + (cost_carry_into_top(engine, width, size) if engine.n_addends > 1 else NOTHING)


def _carries(a: SecretBits, b: SecretBits) -> SecretBits:
    """Return the carries into every position of a + b, shape (k, n).

    In the step of reach r, the upper half of every block of 2 r positions is joined onto the
    highest position of the lower half, which by then stands for the whole lower half.
    """
    k, n = a.shape
    zero = a.engine.public_bits(np.zeros((1, n), dtype=np.bool_))
    v, p = concatenate([zero, a[: k - 1]]), concatenate([zero, a[: k - 1] ^ b[: k - 1]])
    for reach in _reaches(k):
        lower, upper = _sklansky(k, reach)
        inner = lower >= reach
        p1 = p[upper]
        joined = concatenate([p1, p1[inner]]) & concatenate([v[lower] ^ v[upper], p[lower[inner]]])
        v = _replaced(v, upper, v[upper] ^ joined[: len(upper)])
        p = _replaced(p, upper[inner], joined[len(upper) :])
    return v


def _sklansky(k: int, reach: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lower and upper positions that are joined in the step of a reach."""
    upper = np.flatnonzero(np.arange(k) & reach)
    return (upper & ~(reach - 1)) - 1, upper


def _reaches(k: int) -> list[int]:
    return [1 << step for step in range((k - 1).bit_length())]


def _replaced(planes: SecretBits, where: NDArray[np.int64], new: SecretBits) -> SecretBits:
    data = planes.data.copy()
    data[..., where, :] = new.data
    return planes.like(data)


def _cost_and(engine: Engine, planes: int, size: int) -> Cost:
    return engine.cost("and_", shape=(planes, size))


def _width(ring: Ring, bits: int | None) -> int:
    if bits is None:
        return ring.bits
    if not 1 <= bits <= ring.bits:
        raise Code.BAD_PARAMETER.error(
            expected=f"bits from 1 to {ring.bits}", found=f"bits={bits!r}"
        )
    return bits
