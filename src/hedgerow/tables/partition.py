"""Tables cut between owners: by rows, by columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.column import name_list
from hedgerow.tables.encode import Encoded
from hedgerow.tables.ids import keyed_hash

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
    ids = ids_of(encoded)[records]
    digests = keyed_hash(ids, key, size=8, purpose=b"hedgerow rows")
    part = np.frombuffer(digests, dtype="<u8").astype(np.uint64) % np.uint64(owners)
    return tuple(encoded.rows(records[part == owner]) for owner in range(owners))


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


def ids_of(encoded: Encoded) -> NDArray[np.generic]:
    """Return the row ids of a table; H111 if it has none."""
    if encoded.ids is None:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids", found="none in the table", fix="pass ids= to encode"
        )
    return encoded.ids
