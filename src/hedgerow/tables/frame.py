"""One view of a table, whatever it is made of: named columns of NumPy or Arrow values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code, HedgerowError, ask_whether
from hedgerow.tables.column import Column, name_list, types_if_imported

_T = TypeVar("_T")
_R = TypeVar("_R")

_WORTH_THREADS = 200_000
"""Cells below which starting threads takes longer than the work."""
_MOST_COMPARED = 5


def missing_columns(missing: Sequence[str], names: Sequence[str], table: str = "") -> HedgerowError:
    """Return H107 for columns that are not among those of a table, such as ``"a.csv: "``."""
    # Of many, one that is nearly there shows what has gone wrong.
    meant = next(filter(None, (ask_whether(name, names) for name in missing[:_MOST_COMPARED])), "")
    return Code.MISSING_COLUMN.error(
        expected=f"columns {name_list(missing)}", found=f"{table}columns {name_list(names)}{meant}"
    )


@dataclass(frozen=True)
class Frame:
    """The columns of a table; without names of its own they are called x0, x1, ..."""

    columns: tuple[Column, ...]
    named: bool
    n_rows: int

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called `name`."""
        if not self.named or name not in self.names:
            found = f"columns {name_list(self.names)}" if self.named else "a table without names"
            found += ask_whether(name, self.names) if self.named else ""
            raise Code.MISSING_COLUMN.error(expected=f"a column {name!r}", found=found)
        return self.columns[self.names.index(name)]

    def without(self, name: str) -> Frame:
        """Return the frame less one column."""
        rest = tuple(column for column in self.columns if column.name != name)
        return _frame(rest, named=self.named, n_rows=self.n_rows)

    def pick(self, names: Sequence[str]) -> list[Column]:
        """Return one column per name: matched by name if both sides have names, else by position.

        Names x0, x1, ... are as none. Matched by name, columns that are not asked for are ignored.
        """
        nameless = tuple(names) == tuple(f"x{i}" for i in range(len(names)))
        missing = set(names).difference(self.names)
        if self.named and not (nameless and missing):
            if missing:
                raise missing_columns([n for n in names if n in missing], self.names)
            by_name = dict(zip(self.names, self.columns, strict=True))
            return [by_name[name] for name in names]
        if len(self.columns) != len(names):
            raise Code.WRONG_SHAPE.error(
                expected=f"{len(names)} columns, matched by position: {name_list(names)}",
                found=f"{len(self.columns)} columns without names",
                fix="pass the same columns in the same order, or a table with column names; a "
                "transformer of scikit-learn keeps them after set_output(transform='pandas'), and "
                "the domain must declare the columns that come out of it",
            )
        return list(self.columns)


def view(table: Any, *, empty: bool = False) -> Frame:
    """Look at a table as a `Frame`; values are converted only when they are used.

    Any Arrow stream (Polars, DuckDB, ...) or ``__array__`` will do. H105 no rows, unless `empty`,
    or no columns, H106 duplicate column, H108 not two-dimensional or ragged, H109 not a table at
    all.
    """
    if isinstance(table, Frame):
        return table
    if isinstance(table, types_if_imported("pandas", "DataFrame")):
        series = [table.iloc[:, i] for i in range(table.shape[1])]
        return _frame_of_labels(list(table.columns), series, len(table), empty)
    if isinstance(table, Mapping):
        return _frame_of_labels(list(table), list(table.values()), None, empty)
    if isinstance(table, np.ndarray):
        return _from_array(table, empty)
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pa.Table | pa.RecordBatch):
        table = _from_stream(table)
    if isinstance(table, pa.Table | pa.RecordBatch):
        return _frame_of_labels(
            list(table.schema.names), list(table.columns), table.num_rows, empty
        )
    if hasattr(table, "__array__"):
        return _from_array(np.asarray(table), empty)
    if isinstance(table, Sequence) and not isinstance(table, str | bytes):
        return _from_rows(table)
    raise Code.WRONG_TYPE.error(
        expected="a table: NumPy, pandas, Arrow, a dict of columns or a list of rows",
        found=f"{type(table).__module__}.{type(table).__qualname__}",
        fix="convert it first; a sparse matrix with .toarray()",
    )


def _from_stream(table: Any) -> pa.Table:
    try:
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Code.WRONG_SHAPE.error(
            expected="a two-dimensional table",
            found=f"{type(table).__name__}: {error}",
            fix="pass a table of named columns",
        ) from None


def _from_array(array: NDArray[Any], empty: bool) -> Frame:
    if array.ndim != 2:
        raise Code.WRONG_SHAPE.error(
            expected="a two-dimensional table",
            found=f"an array of {array.ndim} dimensions",
            fix="reshape your data: .reshape(-1, 1) for one column, .reshape(1, -1) for one row",
        )
    columns = tuple(Column(f"x{i}", array[:, i]) for i in range(array.shape[1]))
    return _frame(columns, named=False, n_rows=array.shape[0], empty=empty)


def _from_rows(rows: Sequence[Any]) -> Frame:
    if not rows:
        raise Code.EMPTY_TABLE.error(found="no rows")
    kinds = set(map(type, rows))
    if not all(issubclass(k, Sequence | np.ndarray) and not issubclass(k, str) for k in kinds):
        raise Code.WRONG_SHAPE.error(
            found=f"a sequence of {', '.join(sorted(k.__name__ for k in kinds))}, not of rows",
            fix="reshape your data: a row is itself a sequence; columns go into a dict",
        )
    widths = sorted(set(map(len, rows)))
    if len(widths) > 1:
        raise Code.WRONG_SHAPE.error(
            expected="rows of one length",
            found=f"rows of {widths[0]} to {widths[-1]} values",
            fix="give every row a value for every column; None where it is missing",
        )
    # Not np.array(rows): one string among the numbers would turn all of them into strings.
    columns = tuple(Column(f"x{i}", values) for i, values in enumerate(zip(*rows, strict=True)))
    return _frame(columns, named=False, n_rows=len(rows))


def _frame_of_labels(
    labels: list[Any], values: list[Any], n_rows: int | None, empty: bool
) -> Frame:
    """Build a frame from column labels; labels that are all no strings count as no names."""
    strings = sum(isinstance(label, str) for label in labels)
    if 0 < strings < len(labels):
        other = next(label for label in labels if not isinstance(label, str))
        raise Code.WRONG_TYPE.error(
            expected="column names that are all strings, or all not",
            found=f"strings and {other!r} ({type(other).__name__})",
            fix="convert the column names to strings",
        )
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise Code.DUPLICATE_COLUMN.error(
            found=f"{name_list([str(label) for label in repeated])} more than once"
        )
    named = strings > 0
    columns = tuple(
        Column(str(label) if named else f"x{i}", value)
        for i, (label, value) in enumerate(zip(labels, values, strict=True))
    )
    if n_rows is None:
        lengths = {column.name: len(column) for column in columns}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:8])
            raise Code.WRONG_SHAPE.error(
                expected="columns of one length",
                found=f"columns of different lengths: {shown}",
                fix="give every column a value for every row; None where it is missing",
            )
        n_rows = next(iter(lengths.values()), 0)
    return _frame(columns, named=named, n_rows=n_rows, empty=empty)


def _frame(columns: tuple[Column, ...], *, named: bool, n_rows: int, empty: bool = False) -> Frame:
    if not columns or not (n_rows or empty):
        raise Code.EMPTY_TABLE.error(found=f"{n_rows} rows and {len(columns)} columns")
    return Frame(columns, named, n_rows)


def map_columns(
    function: Callable[[_T], _R], items: Sequence[_T], *, cells: int | float
) -> list[_R]:
    """Apply `function` to every item, on all cores if there are many `cells`; order is kept.

    NumPy, Arrow and the binning kernel let go of the interpreter lock. The first item that fails,
    in order, raises.
    """
    if cells < _WORTH_THREADS:
        return [function(item) for item in items]
    return threads.each(function, items)
