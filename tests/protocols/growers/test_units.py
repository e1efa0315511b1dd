from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.growers.units import FINE, Units, bits_for, cut, rounded_down, units_for
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import Public, criterion_named
from tests.protocols.hidden.number_runs import classes, numbers

CANDIDATES = Candidates.from_bins([4, 3], [True, False])


@pytest.mark.parametrize("capacity", [1, 2, 1000, 1023, 1024, 1 << 20, (1 << 26) - 1])
@pytest.mark.parametrize("exact", [False, True])
def test_scores_and_sums_fit_at_every_capacity(capacity: int, exact: bool) -> None:
    most = 1 << bits_for(capacity)
    public = Public(capacity, bounds=(-most, most))
    Scores(CANDIDATES, criterion_named("squared_error", "sums"), public, prefer_nonempty=exact)
    assert 2 * capacity * most < 1 << 31


def test_a_capacity_beyond_is_refused() -> None:
    for capacity in (0, 1 << 26):
        with pytest.raises(HedgerowError) as caught:
            bits_for(capacity)
        assert caught.value.code is Code.BAD_PARAMETER


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    place=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_there_and_back_differs_by_half_a_unit(low: float, width: float, place: list) -> None:
    units = Units(low, low + width, FINE)
    table = numbers(n=len(place))
    y = np.clip(low + width * np.array(place), units.low, units.high)
    counted = units.count(type(table)(table.domain, table.bins, y, table.present)).target
    assert counted is not None
    assert np.array_equal(counted, np.rint(counted))
    assert np.abs(counted).max() <= units.most
    room = units.half / units.most * 0.5 + 1e-9 * (abs(low) + width)
    assert np.abs(units.values(counted, FINE) - y).max() <= room


@pytest.mark.parametrize("bits", [4, 9, 19])
def test_coarser_units_are_rounded_from_the_grid(bits: int) -> None:
    table, units = numbers(n=7), Units(-1.0, 1.0, bits)
    unit = 1.0 / units.most
    # Bounds, whole units, halves (up), and a number that the grid takes up to a half.
    y = np.array([-1, 1, 3 * unit, 0.5 * unit, -0.5 * unit, 1.5 * unit, (0.5 - 1e-9) * unit])
    found = units.count(type(table)(table.domain, table.bins, y, table.present)).target
    assert found.tolist() == [-units.most, units.most, 3, 1, 0, 2, 1]


def test_classes_are_no_numbers() -> None:
    for refused in (
        lambda: units_for(classes().domain, 10),
        lambda: Units(0, 1, 8).count(classes()),
    ):
        with pytest.raises(HedgerowError) as caught:
            refused()
        assert caught.value.code is Code.BAD_TARGET


@given(epsilon=st.floats(1e-6, 1e3), share=st.floats(0.01, 0.99))
def test_two_parts_never_exceed_the_whole(epsilon: float, share: float) -> None:
    first, rest = cut(epsilon, share)
    assert Fraction(first) + Fraction(rest) <= Fraction(epsilon)
    assert first + rest == pytest.approx(epsilon, rel=1e-12)


@given(st.fractions(0, 1000))
def test_rounded_down_is_the_float_below(exact: Fraction) -> None:
    found = rounded_down(exact)
    assert Fraction(found) <= exact < Fraction(float(np.nextafter(found, np.inf)))
