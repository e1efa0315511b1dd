"""The public's attack on DP-TopDown: one record that decides the split, and then a leaf.

The public sees the tree alone, so an attack has to make the tree say much about one record, the
canary. Of one attribute with three bins, bins 0 and 2 hold nearly all records, the canary is in
bin 1, and the only question is whether bin 1 goes with the left or with the right: two candidates,
which tie without it. Besides, the tree has the count of the canary's class in its own leaf, from
which whoever knows all other records subtracts them. The auditor multiplies both likelihoods.

Which tables are a tie depends on the method:

- Exact scores (``SCORES``, ``ENTROPY``): left and right are of one class each. Beside its own class
  the canary costs nothing, beside the other one nearly the whole sensitivity. The attacker wants
  `min_gain`, a public number, to be what the split is worth without the canary: then the tree also
  shows on which side of it the noisy worth was, which the canary moves by nearly as much.
- Noisy counts (``COUNTS``): the choice follows from the noisy cells of bin 1. Both sides are mostly
  of the other class, which makes a count of the canary's class weigh most, and the noise of the
  other cell little. With a histogram for every split (``COUNTS_BY_SPLIT``) it follows from all of
  them; that table was found by search. One owner: the noise of a second would hide its canary.
- Local choices (``LOCAL``): the tie as for exact scores. The other owner always names one of the
  candidates, but among all records the other one is better by far: it is taken whenever the
  attacked owner names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import Pair
from hedgerow.audit.tables import AuditTable, neighbours

Rows = NDArray[np.int64]
NOT_SPLIT = -1
"""In place of the split, of a tree that is one leaf."""
_BINS, _CLASSES = 3, 2


class Cell(NamedTuple):
    """Where a record is counted."""

    bin: int
    category: int


CANARY = Cell(1, 0)


@dataclass(frozen=True)
class Decisive:
    """Tables on which the canary is decisive: the attacked owner's without it, and another's."""

    label: str
    known: Mapping[Cell, int]
    others: Mapping[Cell, int]

    @property
    def pair(self) -> Pair:
        """The table without the canary, and with it."""
        more = {**self.known, CANARY: self.known.get(CANARY, 0) + 1}
        return neighbours(self.label, table_of(self.known), table_of(more))

    def evidence(self, trees: Rows, owners: int) -> Rows:
        """Reduce trees of at most one split to what they say about the canary.

        `trees` (n, 1 + 2 * classes) are the split, or `NOT_SPLIT`; then the class counts of the
        left leaf (or the only one), and of the right. Returns int64 (n, 2): the split; and the
        count of the canary's class in its leaf, less the records that are known to be in it.
        """
        split = trees[:, 0]
        right = (split != NOT_SPLIT) & (split < CANARY.bin)
        seen = trees[np.arange(len(trees)), 1 + _CLASSES * right + CANARY.category]
        alike = np.zeros(_BINS, dtype=np.int64)
        for cells in (self.known, *[self.others] * (owners - 1)):
            for cell, n in cells.items():
                alike[cell.bin] += n * (cell.category == CANARY.category)
        # By split, the only leaf last: NOT_SPLIT finds it there.
        left = np.cumsum(alike)
        inside = np.where(np.arange(_BINS) < CANARY.bin, left[-1] - left, left)
        return np.column_stack([split, seen - inside[split]])


def table_of(cells: Mapping[Cell, int]) -> AuditTable:
    """Make a table of so many records of each kind."""
    kinds = np.array(list(cells), dtype=np.int64).reshape(-1, 2)
    records = np.repeat(kinds, np.array(list(cells.values()), dtype=np.int64), axis=0)
    return AuditTable(records[:, :1], records[:, 1], (_BINS,), _CLASSES)


SCORES = Decisive(
    "a record between two pure sides",
    known={Cell(0, 0): 200, Cell(2, 1): 40},
    others={Cell(0, 0): 20, Cell(2, 1): 4},
)
ENTROPY = Decisive(
    "a record between two pure sides, the other the larger",
    known={Cell(0, 0): 100, Cell(2, 1): 160},
    others={},
)
COUNTS = Decisive(
    "a record between two sides of the other class",
    known={Cell(0, 0): 35, Cell(0, 1): 85, Cell(1, 0): 1, Cell(2, 1): 120},
    others={Cell(0, 1): 10, Cell(2, 1): 10},
)
COUNTS_BY_SPLIT = Decisive(
    "a record between a mixed side and one of the other class",
    known={Cell(0, 0): 14, Cell(0, 1): 28, Cell(1, 0): 5, Cell(2, 1): 58},
    others={},
)
LOCAL = Decisive(
    "a record between two pure sides, and an owner that sees it otherwise",
    known={Cell(0, 0): 100, Cell(2, 1): 100},
    others={Cell(1, 1): 40, Cell(2, 0): 40},
)
DECISIVE: Mapping[str, Decisive] = {
    "single-machine": SCORES,
    "noisy-counts": COUNTS,
    "local-rnm": LOCAL,
    "secure-counts": SCORES,
}
"""By method; `ENTROPY` in place of `SCORES`, and `COUNTS_BY_SPLIT` of `COUNTS`, where they say."""
