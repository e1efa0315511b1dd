"""Functions of secret numbers as lines between knots: a public table that bits choose from.

Numbers are cut into bits, of which the upper ones say which line and the lower ones how far along
it. What stands in the table is a XOR of products of the upper bits (its algebraic normal form), so
that products of bits are all that is multiplied, but for one product of a slope and the lower bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure import circuits
from hedgerow.secure.compare import cost_a2b, cost_all_of
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.fixed_point import check_range
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits, concatenate, stack

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Curve:
    """A monotone function of y >= 0 that is from 0 to `most` there, at most 1/2.

    `odd`: f(-y) = -f(y), else f(-y) = f(y).
    """

    of: Function
    odd: bool
    most: float


@dataclass(frozen=True)
class LineTable:
    """LineTable that come close to curves, 2**knots of them for each unit of y; public.

    The last of them is level, and holds beyond 2**span too. Heights have `height` fraction bits,
    slopes (for a whole line) `slope`. Numbers have `given` fraction bits, of which `fine` are kept:
    they are the sum of `addends`, each of which loses less than a unit.
    """

    curves: tuple[Curve, ...]
    knots: int
    span: int
    addends: int
    given: int

    @property
    def fine(self) -> int:
        """Fraction bits of y that count."""
        return min(self.given, 2 * self.knots + 5 + self.addends.bit_length())

    @property
    def drop(self) -> int:
        """Fraction bits that do not."""
        return self.given - self.fine

    @property
    def height(self) -> int:
        """Fraction bits of heights."""
        return 2 * self.knots + 9

    @property
    def slope(self) -> int:
        """Fraction bits of slopes."""
        return 2 * self.knots + 8

    @property
    def lower(self) -> int:
        """Bits that say how far along a line."""
        return self.fine - self.knots

    @property
    def fraction(self) -> int:
        """Fraction bits of what comes of slopes and lower bits."""
        return max(self.height, self.slope + self.lower)

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Height and slope without sign of each line of each curve, (curves, 2, lines).

        A slope is that of the chord, and the height makes the largest errors above and below the
        line equal. So that nothing stands above `Curve.most`, the first line of a curve that falls
        begins there, with the slope of the least error, and the last ones of a curve that rises end
        below it.
        """
        n, steps = 1 << (self.span + self.knots), 1 << 8
        along = (np.arange(steps) + 0.5) / steps
        # Lower bits r stand for all from r to r + 1.
        below = along - 0.5 / (1 << self.lower)
        found = np.zeros((len(self.curves), 2, n), np.int64)
        for i, curve in enumerate(self.curves):
            value = curve.of((np.arange(n)[:, None] + along) / 2.0**self.knots)
            ends = curve.of(np.arange(n + 1) / 2.0**self.knots)
            found[i, 1, :-1] = np.rint(np.abs(np.diff(ends))[:-1] * 2.0**self.slope)
            if self.sign(i) < 0:
                steep = np.arange(2 * found[i, 1, 0] + 1)
                errors = curve.most - steep[:, None] * below / 2.0**self.slope - value[0]
                found[i, 1, 0] = steep[np.abs(errors).max(axis=1).argmin()]
            rest = value - self.sign(i) * found[i, 1][:, None] / 2.0**self.slope * below
            middle = (rest.max(axis=1) + rest.min(axis=1)) / 2
            # The last line goes on where the curve is as good as level.
            middle[-1] = (ends[-2] + curve.of(np.array([1e3]))[0]) / 2
            found[i, 0] = np.rint(middle * 2.0**self.height)
            most = np.floor(curve.most * 2.0**self.height).astype(np.int64)
            if self.sign(i) < 0:
                found[i, 0, 0] = most
            else:
                rise = found[i, 1] << (self.height - self.slope)
                found[i, 0] = np.minimum(found[i, 0], most - 1 - rise)
        return found

    def sign(self, curve: int) -> int:
        """Return 1 where a curve rises, -1 where it falls."""
        ends = self.curves[curve].of(np.array([0.0, 2.0**self.span]))
        return 1 if ends[1] > ends[0] else -1

    def values(self, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what stands for each curve at public y >= 0 with `fine` bits, (curves, n)."""
        line = np.minimum(y >> self.lower, self.table.shape[2] - 1)
        along = (y & ((1 << self.lower) - 1)) / 2.0**self.lower
        signs = np.array([self.sign(i) for i in range(len(self.curves))])[:, None]
        height, slope = self.table[:, 0, line], self.table[:, 1, line]
        return np.asarray(height / 2.0**self.height + signs * slope * along / 2.0**self.slope)

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Bits of heights and slopes, (curves, 2)."""
        most = self.table.max(axis=2)
        return np.array([[int(v).bit_length() for v in row] for row in most])


def evaluate(x: Secret, lines: LineTable, bits: int) -> Secret:
    """Return the curves at secret numbers, (curves, *shape), with `LineTable.fraction` bits.

    1. Every summand of x drops what is finer than `fine`; the bits of what is left (an adder).
    2. The sign folds the others; bits above 2**span set those of the line.
    3. All products of the bits of the line, in a tree; heights and slopes are XORs of them, and of
       odd curves their complement where x is negative. Bits to ring.
    4. Slope times lower bits: `Engine.mul_bits`.

    `x` has `LineTable.given` fraction bits, and abs(x) < 2**bits.

    Reveals: nothing. Cost: `cost_evaluate`.
    """
    engine, ring = x.engine, x.ring
    drop, width = lines.drop, _width(lines, ring, bits)
    planes = (x + (((lines.addends - 1) << drop) >> 1)).a2b(width + drop, drop)
    sign, folded = planes[-1:], planes[:-1] ^ planes[-1:]
    top = lines.lower + lines.span + lines.knots
    chosen = folded[lines.lower : top]
    if len(folded) > top:
        chosen = ~(~chosen & circuits.all_of(~folded[top:])[None])
    products = _products(chosen)
    numbers = engine.b2a(concatenate([_looked_up(products, sign, lines), sign]), ring)
    below, at = numbers[-1], 0
    heights: list[Secret] = []
    slopes: list[Secret] = []
    for i, curve in enumerate(lines.curves):
        for side, found in enumerate((heights, slopes)):
            w = int(lines.widths[i, side])
            weights = np.left_shift(1, np.arange(w))[:, None]
            number = (numbers[at : at + w] * weights).sum(axis=0)
            # Of an odd curve ~v = -v - 1 stands in w bits where x is negative.
            found.append(number - below * ((1 << w) - 1) if curve.odd else number)
            at += w
    signs = np.array([lines.sign(i) for i in range(len(lines.curves))])[:, None]
    risen = engine.mul_bits(stack(slopes), folded[: lines.lower])
    risen = risen * (signs << (lines.fraction - lines.slope - lines.lower))
    high = stack(heights) * (1 << (lines.fraction - lines.height))
    return (high + risen).reshape(len(lines.curves), *x.shape)


def cost_evaluate(
    engine: Engine, shape: tuple[int, ...], ring: Ring, lines: LineTable, bits: int
) -> Cost:
    """State the cost of `evaluate` for an array of a shape over a ring."""
    n, width = prod(shape), _width(lines, ring, bits)
    total = cost_a2b(engine, n, ring, width + lines.drop, lines.drop)
    t = lines.span + lines.knots
    above = width - 1 - lines.lower - t
    if above > 0:
        total += cost_all_of(engine, above, n) + engine.cost("and_", shape=(t, n))
    sizes = [1] * t
    while len(sizes) > 1:
        pairs = [(sizes[i], sizes[i + 1]) for i in range(0, len(sizes) - 1, 2)]
        total += engine.cost("and_", shape=(sum(a * b for a, b in pairs), n))
        sizes = [a * b + a + b for a, b in pairs] + sizes[2 * len(pairs) :]
    tables = int(lines.widths.sum())
    total += engine.cost("b2a", shape=(tables + 1, n), ring=ring)
    curves = (len(lines.curves), n)
    return total + engine.cost("mul_bits", shape=curves, ring=ring, bits=lines.lower)


def _width(lines: LineTable, ring: Ring, bits: int) -> int:
    """Return how many bits numbers are cut to, their sign included."""
    check_range("fraction", lines.given, lines.knots, ring.bits - 2)
    check_range("bits", bits, 1, ring.bits - 2)
    width = max(bits - lines.drop, lines.lower + lines.span + lines.knots) + 1
    check_range("span and fraction", width + lines.drop, 1, ring.bits)
    return width


def _products(planes: SecretBits) -> SecretBits:
    """Return the products of all sets of planes but the empty one, in the order of their masks."""
    groups = [planes[i : i + 1] for i in range(len(planes))]
    while len(groups) > 1:
        pairs = [(groups[i], groups[i + 1]) for i in range(0, len(groups) - 1, 2)]
        left = concatenate([_repeat(a, len(b), inner=True) for a, b in pairs])
        right = concatenate([_repeat(b, len(a), inner=False) for a, b in pairs])
        both, at, joined = left & right, 0, []
        for a, b in pairs:
            some, each = both[at : at + len(a) * len(b)], len(a)
            at += len(some)
            # The mask of a product is that of its part of `a`, and above it that of `b`.
            mask = np.arange(1, (each + 1) * (len(b) + 1))
            low, high = mask % (each + 1), mask // (each + 1)
            place = np.where(
                high == 0,
                low - 1,
                np.where(low == 0, each + high - 1, each + len(b) + (high - 1) * each + low - 1),
            )
            joined.append(concatenate([a, b, some])[place])
        groups = joined + groups[2 * len(pairs) :]
    return groups[0]


def _repeat(planes: SecretBits, times: int, *, inner: bool) -> SecretBits:
    index = np.arange(len(planes))
    return planes[np.tile(index, times) if inner else np.repeat(index, times)]


def _looked_up(products: SecretBits, sign: SecretBits, lines: LineTable) -> SecretBits:
    """Return the bits of heights and slopes, lowest first, curve by curve."""
    found = []
    for i, curve in enumerate(lines.curves):
        for side in range(2):
            for bit in range(int(lines.widths[i, side])):
                form = _normal_form(lines.table[i, side] >> bit & 1)
                those = np.flatnonzero(form[1:])
                data = np.bitwise_xor.reduce(products[those].data, axis=-2, keepdims=True)
                plane = products.like(data)
                if form[0]:
                    plane = ~plane
                found.append(plane ^ sign if curve.odd else plane)
    return concatenate(found)


def _normal_form(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which products of bits add up, in XOR, to a table of bits (2**t,)."""
    form = table.copy()
    for step in (1 << i for i in range(int(table.size).bit_length() - 1)):
        pairs = form.reshape(-1, 2, step)
        pairs[:, 1] ^= pairs[:, 0]
    return form
