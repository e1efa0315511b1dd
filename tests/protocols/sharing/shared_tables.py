"""Tables and queries as servers hold them, dealt in one process, and what they are in the clear."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.sharing.queries import deal_queries, held_queries
from hedgerow.protocols.sharing.table import SecretTable, Upload
from hedgerow.protocols.sharing.uploaded import deal_uploads, held_table
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret
from hedgerow.tables import Encoded


def shared_table(
    engine: Engine,
    layout: Layout,
    ring: Ring,
    uploads: Sequence[Upload],
    tables: Mapping[int, Encoded],
    units: Units | None = None,
) -> SecretTable:
    """Deal the tables of owners, by party, and put them together; seeded engines repeat it."""
    entropy = os.urandom if engine.private else keyed(bytes(KEY_BYTES))
    held = deal_uploads(layout, uploads, tables, entropy)
    return held_table(engine, layout, ring, held, units)


def shared_queries(engine: Engine, layout: Layout, ring: Ring, queries: Encoded) -> Secret:
    parts = deal_queries(layout, queries)
    return held_queries(engine, layout, ring, parts, queries.n_slots)


def one_hot(layout: Layout, encoded: Encoded) -> NDArray[np.uint8]:
    """Return one 0/1 column per bin; absent rows are all zero."""
    widths, present = layout.widths(range(layout.n_features)), encoded.present
    hot = [as_one_hot(encoded.bins[:, i], int(width)) for i, width in enumerate(widths)]
    return np.concatenate(hot, axis=1) * present[:, None]


def target_columns(table: Encoded, n_columns: int) -> NDArray[Any]:
    """Return what is added up: presence, classes, or presence and the target in whole units."""
    present = table.present[:, None].astype(np.int64)
    if table.target is None:
        return present
    if table.target.dtype.kind == "f":
        units = np.where(table.present, np.rint(table.target), 0)[:, None]
        return np.concatenate([present, units.astype(np.int64)], axis=1)
    return as_one_hot(table.target, n_columns) * present


def columns_at(layout: Layout, features: Sequence[int]) -> NDArray[np.int64]:
    """Return the places of the columns of some attributes."""
    pairs = zip(layout.first_column[list(features)], layout.widths(features), strict=True)
    return np.concatenate([np.arange(at, at + width) for at, width in pairs])
