"""Softmax of secret scores in fixed point: two tables of lines, for e^-y and for 1 / s."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.argmax import cost_max, max_
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.fixed_point import check_range, cost_rescale, rescale
from hedgerow.secure.fixed.lines import Curve, LineTable, cost_evaluate, evaluate
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

MOST_CLASSES = 15
_KNOTS, _SPAN, _INNER = 4, 3, 14


def softmax(x: Secret, *, bits: int, fraction: int, out: int) -> tuple[Secret, Secret]:
    """Return p_c = e^x_c / (e^x_1 + ... + e^x_k), and p_c (1 - p_c), of scores (k, ...).

    1. y_c, how far each score is below the largest; e_c = e^-y_c by `lines.evaluate`.
    2. s = e_1 + ... + e_k, from 1 to k; 1 / s by `lines.evaluate`.
    3. p_c = e_c / s and p_c (1 - p_c), each a product.

    `x` has `fraction` bits, and abs(x) < 2**bits; k is from 2 to 15. H501 where its ring has no
    room. The results have `out` fraction bits, at most 14; p_c from 0 to 2**out, p_c (1 - p_c) from
    0 to 2**out / 4 + 1. They are off by at most (k + 3) 2^-11 and two units.

    Reveals: nothing. Cost: `cost_softmax`.
    """
    engine, k = x.engine, x.shape[0]
    exponential, inverse = _lines(engine, k, fraction, out)
    largest = max_(x.transpose(*range(1, x.ndim), 0), bits=bits + 2)
    halves = evaluate(largest - x, exponential, bits + 1)[0]
    e = rescale(halves, exponential.fraction - _INNER - 1)
    # Of the largest score e is 1 but for rounding: s - 1 is never negative by more than that.
    above = e.sum(axis=0) - (1 << _INNER)
    half = rescale(evaluate(above, inverse, _INNER + inverse.span)[0], inverse.fraction - _INNER)
    p = rescale(e * half, 2 * _INNER - 1 - out)
    return p, rescale(p * ((1 << out) - p), out)


def cost_softmax(
    engine: Engine, shape: tuple[int, ...], ring: Ring, *, bits: int, fraction: int, out: int
) -> Cost:
    """State the cost of `softmax` for scores of a shape over a ring."""
    k, *rest = shape
    exponential, inverse = _lines(engine, k, fraction, out)
    each = tuple(rest)
    total = cost_max(engine, (*each, k), ring, bits + 2)
    total += cost_evaluate(engine, shape, ring, exponential, bits + 1)
    total += cost_rescale(engine, shape, exponential.fraction - _INNER - 1, ring)
    total += cost_evaluate(engine, each, ring, inverse, _INNER + inverse.span)
    total += cost_rescale(engine, each, inverse.fraction - _INNER, ring)
    total += engine.cost("mul", shape=shape, ring=ring) * 2
    total += cost_rescale(engine, shape, 2 * _INNER - 1 - out, ring)
    return total + cost_rescale(engine, shape, out, ring)


def _lines(engine: Engine, k: int, fraction: int, out: int) -> tuple[LineTable, LineTable]:
    check_range("classes", k, 2, MOST_CLASSES)
    check_range("out", out, 0, _INNER)
    return softmax_lines(k, engine.n_addends, fraction)


@cache
def softmax_lines(k: int, addends: int, given: int) -> tuple[LineTable, LineTable]:
    """Return the lines of e^-y / 2 and of 1 / (2 (1 + y)), both of which stay below 1/2."""
    exponential = LineTable((_EXPONENTIAL,), _KNOTS, _SPAN, addends, given)
    return exponential, LineTable((_INVERSE,), _KNOTS, k.bit_length(), addends, _INNER)


def _half_exponential(y: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.exp(-y) / 2
    return found


def _half_inverse(y: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 / (1 + y)


# What is rounded up by a unit stays at most 1, so that no p (1 - p) is negative.
_EXPONENTIAL = Curve(_half_exponential, odd=False, most=0.5 - 2.0**-13)
_INVERSE = Curve(_half_inverse, odd=False, most=0.5 - 2.0**-12)
