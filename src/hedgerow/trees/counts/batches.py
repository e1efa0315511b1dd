"""Counts of a forest over a table that is larger than memory: one pass over it per question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock

from hedgerow.errors import Code
from hedgerow.tables import Batches, Encoded
from hedgerow.trees.counts.forest import (
    Batch,
    ForestShape,
    ForestSplits,
    PartialForest,
    PassedCounts,
    RowPositions,
    descend,
    place,
)

MakeBatch = Callable[[Encoded, int], Batch]
"""Makes a batch of encoded rows and the batch's number; `MedianPlan.batch` is one."""


class BatchCounts(PassedCounts):
    """Counts over `Batches`, on all cores; a `ForestCounts`.

    The rows' coins follow from the number of a batch and the place within it. So the same batches
    give the same counts, whether they are kept or read again; rows that are cut into other batches
    have other coins of the same law.

    """

    most_cells = 1 << 24
    """Bins of one histogram, 8 bytes each. A level that needs more is asked for in blocks, each of
    which is a pass. Blocks decide in which order noise is drawn."""
    kept_bytes = 1 << 28
    """Memory for the nodes in which rows stand, so that not each pass begins at the roots."""

    def __init__(self, batches: Batches, make: MakeBatch) -> None:
        self.batches = batches
        self._make = make
        self._key = b""
        self._lock = Lock()
        # Of some batches: how many levels their rows have come down, and where they stand.
        self._kept: dict[int, tuple[int, RowPositions]] = {}
        self._room = 0

    @property
    def n_records(self) -> int:
        """Records in all; the first time this reads and checks the whole table."""
        return self.batches.n_records

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots; reads nothing yet."""
        if shape.n_bins != tuple(int(bins) for bins in self.batches.domain.n_bins):
            raise Code.BAD_DOMAIN.error(
                expected="batches of the domain that was planned for", found="other bins"
            )
        self._forest, self._key = PartialForest(shape), key
        self._kept, self._room = {}, self.kept_bytes

    def advance(self, splits: ForestSplits) -> None:
        """Send the rows on; they go when they are next counted."""
        self._forest = self.forest.with_level(splits)

    def _pass(self) -> Iterator[tuple[Batch, RowPositions]]:
        """Give all batches and where their rows stand; the next are made ready meanwhile."""
        return self.batches.each(self._ready)

    def _ready(self, number: int, encoded: Encoded) -> tuple[Batch, RowPositions]:
        batch, forest = self._make(encoded, number), self.forest
        level, placed = self._kept.get(number, (0, None))
        if placed is None:
            placed = place(batch, self._key, PartialForest(forest.shape))
        for splits in forest.levels[level:]:
            placed = descend(batch, placed, splits)
        self._keep(number, len(forest.levels), placed)
        ready = RowPositions(placed.where, placed.n_nodes)
        # Sorted here, beside other batches, and forgotten with the pass.
        _ = ready.order
        return batch, ready

    def _keep(self, number: int, level: int, placed: RowPositions) -> None:
        with self._lock:
            if number not in self._kept:
                if placed.where.nbytes > self._room:
                    return
                self._room -= placed.where.nbytes
            self._kept[number] = (level, placed)
