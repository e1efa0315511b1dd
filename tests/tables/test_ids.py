import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.column import Column
from hedgerow.tables.ids import id_bytes, read_ids, repeated_rows, row_ids
from tests.tables.table_strategies import relaxed


@pytest.mark.parametrize(
    "values",
    [[3, 1], np.array([3, 1], dtype=np.uint8), pd.Series([3, 1]), pa.array([3, 1], pa.uint64())],
)
def test_numbers(values):
    ids = row_ids(Column("id", values))
    assert ids.dtype == np.int64
    assert ids.tolist() == [3, 1]


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a"],
        np.array(["b", "a"]),
        pd.Series(["b", "a"], dtype="category"),
        pa.array(["b", "a"], pa.large_string()),
    ],
)
def test_strings(values):
    ids = row_ids(Column("id", values))
    assert ids.dtype.kind == "U"
    assert ids.tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ([1, None], "H101"),
        (["a", None], "H101"),
        ([1, 2, 1], "H110"),
        (["a", "b", "a"], "H110"),
        ([1.0, 2.0], "H109"),
        ([True, False], "H109"),
        ([None, None], "H101"),
        (np.array([2**63], dtype=np.uint64), "H109"),
        (["a", "b" * 257], "H109"),
    ],
)
def test_refused(values, number):
    with pytest.raises(HedgerowError, match=number):
        row_ids(Column("id", values))


@pytest.mark.parametrize("values", [[1.0, 2.0], np.array([1, 2j], dtype=object), None])
def test_ids_of_another_type_are_told_what_helps(values):
    with pytest.raises(HedgerowError, match=r"H109.*whole numbers or strings.*astype\('int64'\)"):
        row_ids(Column("id", values))


def test_an_id_is_read_alone():
    texts = row_ids(Column("id", ["7", "07", "-3", "0", "9" * 19]))
    assert texts.tolist() == ["7", "07", "-3", "0", "9" * 19]
    alone = [id_bytes(row_ids(Column("id", [v])))[0] for v in [7, "07", -3, "0", "9" * 19]]
    assert id_bytes(texts) == alone
    assert row_ids(Column("id", ["7", "-3", 0, np.int8(5)])).tolist() == [7, -3, 0, 5]
    with pytest.raises(HedgerowError, match=r"H110.*row 0: 7, row 1: '7'"):
        row_ids(Column("id", [7, "7", "x"]))


@pytest.mark.parametrize(
    ("values", "read", "usable"),
    [
        ([3, 1, 3, 2], [3, 1, 3, 2], [False, True, False, True]),
        (["3", 1, None, 3], [3, 1, 0, 3], [False, True, False, False]),
        ([0, None, 2.5, 2**63], [0, 0, 0, 0], [True, False, False, False]),
        (np.array([7, np.nan, 2.5, 2.0**53]), [7, 0, 0, 0], [True, False, False, False]),
        (["b", "x" * 256, "y" * 257], ["b", "x" * 256, ""], [True, True, False]),
        (["x", "x\0", "\0", "7\0", "7"], ["x", "", "", "", "7"], [True] + [False] * 3 + [True]),
        (["b", 7, "7", True, "\ud800"], ["b", "7", "7", "", ""], [True] + [False] * 4),
        ([], [], []),
    ],
)
def test_absorbed_ids_are_those_of_one_row(values, read, usable):
    absorbed = AbsorbedRows()
    ids, own = read_ids(Column("id", values), absorbed)
    assert ids.tolist() == read
    assert own.tolist() == usable
    assert absorbed.without_id == usable.count(False)
    # As bytes they do not depend on what else is in the column.
    kept = [v for v, ok in zip(values, usable, strict=True) if ok]
    same = [int(v) if isinstance(v, float) else v for v in kept]
    alone = [row_ids(Column("id", [v])) for v in same]
    assert id_bytes(ids[own]) == [id_bytes(one)[0] for one in alone]


NO_TEXT = pa.Array.from_buffers(
    pa.string(), 3, [None, *pa.array(["a", "b", "c"]).buffers()[1:2], pa.py_buffer(b"a\xffc")]
)
YEAR_200_000 = pa.array([2**62, 1, None], pa.timestamp("s"))


@pytest.mark.parametrize(
    ("values", "usable"),
    [
        (NO_TEXT, [True, False, True]),
        (NO_TEXT.dictionary_encode(), [True, False, True]),
        (YEAR_200_000, [False] * 3),
        (YEAR_200_000.cast(pa.int64()).cast(pa.duration("s")), [False] * 3),
        (pa.array([2**30, 1, None], pa.date32()), [False] * 3),
        (pa.array([b"a", b"\xff", None]), [False] * 3),
    ],
)
def test_what_python_cannot_hold_is_no_id(values, usable):
    absorbed = AbsorbedRows()
    ids, own = read_ids(Column("id", values), absorbed)
    assert own.tolist() == usable
    assert absorbed.without_id == usable.count(False)
    assert [one for one, its in zip(ids.tolist(), usable, strict=True) if its] == ["a", "c"][
        : sum(usable)
    ]
    with pytest.raises(HedgerowError, match=r"H10[19]"):
        row_ids(Column("id", values))


def test_repeated_ids_are_shown():
    with pytest.raises(HedgerowError, match=r"4 rows of column 'id' \(row 0: 5, row 2: 5, row 3"):
        row_ids(Column("id", [5, 6, 5, 7, 7]))


@relaxed
@given(st.lists(st.integers(0, 9), max_size=20))
def test_repeated_rows(values):
    expected = [i for i, value in enumerate(values) if values.count(value) > 1]
    assert repeated_rows(np.array(values, dtype=np.int64)).tolist() == expected


@relaxed
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9, unique=True),
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), unique=True),
)
def test_bytes_do_not_collide(numbers, texts):
    found = id_bytes(np.array(numbers, dtype=np.int64)) + id_bytes(np.array(texts, dtype=np.str_))
    # A text that spells a number plainly is that number.
    assert len(set(found)) == len({*map(str, numbers), *texts})


def test_known_bytes():
    assert id_bytes(np.array([1, -1])) == [b"i\x01" + b"\0" * 7, b"i" + b"\xff" * 8]
    assert id_bytes(np.array(["é"])) == [b"s\xc3\xa9"]
