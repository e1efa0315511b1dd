"""Cells of a text file under the declared kind of their column, each of them read alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.tables.attribute import Category, Target, family
from hedgerow.tables.domain import Domain
from hedgerow.tables.values import Seconds, plain

Kind = Literal["number or time", "number", "bool", "text"]
"""What the cells of a column spell."""

# As Arrow has them where it guesses at types.
_NAN = "NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"
_MISSING = "", "NA", "#NA", "N/A", "n/a", "#N/A", "#N/A N/A", "NULL", "null", *_NAN
_NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:inf(inity)?))$"
_TRUE, _FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")


@dataclass(frozen=True, eq=False)
class BadCells:
    """Cells of one column that do not spell what the domain says; `texts` are the first few."""

    column: str
    kind: Kind
    rows: NDArray[np.int64]
    texts: list[str]


def kinds_of(domain: Domain | Target) -> dict[str, Kind]:
    """Return what the columns of a domain, or a target alone, spell, by their names."""
    target = domain if isinstance(domain, Target) else domain.target
    attributes = () if isinstance(domain, Target) else domain.attributes
    kinds = {one.name: _kind(one.categories) for one in attributes}
    if target is not None:
        kinds[target.name] = _kind(target.classes)
    return kinds


def _kind(categories: tuple[Category, ...] | None) -> Kind:
    if categories is None:
        return "number or time"
    of: dict[str, Kind] = {"string": "text", "bool": "bool", "number": "number"}
    return of[family(categories[0])]


def read_cells(
    table: pa.Table, kinds: Mapping[str, Kind], first_row: int = 0
) -> tuple[pa.Table, list[BadCells]]:
    """Read the columns of a table of text, null where a cell is empty or does not spell its kind.

    Numbers and times (in seconds) become float64; columns that are not in `kinds` stay text.
    `first_row` is where the table begins in its file.
    """
    bad: list[BadCells] = []
    columns = []
    for name, text in zip(table.column_names, table.columns, strict=True):
        kind = kinds.get(name, "text")
        cells = text if kind == "text" else pc.utf8_trim_whitespace(text)
        absent = pc.equal(cells, "") if kind == "text" else _among(cells, _MISSING)
        cells = pc.if_else(absent, pa.scalar(None, pa.string()), cells)
        found = cells
        if kind == "bool":
            found = _bools(cells)
        elif kind != "text":
            found = spelled_numbers(cells, times=kind == "number or time")
        columns.append(found)
        if found.null_count > cells.null_count:
            rows = np.flatnonzero(pc.and_(found.is_null(), cells.is_valid()).to_numpy())
            first = text.take(pa.array(rows[:5])).to_pylist()
            bad.append(BadCells(name, kind, first_row + rows, first))
    return pa.table(columns, names=table.column_names), bad


def _among(cells: pa.ChunkedArray, words: tuple[str, ...]) -> pa.ChunkedArray:
    return pc.is_in(cells, value_set=pa.array(words, pa.string()))


def _bools(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    true, false = _among(cells, _TRUE), _among(cells, _FALSE)
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


def spelled_numbers(cells: pa.ChunkedArray, *, times: bool = False) -> pa.ChunkedArray:
    """Return the numbers, and `times` in seconds, that texts spell; null for those that do not."""
    spelled = pc.match_substring_regex(cells, _NUMBER)
    plain_cells = pc.if_else(spelled, cells, pa.scalar(None, pa.string()))
    # Arrow's reader of numbers knows no plus.
    numbers = pc.replace_substring_regex(plain_cells, r"^\+", "").cast(pa.float64())
    rest = numbers.null_count - cells.null_count
    if not times or not rest:
        return numbers
    other = pc.if_else(spelled, pa.scalar(None, pa.string()), cells).combine_chunks()
    distinct = pc.unique(other)
    instants = [None if text is None else _instant(text) for text in distinct.to_pylist()]
    seconds = pa.array(instants, pa.float64())
    return pc.coalesce(numbers, seconds.take(pc.index_in(other, value_set=distinct)))


def _instant(text: str) -> float | None:
    """Read a date, a timestamp or a time of day in the manner of ISO 8601."""
    for read in (dt.datetime.fromisoformat, dt.time.fromisoformat):
        try:
            seconds = plain(read(text))
        except ValueError:
            continue
        return float(seconds) if isinstance(seconds, Seconds) else None
    return None
