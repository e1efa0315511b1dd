"""Rows of a batch: what an extension gives its two sides, to be used once.

For transfer j with choice b the sender has q_j, and the receiver q_j ^ b Delta; Delta is the
sender's secret for the session. A row that is used twice shows a difference of what it hides, so
rows are gone with their first use (H953).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer.hashing import TweakableHash, Words
from hedgerow.errors import Code


class _BatchRows:
    """Rows (n, 2) of transfers first, ..., first + n - 1 of the batch of a counter."""

    def __init__(self, hash_: TweakableHash, counter: int, first: int, rows: Words) -> None:
        self.hash, self.counter, self.first = hash_, counter, first
        self._rows: Words | None = rows
        self._n = len(rows)

    def __len__(self) -> int:
        return self._n

    def take(self) -> Words:
        """Return the rows, a single time."""
        if self._rows is None:
            raise Code.TRANSFER_USED_TWICE.error(
                found=f"rows from {self.first:,} of batch {self.counter} a second time"
            )
        rows, self._rows = self._rows, None
        return rows

    def _cut(self, sizes: Sequence[int]) -> list[tuple[int, Words, slice]]:
        """Deal the rows out: of each part its first transfer, its rows, and where they stood."""
        edges = list(accumulate(sizes, initial=0))
        if edges[-1] != len(self) or min(sizes, default=0) < 0:
            raise ValueError(f"sizes must sum to {len(self)}; found {list(sizes)}")
        rows = self.take()
        return [(self.first + a, rows[a:b], slice(a, b)) for a, b in pairwise(edges)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._n}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("rows stay where they were made: a copy would be a second use")


class SentRows(_BatchRows):
    """The sender's side."""

    def __init__(
        self, hash_: TweakableHash, counter: int, first: int, rows: Words, delta: Words
    ) -> None:
        super().__init__(hash_, counter, first, rows)
        self.delta = delta

    def split(self, sizes: Sequence[int]) -> list[SentRows]:
        """Deal the rows out, in order; the sizes sum to their number."""
        return [
            SentRows(self.hash, self.counter, first, rows, self.delta)
            for first, rows, _ in self._cut(sizes)
        ]


class ReceivedRows(_BatchRows):
    """The receiver's side; its choices, shape (n,), 0 or 1."""

    def __init__(
        self,
        hash_: TweakableHash,
        counter: int,
        first: int,
        rows: Words,
        choices: NDArray[np.uint8],
    ) -> None:
        super().__init__(hash_, counter, first, rows)
        self.choices = choices

    def split(self, sizes: Sequence[int]) -> list[ReceivedRows]:
        """Deal the rows out, in order; the sizes sum to their number."""
        return [
            ReceivedRows(self.hash, self.counter, first, rows, self.choices[part])
            for first, rows, part in self._cut(sizes)
        ]
