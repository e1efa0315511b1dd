"""One value, read alone: what a cell holds, whatever stands in the cells beside it.

Every path by which a table is read comes to `plain`, or does to a whole column of one type what
`plain` does to each of its values. A type that was chosen for all values of a column would be a
function of all rows: one odd record would change what the others are read as.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Seconds(float):
    """A date, a time of day or a duration as a number of seconds; no category and no id."""


class Unreadable:
    """What is neither missing nor a number, a string, a bool, a date or a time."""

    def __repr__(self) -> str:
        return "what cannot be read"


UNREADABLE = Unreadable()

Plain = None | bool | int | float | str | Seconds | Unreadable
"""A value as `plain` gives it; None is missing, and no float is NaN."""

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_PER_SECOND = PER_SECOND | {"ps": 10**12, "fs": 10**15, "as": 10**18}
_SECONDS_PER_DAY = 86_400
_MICROSECOND = dt.timedelta(microseconds=1)
_NAIVE = dt.datetime(1970, 1, 1)
_AWARE = _NAIVE.replace(tzinfo=dt.UTC)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


def plain(value: Any) -> Plain:
    """Return what one value is.

    None, NaN, NaT, pandas' NA, NumPy's masked and Arrow's null are missing. Numbers of NumPy, Arrow
    and the standard library are ints or floats of the same value; a decimal or a fraction is the
    nearest float, and what is beyond all floats is infinite. Dates and timestamps are seconds since
    1970-01-01 (UTC, also where they have no zone), times of day since midnight, durations seconds.
    """
    known = _OF_TYPE.get(type(value))
    if known is not None:
        return known(value)
    try:
        return _other(value)
    except Exception:
        # Methods of anybody's class: whatever they raise, this one value cannot be read.
        return UNREADABLE


def _float(value: Any) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return number if number == number else None


def _decimal(value: Decimal) -> float | None:
    return None if value.is_nan() else _float(value)


_OF_TYPE: dict[type, Callable[[Any], Plain]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: lambda value: value,
    str: lambda value: value,
    float: lambda value: value if value == value else None,
    Decimal: _decimal,
}


def _other(value: Any) -> Plain:
    if isinstance(value, np.generic):
        return _numpy(value)
    if value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.ndarray):
        return plain(value[()]) if value.ndim == 0 else UNREADABLE
    if isinstance(value, pa.Scalar):
        return _arrow(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, Real):
        return _float(value)
    return _time(value)


def _numpy(value: np.generic) -> Plain:
    kind = value.dtype.kind
    if kind == "b":
        return bool(value)
    if kind in "iu":
        return int(value)
    if kind == "f":
        with np.errstate(over="ignore"):
            return _float(value)
    if kind == "U":
        return str(value)
    if kind in "Mm":
        seconds = numpy_seconds(np.asarray(value)[None])
        if seconds is None:
            return None if np.isnat(value) else UNREADABLE
        return _seconds(float(seconds[0]))
    return UNREADABLE


def _arrow(value: pa.Scalar) -> Plain:
    if not value.is_valid:
        return None
    if isinstance(value, pa.UnionScalar):
        return plain(value.value)
    if is_instant(value.type):
        counts = pa.chunked_array([pa.array([value.value], pa.int64())])
        return _seconds(float(arrow_seconds(counts, value.type)[0]))
    return plain(value.as_py())


def _time(value: Any) -> Plain:
    exact = getattr(value, "asm8", None)
    if isinstance(exact, np.datetime64 | np.timedelta64):
        # Pandas' own have more digits than those of the standard library.
        return _numpy(exact)
    if isinstance(value, dt.datetime):
        return _parts((value - (_NAIVE if value.utcoffset() is None else _AWARE)) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Seconds((value - _NAIVE.date()).days * _SECONDS_PER_DAY)
    if isinstance(value, dt.time):
        minutes = value.hour * 60 + value.minute
        return _parts((minutes * 60 + value.second) * 10**6 + value.microsecond)
    if isinstance(value, dt.timedelta):
        return _parts(value // _MICROSECOND)
    return UNREADABLE


def _parts(microseconds: int) -> Seconds:
    return Seconds(microseconds // 10**6 + microseconds % 10**6 / 10**6)


def _seconds(number: float) -> Seconds | None:
    return Seconds(number) if number == number else None


def _in_seconds(counts: NDArray[np.int64], per: int) -> NDArray[np.float64]:
    """Turn counts of a unit of time into seconds; one instant is one number in every unit."""
    # The fraction is rounded by itself: k/10^6 and 1000k/10^9 are then the same float.
    return np.asarray(counts // per + (counts % per) / per, dtype=np.float64)


def numpy_seconds(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return ``datetime64`` or ``timedelta64`` (n,) as seconds, NaN for NaT.

    None for a unit without a length: none at all, or months and years of a duration.
    """
    unit, count = np.datetime_data(values.dtype)
    if unit == "generic" or (values.dtype.kind == "m" and unit in "YM"):
        return None
    finer = unit in _PER_SECOND
    if not finer or count != 1:
        values = values.astype(f"{values.dtype.kind}8[{unit if finer else 's'}]")
    seconds = _in_seconds(values.view(np.int64), _PER_SECOND[unit] if finer else 1)
    seconds[np.isnat(values)] = np.nan
    return seconds


def arrow_seconds(counts: pa.ChunkedArray, kind: pa.DataType) -> NDArray[np.float64]:
    """Return the counts, int64 (n,), of an Arrow type `kind` of dates or times as seconds."""
    whole = counts.fill_null(0).to_numpy()
    if pa.types.is_date32(kind):
        seconds = (whole * _SECONDS_PER_DAY).astype(np.float64)
    else:
        seconds = _in_seconds(whole, PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit])
    seconds[counts.is_null().to_numpy()] = np.nan
    return np.ascontiguousarray(seconds)


def is_instant(kind: pa.DataType) -> bool:
    """Whether an Arrow type counts a unit of time of one length."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def whole_number(text: str) -> int | None:
    """Return the whole number that a text spells in the one plain way, if 64 bits hold it."""
    if _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def to_float(number: float) -> float:
    """Return a number as a float; infinite where it is beyond them all."""
    found = _float(number)
    assert found is not None
    return found
