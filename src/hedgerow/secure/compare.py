"""Comparisons of secret numbers: less-than by the sign of a difference, equality by a zero test.

A sum is tested for zero without its carries. Paper: cortadella1992evaluation.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from hedgerow.errors import Code
from hedgerow.secure.adder import cost_msb, cost_summands, msb, summands
from hedgerow.secure.cost import Cost
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, SecretBits, concatenate

Number = Secret | ArrayLike


def less_than(x: Number, y: Number, *, bits: int | None = None) -> Secret:
    """Return 1 where x < y, else 0; at least one side is secret, shapes broadcast.

    1. d = x - y in the ring, local.
    2. The top bit of the lowest `bits` of d.
    3. The bit as 0 or 1 of the ring.

    Reveals: nothing.
    Cost: `cost_less_than`; `cost_msb`, then `Engine.b2a` of one bit for every element.

    Parameters
    ----------
    x, y : Secret or integers
        Signed. ``-2**(bits-1) <= x - y < 2**(bits-1)`` must hold, as it does for numbers of
        ``bits - 1`` bits with or without sign; otherwise the answer is the sign of the difference
        as it wraps around.
    bits : int, optional
        Width of the difference, the ring's by default. Narrow differences cost less.

    Returns
    -------
    Secret
        0 or 1, over the ring of the arguments.
    """
    d = _difference(x, y)
    return _as_numbers(msb(d, bits), d)


def equal(x: Number, y: Number, *, bits: int | None = None) -> Secret:
    """Return 1 where x == y, else 0; at least one side is secret, shapes broadcast.

    1. d = x - y in the ring, local, as the sum of a and b.
    2. a + b is zero if and only if every a_j ^ b_j equals the carry into j, and then that carry is
       a_(j-1) | b_(j-1): so no adder is needed.
       The OR is a ^ b ^ (a & b).
    3. Where no position differs, the AND of all complements is set: a tree of ANDs.

    Reveals: nothing.
    Cost: `cost_equal`; for two summands 2 (bits - 1) ANDs in 1 + ceil(log2 bits) rounds between
    `Engine.addends` and `Engine.b2a`.

    Parameters
    ----------
    x, y : Secret or integers
    bits : int, optional
        Compare the lowest so many bits; all by default.

    Returns
    -------
    Secret
        0 or 1, over the ring of the arguments.
    """
    d = _difference(x, y)
    return _as_numbers(is_zero(d, bits), d)


def is_zero(x: Secret, bits: int | None = None) -> SecretBits:
    """Return 1 where the lowest `bits` of x are all zero, shape (x.size,); see `equal`.

    Reveals: nothing.
    Cost: `cost_is_zero`.
    """
    return _all_bits(~_unlike_zero(summands(x, bits)))


def cost_less_than(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `less_than` for `size` elements."""
    return cost_msb(engine, size, ring, bits) + engine.cost("b2a", shape=(size,), ring=ring)


def cost_equal(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `equal` for `size` elements."""
    return cost_is_zero(engine, size, ring, bits) + engine.cost("b2a", shape=(size,), ring=ring)


def cost_is_zero(engine: Engine, size: int, ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `is_zero` for `size` elements."""
    planes = ring.bits if bits is None else bits
    total = cost_summands(engine, size, ring, bits)
    if engine.n_addends > 1 and planes > 1:
        total += engine.cost("and_", shape=(planes - 1, size))
    while planes > 1:
        total += engine.cost("and_", shape=(planes // 2, size))
        planes -= planes // 2
    return total


def _difference(x: Number, y: Number) -> Secret:
    if isinstance(x, Secret):
        return x - y
    if isinstance(y, Secret):
        return -y + x
    raise Code.WRONG_TYPE.error(
        expected="a secret on one side at least", found="two public arrays", fix="use NumPy's own"
    )


def _unlike_zero(parts: list[SecretBits]) -> SecretBits:
    """Return planes that are all zero where the parts add up to zero."""
    if len(parts) == 1:
        return parts[0]
    a, b = parts
    half = a ^ b
    if len(half) == 1:
        return half
    return concatenate([half[:1], half[1:] ^ half[:-1] ^ (a[:-1] & b[:-1])])


def _all_bits(planes: SecretBits) -> SecretBits:
    """Return the AND of planes (k, n) as bits (n,)."""
    while len(planes) > 1:
        pairs = len(planes) // 2
        both = planes[:pairs] & planes[pairs : 2 * pairs]
        planes = concatenate([both, planes[2 * pairs :]])
    return planes[0]


def _as_numbers(bit: SecretBits, like: Secret) -> Secret:
    return like.engine.b2a(bit, like.ring).reshape(*like.shape)
