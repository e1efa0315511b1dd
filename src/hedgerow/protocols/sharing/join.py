"""Oblivious join: of tables that owners hold columns of, the records that all of them have.

An owner gives every slot a tag: of a record, a keyed hash of its id under a key that the owners
have in common and no server sees; of an empty slot, random bits. It hands in its slots in the order
of their tags. So what is left to the servers is a merge: rows of one record come to lie next to
each other, where equal tags show. Sorting there would take a shuffle for every two bits of a tag.

Two ids have one tag with probability below 2^-40 for all rows of a join together: `tag_bits`.

An owner could hand in tags in another order, or one twice; then one record more or less of somebody
else's might move others. So the servers look first, and go on only if all is in order. What an
owner of bits can do beyond that it could do with other values in its columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.secure import sort
from hedgerow.secure.circuits import all_of, less
from hedgerow.secure.compare import cost_all_of, cost_carry_into_top
from hedgerow.secure.cost import Cost
from hedgerow.secure.merge import cost_merge, cost_undo, merge
from hedgerow.secure.secret import Engine, Secret, SecretBits, concatenate, stack, turned

TAG_PLANES = 128
"""Bits of a tag as it is uploaded: as many as `tag_bits` asks for at 2^44 rows."""
OUT_OF_ORDER = "tags out of order"


def tag_bits(rows: Sequence[int]) -> int:
    """Return how many bits of the tags are compared, for so many rows of each owner.

    N rows make fewer than N^2 / 2 pairs, each of which is equal by chance with probability 2^-bits.
    """
    return min(TAG_PLANES, 39 + 2 * (sum(rows) - 1).bit_length())


def openings(rows: Sequence[int], to: str) -> list[Opening]:
    """Declare what a join of so many rows of each owner opens; of one owner's table, nothing."""
    if len(rows) == 1:
        return []
    order = Opening(
        OUT_OF_ORDER,
        to,
        (len(rows),),
        independent="zeros, of uploads that were made as they should be; it follows from the tags "
        "of each upload alone",
    )
    moves = [sort.openings(n, 1, to, _move(i))[0] for i, n in enumerate(rows)]
    return [order, *moves]


def join(tags: Sequence[SecretBits], columns: Sequence[SecretBits], n_slots: int) -> SecretBits:
    """Put side by side the columns of the records that all owners have, at random places.

    1. Tags of every owner ascend (`OUT_OF_ORDER`), H910 if not. So no owner has one twice.
    2. `merge` of all tags. Where k in a row are equal, for k owners, each of them has one.
    3. That bit goes back to the slots (`Merged.undo`).
    4. Each owner's slots are moved, those with the bit first and in their order (`sort.permute`):
       the r-th of one owner is the same record as the r-th of any other.
    5. Side by side, and present where the bit and all presence bits are set. There are never more
       records than slots at the owner with the fewest.
    6. A shuffle: every record has a place that is uniform and says nothing about other records.

    Tags are (planes, slots), highest bit first; `columns` (planes, slots) have presence in front.
    Returns presence and the columns of all owners, in order, (planes, `n_slots`).

    Reveals: to the servers, a uniformly random permutation for every owner. Not how many
    records are in common. Cost: `cost_join`; two thirds are comparators of the merge.
    """
    rows = [one.n for one in columns]
    if n_slots < min(rows):
        raise Code.BAD_PARAMETER.error(
            expected=f"room for {min(rows):,} slots of joined records", found=f"{n_slots:,}"
        )
    if len(columns) == 1:
        (joined,) = columns
    else:
        moved = _common_first(tags, columns)
        present = all_of(concatenate([one[[0, -1]] for one in moved]))[None]
        joined = concatenate([present, *(one[1:-1] for one in moved)])
    engine, placed = joined.engine, turned(joined)
    empty = engine.public_bits(np.zeros((n_slots - len(placed), len(joined)), dtype=np.bool_))
    everything = concatenate([placed, empty])
    return turned(engine.shuffle(everything, engine.permutation(n_slots)))


def cost_join(engine: Engine, rows: Sequence[int], planes: Sequence[int], n_slots: int) -> Cost:
    """State the cost of `join` for so many slots and planes, presence included, of each owner."""
    width = 1 + sum(planes) - len(planes)
    shuffle = engine.cost("permutation", shape=(n_slots,))
    shuffle += engine.cost("shuffle", shape=(n_slots, width))
    if len(rows) == 1:
        return shuffle
    k, n, bits = len(rows), sum(rows), tag_bits(rows)
    ring = sort.position_ring(n)
    total = cost_carry_into_top(engine, bits + 1, n - k)
    total += engine.cost("b2a", shape=(1, n - k), ring=ring)
    total += engine.cost("open", shape=(k,), ring=ring, to=engine.everyone)
    total += cost_merge(engine, rows, bits) + cost_undo(engine, rows, 1)
    total += cost_all_of(engine, bits, n - 1) + cost_all_of(engine, k - 1, n - k + 1)
    for size, of_owner in zip(rows, planes, strict=True):
        total += sort.cost_destinations(engine, 1, size)
        total += sort.cost_permute(engine, (size, of_owner + 1), None)
    return total + cost_all_of(engine, 2 * k, min(rows)) + shuffle


def _common_first(tags: Sequence[SecretBits], columns: Sequence[SecretBits]) -> list[SecretBits]:
    """Return each owner's planes with common records first, whose bit is one more plane.

    As many slots as the owner with the fewest has.
    """
    rows = [one.n for one in columns]
    bits = tag_bits(rows)
    # Numbers of circuits have their lowest bit first.
    keys = concatenate([turned(one[:bits][::-1]) for one in tags])
    _check_order(keys, rows)
    ends = np.cumsum(rows)
    common, moved = _common(keys, rows), []
    for i, (one, end) in enumerate(zip(columns, ends, strict=True)):
        bit = turned(common[end - one.n : end])
        places = sort.destinations(~bit)
        slots = sort.permute(turned(concatenate([one, bit])), places, name=_move(i))
        moved.append(turned(slots[: min(rows)]))
    return moved


def _check_order(keys: SecretBits, rows: Sequence[int]) -> None:
    """Refuse tags of an owner that do not ascend."""
    engine, ends = keys.engine, np.cumsum(rows)
    first = np.setdiff1d(np.arange(len(keys)), ends - 1)
    wrong = ~less(turned(keys[first]), turned(keys[first + 1]))[None]
    each = engine.b2a(wrong, sort.position_ring(len(keys)))[0]
    # Every owner has a pair less than rows.
    pairs = ends - np.arange(1, len(rows) + 1)
    counts: list[Secret] = [
        each[end - size + 1 : end].sum() for size, end in zip(rows, pairs, strict=True)
    ]
    opened = engine.open_to_all(stack(counts), OUT_OF_ORDER)
    if opened.any():
        raise Code.UPLOADS_DO_NOT_FIT.error(
            expected="uploads whose slots are in the order of their tags",
            found=f"another order in upload {int(np.flatnonzero(opened)[0]) + 1} of the job",
            fix="let its owner upload its columns again",
        )


def _common(keys: SecretBits, rows: Sequence[int]) -> SecretBits:
    """Return a bit (n, 1) for every row whose key every owner has."""
    merged, k = merge(keys, rows), len(rows)
    alike = turned(all_of(~turned(merged.rows[1:] ^ merged.rows[:-1]))[None])
    windows = len(keys) - k + 1
    found = all_of(concatenate([turned(alike[j : j + windows]) for j in range(k - 1)]))
    data = np.zeros((*keys.data.shape[:-2], len(keys), 1), np.uint64)
    for j in range(k):
        # Two windows never have a row in common: nobody has a key twice.
        data[..., j : j + windows, :] ^= turned(found[None]).data
    return merged.undo(SecretBits(keys.engine, 1, data))


def _move(owner: int) -> str:
    return f"{sort.SHUFFLED} of upload {owner + 1}"
