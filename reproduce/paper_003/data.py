"""Paper 003's three data sets on bins that are the same for all learners; and how they are dealt.

Every column is ordered, categories by their names, and cut into `BINS` by quantiles of all rows:
bins are public in the paper. So peers and scikit-learn, which is given the numbers of the bins,
have the same candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.data import load
from hedgerow.tables import Domain, Encoded, encode

BINS = 8
PEERS = 3


def _table(table: pa.Table, target: str, *, classes: bool) -> Encoded:
    columns = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_string(column.type):
            ordered = pc.unique(column).sort()
            column = pc.index_in(column, ordered)
        columns[name] = column.to_numpy().astype(np.float64)
    y = columns.pop(target)
    frame = pa.table(columns)
    label = y.astype(np.int64) if classes else y
    task = "classification" if classes else "regression"
    domain = Domain.suggest(frame, label, quiet=True, max_bins=BINS, task=task)
    return encode(frame, domain, label)


def bank() -> Encoded:
    """Bank marketing, 4,521 rows."""
    return _table(load("bank_4521"), "y", classes=True)


def credit() -> Encoded:
    """Credit card default, 30,000 rows."""
    table = load("credit_default").drop_columns(["ID"])
    return _table(table, "default payment next month", classes=True)


def appliances() -> Encoded:
    """Energy of appliances in Wh, 19,735 rows, without the date."""
    return _table(load("appliances_energy").drop_columns(["date"]), "Appliances", classes=False)


def random_column() -> Encoded:
    """Return the same table with its last column as the target, ``rv2``: noise, put there to be so.

    ``rv1``, which is the same noise, is left out.
    """
    table = load("appliances_energy").drop_columns(["date", "rv1"])
    return _table(table, "rv2", classes=False)


READ: dict[str, Callable[[], Encoded]] = {
    "bank": bank,
    "credit": credit,
    "appliances": appliances,
    "rv2": random_column,
}


def rows_of(table: Encoded, index: NDArray[np.int64]) -> Encoded:
    """Return some of the rows."""
    assert table.target is not None
    return replace(
        table,
        bins=table.bins[index],
        target=table.target[index],
        present=table.present[index],
        ids=None if table.ids is None else table.ids[index],
    )


def dealt(n_features: int, n_peers: int = PEERS) -> list[int]:
    """Return the peer of each column, as many columns to each of them as to the others."""
    return [j * n_peers // n_features for j in range(n_features)]
