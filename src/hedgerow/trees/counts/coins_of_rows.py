"""Which tree of a partitioned forest a row belongs to: the row's own secret coin.

Every slot of a batch has a coin of its own, one word of an AES stream that a secret key and the
number of the batch address. So a batch that is read again, or counted on another machine, has the
same coins, and no coin depends on another row, their order or their number: records that differ
in place have coins of the same law, which is all that an add/remove argument needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.privacy import NoiseSource

MOST_TREES = 1 << 16
"""So many at most: a word of 32 bits prefers no tree to another by more than 2**-16 of its share,
which is a matter of balance, not of privacy."""


def draw_key(source: NoiseSource) -> bytes:
    """Draw the secret key of one forest's coins, 16 bytes."""
    return source.bytes(KEY_BYTES).tobytes()


def trees_of_rows(key: bytes, number: int, n_slots: int, n_trees: int) -> NDArray[np.int32]:
    """Return the tree of every slot of a batch.

    `key`: from `draw_key`; whoever knows it and a row's slot knows the row's tree. `number`: of the
    batch; each batch of a table has its own. `n_trees`: at most `MOST_TREES`. Returns int32
    (n_slots,): from 0 to n_trees - 1.
    """
    words = Prg(key).fill(f"tree of each row/batch {number}", n_slots, np.uint32)
    return ((words.astype(np.uint64) * np.uint64(n_trees)) >> np.uint64(32)).astype(np.int32)
