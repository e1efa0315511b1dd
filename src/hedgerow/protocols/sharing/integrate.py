"""Owners' tables, ready to be shared: by rows or by columns, in slots of a public number.

Paper: hiddentrees, section 1.1.1 and algorithm 11. This is the owners' side; nothing of it reaches
a server but the uploads, which are public.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.table import (
    TaggedTable,
    Upload,
    horizontal_uploads,
    vertical_uploads,
)
from hedgerow.tables import Domain, Encoded, pad, vertical
from hedgerow.tables.ids import TAG_BYTES, id_tags, repeated_rows
from hedgerow.tables.partition import ids_of

Partition = Literal["horizontal", "vertical"]
Entropy = Callable[[int], bytes]


@dataclass(frozen=True, eq=False)
class Integrated:
    """Tables of all owners: public uploads, and the padded table of every owner by its party."""

    uploads: list[Upload]
    tables: dict[int, Encoded]


def equal_slots(n_slots: int, owners: int) -> list[int]:
    """Cut the slots into blocks of nearly one size, a public number for every owner."""
    return [int(size) for size in np.diff(np.arange(owners + 1) * n_slots // owners)]


def by_rows(
    layout: Layout,
    parts: Sequence[Encoded],
    slots: Sequence[int],
    entropy: Entropy = os.urandom,
) -> Integrated:
    """Put together owners that each hold records of their own, with all attributes and the target.

    `slots` are the public numbers of slots of each owner. Only tests draw the owners' placements
    from anything but the operating system. H117 for a part under another domain, H112 for more
    records than slots, H116 for a part without a target.
    """
    if len(parts) != len(slots) or not parts:
        raise Code.BAD_PARAMETER.error(
            expected="one number of slots for each of the owners' tables",
            found=f"{len(parts)} tables, {len(slots)} numbers",
        )
    for i, part in enumerate(parts):
        _check_domain(part, layout.domain, i)
        if part.target is None and layout.domain.target is not None:
            raise Code.BAD_TARGET.error(
                expected="the target of the rows of every owner",
                found=f"no target at owner {i}",
                fix=f"encode the table of owner {i} with its target",
            )
    uploads = horizontal_uploads(layout, slots)
    padded = [pad(part, size, entropy=entropy) for part, size in zip(parts, slots, strict=True)]
    return _together(uploads, padded)


def by_columns(
    layout: Layout,
    parts: Sequence[Encoded],
    slots: Sequence[int],
    key: bytes | None = None,
    entropy: Entropy = os.urandom,
) -> Integrated:
    """Put together owners that hold columns, with ids: records that all have are trained on.

    Each gives its slots tags (`tagged`), with a key that the owners have in common and no server is
    told; a fresh one by default. The servers join them (`hedgerow.protocols.sharing.join`).

    `slots` are the public numbers of slots of each owner. H111 without ids, H110 for an id twice at
    one owner, H117 for a part under another domain, H107 and H106 for an attribute at no owner or
    at two, H116 if not exactly one has the target, H112 for more records than slots.
    """
    groups = [sorted(layout.domain.indices(part.domain.names)) for part in parts]
    _check_groups(layout.domain, groups)
    parts = [
        part.select([layout.domain.names[i] for i in group])
        for part, group in zip(parts, groups, strict=True)
    ]
    for i, (part, group) in enumerate(zip(parts, groups, strict=True)):
        wanted = layout.domain.select(group, target=part.target is not None)
        _check_domain(part, wanted, i, target=part.target is not None)
    holders = [i for i, part in enumerate(parts) if part.target is not None]
    if layout.domain.target is None:
        holders = [0]
    if len(holders) != 1:
        raise Code.BAD_TARGET.error(
            expected="the target at exactly one of the owners",
            found=f"at {len(holders)} of {len(parts)}",
            fix="encode the target with the table of one owner, and no target with the others",
        )
    key = os.urandom(KEY_BYTES) if key is None else key
    placed = [tagged(part, n, key, entropy) for part, n in zip(parts, slots, strict=True)]
    return _together(vertical_uploads(slots, groups, holders[0]), placed)


def tagged(part: Encoded, n_slots: int, key: bytes, entropy: Entropy = os.urandom) -> TaggedTable:
    """Give slots tags, of records by their ids and random ones of empty slots, and sort by them.

    H111 without ids, H110 for an id twice, H112 for more records than slots.
    """
    padded = pad(part, n_slots, entropy=entropy)
    ids, present = ids_of(padded), padded.present
    if (repeated := repeated_rows(ids[present])).size:
        raise Code.DUPLICATE_ID.error(found=f"{repeated.size:,} rows with ids of others")
    tags = np.frombuffer(entropy(TAG_BYTES * n_slots), np.uint8).reshape(-1, TAG_BYTES).copy()
    tags[present] = id_tags(key, ids[present])
    order = np.lexsort(tags.T[::-1])
    rows = padded.rows(order)
    return TaggedTable(rows.domain, rows.bins, rows.target, rows.present, tags=tags[order])


def dealt(
    layout: Layout,
    encoded: Encoded,
    n_slots: int,
    owners: int = 1,
    partition: Partition = "horizontal",
    entropy: Entropy = os.urandom,
) -> Integrated:
    """Deal one table to several owners, to study them: blocks of slots, or columns in turn.

    Records are placed among all slots first, so that the owner of a record is as random as its
    slot, and a record more or less moves no other. Where columns are dealt, each owner has those of
    all records in as many slots, and the first gets the target. H112 for more records than slots,
    H501 for more owners than slots or columns.
    """
    if not 1 <= owners <= (n_slots if partition == "horizontal" else layout.n_features):
        raise Code.BAD_PARAMETER.error(
            expected=f"n_owners up to the {'slots' if partition == 'horizontal' else 'columns'}",
            found=f"n_owners={owners}, {n_slots:,} slots, {layout.n_features} columns",
        )
    if partition == "vertical":
        groups = [list(range(i, layout.n_features, owners)) for i in range(owners)]
        parts = vertical(replace(encoded, ids=np.arange(encoded.n_slots)), groups)
        return by_columns(layout, parts, [n_slots] * owners, entropy(KEY_BYTES), entropy)
    padded = pad(encoded, n_slots, entropy=entropy)
    uploads = horizontal_uploads(layout, equal_slots(n_slots, owners))
    blocks = [padded.rows(np.arange(up.first, up.first + up.rows)) for up in uploads]
    return _together(uploads, blocks)


def keyed(key: bytes) -> Entropy:
    """Return bytes that follow from a key: the same at everybody who has it, in the same order."""
    stream, count = Prg(key), itertools.count()
    return lambda n: stream.fill(f"slots/{next(count)}", n, np.uint8).tobytes()


def _together(uploads: list[Upload], tables: Sequence[Encoded]) -> Integrated:
    pairs = zip(uploads, tables, strict=True)
    return Integrated(uploads, {upload.party: table for upload, table in pairs})


def _check_domain(part: Encoded, wanted: Domain, owner: int, *, target: bool = True) -> None:
    same = part.domain.attributes == wanted.attributes
    if not same or (target and part.domain.target != wanted.target):
        raise Code.BAD_DOMAIN.error(
            expected=f"attributes {', '.join(wanted.names)} as all owners declared them",
            found=f"attributes {', '.join(part.domain.names)} at owner {owner}, not the same",
            fix="use one domain file at all owners",
        )


def _check_groups(domain: Domain, groups: Sequence[Sequence[int]]) -> None:
    times = np.bincount([i for group in groups for i in group], minlength=len(domain.names))
    for code, wrong, where in (
        (Code.DUPLICATE_COLUMN, times > 1, "more than one owner"),
        (Code.MISSING_COLUMN, times == 0, "no owner"),
    ):
        if wrong.any():
            names = ", ".join(np.array(domain.names)[wrong])
            raise code.error(
                expected="every attribute at one owner",
                found=f"{names} at {where}",
                fix="give every attribute to one owner",
            )
