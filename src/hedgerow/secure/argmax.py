"""Largest value along the last axis and its place, by a tournament of neighbours.

In every round of the tournament neighbour 2i meets neighbour 2i + 1, and the right one wins only if
it is larger: so of equal values the one with the lowest index wins. An odd one out goes on to the
next round. The results of the matches, read from the final back to the first round, give the place
of the winner: the final says in which half it is, each earlier round halves that again.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hedgerow.errors import Code
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.secure.select import cost_select, select


def max_(x: Secret, *, bits: int | None = None) -> Secret:
    """Return the largest values along the last axis, which is not empty.

    1. Neighbours are compared, all pairs of all leading axes at once.
    2. The larger of each pair is selected; repeat until one is left.

    Differences of the signed `x` fit `bits`, see `less_than`.

    Reveals: nothing. Cost: `cost_max`; n - 1 comparisons and selections in ceil(log2 n) steps.
    """
    return _tournament(x, bits)[0]


def argmax(x: Secret, *, bits: int | None = None) -> Secret:
    """Return where the largest values along the last axis stand; see `max_and_place`."""
    return max_and_place(x, bits=bits)[1]


def max_and_place(x: Secret, *, bits: int | None = None) -> tuple[Secret, Secret]:
    """Return the largest values along the last axis, and where they stand, one-hot, like `x`.

    1. The tournament of `max_`; all results c of matches are kept.
    2. The final gives the one-hot vector (1 - c, c) of width 2.
    3. From there back to the first round, each entry h with result c becomes (h - h c, h c), so
       that the vector grows to width n.

    The lowest index of equal values wins.

    Reveals: nothing.
    Cost: `cost_argmax`; that of `max_`, and less than n multiplications in ceil(log2 n) - 1 rounds.
    """
    largest, results = _tournament(x, bits)
    lead = x.shape[:-1]
    hot = x.engine.public(np.ones((*lead, 1), dtype=np.uint8), x.ring)
    for step, c in enumerate(reversed(results)):
        pairs = c.shape[-1]
        right = hot[..., :pairs] * c if step else c
        both = stack([hot[..., :pairs] - right, right], axis=-1)
        hot = concatenate([both.reshape(*lead, 2 * pairs), hot[..., pairs:]], axis=-1)
    return largest, hot


def cost_max(engine: Engine, shape: tuple[int, ...], ring: Ring, bits: int | None = None) -> Cost:
    """State the cost of `max_` of an array of a shape."""
    rest, total = prod(shape[:-1]), NOTHING
    for pairs in _pairs(shape[-1]):
        total += cost_less_than(engine, rest * pairs, ring, bits)
        total += cost_select(engine, (rest, pairs), ring)
    return total


def cost_argmax(
    engine: Engine, shape: tuple[int, ...], ring: Ring, bits: int | None = None
) -> Cost:
    """State the cost of `argmax` of an array of a shape."""
    total = cost_max(engine, shape, ring, bits)
    for pairs in _pairs(shape[-1])[:-1]:
        total += engine.cost("mul", shape=(prod(shape[:-1]), pairs), ring=ring)
    return total


def _tournament(x: Secret, bits: int | None) -> tuple[Secret, list[Secret]]:
    """Return the winners (...) and, for each round, whether the right one won (..., pairs)."""
    if x.ndim == 0 or x.shape[-1] == 0:
        raise Code.WRONG_SHAPE.error(expected="a last axis with one value at least", found=repr(x))
    results = []
    while x.shape[-1] > 1:
        pairs = x.shape[-1] // 2
        left, right = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
        c = less_than(left, right, bits=bits)
        results.append(c)
        x = concatenate([select(c, right, left), x[..., 2 * pairs :]], axis=-1)
    return x[..., 0], results


def _pairs(n: int) -> list[int]:
    """Return the number of matches of every round."""
    found = []
    while n > 1:
        found.append(n // 2)
        n -= n // 2
    return found
