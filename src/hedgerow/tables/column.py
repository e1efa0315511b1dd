"""One column of a table: its values as NumPy numbers or as an Arrow array, checked for type."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError

Family = Literal["number", "bool", "string", "time", "nothing"]
"""What a column holds; "nothing" is a column of nulls without a type."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86_400
_SHOWN_ROWS = 5
_SHOWN_NAMES = 8
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


class Column:
    """A named column.

    Parameters
    ----------
    name : str
        The column's name, for messages.
    raw : numpy 1-D, pandas Series, pyarrow Array or ChunkedArray, sequence
        Or anything with ``__arrow_c_array__``, ``__arrow_c_stream__`` or ``__array__``. It is
        looked at when it is used and not before.

    Notes
    -----
    None, NaN, NaT, pandas' NA and Arrow's null are missing values. Dates and times become numbers
    only on request, by `numbers`: seconds since 1970-01-01 (UTC where there is a time zone) for
    dates and timestamps, seconds since midnight for times of day, seconds for durations.
    """

    # Where the column begins in the larger table that it is a piece of; for messages.
    first_row: int = 0

    def __init__(self, name: str, raw: Any) -> None:
        self.name = name
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw if hasattr(self._raw, "__len__") else self.values)

    @cached_property
    def values(self) -> NDArray[Any] | pa.ChunkedArray:
        """Numbers and bools of NumPy as they are, everything else as Arrow; (n,)."""
        raw = self._raw
        if isinstance(raw, loaded("pandas", "Series", "Index", "api.extensions.ExtensionArray")):
            # A plain NumPy column is taken as it is; Arrow knows pandas' own types.
            raw = raw.to_numpy() if isinstance(raw.dtype, np.dtype) else self._to_arrow(raw)
        if isinstance(raw, str | bytes):
            raise self.wrong_type("a column of values", type(raw).__name__)
        if not isinstance(raw, np.ndarray | Sequence | pa.Array | pa.ChunkedArray):
            raw = self._import(raw)
        if isinstance(raw, np.ndarray):
            if raw.ndim != 1:
                raise Code.WRONG_SHAPE.error(
                    expected=f"one value per row in column {self.name!r}",
                    found=f"an array of shape {raw.shape}",
                    fix="pass one dimension per column; cut an array of several into columns",
                )
            if raw.dtype.kind in "biuf" and not isinstance(raw, np.ma.MaskedArray):
                return raw
        if not isinstance(raw, pa.Array | pa.ChunkedArray):
            raw = self._to_arrow(raw)
        return pa.chunked_array([raw]) if isinstance(raw, pa.Array) else raw

    def _import(self, raw: Any) -> Any:
        """Take values from another library."""
        try:
            if hasattr(raw, "__arrow_c_stream__"):
                return pa.chunked_array(raw)
            if hasattr(raw, "__arrow_c_array__"):
                return pa.array(raw)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise self.wrong_type("a column of values", str(error)) from None
        if hasattr(raw, "__array__"):
            return np.asarray(raw)
        raise self.wrong_type("a column of values", type(raw).__name__)

    def _to_arrow(self, raw: Any) -> pa.Array | pa.ChunkedArray:
        """Convert; values of several types have no Arrow type and are refused.

        Arrow looks for one type that holds all values of a plain sequence. Where that type decides
        what a single value is read as, numbers are converted one by one instead: a row must not
        change how the others are read.
        """
        try:
            if isinstance(raw, np.ma.MaskedArray):
                return pa.array(np.ma.getdata(raw), mask=np.ma.getmaskarray(raw), from_pandas=True)
            array = pa.array(raw, from_pandas=True)
            # The nearest float of a decimal depends on the scale that Arrow chose for all of them.
            return _floats(raw) if pa.types.is_decimal(array.type) else array
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            try:
                # Integers beyond 2^53 beside floats, or decimals of too many digits.
                return _floats(raw)
            except (TypeError, ValueError, OverflowError):
                raise self.wrong_type("values of one type", str(error)) from None

    @cached_property
    def family(self) -> Family:
        """What the column holds, whether plain or as a dictionary."""
        values = self.values
        if isinstance(values, np.ndarray):
            return "bool" if values.dtype.kind == "b" else "number"
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if pa.types.is_null(kind):
            return "nothing"
        if pa.types.is_boolean(kind):
            return "bool"
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
            return "string"
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return "number"
        if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            return "time"
        raise self.wrong_type("numbers, strings, bools, dates or times", f"Arrow type {kind}")

    @property
    def is_categorical(self) -> bool:
        """Whether the values are categories by their type: strings, bools, dictionaries."""
        if self.family in ("string", "bool"):
            return True
        return not isinstance(self.values, np.ndarray) and pa.types.is_dictionary(self.values.type)

    def arrow(self) -> pa.ChunkedArray:
        """Return the values as Arrow, with NaN of NumPy as null."""
        values = self.values
        if isinstance(values, np.ndarray):
            return pa.chunked_array([self._to_arrow(values)])
        return values

    def numbers(self) -> NDArray[np.float64]:
        """Return the values as float64 (n,), contiguous, NaN where missing.

        Raises
        ------
        InputTypeError
            H109 if the column holds strings or anything else that is not a number.
        """
        family, values = self.family, self.values
        if family == "string":
            raise self.wrong_type("numbers", f"strings: {self.where(self._no_numbers())}")
        if isinstance(values, np.ndarray):
            return np.ascontiguousarray(values, dtype=np.float64)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        kind = values.type
        if family == "time":
            values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        elif family == "bool":
            values = values.cast(pa.uint8())
        if family != "time":
            numbers: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
            return np.ascontiguousarray(numbers)
        return _seconds(values.cast(pa.int64()), kind)

    def _no_numbers(self) -> NDArray[np.int64]:
        """Return the rows of a string column that do not look like a number; all if each does."""
        strings = self.arrow().cast(pa.string())
        other = pc.invert(pc.match_substring_regex(strings, _NUMBER)).fill_null(False)
        rows = np.flatnonzero(other.to_numpy())
        return rows if rows.size else np.arange(len(self))

    def where(self, rows: NDArray[np.int64]) -> str:
        """Describe rows of the column for a message: how many, the first few and their values."""
        shown = []
        for row in rows[:_SHOWN_ROWS].tolist():
            value = self.values[row]
            plain = value.as_py() if isinstance(value, pa.Scalar) else value.item()
            shown.append(f"row {self.first_row + row}: {plain!r}")
        more = ", ..." if len(rows) > len(shown) else ""
        many = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
        return f"{many} of column {self.name!r} ({', '.join(shown)}{more}; rows counted from 0)"

    def wrong_type(self, expected: str, found: str) -> HedgerowError:
        """Build H109 for this column."""
        return Code.WRONG_TYPE.error(
            expected=f"{expected} in column {self.name!r}", found=f"in column {self.name!r} {found}"
        )


def _floats(raw: Any) -> pa.Array:
    """Convert numbers one by one; TypeError if there is anything else."""
    values = raw.tolist() if isinstance(raw, np.ndarray) else list(raw)
    for value in values:
        number = isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)
        if not number and not _is_missing(value):
            raise TypeError(f"{value!r} is not a number")
    return pa.array([None if _is_missing(v) else float(v) for v in values], pa.float64())


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA, which are not equal to themselves."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _seconds(counts: pa.ChunkedArray, kind: pa.DataType) -> NDArray[np.float64]:
    """Turn counts of a unit of time into seconds; one instant is one number in every unit."""
    whole = counts.fill_null(0).to_numpy()
    if pa.types.is_date32(kind):
        seconds = (whole * _SECONDS_PER_DAY).astype(np.float64)
    else:
        per = _PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
        # The fraction is rounded by itself: k/10^6 and 1000k/10^9 are then the same float.
        seconds = whole // per + (whole % per) / per
    seconds[counts.is_null().to_numpy()] = np.nan
    return np.ascontiguousarray(seconds)


def loaded(module: str, *names: str) -> tuple[Any, ...]:
    """Return types of an optional library, for `isinstance`; none of them if it is not imported.

    Another thread may be importing it: types that its module does not have yet are left out.
    Whoever has a value of such a type has imported the library as a whole.
    """
    found: list[Any] = []
    for name in names:
        part: Any = sys.modules.get(module)
        for attribute in name.split("."):
            part = getattr(part, attribute, None)
        if part is not None:
            found.append(part)
    return tuple(found)


def listed(names: Sequence[str]) -> str:
    """Write a list of names for a message, the first few of many."""
    shown = ", ".join(map(repr, names[:_SHOWN_NAMES]))
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
