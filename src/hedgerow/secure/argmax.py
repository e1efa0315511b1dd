"""Largest value along an axis and its place, by a tournament of neighbours.

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


def max_(x: Secret, axis: int = -1, *, bits: int | None = None) -> Secret:
    """Return the largest values along an axis.

    1. Neighbours are compared, all pairs of all leading axes at once.
    2. The larger of each pair is selected; repeat until one is left.

    Differences of the signed `x` fit `bits`, see `less_than`; the axis is not empty.

    Reveals: nothing. Cost: `cost_max`; n - 1 comparisons and selections in ceil(log2 n) steps.
    """
    return _tournament(_last(x, axis), bits)[0]


def argmax(x: Secret, axis: int = -1, *, bits: int | None = None) -> Secret:
    """Return where the largest values along an axis stand, one-hot; the lowest index wins ties.

    As in `max_and_argmax`. Reveals: nothing. Cost: `cost_argmax`.
    """
    return max_and_argmax(x, axis, bits=bits)[1]


def max_and_argmax(x: Secret, axis: int = -1, *, bits: int | None = None) -> tuple[Secret, Secret]:
    """Return the largest values along an axis and where they stand.

    1. Neighbours are compared, all pairs of all leading axes at once, and the larger of each pair
       is selected; repeat until one is left. All results c of matches are kept.
    2. The final gives the one-hot vector (1 - c, c) of width 2.
    3. From there back to the first round, each entry h with result c becomes (h - h c, h c), so
       that the vector grows to width n.

    Differences of the signed `x` fit `bits`, see `less_than`; the axis is not empty. The places are
    one-hot, in the shape of `x`: 1 at the lowest index of the largest value.

    Reveals: nothing.
    Cost: `cost_argmax`; that of `max_`, and less than n multiplications in ceil(log2 n) - 1 rounds.
    """
    last = _last(x, axis)
    largest, results = _tournament(last, bits)
    hot = x.engine.public(np.ones((*last.shape[:-1], 1), dtype=np.uint8), x.ring)
    for step, c in enumerate(reversed(results)):
        pairs = c.shape[-1]
        right = hot[..., :pairs] * c if step else c
        both = stack([hot[..., :pairs] - right, right], axis=-1)
        grown = both.reshape(*last.shape[:-1], 2 * pairs)
        hot = concatenate([grown, hot[..., pairs:]], axis=-1)
    return largest, hot.transpose(*_back(axis, x.ndim))


def cost_max(
    engine: Engine, shape: tuple[int, ...], ring: Ring, axis: int = -1, bits: int | None = None
) -> Cost:
    """State the cost of `max_` of an array of a shape."""
    rest, n = _split(shape, axis)
    total = NOTHING
    for pairs in _pairs(n):
        total += cost_less_than(engine, rest * pairs, ring, bits)
        total += cost_select(engine, (rest, pairs), ring)
    return total


def cost_argmax(
    engine: Engine, shape: tuple[int, ...], ring: Ring, axis: int = -1, bits: int | None = None
) -> Cost:
    """State the cost of `argmax` and `max_and_argmax` of an array of a shape."""
    rest, n = _split(shape, axis)
    total = cost_max(engine, shape, ring, axis, bits)
    for pairs in _pairs(n)[:-1]:
        total += engine.cost("mul", shape=(rest, pairs), ring=ring)
    return total


def _tournament(x: Secret, bits: int | None) -> tuple[Secret, list[Secret]]:
    """Return the winners (...) and, for each round, whether the right one won (..., pairs)."""
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


def _split(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    n = shape[axis]
    return prod(shape) // max(n, 1), n


def _last(x: Secret, axis: int) -> Secret:
    """Move the axis to the end."""
    if x.ndim == 0 or x.shape[axis] == 0:
        raise Code.WRONG_SHAPE.error(
            expected="an axis with one value at least", found=f"{x!r}, axis {axis}"
        )
    order = [a for a in range(x.ndim) if a != axis % x.ndim]
    return x.transpose(*order, axis)


def _back(axis: int, ndim: int) -> tuple[int, ...]:
    """Return the order of axes that undoes `_last`."""
    order = list(range(ndim - 1))
    order.insert(axis % ndim, ndim - 1)
    return tuple(order)
