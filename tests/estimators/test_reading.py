"""Reading tables for estimators: what one row is read as depends on that row alone."""

import math
import warnings
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from hedgerow import (
    Attribute,
    Domain,
    DPTreeClassifier,
    HiddenTreeClassifier,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
    TopDownTreeClassifier,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.privacy import NoiseSource
from hedgerow.tables import encode

DOMAIN = Domain(
    attributes=(
        Attribute(
            name="word",
            kind="categorical",
            categories=("a", "1", "nan"),
            outside="clip",
            missing="own bin",
        ),
        Attribute(
            name="code",
            kind="categorical",
            categories=(0, 1, 0.1),
            outside="clip",
            missing="own bin",
        ),
        Attribute(name="size", kind="numeric", bounds=(-10, 10), bins=7, missing="own bin"),
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=100,
)
MISSING = st.sampled_from([None, math.nan])
WORDS = st.sampled_from(["a", "1", "nan", "z", ""]) | MISSING
CODES = st.sampled_from([0, 1, 0.1, 1.0, 7, 2**60 + 1]) | MISSING
SIZES = st.integers(-20, 20) | st.floats(-20, 20) | MISSING
ROWS = st.lists(st.tuples(WORDS, CODES, SIZES), min_size=1, max_size=12)


@settings(deadline=None, derandomize=True)
@given(ROWS)
def test_one_row_is_read_alike_alone_and_among_others(rows: list[tuple[object, ...]]) -> None:
    model = DPTreeClassifier(1.0, DOMAIN)
    classes = [0] * len(rows)
    together = model._encode_training([list(r) for r in rows], classes, DOMAIN).bins
    for i, row in enumerate(rows):
        alone = model._encode_training([list(row)], [0], DOMAIN).bins
        np.testing.assert_array_equal(together[i], alone[0])
        np.testing.assert_array_equal(encode([row], DOMAIN).bins, alone)


def test_a_decimal_does_not_change_how_the_others_are_read() -> None:
    domain = Domain(
        attributes=(
            Attribute(name="x", kind="categorical", categories=(38.1, -1.0), outside="clip"),
        )
    )
    values = [Decimal("38.1"), Decimal("0." + "0" * 24 + "1")]
    alone = encode(pd.DataFrame({"x": values[:1]}), domain).bins[0, 0]
    among = encode(pd.DataFrame({"x": values}), domain).bins[0, 0]
    assert alone == among == 0


def test_an_instant_is_one_number_in_every_unit() -> None:
    rng = np.random.default_rng(0)
    instants = rng.integers(-(2**50), 2**50, 500)
    domain = Domain(
        attributes=(Attribute(name="t", kind="numeric", bounds=(-2e9, 2e9), bins=60_000),)
    )
    micro = pd.DataFrame({"t": instants.astype("datetime64[us]")})
    nano = pd.DataFrame({"t": (instants * 1000).astype("datetime64[ns]")})
    np.testing.assert_array_equal(encode(micro, domain).bins, encode(nano, domain).bins)
    seconds = encode(pd.DataFrame({"t": [datetime(1970, 1, 2)]}), domain)
    assert seconds.bins[0, 0] == encode({"t": [86_400.0]}, domain).bins[0, 0]


def test_categories_that_floats_cannot_hold_are_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        Attribute(name="id", kind="categorical", categories=(2**53 + 1,))
    assert caught.value.code is Code.BAD_ATTRIBUTE


def test_declared_classes_are_not_guessed_at() -> None:
    # scikit-learn takes (0.5, 1.0) for numbers as soon as a row has 0.5.
    domain = DOMAIN.model_copy(update={"target": Target(name="y", classes=(0.5, 1.0))})
    rows = [["a", 0, 1.0]] * 3
    for classes in ([1.0, 1.0, 1.0], [1.0, 0.5, 1.0]):
        assert list(DPTreeClassifier(1.0, domain).fit(rows, classes).classes_) == [0.5, 1.0]


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
def test_rows_without_a_number_to_learn_are_named_and_to_be_dropped():
    domain = Domain(
        attributes=(Attribute(name="x", kind="numeric", bounds=(0, 9), bins=3),),
        target=Target(name="cost", bounds=(0, 9)),
        capacity=10,
    )
    y = np.array([1.0, np.nan, 2.0, np.inf, np.nan, np.nan])
    with pytest.raises(HedgerowError) as caught:
        MedianForestRegressor(1.0, domain).fit(np.zeros((6, 1)), y)
    assert caught.value.code is Code.MISSING_VALUE
    # Infinity is beyond the bounds, and the domain clips.
    assert "3 rows of column 'cost' (row 1: nan, row 4: nan, row 5: nan;" in caught.value.found
    assert caught.value.fix == "drop the rows without a target"


ONE = Domain(
    attributes=(Attribute(name="x", kind="numeric", bounds=(0, 100), bins=2),),
    target=Target(name="y", classes=(0, 1)),
    capacity=1000,
)
BOUNDED = ONE.model_copy(update={"target": Target(name="y", bounds=(0, 1))})
# A type that Arrow would give to all values of a column with one such value in it.
TYPES = (timedelta(0), time(0), date(1970, 1, 1), pd.Timestamp(0), np.timedelta64(0, "s"))


def attacked(model: DPTreeClassifier, first: object, runs: int) -> float:
    """Return what an attack finds, at 99.9%, between a table and the same with one more row."""
    rows, classes = [[x] for x in [20] * 200 + [80] * 400], [0] * 200 + [1] * 400

    def learns(X: list[list[object]], y: list[int], seed: int) -> bool:
        model._noise = NoiseSource.insecure_seeded(seed)
        # If all values are read as nearly 0, most rows there have the other class.
        return bool(model.fit(X, y).predict([[20]])[0] == 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        without = sum(learns(rows, classes, seed) for seed in range(runs))
        added = sum(learns([[first], *rows], [0, *classes], 10**6 + s) for s in range(runs))
    least = beta.ppf(0.0005, without, runs - without + 1) if without else 0.0
    most = beta.ppf(0.9995, added + 1, runs - added) if added < runs else 1.0
    return math.log(least / most) if least else 0.0


def test_one_record_does_not_choose_the_type_of_a_column() -> None:
    found = attacked(DPTreeClassifier(0.1, ONE, max_depth=1), timedelta(0), runs=150)
    # Read by one type for all, the same 300 fits show more than 2.5.
    assert found <= 0.1


@pytest.mark.parametrize("first", TYPES, ids=lambda value: type(value).__name__)
def test_an_odd_value_leaves_the_bins_of_all_others(first: object) -> None:
    rows = [[x] for x in range(0, 100, 5)]
    classes, numbers = [0, 1] * 10, [np.float32(k / 7) for k in range(7)] * 2 + [0.5] * 6
    for model, domain, y, odd in (
        (DPTreeClassifier(0.1, ONE), ONE, classes, 0),
        (TopDownTreeClassifier(0.1, ONE), ONE, classes, 0),
        (MedianForestClassifier(0.1, ONE), ONE, classes, 0),
        (MedianForestRegressor(0.1, BOUNDED), BOUNDED, numbers, first),
        (HiddenTreeClassifier(0.1, ONE), ONE, classes, 0),
    ):
        alone = model._encode_training(rows, y, domain)
        among = model._encode_training([[first], *rows], [odd, *y], domain)
        np.testing.assert_array_equal(among.bins[1:], alone.bins)
        np.testing.assert_array_equal(among.target[1:], alone.target)


def test_a_number_beside_a_string_is_the_same_target() -> None:
    model = MedianForestRegressor(1.0, BOUNDED)
    alone = model._encode_training([[1]], [np.float32(0.1)], BOUNDED)
    assert alone.target[0] == float(np.float32(0.1)) != 0.1
    with pytest.raises(HedgerowError, match=r"H109.*row 1: 'x'"):
        model._encode_training([[1], [2]], [np.float32(0.1), "x"], BOUNDED)
    with pytest.raises(HedgerowError, match=r"H109.*row 1: '0.3'"):
        model._encode_training([[1], [2]], [np.float32(0.1), "0.3"], BOUNDED)
