"""Row ids: one per person, whole numbers or strings, the same in every library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.column import Column
from hedgerow.tables.values import plain, whole_number

LONGEST = 256
"""Characters of an id."""


def row_ids(column: Column) -> NDArray[Any]:
    """Return a column of ids as int64 or str (n,), each of them once.

    An id is read by itself: a text that spells a whole number in the plain way is that number, so
    that the id 7 is the same in a CSV file as in Parquet, and with or without a text beside it.
    Where at least one id is another text, all are given as text; `id_bytes` does not depend on it.
    H101 if an id is missing, H110 if one is repeated, H109 for ids that are neither whole numbers
    below 2^63 nor strings of at most 256 characters without NUL.
    """
    try:
        whole = _whole_ids(column)
    except HedgerowError as error:
        if error.code is not Code.WRONG_TYPE:
            raise
        raise _wrong_type(column, error.found) from None
    ids = _plain_ids(column) if whole is None else whole
    rows = repeated_rows(ids)
    if rows.size:
        raise Code.DUPLICATE_ID.error(found=column.where(rows))
    return ids


def asked_ids(texts: Sequence[str]) -> NDArray[Any]:
    """Return ids that a question names (n,), read as `row_ids` reads those of a table; H109."""
    return _plain_ids(Column("id", texts))


def _whole_ids(column: Column) -> NDArray[np.int64] | None:
    """Return ids of an integer type that 64 bits hold and none of which is missing."""
    values = column.values
    if isinstance(values, np.ndarray):
        fits = values.dtype.kind in "iu" and values.dtype != np.uint64
        return values.astype(np.int64) if fits else None
    kind = values.type
    if not pa.types.is_integer(kind) or kind == pa.uint64() or values.null_count:
        return None
    return np.asarray(values.cast(pa.int64()).to_numpy(), dtype=np.int64)


def read_ids(
    column: Column, absorbed: AbsorbedRows | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return ids (n,) as `row_ids`, and which rows (n,) have one of their own.

    Without `absorbed` that is all of them, or one is refused. With it, none is: rows whose id
    cannot be read, or is that of several rows, have none. Of several none is taken, so that a
    repeated row is one row less, and never another one; 0 or no text stands for what is no id. A
    whole number in a column of floats is that number: libraries make one where an id is missing.
    """
    if absorbed is None:
        return row_ids(column), np.ones(len(column), dtype=np.bool_)
    ids = _whole_ids(column)
    usable = np.ones(len(column), dtype=np.bool_)
    if ids is None:
        each = [_canonical(_unfloated(value)) for value in _plain_values(column)]
        usable = np.array([_is_id(one) for one in each], dtype=np.bool_)
        if any(type(one) is str for one in each):
            read = zip(each, usable.tolist(), strict=True)
            ids = np.array([str(one) if its else "" for one, its in read], dtype=np.str_)
        else:
            ids = np.array([one if _is_whole(one) else 0 for one in each], dtype=np.int64)
    named = np.flatnonzero(usable)
    usable[named[repeated_rows(ids[named])]] = False
    absorbed.count_rows(without_id=np.count_nonzero(~usable))
    return ids, usable


def _plain_values(column: Column) -> Sequence[Any]:
    if column.is_plain:
        return column.plain_values
    values: Any = column.values
    if not isinstance(values, np.ndarray):
        # One value that Python cannot hold, as no text or beyond its dates, is refused with all.
        with suppress(ValueError, OverflowError):
            values = values.to_pylist()
    return [plain(value) for value in values]


def _plain_ids(column: Column) -> NDArray[Any]:
    found = _plain_values(column)
    missing = [i for i, value in enumerate(found) if value is None]
    if missing:
        raise Code.MISSING_VALUE.error(
            expected="an id in every row",
            found=column.where(np.array(missing)),
            fix="give every row an id",
        )
    ids = [_canonical(value) for value in found]
    other = [i for i, value in enumerate(ids) if not _is_id(value)]
    if other:
        raise _wrong_type(column, column.where(np.array(other)))
    if all(type(value) is int for value in ids):
        return np.array(ids, dtype=np.int64)
    return np.array([str(value) for value in ids], dtype=np.str_)


def _canonical(value: Any) -> Any:
    whole = whole_number(value) if type(value) is str else None
    return value if whole is None else whole


def _unfloated(value: Any) -> Any:
    exact = type(value) is float and value.is_integer() and abs(value) < 2**53
    return int(value) if exact else value


def _is_id(value: Any) -> bool:
    if type(value) is not str:
        return _is_whole(value)
    # Half a character, as Python can hold it, has no bytes to be hashed; one long text would take
    # as much room in every row; and arrays of texts do not keep a NUL at the end of one.
    whole = value.isascii() or value == value.encode(errors="ignore").decode()
    return whole and len(value) <= LONGEST and "\0" not in value


def _is_whole(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _wrong_type(column: Column, found: str) -> HedgerowError:
    return Code.WRONG_TYPE.error(
        expected=f"whole numbers or strings of at most {LONGEST} characters without NUL as ids in "
        f"column {column.name!r}",
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


TAG_BYTES = 16
IdKind = Literal["number", "text"]
"""What an owner says its ids are, whatever is in its table: it is public."""


def check_kind(ids: NDArray[Any], kind: str) -> None:
    """Refuse, H109, ids that are said to be numbers and are not."""
    if kind == "number" and ids.dtype.kind == "U":
        raise Code.WRONG_TYPE.error(
            expected="whole numbers as ids, as --id-type number says",
            found="at least one id that is a text",
            fix="correct the ids, or pass --id-type text at all owners",
        )


def id_tags(key: bytes, ids: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a keyed hash of every id, uint8 (n, 16), the same at everybody who has the key.

    Whoever has the key can test guesses at the ids, and nobody else can.
    """
    digests = keyed_hash(ids, key, size=TAG_BYTES, purpose=b"hedgerow tags")
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, TAG_BYTES)


def key_check(key: bytes) -> str:
    """Return 64 hexadecimal digits that are equal for equal keys, and say nothing about ids."""
    return hashlib.blake2b(key=key, digest_size=32, person=b"hedgerow key").hexdigest()


def keyed_hash(ids: NDArray[Any], key: bytes, *, size: int, purpose: bytes) -> bytes:
    """Return so many bytes of BLAKE2b for each id, one behind the other; the key has 1 to 64."""
    keyed = hashlib.blake2b(key=key, digest_size=size, person=purpose)

    def digest(message: bytes) -> bytes:
        state = keyed.copy()
        state.update(message)
        return state.digest()

    # The standard library hashes one message at a time: about a second per million ids.
    return b"".join(map(digest, id_bytes(ids)))


def id_bytes(ids: NDArray[Any]) -> list[bytes]:
    """Write each id as bytes for hashing, by itself: the text "7" is the number 7, as in a file."""
    if ids.dtype.kind != "U":
        packed = ids.astype("<i8").tobytes()
        return [b"i" + packed[i : i + 8] for i in range(0, len(packed), 8)]
    return [_bytes(text, whole_number(text)) for text in ids.tolist()]


def _bytes(text: str, whole: int | None) -> bytes:
    if whole is None:
        return b"s" + text.encode()
    return b"i" + whole.to_bytes(8, "little", signed=True)
