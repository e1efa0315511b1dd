import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from hedgerow.tables.binning import bin_numbers, midpoints, quantile_cuts, search_tree
from tests.tables.table_strategies import relaxed

finite = st.floats(allow_nan=False, allow_infinity=False)
sorted_sets = st.lists(finite, min_size=0, max_size=40, unique=True).map(sorted)


def slow_bin(value, cuts):
    """The definition: b with cuts[b - 1] < x <= cuts[b]."""
    return sum(cut < value for cut in cuts)


def run(numbers, cuts, bounds=(-np.inf, np.inf), missing=7, dtype=np.uint8):
    out = np.full(len(numbers), 99, dtype=dtype)
    counts = bin_numbers(np.array(numbers, dtype=np.float64), np.array(cuts), bounds, missing, out)
    return out, counts


@relaxed
@given(sorted_sets, st.lists(st.floats(), max_size=60))
def test_bins_follow_the_definition(cuts, numbers):
    numbers = numbers + cuts
    out, counts = run(numbers, np.array(cuts, dtype=np.float64))
    assert out.tolist() == [7 if x != x else slow_bin(x, cuts) for x in numbers]
    assert counts.n_missing == sum(x != x for x in numbers)
    assert counts.n_outside == 0


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 17, 255, 256, 4095, 4096, 65_534])
def test_every_depth_of_the_search_tree(size):
    rng = np.random.default_rng(size)
    cuts = np.unique(rng.normal(size=size))
    numbers = np.concatenate([rng.normal(size=500), cuts, np.nextafter(cuts, np.inf)])
    out, _ = run(numbers, cuts, dtype=np.uint16)
    np.testing.assert_array_equal(out, np.searchsorted(cuts, numbers, side="left"))
    tree, levels = search_tree(cuts)
    assert 16 ** (levels - 1) <= max(size, 1) < 16**levels
    assert tree.size == sum(16**level for level in range(1, levels + 1))


def test_outside_is_counted_and_clipped():
    out, counts = run([-np.inf, -1, 0, 5, 10, 11, np.inf, np.nan], [3.0, 7.0], bounds=(0, 10))
    assert out.tolist() == [0, 0, 0, 1, 2, 2, 2, 7]
    assert counts.n_outside == 4
    assert counts.n_missing == 1


def test_read_only_numbers():
    numbers = np.array([1.0, 5.0])
    numbers.flags.writeable = False
    out = np.empty(2, dtype=np.uint8)
    bin_numbers(numbers, np.array([3.0]), (0, 10), 0, out)
    assert out.tolist() == [0, 1]


@relaxed
@given(st.lists(finite, min_size=1, max_size=40, unique=True).map(sorted))
def test_midpoints_separate_all_neighbours(values):
    distinct = np.unique(np.array(values))
    cuts = midpoints(distinct)
    assert np.all((distinct[:-1] <= cuts) & (cuts < distinct[1:]))
    assert np.searchsorted(cuts, distinct).tolist() == list(range(distinct.size))


def test_midpoints_of_neighbouring_floats():
    one = 1.0
    values = np.array([one, np.nextafter(one, 2), np.nextafter(np.nextafter(one, 2), 2)])
    assert np.searchsorted(midpoints(values), values).tolist() == [0, 1, 2]
    huge = np.array([-1.7e308, 1.6e308, 1.7e308])
    assert np.all(np.isfinite(midpoints(huge)))


@relaxed
@given(st.lists(st.integers(-30, 30), min_size=1, max_size=200), st.integers(2, 80))
def test_quantile_cuts(values, max_bins):
    ordered = np.sort(np.array(values, dtype=np.float64))
    cuts = quantile_cuts(ordered, max_bins)
    assert cuts.size < max_bins
    assert np.all(np.diff(cuts) > 0)
    assert np.all((ordered[0] <= cuts) & (cuts < ordered[-1]))
    distinct = np.unique(ordered)
    if distinct.size <= max_bins:
        assert np.searchsorted(cuts, distinct).tolist() == list(range(distinct.size))


@pytest.mark.parametrize("n", [300, 1021, 5000])
@pytest.mark.parametrize("max_bins", [2, 17, 255])
def test_many_values_are_cut_at_the_midpoint_quantiles(n, max_bins):
    values = np.random.default_rng(n).lognormal(size=n)
    levels = [Fraction(i, max_bins) for i in range(1, max_bins)]
    ordered = np.sort(values).tolist()
    places = [level * (n - 1) for level in levels]
    expected = [(ordered[math.floor(p)] + ordered[math.ceil(p)]) / 2 for p in places]
    np.testing.assert_allclose(quantile_cuts(np.array(ordered), max_bins), expected, rtol=1e-15)


@pytest.mark.parametrize("n_distinct", [1, 2, 17, 255])
def test_few_values_are_cut_as_scikit_learn_cuts_them(n_distinct):
    rng = np.random.default_rng(n_distinct)
    values = rng.choice(rng.normal(size=n_distinct), size=2000)
    mapper = _BinMapper(n_bins=256).fit(values[:, np.newaxis])
    np.testing.assert_allclose(
        quantile_cuts(np.sort(values), 255), mapper.bin_thresholds_[0], rtol=1e-12
    )
