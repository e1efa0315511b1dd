"""Reading tables for estimators: what one row is read as depends on that row alone."""

import math
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Attribute, Domain, DPTreeClassifier, MedianForestRegressor, Target
from hedgerow.errors import Code, HedgerowError
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
    assert "4 rows (row 1, row 3, row 4, ...; rows counted from 0)" in caught.value.found
    assert caught.value.fix == "drop the rows without a target"
