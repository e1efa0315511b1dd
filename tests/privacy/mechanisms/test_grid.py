"""Scores on a grid: exact rounding, sensitivities that hold, monotone shifts that hold."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import LIMIT, Grid, Movement, NoisyMax

steps = st.integers(-60, 60).map(lambda k: 2.0**k)
reals = st.floats(-1e12, 1e12)
moves = st.floats(0, 1e6)


@given(step=steps, q=st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_is_exact(step: float, q: float) -> None:
    exact = math.floor(Fraction(q) / Fraction(step))
    assert Grid(step).to_integers([q]).tolist() == [max(-LIMIT, min(LIMIT, exact))]


@given(step=steps, q=reals, s=moves, share=st.floats(0, 1))
def test_sensitivity_holds(step: float, q: float, s: float, share: float) -> None:
    moved = q + s * share
    s = max(Fraction(s), abs(Fraction(moved) - Fraction(q)))
    grid = Grid(step)
    before, after = grid.to_integers([q, moved]).tolist()
    assert 0 <= after - before <= grid.sensitivity(s)


@given(
    step=st.sampled_from([0.25, 1.0, 8.0]),
    h=st.sampled_from([0.0, 0.1, 0.5, 3.0]),
    s=st.sampled_from([0.5, 1.0, 2.3]),
    data=st.data(),
)
def test_thresholds_of_monotone_scores_move_as_stated(step, h, s, data) -> None:
    def exact(low: float, high: float) -> Fraction:
        return Fraction(data.draw(st.integers(round(low * 1000), round(high * 1000))), 1000)

    grid = Grid(step, error=h)
    movement = grid.for_choice(s, monotone=True)
    shifts = []
    for _ in range(2):
        q = exact(-10, 10)
        before, after = q + exact(-h, h), q + exact(0, s) + exact(-h, h)
        points = [math.floor(x / Fraction(step)) for x in (before, after)]
        shifts.append(points[1] - points[0])
    assert abs(shifts[0] - shifts[1]) <= movement.sensitivity
    assert max(map(abs, shifts)) <= grid.sensitivity(s)


def test_sensitivities() -> None:
    assert Grid(0.25).sensitivity(2) == 8
    assert Grid(0.25).sensitivity(math.nextafter(2.0, 3.0)) == 9
    assert Grid(1.0).sensitivity(Fraction(1, 3)) == 1
    assert Grid(1.0).sensitivity(0.0) == 1
    assert Grid(0.5, error=0.1).sensitivity(1) == 3


def test_movements() -> None:
    assert Grid(0.5).for_choice(1, monotone=True) == Movement(2, True)
    assert Grid(0.5).for_choice(1, monotone=False) == Movement(2, False)
    # ceil(1.2 / 0.5) = 3 up, ceil(0.2 / 0.5) = 1 down.
    noisy = Grid(0.5, error=0.1)
    assert noisy.for_choice(1, monotone=True) == Movement(4, True)
    assert noisy.for_choice(1, monotone=False) == Movement(3, False)
    mechanism = NoisyMax(1.0, *noisy.for_choice(1, monotone=True))
    assert mechanism.a == Fraction(1, 4)
    # Monotone is never worse: 4 against 2 * 3.
    assert mechanism.a > NoisyMax(1.0, *noisy.for_choice(1, monotone=False)).a


@given(step=steps, h=st.floats(0, 1e3), s=moves)
def test_monotone_is_never_worse(step: float, h: float, s: float) -> None:
    grid = Grid(step, error=h)
    plain, monotone = (grid.for_choice(s, monotone=flag) for flag in (False, True))
    assert monotone.sensitivity <= 2 * plain.sensitivity


def test_round_trip_and_clamp() -> None:
    grid = Grid(2.0**-10)
    points = np.array([[-3, 0], [5, 2**40]])
    assert (grid.to_integers(grid.to_reals(points)) == points).all()
    assert grid.to_integers([np.inf, -np.inf, 1e300]).tolist() == [LIMIT, -LIMIT, LIMIT]
    assert Grid(2.0**60).to_integers([-5e-324, 5e-324]).tolist() == [-1, 0]


def test_finer() -> None:
    assert Grid.finer(0.3).step == 0.25
    assert Grid.finer(0.25).step == 0.25
    assert Grid.finer(1000.0, error=1e-9) == Grid(512.0, 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Grid(0.3),
        lambda: Grid(0.0),
        lambda: Grid(-1.0),
        lambda: Grid(math.inf),
        lambda: Grid(math.nan),
        lambda: Grid(1.0, error=-1.0),
        lambda: Grid(1.0, error=math.nan),
        lambda: Grid.finer(0.0),
        lambda: Grid.finer(math.inf),
        lambda: Grid(1.0).sensitivity(-1.0),
        lambda: Grid(1.0).sensitivity(math.inf),
        lambda: Grid(1.0).to_integers([math.nan]),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is Code.BAD_MECHANISM_INPUT
