"""Tables cut between owners: by rows, by columns, and put into a common order by row id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.tables.column import name_list
from hedgerow.tables.encode import Encoded
from hedgerow.tables.ids import id_bytes, repeated_rows

Keep = Literal["all", "common"]

_MIN_KEY, _MAX_KEY = 16, hashlib.blake2b.MAX_KEY_SIZE


def horizontal(encoded: Encoded, owners: int, key: bytes) -> tuple[Encoded, ...]:
    """Give each record to one of several owners, by a keyed hash of its id.

    The part of a record depends on that record alone: one record more or less moves no other. That
    is what parallel composition under add/remove neighbours needs, and what cutting a shuffled
    table into equal pieces does not give. The key, 16 to 64 bytes, is secret where the assignment
    has to be. Records keep their order; a part may be empty. H111 without ids, H110 for repeated
    ids, H501 for a bad number of owners or key.
    """
    if owners < 1:
        raise Code.BAD_PARAMETER.error(expected="owners of at least 1", found=f"owners={owners}")
    if not _MIN_KEY <= len(key) <= _MAX_KEY:
        raise Code.BAD_PARAMETER.error(
            expected=f"a key of {_MIN_KEY} to {_MAX_KEY} bytes", found=f"{len(key)} bytes"
        )
    records = np.flatnonzero(encoded.present)
    part = _keyed_hash(_ids_of(encoded, "the table")[records], key) % np.uint64(owners)
    return tuple(encoded.rows(records[part == owner]) for owner in range(owners))


def _keyed_hash(ids: NDArray[np.generic], key: bytes) -> NDArray[np.uint64]:
    """Return 64 bits of BLAKE2b per id, uint64 (n,)."""
    keyed = hashlib.blake2b(key=key, digest_size=8, person=b"hedgerow rows")

    def digest(message: bytes) -> bytes:
        state = keyed.copy()
        state.update(message)
        return state.digest()

    # The standard library hashes one message at a time: about a second per million ids.
    return np.frombuffer(b"".join(map(digest, id_bytes(ids))), dtype="<u8").astype(np.uint64)


def vertical(
    encoded: Encoded, groups: Sequence[Iterable[str | int]], *, target_at: int = 0
) -> tuple[Encoded, ...]:
    """Give each column to one of several owners, and the target to one of them.

    Presence bits and ids go to everybody; rows keep their order. H106 for a column in two groups,
    H107 for one that is in none or not in the table, H501 for an empty group or a bad `target_at`.
    """
    index = [encoded.domain.indices(group) for group in groups]
    if not all(index) or not 0 <= target_at < len(index):
        raise Code.BAD_PARAMETER.error(
            expected="at least one column in every group and target_at as one of the groups",
            found=f"groups of {[len(group) for group in index]} columns, target_at={target_at}",
        )
    times = np.bincount(np.concatenate(index), minlength=encoded.n_features)
    names = np.array(encoded.domain.names)
    if np.any(times > 1):
        raise Code.DUPLICATE_COLUMN.error(
            found=f"{name_list(names[times > 1].tolist())} in more than one place"
        )
    if np.any(times == 0):
        raise Code.MISSING_COLUMN.error(
            expected="every column in one of the groups",
            found=f"{name_list(names[times == 0].tolist())} in none",
            fix="add the columns to a group, or select the others first",
        )
    return tuple(encoded.select(group, target=i == target_at) for i, group in enumerate(index))


def align(parts: Sequence[Encoded], *, keep: Keep = "all") -> tuple[Encoded, ...]:
    """Put the rows of vertical parts into one common order, that of their ids.

    Sorting by id needs no word between the parties about whose order counts, and forgets the order
    in which a party stored its rows. Absent slots are left out; so are, where `keep` is "common"
    and not "all", rows whose id is not in every part. H110 for an id that is repeated within a
    part, H111 if the ids differ or are not there, H501 for another `keep`.
    """
    check_option("keep", keep, Keep)
    if not parts:
        raise Code.BAD_PARAMETER.error(expected="at least one part", found="none")
    sorted_parts = [_sort_by_id(part, f"part {i}") for i, part in enumerate(parts)]
    ids = [_ids_of(part, "the part") for part in sorted_parts]
    if len({array.dtype.kind for array in ids}) > 1:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="ids of one type at every party",
            found="numbers at one, strings at another",
            fix="convert the ids of all parties to whole numbers, or of all to strings",
        )
    common = ids[0]
    for other in ids[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    if keep == "all":
        _check_same(ids, common)
        return tuple(sorted_parts)
    if not common.size:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="ids in common at all parties",
            found="no id that all of them have",
            fix="check that all parties mean the same ids and spell them alike",
        )
    return tuple(
        part.rows(np.searchsorted(own, common)) for part, own in zip(sorted_parts, ids, strict=True)
    )


def _sort_by_id(part: Encoded, name: str) -> Encoded:
    records = np.flatnonzero(part.present)
    ids = _ids_of(part, name)[records]
    repeated = repeated_rows(ids)
    if repeated.size:
        raise Code.DUPLICATE_ID.error(
            found=f"{len(np.unique(ids[repeated])):,} repeated ids in {name}, "
            f"such as {ids[repeated[0]].item()!r}"
        )
    return part.rows(records[np.argsort(ids)])


def _check_same(ids: list[NDArray[np.generic]], common: NDArray[np.generic]) -> None:
    for i, own in enumerate(ids):
        alone = np.setdiff1d(own, common, assume_unique=True)
        if alone.size:
            raise Code.IDS_DO_NOT_ALIGN.error(
                found=f"{alone.size:,} ids of part {i} that not every part has, "
                f"such as {alone[0].item()!r}",
                fix="pass keep='common' to leave out rows whose id not every part has",
            )


def _ids_of(encoded: Encoded, name: str) -> NDArray[np.generic]:
    if encoded.ids is None:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids", found=f"none in {name}", fix="pass ids= to encode"
        )
    return encoded.ids
