"""Circuits that compare uniform bits with public constants: many biased coins at once.

A coin with probability C / 2^t is [U < C] for t uniform bits U. Let v_j = 1 where bit j of U
equals bit j of C; these are uniform bits again, so v is what is drawn. With the most significant
bit first, U < C if and only if the first bit that differs is one where C has a 1. A segment of bits
is summed up by two planes:

``same``  all v of the segment are 1,
``less``  the first v that is 0 stands where C has a 1,

and two neighbouring segments by same = same_hi same_lo and less = less_hi xor same_hi less_lo. That
is a tree of logarithmic depth with two ANDs at each node, less what the public constant saves:

- where C is 0 throughout the lower segment, less_lo = 0 and its AND vanishes;
- where C is 1 throughout, less_lo = not same_lo, so same_hi less_lo = same_hi xor same. A single
  bit is such a segment: half of all ANDs vanish;
- the lowest segment of every node on the way to the least significant bit needs no ``same``;
- trailing zeros of C need no bits at all.

Where the depth allows, segments are split unevenly, one bit at a time, which takes one AND a bit
(`_best`). The constants are public, and so is the circuit; one circuit serves all draws, which lie
along the packed axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code

Atom = int
"""A uniform plane (-1, -2, ...) or an AND (0, 1, ...)."""


@dataclass(frozen=True)
class Form:
    """The XOR of some atoms and a public bit."""

    atoms: frozenset[Atom]
    flip: bool = False

    def __xor__(self, other: Form) -> Form:
        return Form(self.atoms ^ other.atoms, self.flip != other.flip)

    def __invert__(self) -> Form:
        return Form(self.atoms, not self.flip)


ZERO = Form(frozenset())
ONE = ~ZERO


@dataclass(frozen=True)
class CoinLevel:
    """One round of ANDs, and the planes that are kept after it.

    `left` and `right` (int64, shape (ands,)) are planes kept after the previous level, for the
    first level the uniform ones. `terms` has, for every kept plane, the planes of the pool whose
    XOR it is: the planes that operands are taken from, then the products. `flips` are inverted.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    terms: tuple[tuple[int, ...], ...]
    flips: NDArray[np.int64]


@dataclass(frozen=True)
class Circuit:
    """A comparison of uniform planes with public constants; the planes kept last are the coins."""

    bits: int
    levels: tuple[CoinLevel, ...]


@lru_cache(maxsize=256)
def compile_coins(constants: tuple[int, ...], t: int) -> Circuit:
    """Build the circuit of coins with probabilities constants[i] / 2**t, from 0 to 1 inclusive."""
    if t < 1 or not constants or any(not 0 <= c <= 1 << t for c in constants):
        raise Code.BAD_PARAMETER.error(
            expected="constants from 0 to 2**t, with t >= 1", found=f"t={t}, constants={constants}"
        )
    return _Builder(constants, t).circuit()


class _Builder:
    def __init__(self, constants: tuple[int, ...], t: int) -> None:
        self.bits = 0
        self.gates: list[tuple[Form, Form]] = []
        self.depths: list[int] = []
        self.coins = [self._coin(constant, t) for constant in constants]

    def _coin(self, constant: int, t: int) -> Form:
        if constant in (0, 1 << t):
            return ONE if constant else ZERO
        zeros = (constant & -constant).bit_length() - 1
        digits = format(constant >> zeros, f"0{t - zeros}b")
        planes = [_plain(-1 - self.bits - j) for j in range(len(digits))]
        self.bits += len(digits)
        return self._segment(digits, planes, math.ceil(math.log2(t)), both=False)[0]

    def _segment(
        self, digits: str, planes: list[Form], depth: int, *, both: bool
    ) -> tuple[Form, Form]:
        """Return less and same of a segment; same is ZERO where nobody asks for it."""
        if len(set(digits)) == 1:
            ones = digits[0] == "1"
            same = self._conjunction(planes) if both or ones else ZERO
            return (~same if ones else ZERO), same
        cut = len(digits) - _best(len(digits), depth, both)[1]
        less_hi, same_hi = self._segment(digits[:cut], planes[:cut], depth - 1, both=True)
        ones = set(digits[cut:]) == {"1"}
        less_lo, same_lo = self._segment(digits[cut:], planes[cut:], depth - 1, both=both)
        if ones:
            same = self._and(same_hi, ~less_lo)
            return less_hi ^ same_hi ^ same, same
        same = self._and(same_hi, same_lo) if both else ZERO
        return (less_hi if less_lo == ZERO else less_hi ^ self._and(same_hi, less_lo)), same

    def _conjunction(self, forms: list[Form]) -> Form:
        while len(forms) > 1:
            pairs = zip(forms[::2], forms[1::2], strict=False)
            forms = [self._and(a, b) for a, b in pairs] + forms[len(forms) // 2 * 2 :]
        return forms[0]

    def _and(self, a: Form, b: Form) -> Form:
        self.depths.append(1 + max(self._depth(atom) for atom in a.atoms | b.atoms))
        self.gates.append((a, b))
        return _plain(len(self.gates) - 1)

    def _depth(self, atom: Atom) -> int:
        return 0 if atom < 0 else self.depths[atom]

    def _known(self, form: Form, depth: int) -> Form:
        """Return the part of a form that can be summed up after a level."""
        return Form(frozenset(a for a in form.atoms if self._depth(a) <= depth), form.flip)

    def circuit(self) -> Circuit:
        """Schedule every AND as early as its operands allow; keep only what is used later."""
        last = max(self.depths, default=1)
        pool = {_plain(-1 - j): j for j in range(self.bits)}
        levels = []
        for depth in range(1, last + 1):
            gates = [g for g, d in enumerate(self.depths) if d == depth]
            place = {form: len(pool) + i for i, form in enumerate(map(_plain, gates))} | pool
            kept = self._kept(depth) if depth < last else self.coins
            levels.append(
                CoinLevel(
                    _indices(pool[self.gates[g][0]] for g in gates),
                    _indices(pool[self.gates[g][1]] for g in gates),
                    tuple(self._terms(form, depth, place) for form in kept),
                    _indices(i for i, form in enumerate(kept) if self._is_flipped(form, depth)),
                )
            )
            pool = {form: i for i, form in enumerate(kept)}
        return Circuit(self.bits, tuple(levels))

    def _kept(self, depth: int) -> list[Form]:
        later = [
            f for pair, d in zip(self.gates, self.depths, strict=True) if d > depth for f in pair
        ]
        known = dict.fromkeys(self._known(form, depth) for form in [*later, *self.coins])
        return [form for form in known if form.atoms]

    def _terms(self, form: Form, depth: int, place: dict[Form, int]) -> tuple[int, ...]:
        before = self._known(form, depth - 1)
        if depth == 1 or not before.atoms:
            return tuple(place[_plain(atom)] for atom in sorted(form.atoms))
        return place[before], *(place[_plain(a)] for a in sorted(form.atoms - before.atoms))

    def _is_flipped(self, form: Form, depth: int) -> bool:
        """Flip once, where the first atoms are summed up."""
        return form.flip and (depth == 1 or not self._known(form, depth - 1).atoms)


def _plain(atom: Atom) -> Form:
    return Form(frozenset({atom}))


def _indices(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


@cache
def _best(length: int, depth: int, both: bool) -> tuple[float, int]:
    """Return the fewest ANDs within a depth, and the lower part's length; `both`: with ``same``."""
    if length == 1:
        return 0, 0
    if length > 1 << depth:
        return math.inf, 0
    return min(
        (
            _best(length - low, depth - 1, True)[0]
            + _best(low, depth - 1, both)[0]
            + (2 if both and low > 1 else 1),
            low,
        )
        for low in range(1, length)
    )
