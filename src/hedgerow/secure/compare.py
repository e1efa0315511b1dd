"""Comparisons of secret numbers: less-than by the sign of a difference, equality by a zero test."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import Code
from hedgerow.secure.circuits import sklansky
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, check_width

Number = Secret | ArrayLike


def less_than(x: Number, y: Number, *, bits: int | None = None) -> Secret:
    """Return 1 where x < y, else 0; at least one side is secret, shapes broadcast.

    1. d = x - y in the ring, local.
    2. The top bit of the lowest `bits` of d.
    3. The bit as 0 or 1 of the ring.

    Numbers are signed. ``-2**(bits-1) <= x - y < 2**(bits-1)`` must hold, as it does for numbers of
    ``bits - 1`` bits with or without sign; otherwise the answer is the sign of the difference as it
    wraps around. Narrow differences cost less; by default they are as wide as the ring.

    Reveals: nothing.
    Cost: `cost_less_than`; `cost_msb`, then `Engine.b2a` of one bit for every element.
    """
    return _difference(x, y).is_negative(bits)


def equal(x: Number, y: Number, *, bits: int | None = None) -> Secret:
    """Return 1 where x == y in the lowest `bits`, else 0; at least one side is secret.

    1. d = x - y in the ring, local, as the sum of a and b.
    2. Whether that is zero, without an adder: `circuits.is_zero`.

    Reveals: nothing.
    Cost: `cost_equal`; for two summands 2 (bits - 1) ANDs in 1 + ceil(log2 bits) rounds between
    `Engine.addends` and `Engine.b2a`.
    """
    return _difference(x, y).is_zero(bits)


def cost_less_than(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `less_than` for `size` elements."""
    return cost_msb(engine, size, ring, bits) + engine.cost("b2a", shape=(size,), ring=ring)


def cost_equal(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `equal` for `size` elements."""
    planes = check_width(ring, bits)
    total = cost_summands(engine, size, ring, bits)
    if engine.n_addends > 1 and planes > 1:
        total += _cost_and(engine, planes - 1, size)
    total += cost_all_of(engine, planes, size)
    return total + engine.cost("b2a", shape=(size,), ring=ring)


def cost_summands(
    engine: Engine, size: int, ring: Ring, bits: int | None = None, drop: int = 0
) -> Cost:
    """State the cost of `Secret.summands` for `size` elements."""
    width = check_width(ring, bits)
    total = engine.cost("addends", shape=(size,), bits=width)
    width -= drop
    left = engine.n_addends
    while left > 2:
        triples = left // 3
        total += _cost_and(engine, triples * width, size)
        left -= triples
    return total


def cost_a2b(engine: Engine, size: int, ring: Ring, bits: int | None = None, drop: int = 0) -> Cost:
    """State the cost of `Secret.a2b` for `size` elements."""
    total = cost_summands(engine, size, ring, bits, drop)
    if engine.n_addends > 1:
        for step, (lower, upper) in enumerate(sklansky(check_width(ring, bits) - drop)):
            total += _cost_and(engine, len(upper) + int(np.sum(lower >= 1 << step)), size)
    return total


def cost_msb(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `circuits.sign` for `size` elements, their summands included."""
    total = cost_summands(engine, size, ring, bits)
    if engine.n_addends > 1:
        total += cost_carry_into_top(engine, check_width(ring, bits), size)
    return total


def cost_carry_into_top(engine: Engine, bits: int, size: int) -> Cost:
    """State the cost of `circuits.carry_into_top` for `size` pairs of `bits` bits."""
    total, positions = NOTHING, bits
    while positions > 1:
        pairs = positions // 2
        total += _cost_and(engine, 2 * pairs - 1, size)
        positions -= pairs
    return total


def cost_all_of(engine: Engine, planes: int, size: int) -> Cost:
    """State the cost of `circuits.all_of` for `size` elements."""
    total = NOTHING
    while planes > 1:
        total += _cost_and(engine, planes // 2, size)
        planes -= planes // 2
    return total


def _cost_and(engine: Engine, planes: int, size: int) -> Cost:
    return engine.cost("and_", shape=(planes, size))


def _difference(x: Number, y: Number) -> Secret:
    if isinstance(x, Secret):
        return x - y
    if isinstance(y, Secret):
        return -y + x
    raise Code.WRONG_TYPE.error(
        expected="a secret on one side at least", found="two public arrays", fix="use NumPy's own"
    )
