import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, encode
from hedgerow.tables.categories import MISSING, OTHER_TYPE, UNLISTED, distinct, lookup
from hedgerow.tables.column import Column
from tests.tables.table_strategies import categories, relaxed


def codes(values, wanted):
    return lookup(Column("c", values), wanted).tolist()


@pytest.mark.parametrize(
    "values",
    [
        ["b", "z", None, "a"],
        np.array(["b", "z", None, "a"], dtype=object),
        np.array(["b", "z", np.nan, "a"], dtype=object),
        pa.array(["b", "z", None, "a"]),
        pa.array(["b", "z", None, "a"], pa.large_string()),
        pa.array(["b", "z", None, "a"], pa.string_view()),
        pa.array(["b", "z", None, "a"]).dictionary_encode(),
        pa.chunked_array([["b"], ["z", None, "a"]]),
        pa.chunked_array(
            [pa.array(["b"]).dictionary_encode(), pa.array(["z", None, "a"]).dictionary_encode()]
        ),
        pd.Series(["b", "z", None, "a"]),
        pd.Series(["b", "z", None, "a"], dtype="object"),
        pd.Series(["b", "z", None, "a"], dtype="category"),
        pd.Series(["b", "z", None, "a"], dtype="string"),
        pd.Categorical(["b", "z", None, "a"], categories=["z", "b", "a", "unused"]),
    ],
)
def test_strings_of_every_library(values):
    assert codes(values, ("a", "b")) == [1, UNLISTED, MISSING, 0]


@pytest.mark.parametrize(
    "values",
    [
        [2, 9, None, 1],
        [2.0, 9.5, None, 1.0],
        np.array([2, 9, np.nan, 1]),
        np.array([2, 9, np.nan, 1], dtype=np.float32),
        np.array([2, 9, None, 1], dtype=object),
        np.ma.array([2, 9, 5, 1], mask=[0, 0, 1, 0]),
        pa.array([2, 9, None, 1], pa.uint8()),
        pa.array([2, 9, None, 1], pa.int64()).dictionary_encode(),
        pa.array([2.0, 9.0, np.nan, 1.0]),
        pa.array([decimal.Decimal("2"), decimal.Decimal("9.5"), None, decimal.Decimal("1")]),
        pd.Series([2, 9, None, 1], dtype="Int64"),
        pd.Series([2, 9, None, 1], dtype="category"),
    ],
)
@pytest.mark.parametrize("wanted", [(1, 2), (1.0, 2.0), (1, 2.0), (1, 2, -(2**70), 2**1100)])
def test_numbers_by_value(values, wanted):
    assert codes(values, wanted) == [1, UNLISTED, MISSING, 0]


@pytest.mark.parametrize(
    "values",
    [
        [True, False, None],
        np.array([True, False, None], dtype=object),
        pa.array([True, False, None]),
        pd.Series([True, False, None], dtype="boolean"),
    ],
)
def test_bools(values):
    assert codes(values, (False, True)) == [1, 0, MISSING]
    assert codes(np.array([True, False]), (False, True)) == [1, 0]


def test_large_integers_are_not_rounded():
    big = 2**53
    assert codes(np.array([big, big + 1]), (big + 1, big)) == [1, 0]
    # As a float, 2**53 + 1 does not exist: nothing may match it.
    assert codes(np.array([float(big)]), (big + 1,)) == [UNLISTED]
    assert codes(np.array([2**64 - 1], dtype=np.uint64), (2**64 - 1,)) == [0]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2], ("1", "2")),
        (["1", "2"], (1, 2)),
        ([True, False], (0, 1)),
        ([0, 1], (False, True)),
        (np.array(["2020-01-01"], dtype="M8[D]"), ("2020-01-01",)),
        ([b"a"], ("a",)),
        ([["a"]], ("a",)),
    ],
)
def test_other_types_never_match(values, wanted):
    assert set(codes(values, wanted)) == {OTHER_TYPE}
    domain = Domain(attributes=(Attribute(name="c", kind="categorical", categories=wanted),))
    with pytest.raises(HedgerowError, match=r"H109.*column 'c'"):
        encode({"c": values}, domain)


def test_a_column_of_nothing_is_missing():
    assert codes([None, None], ("a",)) == [MISSING, MISSING]
    assert codes(pa.nulls(2), (1,)) == [MISSING, MISSING]


def test_negative_zero_is_zero():
    assert codes([-0.0, 0.0], (0.0,)) == [0, 0]
    assert codes([-0.0, 0.0], (-0.0,)) == [0, 0]
    assert codes([0], (-0.0,)) == [0]
    assert distinct(Column("c", [-0.0, 0.0])) == [0.0]


def test_dictionary_with_null_entry():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", None, "b"]))
    assert codes(values, ("a", "b")) == [0, MISSING, MISSING, 1]


@relaxed
@given(categories(), st.data())
def test_lookup_against_a_slow_reference(wanted, data):
    values = data.draw(st.lists(st.none() | st.sampled_from(wanted), min_size=1, max_size=30))
    listed = data.draw(st.permutations(wanted)) if len(wanted) > 1 else list(wanted)
    kept = listed[: max(1, len(listed) - 1)]
    reference = [MISSING if v is None else kept.index(v) if v in kept else UNLISTED for v in values]
    assert codes(values, tuple(kept)) == reference


def test_distinct():
    assert distinct(Column("c", ["b", None, "a", "b"])) == ["a", "b"]
    assert distinct(Column("c", pd.Categorical(["b", "a"], categories=["z", "b", "a"]))) == [
        "a",
        "b",
    ]
    assert distinct(Column("c", pa.array([2.0, np.nan, 1.0]))) == [1.0, 2.0]
    assert distinct(Column("c", np.array([3, 1, 3], dtype=np.int8))) == [1, 3]
    assert distinct(Column("c", pa.array(["b", "a"], pa.string_view()))) == ["a", "b"]
