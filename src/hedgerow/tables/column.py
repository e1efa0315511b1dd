"""One column of a table: its values as NumPy or Arrow holds them, or each of them by itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.values import (
    UNREADABLE,
    arrow_seconds,
    is_instant,
    numpy_seconds,
    plain,
    to_float,
)

Family = Literal["number", "bool", "string", "time", "nothing", "other"]
"""What a column of one type holds; "nothing" is a column of nulls without a type."""

_SHOWN_ROWS = 5
_SHOWN_NAMES = 8
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_SEVERAL = "values of one type"
# NumPy makes of these what `plain` and `to_float` make of them.
_NUMBERS = frozenset({float, int, bool, type(None), np.float64, np.float32, np.float16, np.int64})

# Of these `plain` makes nothing else.
_PLAIN = frozenset({str, int, bool, type(None)})


class Numbers(NamedTuple):
    """The numbers of a column, float64 (n,), contiguous, NaN where missing or unreadable.

    `unreadable` (n,) tells which are no numbers though not missing; None if there are none.
    """

    values: NDArray[np.float64]
    unreadable: NDArray[np.bool_] | None


class Column:
    """A named column; `raw` is any Arrow or NumPy exporter, and looked at when it is used."""

    # Where the column begins in the larger table that it is a piece of; for messages.
    first_row: int = 0

    def __init__(self, name: str, raw: Any) -> None:
        self.name = name
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw if hasattr(self._raw, "__len__") else self.values)

    @cached_property
    def values(self) -> NDArray[Any] | pa.ChunkedArray:
        """The values (n,): of NumPy or Arrow where these give them one type, else objects."""
        raw = self._raw
        if isinstance(
            raw, types_if_imported("pandas", "Series", "Index", "api.extensions.ExtensionArray")
        ):
            raw = self._from_pandas(raw)
        if isinstance(raw, str | bytes):
            raise self.wrong_type("a column of values", type(raw).__name__)
        if not isinstance(raw, np.ndarray | Sequence | pa.Array | pa.ChunkedArray):
            raw = self._import(raw)
        if isinstance(raw, np.ndarray):
            return self._from_numpy(raw)
        if isinstance(raw, Sequence):
            return np.fromiter(raw, dtype=object, count=len(raw))
        values = pa.chunked_array([raw]) if isinstance(raw, pa.Array) else raw
        if pa.types.is_run_end_encoded(values.type):
            chunks = [pc.run_end_decode(chunk) for chunk in values.chunks]
            values = pa.chunked_array(chunks, values.type.value_type)
        if pa.types.is_union(values.type):
            return np.fromiter(values, dtype=object, count=len(values))
        return values

    def _from_pandas(self, raw: Any) -> Any:
        dtype = raw.dtype
        if isinstance(dtype, np.dtype):
            return raw.to_numpy()
        # Arrow would look for one type that holds all categories, or all values.
        if isinstance(dtype, types_if_imported("pandas", "CategoricalDtype")):
            typed = dtype.categories.dtype != object
        else:
            typed = hasattr(getattr(raw, "array", raw), "__arrow_array__")
        return _typed_or_objects(raw) if typed else np.asarray(raw, dtype=object)

    def _from_numpy(self, raw: NDArray[Any]) -> NDArray[Any] | pa.ChunkedArray:
        if raw.ndim != 1:
            raise Code.WRONG_SHAPE.error(
                expected=f"one value per row in column {self.name!r}",
                found=f"an array of shape {raw.shape}",
                fix="pass one dimension per column; cut an array of several into columns",
            )
        kind = raw.dtype.kind
        if isinstance(raw, np.ma.MaskedArray):
            mask, raw = np.ma.getmaskarray(raw), np.ma.getdata(raw)
            if kind in "biuf":
                return pa.chunked_array([pa.array(raw, mask=mask, from_pandas=True)])
            raw = raw.copy() if kind in "Mm" else raw.astype(object)
            raw[mask] = None
            kind = raw.dtype.kind
        if kind in "Mm" and numpy_seconds(raw[:0]) is None:
            # A unit without a length: one by one, NaT is missing and all else unreadable.
            return np.fromiter(iter(raw), dtype=object, count=len(raw))
        if kind == "f" and raw.dtype.itemsize > 8:
            with np.errstate(over="ignore"):
                return raw.astype(np.float64)
        if kind == "U":
            raw = _typed_or_objects(raw)
            return raw if isinstance(raw, np.ndarray) else pa.chunked_array([raw])
        return raw if kind in "biufMmO" else raw.astype(object)

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
        try:
            return pa.array(raw, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self.wrong_type(_SEVERAL, str(error)) from None

    @property
    def is_plain(self) -> bool:
        """Whether the values are objects, without a type that NumPy or Arrow gives to all."""
        return isinstance(self.values, np.ndarray) and self.values.dtype.kind == "O"

    @cached_property
    def plain_values(self) -> list[Any]:
        """What each value of a column of objects is by itself."""
        if _PLAIN.issuperset(map(type, self.values)):
            return list(self.values)
        return [plain(value) for value in self.values]

    @cached_property
    def type_family(self) -> Family:
        """What a column of one type holds, whether plain or as a dictionary."""
        values = self.values
        if isinstance(values, np.ndarray):
            kind_of: dict[str, Family] = {"b": "bool", "M": "time", "m": "time"}
            return kind_of.get(values.dtype.kind, "number")
        return _family(values.type)

    @cached_property
    def family(self) -> Family:
        """What a column holds, also one of objects if these have one type; for drafts only."""
        family = _family(self.arrow().type)
        if family == "other":
            raise self.wrong_type(
                "numbers, strings, bools, dates or times", f"Arrow type {self.arrow().type}"
            )
        return family

    @property
    def is_categorical(self) -> bool:
        """Whether the values are categories by their type; for drafts only."""
        return self.family in ("string", "bool") or pa.types.is_dictionary(self.arrow().type)

    def arrow(self) -> pa.ChunkedArray:
        """Return the values as Arrow, NaN of NumPy as null; H109 for objects of no one type."""
        return self._arrow

    @cached_property
    def _arrow(self) -> pa.ChunkedArray:
        values = self.values
        if not isinstance(values, np.ndarray):
            return values
        if self.is_plain:
            numbers = _all_numbers(self.plain_values)
            if numbers is not None:
                return pa.chunked_array([numbers])
        return pa.chunked_array([self._to_arrow(values)])

    def read_numbers(self) -> Numbers:
        """Return the values as numbers, each read alone."""
        values = self.values
        if isinstance(values, np.ndarray):
            if values.dtype.kind in "Mm":
                seconds = numpy_seconds(values)
                assert seconds is not None
                return Numbers(np.ascontiguousarray(seconds), None)
            if values.dtype.kind != "O":
                return Numbers(np.ascontiguousarray(values, dtype=np.float64), None)
            return self._each_number(values)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        kind, family = values.type, self.type_family
        if family in ("string", "other"):
            unreadable = values.is_valid().to_numpy()
            return Numbers(np.full(len(values), np.nan), unreadable if unreadable.any() else None)
        if family == "time":
            counts = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
            return Numbers(arrow_seconds(counts.cast(pa.int64()), kind), None)
        if family == "bool":
            values = values.cast(pa.uint8())
        numbers: NDArray[np.float64] = arrow_floats(values).to_numpy()
        return Numbers(np.ascontiguousarray(numbers), None)

    def _each_number(self, values: NDArray[Any]) -> Numbers:
        if _NUMBERS.issuperset(map(type, values)):
            try:
                return Numbers(np.ascontiguousarray(values.astype(np.float64)), None)
            except OverflowError:
                pass
        found = self.plain_values
        unreadable = np.array([v is UNREADABLE or type(v) is str for v in found], dtype=np.bool_)
        numbers = np.array(
            [
                np.nan if v is None or bad else to_float(v)
                for v, bad in zip(found, unreadable.tolist(), strict=True)
            ],
            dtype=np.float64,
        )
        return Numbers(numbers, unreadable if unreadable.any() else None)

    def numbers(self) -> NDArray[np.float64]:
        """Return float64 (n,), contiguous, NaN where missing; H109 for what is no number."""
        numbers, unreadable = self.read_numbers()
        if unreadable is not None:
            raise self.no_numbers(np.flatnonzero(unreadable))
        return numbers

    def no_numbers(self, rows: NDArray[np.int64]) -> HedgerowError:
        """Build H109 for rows that hold no number; of strings, those first that look like none."""
        shown = [self.value(row) for row in rows.tolist()]
        if not all(isinstance(value, str) for value in shown):
            other = next(value for value in shown if not isinstance(value, str))
            return self.wrong_type(
                "numbers", f"values of type {type(other).__name__}: {self.where(rows)}"
            )
        words = pc.invert(pc.match_substring_regex(pa.array(shown, pa.string()), _NUMBER))
        some = rows[words.to_numpy(zero_copy_only=False)]
        return self.wrong_type("numbers", f"strings: {self.where(some if some.size else rows)}")

    def value(self, row: int) -> Any:
        """Return one value as Python has it, for messages."""
        value = self.values[row]
        if isinstance(value, pa.Scalar):
            try:
                return value.as_py()
            except (ValueError, OverflowError):
                # No text in UTF-8, or an instant that Python has not.
                return UNREADABLE
        return value.item() if isinstance(value, np.generic) else value

    def where(self, rows: NDArray[np.int64]) -> str:
        """Describe rows of the column for a message: how many, the first few and their values."""
        first = rows[:_SHOWN_ROWS].tolist()
        shown = [f"row {self.first_row + row}: {self.value(row)!r}" for row in first]
        more = ", ..." if len(rows) > len(shown) else ""
        many = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
        return f"{many} of column {self.name!r} ({', '.join(shown)}{more}; rows counted from 0)"

    def wrong_type(self, expected: str, found: str) -> HedgerowError:
        """Build H109 for this column."""
        return Code.WRONG_TYPE.error(
            expected=f"{expected} in column {self.name!r}", found=f"in column {self.name!r} {found}"
        )


def _family(kind: pa.DataType) -> Family:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return "string"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "time" if is_instant(kind) else "other"


def _typed_or_objects(raw: Any) -> Any:
    """Return values as Arrow; as objects, each to be read alone, if one is not to be had there.

    Arrow has no text with half a character of UTF-16, and would refuse all for one.
    """
    try:
        return pa.array(raw, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return np.asarray(raw, dtype=object)


def arrow_floats(values: Any) -> Any:
    """Return numbers of an Arrow array or chunked array as float64, each the nearest one."""
    if pa.types.is_decimal(values.type):
        # Arrow divides by a power of ten that belongs to the column; its reader of text does not.
        values = values.cast(pa.string())
    return values.cast(pa.float64(), safe=False)


def _all_numbers(values: list[Any]) -> pa.Array | None:
    """Return plain values as Arrow if they are numbers, whole ones as such; None if not."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds or not kinds <= {int, float}:
        return None
    if kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values):
        return pa.array(values, pa.int64())
    return pa.array([None if v is None else to_float(v) for v in values], pa.float64())


def types_if_imported(module: str, *names: str) -> tuple[Any, ...]:
    """Return types of an optional library, for `isinstance`; none of them if it is not imported.

    Types that another thread is just importing are left out: nobody has a value of them yet.
    """
    found: list[Any] = []
    for name in names:
        part: Any = sys.modules.get(module)
        for attribute in name.split("."):
            part = getattr(part, attribute, None)
        if part is not None:
            found.append(part)
    return tuple(found)


def name_list(names: Sequence[str]) -> str:
    """Write a list of names for a message, the first few of many."""
    shown = ", ".join(map(repr, names[:_SHOWN_NAMES]))
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
