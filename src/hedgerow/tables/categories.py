"""Finding values in a public list of categories, by value and never by their spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.tables.attribute import Category, family
from hedgerow.tables.column import Column, arrow_floats
from hedgerow.tables.values import Seconds, plain

UNLISTED = -1
"""Code of a value that is not in the list."""

MISSING = -2
"""Code of a missing value."""

OTHER_TYPE = -3
"""Code of a value of another type than the list, such as a number among strings."""


def lookup(column: Column, categories: Sequence[Category]) -> NDArray[np.int32]:
    """Find every value of a column: its position, `UNLISTED`, `MISSING` or `OTHER_TYPE`, (n,).

    Strings match strings, bools match bools and numbers match numbers of the same value (1 matches
    1.0, not True and not "1"), whichever library the column comes from and whether it is plain or a
    dictionary. Decimals and fractions are the nearest float. Categories are of one family.
    """
    wanted = family(categories[0])
    if column.is_plain:
        return _plain_codes(column, categories)
    values = column.values
    if column.type_family != wanted:
        codes = np.full(len(column), OTHER_TYPE, dtype=np.int32)
        if isinstance(values, np.ndarray):
            absent = np.isnat(values) if values.dtype.kind in "Mm" else values != values
        elif pa.types.is_dictionary(values.type):
            absent = values.cast(values.type.value_type).is_null(nan_is_null=True).to_numpy()
        else:
            absent = values.is_null(nan_is_null=True).to_numpy()
        codes[absent] = MISSING
        return codes
    found = [_codes(chunk, categories) for chunk in column.arrow().chunks]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int32)


def _plain_codes(column: Column, categories: Sequence[Category]) -> NDArray[np.int32]:
    code_of: dict[Any, int] = {category: i for i, category in enumerate(categories)}
    # Exactly these types: a bool is no number here, and a time in seconds is not one either.
    of = {"string": (str,), "bool": (bool,), "number": (int, float)}[family(categories[0])]
    return np.array(
        [
            MISSING if v is None else code_of.get(v, UNLISTED) if type(v) in of else OTHER_TYPE
            for v in column.plain_values
        ],
        dtype=np.int32,
    )


def kind_of(value: Any) -> str:
    """Name what a value of the wrong type is, in the plural, for messages."""
    read = plain(value)
    if isinstance(read, Seconds):
        return "dates or times"
    names = {str: "strings", bool: "bools", int: "numbers", float: "numbers"}
    return names.get(type(read), f"values of type {type(value).__name__}")


def distinct(column: Column) -> list[Category]:
    """Return the distinct values of a column, sorted, missing ones left out."""
    values = column.arrow()
    if pa.types.is_dictionary(values.type):
        # A dictionary may list values that no row has: only those in use count.
        values = values.cast(values.type.value_type)
    found = pc.unique(_comparable(values)).drop_null().to_pylist()
    # NaN is the one value that differs from itself.
    return sorted(value for value in found if value == value)


def _comparable(values: Any) -> Any:
    """Widen an array or chunked array to a type in which Arrow compares and values stay exact."""
    kind = values.type
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        # Arrow tells -0.0 from 0.0; adding 0.0 makes them one.
        return pc.add(arrow_floats(values), 0.0)
    return values.cast(pa.large_string()) if kind == pa.string_view() else values


def _codes(values: pa.Array, categories: Sequence[Category]) -> NDArray[np.int32]:
    if isinstance(values, pa.DictionaryArray):
        of_entry = np.append(_codes(values.dictionary, categories), np.int32(MISSING))
        entries = values.indices.cast(pa.int64()).fill_null(len(values.dictionary))
        return np.asarray(of_entry[entries.to_numpy(zero_copy_only=False)])
    values = _comparable(values)
    positions, value_set = _value_set(categories, values.type)
    found = pc.index_in(values, value_set=value_set, skip_nulls=True).fill_null(len(positions))
    codes = np.asarray(
        np.append(positions, np.int32(UNLISTED))[found.to_numpy(zero_copy_only=False)]
    )
    missing = values.is_null(nan_is_null=True)
    if missing.true_count:
        codes[missing.to_numpy(zero_copy_only=False)] = MISSING
    return codes


def _value_set(
    categories: Sequence[Category], kind: pa.DataType
) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the categories that a column of type `kind` can hold, with their positions."""
    held: list[tuple[int, Category]] = list(enumerate(categories))
    numbers = [(i, value) for i, value in held if not isinstance(value, str)]
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        held = [(i, int(v)) for i, v in numbers if limits.min <= v <= limits.max and v == int(v)]
    elif pa.types.is_floating(kind):
        held = [(i, float(v) + 0.0) for i, v in numbers if _is_float(v)]
    positions = np.array([i for i, _ in held], dtype=np.int32)
    return positions, pa.array([value for _, value in held], type=kind)


def _is_float(value: float) -> bool:
    """Whether a float64 can be equal to this number; Python compares int and float exactly."""
    try:
        return float(value) == value
    except OverflowError:
        return False
