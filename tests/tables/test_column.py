import datetime as dt
import decimal
import math
import sys
import types
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.tables.column import Column, name_list
from hedgerow.tables.frame import view


class OnlyArray:
    """A column of a library that knows NumPy's protocol."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0])


class OnlyStream:
    def __init__(self, values):
        self.values = values

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.chunked_array([self.values]).__arrow_c_stream__(requested_schema)


class OnlyCArray:
    def __arrow_c_array__(self, requested_schema=None):
        return pa.array([1.0, 2.0]).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        (1.0, 2),
        range(1, 3),
        np.array([1, 2], dtype=np.int8),
        np.array([1, 2], dtype=np.float16),
        np.array([1, 2], dtype=object),
        np.array([[1, 0], [2, 0]])[:, 0],
        pd.Series([1, 2]),
        pd.Series([1, 2], dtype="Int32"),
        pd.Series([1, 2], dtype="category"),
        pa.array([1, 2], pa.uint64()),
        pa.array([decimal.Decimal("1.0"), decimal.Decimal("2.0")]),
        pa.array([1, 2]).dictionary_encode(),
        pa.chunked_array([[1], [2]]),
        OnlyArray(),
        OnlyStream(pa.array([1, 2])),
        OnlyCArray(),
    ],
)
def test_numbers_of_every_library(values):
    column = Column("c", values)
    assert len(column) == 2
    assert column.family == "number"
    numbers = column.numbers()
    assert numbers.dtype == np.float64
    assert numbers.flags.c_contiguous
    assert numbers.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "values",
    [
        [1.5, None],
        [1.5, np.nan],
        np.array([1.5, np.nan]),
        np.array([1.5, None], dtype=object),
        np.ma.array([1.5, 3.0], mask=[False, True]),
        pd.Series([1.5, None]),
        pd.Series([1.5, pd.NA], dtype="Float64"),
        pa.array([1.5, None]),
        pa.array([1.5, np.nan]),
    ],
)
def test_missing_numbers_are_nan(values):
    np.testing.assert_array_equal(Column("c", values).numbers(), [1.5, np.nan])


def test_bools_count_as_0_and_1_where_numbers_are_asked_for():
    assert Column("c", np.array([True, False])).numbers().tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(Column("c", [True, None]).numbers(), [1.0, np.nan])


def test_nothing():
    column = Column("c", [None, None])
    assert column.family == "nothing"
    assert not column.is_categorical
    assert np.isnan(column.numbers()).all()


DAY = 86_400.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([dt.date(1970, 1, 2), None], [DAY, np.nan]),
        (pa.array([dt.date(1970, 1, 2), None], pa.date64()), [DAY, np.nan]),
        ([dt.datetime(1970, 1, 1, 1), None], [3600.0, np.nan]),
        (np.array(["1970-01-01T00:00:01.5", "NaT"], dtype="M8[ms]"), [1.5, np.nan]),
        (pd.Series(pd.to_datetime(["1970-01-02", None])), [DAY, np.nan]),
        (pd.to_datetime(["1970-01-01 02:00", None]).tz_localize("Europe/Paris"), [3600.0, np.nan]),
        (pa.array([1, None], pa.timestamp("s")), [1.0, np.nan]),
        (pa.array([dt.time(0, 1), None]), [60.0, np.nan]),
        (pa.array([dt.time(0, 1), None], pa.time32("ms")), [60.0, np.nan]),
        ([dt.timedelta(minutes=2), None], [120.0, np.nan]),
    ],
)
def test_dates_and_times_are_seconds(values, expected):
    column = Column("c", values)
    assert column.family == "time"
    assert not column.is_categorical
    np.testing.assert_array_equal(column.numbers(), expected)


def test_strings_are_no_numbers():
    with pytest.raises(HedgerowError, match=r"H109.*numbers in column 'c'.*row 0: '1'"):
        Column("c", ["1", "2"]).numbers()


@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [True, 1.5],
        np.array([1, "a"], dtype=object),
        [{"a": 1}, 1.0],
        "text",
        b"bytes",
        3,
        {1, 2},
        iter([1, 2]),
        [[1], [2]],
        [b"a"],
        np.array([1j]),
        pd.Series(pd.interval_range(0, 2)),
        pa.array([{"a": 1}]),
        OnlyStream(pa.array([{"a": 1}])),
    ],
)
def test_other_values(values):
    with pytest.raises(HedgerowError, match=r"H109.*column 'c'"):
        _ = Column("c", values).family


def test_two_dimensions():
    with pytest.raises(HedgerowError, match="H108"):
        Column("c", np.zeros((2, 1))).numbers()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a"], True),
        ([True], True),
        ([1], False),
        (pa.array([1]).dictionary_encode(), True),
        (pd.Series([1.5], dtype="category"), True),
        (np.array([1]), False),
    ],
)
def test_is_categorical(values, expected):
    assert Column("c", values).is_categorical is expected


def test_where():
    column = Column("c", np.arange(10, 20))
    assert column.where(np.array([3])) == "1 row of column 'c' (row 3: 13; rows counted from 0)"
    assert column.where(np.arange(1, 8)) == (
        "7 rows of column 'c' (row 1: 11, row 2: 12, row 3: 13, row 4: 14, row 5: 15, ...; "
        "rows counted from 0)"
    )
    assert "row 0: 'x'" in Column("c", pa.array(["x"])).where(np.array([0]))


def test_listed():
    assert name_list(["a", "b"]) == "'a', 'b'"
    assert name_list([str(i) for i in range(10)]).endswith("'7' and 2 more")


def test_numbers_of_several_types_are_read_one_by_one():
    column = Column("c", [2**70, 1.5, None, Decimal("0.1"), math.nan])
    expected = [2.0**70, 1.5, math.nan, 0.1, math.nan]
    np.testing.assert_array_equal(column.numbers(), expected)


def test_a_library_that_another_thread_is_importing(monkeypatch):
    half = types.ModuleType("pandas")
    monkeypatch.setitem(sys.modules, "pandas", half)
    for name in ("nothing", "Series", "Index"):
        setattr(half, name, getattr(pd, name, None))
        assert Column("c", pa.array([1, 2])).numbers().tolist() == [1, 2]
        assert view(pa.table({"c": [1, 2]})).n_rows == 2
    assert Column("c", pd.Series([1, 2])).numbers().tolist() == [1, 2]


def test_strings_that_are_no_numbers_are_named():
    with pytest.raises(HedgerowError, match=r"H109.*1 row .*\(row 2: 'forty'"):
        Column("c", ["1", " -2.5e3 ", "forty", None, ".5"]).numbers()
    with pytest.raises(HedgerowError, match=r"H109.*2 rows .*\(row 0: '1'"):
        Column("c", pd.Categorical(["1", "2"])).numbers()
