"""Owners of columns with ids of their own, and the join of what they hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.privacy import Leakage
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.integrate import Integrated, by_columns, keyed
from hedgerow.protocols.sharing.join import join, openings
from hedgerow.secure.secret import Engine, SecretBits
from hedgerow.tables import Encoded
from hedgerow.tables.ids import id_tags
from tests.secure.engines import share_bits

KEY = bytes(range(32))
WIDTH = 10
"""Bits of the one column that every owner has: the id itself."""

Bits = NDArray[np.bool_]


def owned(ids: Sequence[int], n_slots: int, seed: int, key: bytes = KEY) -> tuple[Bits, Bits]:
    """Return tags (128, slots) and columns (1 + WIDTH, slots), presence in front, of an owner."""
    rng = np.random.default_rng(seed)
    tags = rng.integers(0, 256, (n_slots, 16), dtype=np.uint8)
    at = rng.permutation(n_slots)[: len(ids)]
    held = np.zeros(n_slots, dtype=np.int64)
    present = np.zeros(n_slots, dtype=bool)
    tags[at], held[at], present[at] = id_tags(key, np.array(ids, dtype=np.int64)), ids, True
    order = np.lexsort(tags.T[::-1])
    columns = (held[order] >> np.arange(WIDTH)[:, None]) & 1 != 0
    return np.unpackbits(tags[order], axis=1).T != 0, np.vstack([present[order], columns])


def joined(engine: Engine, held: Sequence[tuple[Bits, Bits]], n_slots: int) -> SecretBits:
    """Declare, share and join."""
    rows = [columns.shape[1] for _, columns in held]
    engine.leakage = Leakage(openings(rows, engine.everyone))
    tags, columns = (
        [share_bits(engine, bits) for bits in side] for side in zip(*held, strict=True)
    )
    return join(tags, columns, n_slots)


def ids_in(planes: Bits, owners: int) -> list[list[int]]:
    """Return the ids that each owner's column has, by place; -1 where no record is."""
    numbers = [
        np.where(planes[0], (planes[first : first + WIDTH] << np.arange(WIDTH)[:, None]).sum(0), -1)
        for first in range(1, 1 + owners * WIDTH, WIDTH)
    ]
    return [one.tolist() for one in numbers]


def columns_of(layout: Layout, table: Encoded, groups: Any, sets: Any, slots: Any) -> Integrated:
    """Cut a table with ids between owners, of whom each has some of the records; the first y."""
    assert table.ids is not None
    parts = [
        table.select(group, target=i == 0).rows(np.flatnonzero(np.isin(table.ids, own)))
        for i, (group, own) in enumerate(zip(groups, sets, strict=True))
    ]
    return by_columns(layout, parts, slots, KEY, keyed(bytes(KEY_BYTES)))
