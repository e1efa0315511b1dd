"""One-hot blocks: counts as matrix products, which is how they are taken on secret shares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables.domain import Domain
from hedgerow.tables.encode import Encoded


def offsets(domain: Domain, columns: Iterable[str | int] | None = None) -> NDArray[np.int64]:
    """Return where the block of each attribute begins.

    Parameters
    ----------
    domain : Domain
        The attributes.
    columns : iterable of str or int, optional
        Names or positions; all attributes if None.

    Returns
    -------
    int64 (len(columns) + 1,)
        Block j is ``offsets[j]:offsets[j + 1]``; the last entry is the total width.
    """
    widths = domain.n_bins[domain.indices(columns)]
    return np.concatenate(([0], np.cumsum(widths, dtype=np.int64)))


def one_hot(encoded: Encoded, columns: Iterable[str | int] | None = None) -> NDArray[np.uint8]:
    """Return one 0/1 column per bin, blocks side by side as `offsets` says.

    Parameters
    ----------
    encoded : Encoded
        The table.
    columns : iterable of str or int, optional
        Names or positions; all attributes if None.

    Returns
    -------
    uint8 (n_slots, sum of n_bins)
        A present row has exactly one 1 in each block; an absent row is all zero.
    """
    index = encoded.domain.indices(columns)
    starts = offsets(encoded.domain, index)
    blocks = np.zeros((encoded.n_slots, int(starts[-1])), dtype=np.uint8)
    rows = np.flatnonzero(encoded.present)
    for start, column in zip(starts[:-1], index, strict=True):
        blocks[rows, start + encoded.bins[rows, column]] = 1
    return blocks
