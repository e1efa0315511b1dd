"""Tables cut between owners: by rows, by columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.column import name_list
from hedgerow.tables.encode import Encoded

_MIN_KEY, _MAX_KEY = 16, hashlib.blake2b.MAX_KEY_SIZE


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
