import datetime as dt
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import Domain, encode
from tests.tables.table_strategies import relaxed


def suggest(*args, **options):
    return Domain.suggest(*args, quiet=True, **options)


def one(values, **options):
    return suggest({"a": values}, **options).attributes[0]


def test_few_numbers_have_a_bin_each():
    attribute = one([3.0, 1.0, 2.0, 3.0])
    assert attribute.kind == "numeric"
    assert attribute.bounds == (1.0, 3.0)
    assert attribute.edges == (1.5, 2.5)
    assert attribute.missing == "error"


@relaxed
@given(
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60)
)
def test_binning_few_numbers_loses_nothing(values):
    values = np.array(values, dtype=np.float64)
    domain = suggest(values[:, np.newaxis])
    bins = encode(values[:, np.newaxis], domain).bins[:, 0]
    missing = np.isnan(values)
    distinct = np.unique(values[~missing])
    expected = np.where(missing, max(1, distinct.size), np.searchsorted(distinct, values))
    np.testing.assert_array_equal(bins, expected)


def test_many_numbers_are_cut_at_quantiles():
    values = np.random.default_rng(0).normal(size=10_000)
    attribute = one(values, max_bins=10)
    assert attribute.n_bins == 10
    counts = np.bincount(encode({"a": values}, Domain(attributes=(attribute,))).bins[:, 0])
    assert counts.tolist() == [1000] * 10
    assert one(values).n_bins == 255


def test_uniform():
    attribute = one([0.0, 1.0, 8.0], spacing="uniform", max_bins=4)
    assert attribute.bins == 4
    assert attribute.cuts.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    "values", [[1.0, math.nextafter(1.0, 2.0)], [-1.7e308, 1.7e308], [0.0, 5e-324]]
)
def test_uniform_where_equal_widths_do_not_exist(values):
    attribute = one(values, spacing="uniform")
    assert attribute.n_bins == 2
    assert encode({"a": values}, Domain(attributes=(attribute,))).bins[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0, 1e300, 1.7e308, -1.7e308])
@pytest.mark.parametrize("spacing", ["quantile", "uniform"])
def test_constant(value, spacing):
    attribute = one([value, value], spacing=spacing)
    lo, hi = attribute.bounds
    assert lo <= value <= hi
    assert encode({"a": [value]}, Domain(attributes=(attribute,))).n_slots == 1


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["b", "a", "b"], ("a", "b")),
        (pa.array(["b", "a"]).dictionary_encode(), ("a", "b")),
        (pd.Categorical(["b"], categories=["z", "b"]), ("b",)),
        (pd.Categorical([10, 9]), (9, 10)),
        ([True, True], (False, True)),
        (np.array([False]), (False, True)),
    ],
)
def test_categories(values, categories):
    attribute = one(values)
    assert attribute.kind == "categorical"
    assert attribute.categories == categories
    assert list(map(type, attribute.categories)) == list(map(type, categories))
    assert attribute.missing == "error"
    assert attribute.outside == "error"


@pytest.mark.parametrize("values", [[1.0, None], ["a", None], [True, None], [np.nan, np.nan]])
def test_missing(values):
    assert one(values).missing == "own bin"
    with pytest.raises(HedgerowError, match=r"H101.*column 'a'"):
        one(values, missing="error")


def test_no_value_at_all():
    attribute = one([None, None])
    assert attribute.n_values == 1
    assert attribute.n_bins == 2
    with pytest.raises(HedgerowError, match=r"H101.*no value at all in column 'a'"):
        one(pa.array([None, None], pa.string()))


def test_dates_are_numeric():
    attribute = one([dt.date(1970, 1, 2), dt.date(1970, 1, 3)])
    assert attribute.bounds == (86_400.0, 172_800.0)


def test_names():
    assert suggest(np.zeros((2, 3))).names == ("x0", "x1", "x2")
    assert suggest(pd.DataFrame({"u": [1], "v": ["a"]})).names == ("u", "v")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([2, 1, 2], (1, 2)),
        ([2.0, 1.0, 2.0], (1.0, 2.0)),
        ([True, False, True], (False, True)),
        (np.array(["b", "a", "b"], dtype=object), ("a", "b")),
        (pd.Categorical(["b", "a", "b"]), ("a", "b")),
        (pa.array([1.5, 2.5, 1.5]).dictionary_encode(), (1.5, 2.5)),
    ],
)
def test_classes(y, classes):
    assert suggest(np.zeros((3, 1)), y).target.classes == classes


@pytest.mark.parametrize("y", [[1.5, 2.0, 3.0], np.arange(101), [dt.date(1970, 1, 2)] * 2])
def test_bounds_of_the_target(y):
    target = suggest(np.zeros((len(y), 1)), y).target
    assert target.classes is None
    assert target.bounds[0] < target.bounds[1]


def test_task():
    X = np.zeros((3, 1))
    assert suggest(X, [1, 2, 3], task="regression").target.bounds == (1.0, 3.0)
    assert suggest(X, [1.5, 2, 3], task="classification").target.classes == (1.5, 2.0, 3.0)
    assert suggest(X, [4, 4, 4], task="regression").target.bounds == (4.0, 8.0)
    with pytest.raises(HedgerowError, match="H109"):
        suggest(X, ["a", "b", "c"], task="regression")
    with pytest.raises(HedgerowError, match="H109"):
        suggest(X, [dt.date(1970, 1, 2)] * 3, task="classification")


def test_target_is_a_column_of_the_table():
    domain = suggest({"a": [1, 2], "y": ["u", "v"]}, "y")
    assert domain.names == ("a",)
    assert domain.target.name == "y"
    with pytest.raises(HedgerowError, match="H107"):
        suggest({"a": [1, 2]}, "y")


def test_target_name():
    X = pd.DataFrame({"target": [1, 2], "a": [1, 2]})
    assert suggest(X, [0, 1]).target.name == "target_"
    assert suggest(X, pd.Series([0, 1], name="label")).target.name == "label"
    assert suggest(X, pd.Series([0, 1], name="a")).target.name == "a_"
    assert suggest(X, [0, 1], target_name="label").target.name == "label"
    assert suggest(np.zeros((2, 1)), pd.Series([0, 1])).target.name == "target"
    with pytest.raises(HedgerowError, match="H106"):
        suggest(X, [0, 1], target_name="a")


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"max_bins": 1}, "H501"),
        ({"max_bins": 65_536}, "H501"),
        ({"max_bins": True}, "H501"),
        ({"spacing": "equal"}, "H501"),
        ({"missing": "drop"}, "H501"),
        ({"task": "ranking"}, "H501"),
        ({"target": [1, 2]}, "H108"),
        ({"target": [1, None, 2]}, "H101"),
        ({"target": [1.5, np.nan, 2]}, "H101"),
    ],
)
def test_refused(options, number):
    with pytest.raises(HedgerowError, match=number):
        suggest(np.zeros((3, 1)), **options)


def test_infinite_values():
    with pytest.raises(HedgerowError, match=r"H103.*2 rows of column 'a' \(row 1: -inf, row 2"):
        one([1.0, -np.inf, np.inf])
    with pytest.raises(HedgerowError, match="H103"):
        suggest(np.zeros((2, 1)), [0.5, np.inf])


def test_too_many_categories():
    with pytest.raises(HedgerowError, match="H118"):
        one([str(i) for i in range(65_537)])


def test_suggested_domains_encode_what_they_were_read_from():
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "n": rng.normal(size=400),
            "i": rng.integers(0, 9, size=400),
            "s": pa.array([None if i % 9 == 0 else "xyz"[i % 3] for i in range(400)]),
            "b": rng.random(400) < 0.5,
            "y": rng.integers(0, 3, size=400),
        }
    )
    encoded = encode(table, suggest(table, "y", max_bins=20), "y")
    assert encoded.domain.n_bins.tolist() == [20, 9, 4, 2]
    assert encoded.bins.max(axis=0).tolist() == [19, 8, 3, 1]
    np.testing.assert_array_equal(encoded.bins[:, 1], table["i"].to_numpy())
    np.testing.assert_array_equal(encoded.target, table["y"].to_numpy())
