"""Adders on bit planes: from numbers that add up to a value to the bits of the value.

A plane holds bit j of every element, packed. A position j of two summands a and b is the pair
v = a_j, p = a_j ^ b_j: its carry out is the carry in where p is set, and v elsewhere. Two
neighbouring positions, 1 above 0, behave as one:

    v = v1 ^ p1 & (v0 ^ v1),    p = p1 & p0.

Below position 0 the carry in is zero, which makes a first position (0, 0) whose p is never needed:
joining onto it takes one AND, any other join two. Taking v = a instead of a & b saves the ANDs of
a first level. All ANDs of a level are one call, so they take one round.

Paper: sklansky1960conditional. A sum is tested for zero without its carries. Paper:
cortadella1992evaluation.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class Planes(Protocol):
    """Bits (planes, n), of which these circuits see only this much; `SecretBits` are such."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Self: ...
    def __xor__(self, other: Self) -> Self: ...
    def __and__(self, other: Self) -> Self: ...
    def __invert__(self) -> Self: ...

    def concatenate(self, *others: Self) -> Self:
        """Put further planes behind these."""

    def with_planes(self, where: NDArray[np.int64], new: Self) -> Self:
        """Return the planes with some of them replaced."""


Bits = TypeVar("Bits", bound=Planes)


def two_summands(parts: list[Bits]) -> list[Bits]:
    """Turn numbers into at most two of the same sum modulo ``2**bits``.

    While there are more than two, three of them become two (carry-save): a ^ b ^ c, and
    a ^ (a ^ b) & (a ^ c) one place higher; all triples in one call.
    """
    k, zero = len(parts[0]), zeros(parts[0])
    while len(parts) > 2:
        triples = len(parts) // 3
        thirds = (parts[place : 3 * triples : 3] for place in range(3))
        a, b, c = (first.concatenate(*rest) for first, *rest in thirds)
        total, carry = a ^ b ^ c, a ^ ((a ^ b) & (a ^ c))
        rest = parts[3 * triples :]
        parts = [total[i * k : (i + 1) * k] for i in range(triples)]
        parts += [zero.concatenate(carry[i * k : (i + 1) * k - 1]) for i in range(triples)]
        parts += rest
    return parts


def total(parts: list[Bits]) -> Bits:
    """Return the sum of one or two numbers: prefix joins (Sklansky's) give every carry."""
    return parts[0] if len(parts) == 1 else parts[0] ^ parts[1] ^ _carries(*parts)


def sign(parts: list[Bits]) -> Bits:
    """Return the top bit (n,) of the sum of one or two numbers: theirs, and the carry into it."""
    top = parts[0][-1]
    return top if len(parts) == 1 else top ^ parts[1][-1] ^ carry_into_top(*parts)


def is_zero(parts: list[Bits]) -> Bits:
    """Return 1 where one or two numbers add up to zero, (n,).

    1. a + b is zero if and only if every a_j ^ b_j equals the carry into j, and then that carry is
       a_(j-1) | b_(j-1): so no adder is needed. The OR is a ^ b ^ (a & b).
    2. Where no position differs, the AND of all complements is set: a tree of ANDs.
    """
    unlike = parts[0]
    if len(parts) == 2:
        a, b = parts
        unlike = half = a ^ b
        if len(half) > 1:
            unlike = half[:1].concatenate(half[1:] ^ half[:-1] ^ (a[:-1] & b[:-1]))
    return all_of(~unlike)


def all_of(planes: Bits) -> Bits:
    """Return the conjunction (n,) of planes: k - 1 ANDs in ceil(log2 k) rounds."""
    while len(planes) > 1:
        pairs = len(planes) // 2
        both = planes[:pairs] & planes[pairs : 2 * pairs]
        planes = both.concatenate(planes[2 * pairs :])
    return planes[0]


def less(a: Bits, b: Bits) -> Bits:
    """Return 1 where a < b, both without sign, (n,): what b + ~a carries out of k bits."""
    above = zeros(a)
    return carry_into_top(b.concatenate(above), (~a).concatenate(above))


def carry_into_top(a: Bits, b: Bits) -> Bits:
    """Return the carry (n,) that the lower bits of a + b send into the top bit.

    k - 1 positions (a_j, a_j ^ b_j) and the zero below them are k positions; neighbours are joined,
    level by level, until one is left: 2 (k - 1) - ceil(log2 k) ANDs in ceil(log2 k) rounds.
    """
    k, lowest = len(a), zeros(a)
    v, p = a[: k - 1], a[: k - 1] ^ b[: k - 1]
    # v and p are those of the positions above the lowest, which joins with the first of them.
    while len(v) > 0:
        pairs = (1 + len(v)) // 2
        v0, p0 = v[1 : 2 * pairs - 2 : 2], p[1 : 2 * pairs - 2 : 2]
        v1, p1 = v[0 : 2 * pairs - 1 : 2], p[0 : 2 * pairs - 1 : 2]
        unlike = (lowest ^ v1[:1]).concatenate(v0 ^ v1[1:], p0)
        joined = p1.concatenate(p1[1:]) & unlike
        carries = v1 ^ joined[:pairs]
        lowest, v = carries[:1], carries[1:].concatenate(v[2 * pairs - 1 :])
        p = joined[pairs:].concatenate(p[2 * pairs - 1 :])
    return lowest[0]


def zeros(like: Bits) -> Bits:
    """Return a plane of zeros; local."""
    return like[:1] ^ like[:1]


def sklansky(k: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return, for every step, the lower and upper positions that are joined.

    In the step of reach r, the upper half of every block of 2 r positions is joined onto the
    highest position of the lower half, which by then stands for the whole lower half.
    """
    steps = []
    for reach in (1 << step for step in range((k - 1).bit_length())):
        upper = np.flatnonzero(np.arange(k) & reach)
        steps.append(((upper & ~(reach - 1)) - 1, upper))
    return steps


def _carries(a: Bits, b: Bits) -> Bits:
    """Return the carries into every position of a + b, (k, n)."""
    k, zero = len(a), zeros(a)
    v, p = zero.concatenate(a[: k - 1]), zero.concatenate(a[: k - 1] ^ b[: k - 1])
    for step, (lower, upper) in enumerate(sklansky(k)):
        inner = lower >= 1 << step
        p1 = p[upper]
        joined = p1.concatenate(p1[inner]) & (v[lower] ^ v[upper]).concatenate(p[lower[inner]])
        v = v.with_planes(upper, v[upper] ^ joined[: len(upper)])
        p = p.with_planes(upper[inner], joined[len(upper) :])
    return v
