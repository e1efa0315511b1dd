"""The logistic function of secret numbers in fixed point, with its derivative: lines of a table."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.fixed_point import FRACTION, check_range, cost_rescale, rescale
from hedgerow.secure.fixed.lines import Curve, LineTable, cost_evaluate, evaluate
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, stack

MOST_KNOTS = 4


def sigmoid(
    x: Secret, *, bits: int, fraction: int, out: int, knots: int = 2
) -> tuple[Secret, Secret]:
    """Return p = 1 / (1 + e^-x), and p (1 - p).

    1. `lines.evaluate` of p - 1/2, which is odd, and of p (1 - p), which is even.
    2. Rescale.

    `x` has `fraction` bits, and abs(x) < 2**bits; H501 where its ring has no room for that. There
    are 2**knots lines in each unit of x, 1 to 4 knots. The results have `out` fraction bits, p from
    0 to 2**out, p (1 - p) from 0 to 2**out / 4 + 1. They are off by at most 0.0118 / 4**knots and a
    unit, and by 2^-(fraction + 3) more where x has fewer than 2 knots + 8 fraction bits. Of that a
    line of width h is off by h^2 / 16 times the second derivative, 0.0060 / 4**knots; the rest is
    what input and table are rounded by, and that p (1 - p) must not exceed 1/4.

    Reveals: nothing. Cost: `cost_sigmoid`.
    """
    lines = _lines(x.engine, fraction, out, knots)
    found = evaluate(x, lines, bits)
    raised = stack([found[0] + (1 << (lines.fraction - 1)), found[1]])
    both = rescale(raised, lines.fraction - out)
    return both[0], both[1]


def cost_sigmoid(
    engine: Engine,
    shape: tuple[int, ...],
    ring: Ring,
    *,
    bits: int,
    fraction: int,
    out: int,
    knots: int = 2,
) -> Cost:
    """State the cost of `sigmoid` for an array of a shape over a ring."""
    lines = _lines(engine, fraction, out, knots)
    both = cost_rescale(engine, (2, *shape), lines.fraction - out, ring)
    return cost_evaluate(engine, shape, ring, lines, bits) + both


def logistic(x: Secret, *, bits: int, fraction: int, out: int, knots: int = 2) -> Secret:
    """Return p of `sigmoid` alone, for less.

    Reveals: nothing. Cost: `cost_logistic`.
    """
    lines = _lines(x.engine, fraction, out, knots, slope=False)
    found = evaluate(x, lines, bits)[0] + (1 << (lines.fraction - 1))
    return rescale(found, lines.fraction - out)


def cost_logistic(
    engine: Engine,
    shape: tuple[int, ...],
    ring: Ring,
    *,
    bits: int,
    fraction: int,
    out: int,
    knots: int = 2,
) -> Cost:
    """State the cost of `logistic` for an array of a shape over a ring."""
    lines = _lines(engine, fraction, out, knots, slope=False)
    rounded = cost_rescale(engine, shape, lines.fraction - out, ring)
    return cost_evaluate(engine, shape, ring, lines, bits) + rounded


def _lines(engine: Engine, fraction: int, out: int, knots: int, *, slope: bool = True) -> LineTable:
    check_range("knots", knots, 1, MOST_KNOTS)
    check_range("out", out, 0, FRACTION)
    return logistic_lines(knots, engine.n_addends, fraction, slope=slope)


@cache
def logistic_lines(knots: int, addends: int, given: int, *, slope: bool = True) -> LineTable:
    """Return the lines of p - 1/2 and p (1 - p); what they miss beyond 2**span is less."""
    curves = (_HALF, _SLOPE) if slope else (_HALF,)
    return LineTable(curves, knots, 3 if knots < 3 else 4, addends, given)


def _beyond_half(y: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.tanh(y / 2) / 2
    return found


def _derivative(y: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.25 - _beyond_half(y) ** 2


_HALF = Curve(_beyond_half, odd=True, most=0.5)
_SLOPE = Curve(_derivative, odd=False, most=0.25)
