import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from hedgerow import threads
from hedgerow.errors import HedgerowError
from hedgerow.tables.frame import map_columns, view


class OnlyStream:
    """A table of a library that knows Arrow's stream protocol and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return np.array([[1.0, 3.0], [2.0, 4.0]])


COLUMNS = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
TABLE = pa.table(COLUMNS)


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {name: np.array(values) for name, values in COLUMNS.items()},
        {np.str_(name): pd.Series(values) for name, values in COLUMNS.items()},
        pd.DataFrame(COLUMNS),
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        OnlyStream(TABLE),
    ],
)
def test_named(table):
    if isinstance(table, pa.RecordBatchReader):
        table = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    frame = view(table)
    assert frame.named
    assert frame.names == ("a", "b")
    assert frame.n_rows == 2
    assert [column.numbers().tolist() for column in frame.columns] == [[1, 2], [3, 4]]
    assert view(frame) is frame


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 3], [2, 4]]),
        np.array([[1, 3], [2, 4]], dtype=object),
        np.array([[1, 3], [2, 4]], order="F"),
        [[1, 3], [2, 4]],
        [(1, 3), (2, 4)],
        [np.array([1, 3]), np.array([2, 4])],
        OnlyArray(),
        pd.DataFrame([[1, 3], [2, 4]]),
        {0: [1, 2], 1: [3, 4]},
    ],
)
def test_nameless(table):
    frame = view(table)
    assert not frame.named
    assert frame.names == ("x0", "x1")
    assert [column.numbers().tolist() for column in frame.columns] == [[1, 2], [3, 4]]


def test_rows_keep_the_type_of_each_column():
    frame = view([[1, "a"], [2, "b"]])
    assert [column.family for column in frame.columns] == ["number", "string"]


@pytest.mark.parametrize(
    ("table", "number"),
    [
        (np.empty((0, 2)), "H105"),
        (np.empty((2, 0)), "H105"),
        ([], "H105"),
        ([[], []], "H105"),
        ({}, "H105"),
        ({"a": []}, "H105"),
        (pd.DataFrame(), "H105"),
        (pd.DataFrame({"a": []}), "H105"),
        (TABLE.slice(0, 0), "H105"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "H106"),
        (pa.table([[1], [2]], names=["a", "a"]), "H106"),
        (np.zeros(3), "H108"),
        (np.zeros((1, 1, 1)), "H108"),
        ([1, 2], "H108"),
        (["ab", "cd"], "H108"),
        ([[1, 2], [3]], "H108"),
        ({"a": [1], "b": [1, 2]}, "H108"),
        (pd.Series([1, 2]), "H108"),
        (pa.array([1, 2]), "H108"),
        (pa.chunked_array([[1, 2]]), "H108"),
        (pd.DataFrame([[1, 2]], columns=["a", 0]), "H109"),
        ("text", "H109"),
        (3, "H109"),
        (None, "H109"),
        (sparse.csr_matrix(np.eye(2)), "H109"),
    ],
)
def test_refused(table, number):
    with pytest.raises(HedgerowError, match=number):
        view(table)


def test_repeated_names_are_listed():
    with pytest.raises(HedgerowError, match="Found: 'b' more than once"):
        view(pa.table([[1], [2], [3]], names=["a", "b", "b"]))


def test_unused_columns_are_not_looked_at():
    frame = view({"a": [1], "junk": [object()], "ragged": [{1: 2}]})
    assert frame.pick(["a"])[0].numbers().tolist() == [1]


def test_pick_by_name():
    frame = view(COLUMNS)
    assert [column.name for column in frame.pick(["b", "a"])] == ["b", "a"]
    with pytest.raises(HedgerowError, match=r"H107.*columns 'c'. Found: columns 'a', 'b'"):
        frame.pick(["a", "c"])
    wide = view({"age": [1], "ward": ["a"]})
    for ask in (lambda: wide.pick(["ward", "agee"]), lambda: wide.column("agee")):
        with pytest.raises(HedgerowError, match=r"'ward' \(did you mean 'age'\?\)"):
            ask()


def test_pick_by_position():
    nameless = view(np.zeros((1, 2)))
    assert [column.name for column in nameless.pick(["b", "a"])] == ["x0", "x1"]
    with pytest.raises(HedgerowError, match=r"H108.*3 columns, matched by position"):
        nameless.pick(["a", "b", "c"])


def test_a_domain_without_names_takes_a_named_table_by_position():
    assert [column.name for column in view(COLUMNS).pick(["x0", "x1"])] == ["a", "b"]
    swapped = view({"x1": [1], "x0": [2]})
    assert [column.name for column in swapped.pick(["x0", "x1"])] == ["x0", "x1"]
    with pytest.raises(HedgerowError, match="H108"):
        view(COLUMNS).pick(["x0"])


def test_column_and_without():
    frame = view(COLUMNS)
    assert frame.column("b").numbers().tolist() == [3, 4]
    assert frame.without("b").names == ("a",)
    with pytest.raises(HedgerowError, match="H107"):
        frame.column("c")
    with pytest.raises(HedgerowError, match=r"H107.*without names"):
        view(np.zeros((1, 2))).column("x0")
    with pytest.raises(HedgerowError, match="H105"):
        view({"a": [1]}).without("a")


def test_pandas_is_not_needed(monkeypatch):
    monkeypatch.delitem(sys.modules, "pandas")
    assert view(COLUMNS).columns[0].numbers().tolist() == [1, 2]


def test_map_columns_stays_within_the_affinity(monkeypatch):
    monkeypatch.setattr(threads, "available", lambda: 1)
    seen = set()
    map_columns(lambda _: seen.add(threading.current_thread()), range(50), cells=10**9)
    assert seen == {threading.current_thread()}


@pytest.mark.parametrize("cells", [0, 10**9])
def test_map_columns_keeps_order_and_raises_the_first_error(cells):
    assert map_columns(lambda x: x * x, range(20), cells=cells) == [i * i for i in range(20)]

    def fail(i):
        if i >= 7:
            raise KeyError(i)

    with pytest.raises(KeyError, match="7"):
        map_columns(fail, range(20), cells=cells)
