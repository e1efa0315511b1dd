"""Row ids: one per person, whole numbers or strings, the same in every library."""

from __future__ import annotations

import hmac
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.column import Column


def row_ids(column: Column) -> NDArray[Any]:
    """Return a column of ids as int64 or str (n,), each of them once.

    Parameters
    ----------
    column : Column
        Whole numbers or strings.

    Raises
    ------
    InputError
        H101 if an id is missing, H110 if one is repeated.
    InputTypeError
        H109 if the ids are neither whole numbers nor strings.
    """
    try:
        values = column.arrow()
        text = column.family == "string"
    except HedgerowError as error:
        if error.code is not Code.WRONG_TYPE:
            raise
        raise _wrong_type(column, error.found) from None
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    missing = np.flatnonzero(values.is_null(nan_is_null=True).to_numpy())
    if missing.size:
        raise Code.MISSING_VALUE.error(
            expected="an id in every row", found=column.where(missing), fix="give every row an id"
        )
    if text:
        ids: NDArray[Any] = values.to_numpy(zero_copy_only=False).astype(np.str_)
    elif pa.types.is_integer(values.type):
        try:
            ids = values.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise column.wrong_type("ids below 2^63", str(error)) from None
    else:
        raise _wrong_type(column, f"in column {column.name!r} Arrow type {values.type}")
    rows = repeated_rows(ids)
    if rows.size:
        raise Code.DUPLICATE_ID.error(found=column.where(rows))
    return ids


def _wrong_type(column: Column, found: str) -> HedgerowError:
    return Code.WRONG_TYPE.error(
        expected=f"whole numbers or strings as ids in column {column.name!r}",
        found=found,
        fix="convert the ids to whole numbers, such as ids.astype('int64'), or all of them to text",
    )


def repeated_rows(ids: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rows, in order, whose id another row has as well; intp (m,)."""
    order = np.argsort(ids, kind="stable")
    same = ids[order[1:]] == ids[order[:-1]]
    repeated = np.zeros(len(ids), dtype=np.bool_)
    repeated[1:] |= same
    repeated[:-1] |= same
    return np.sort(order[repeated])


def keyed_digest(key: bytes, purpose: str, n_slots: int, ids: NDArray[Any]) -> bytes:
    """Return 32 bytes that follow from a key and a set of ids, given in their order.

    Parameters
    ----------
    key : bytes
        Whoever has it can test guesses at the ids.
    purpose : str
        Digests of one set for two purposes say nothing about each other.
    n_slots : int
        Public number of slots for the records.
    ids : ndarray
        As `row_ids` returns them, sorted.
    """
    total = hmac.new(hmac.digest(key, purpose.encode(), "sha256"), digestmod="sha256")
    total.update(n_slots.to_bytes(8, "big"))
    total.update(b"".join(len(one).to_bytes(4, "big") + one for one in id_bytes(ids)))
    return total.digest()


def id_bytes(ids: NDArray[Any]) -> list[bytes]:
    """Write each id as bytes for hashing; the id 7 and the id "7" differ, and no two collide."""
    if ids.dtype.kind == "U":
        return [b"s" + text.encode() for text in ids.tolist()]
    packed = ids.astype("<i8").tobytes()
    return [b"i" + packed[i : i + 8] for i in range(0, len(packed), 8)]
