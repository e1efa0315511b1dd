"""Secret tables, and the uploads that they are put together from.

Paper: hiddentrees, algorithm 11 and section 1.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hedgerow.errors import Code
from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret
from hedgerow.tables import Domain, Encoded


@dataclass(frozen=True, eq=False)
class SecretTable:
    """A table on the servers; rows of empty slots are zero.

    `onehot` (n, B): one 0/1 column per bin. `columns` (n, k): what is added up, one 0/1 column per
    class, or presence and the target in whole units; of a table without a target, presence alone.
    """

    layout: Layout
    onehot: Secret
    columns: Secret

    @property
    def engine(self) -> Engine:
        """Keeper of the shares."""
        return self.onehot.engine

    @property
    def ring(self) -> Ring:
        """Of all columns."""
        return self.onehot.ring

    @property
    def n_rows(self) -> int:
        """Slots n."""
        return self.onehot.shape[0]


@dataclass(frozen=True)
class Upload:
    """What one owner shares, public: `rows` slots from `first` on, and attributes, ascending.

    The party is 3 or more where the servers are 0, 1 and 2. Of all owners of a slot, the one with
    `target` says whether it holds a record, and has its target where the table has one.
    """

    party: int
    first: int
    rows: int
    features: tuple[int, ...]
    target: bool


def horizontal_uploads(layout: Layout, capacities: Sequence[int], party: int = 3) -> list[Upload]:
    """Describe owners that hold rows: each fills slots of its own, of a public number."""
    every = tuple(range(layout.n_features))
    firsts = np.concatenate([[0], np.cumsum(capacities)])
    return [
        Upload(party + i, int(firsts[i]), int(rows), every, True)
        for i, rows in enumerate(capacities)
    ]


def vertical_uploads(
    layout: Layout, capacity: int, groups: Sequence[Sequence[int]], target_at: int, party: int = 3
) -> list[Upload]:
    """Describe owners that hold columns of the same records, placed in the same slots."""
    return [
        Upload(party + i, 0, capacity, tuple(sorted(group)), i == target_at)
        for i, group in enumerate(groups)
    ]


class Slotted(Protocol):
    """A plan that knows for how many slots its bounds hold."""

    @property
    def n_slots(self) -> int:
        """Slots of the table."""


def check_slots(table: SecretTable, plan: Slotted) -> None:
    """Refuse a table of another size than planned for: rings, widths and bounds would not hold."""
    if table.n_rows != plan.n_slots:
        raise Code.BAD_PARAMETER.error(
            expected=f"a table of {plan.n_slots:,} slots, as planned", found=f"{table.n_rows:,}"
        )


def summed_columns(domain: Domain) -> int:
    """Return the number of `SecretTable.columns`."""
    return 1 if domain.target is None else domain.target.n_classes or 2


def check_table(layout: Layout, upload: Upload, table: Encoded) -> None:
    """Refuse a table that is not what its upload says: H108, and H117 for one of another domain."""
    wanted = layout.domain.select(list(upload.features), target=upload.target)
    if table.domain.attributes != wanted.attributes or (
        upload.target and table.domain.target != wanted.target
    ):
        raise Code.BAD_DOMAIN.error(
            expected=f"attributes {', '.join(wanted.names)} as all parties declared them",
            found=f"attributes {', '.join(table.domain.names)} at party {upload.party}",
            fix="use one domain file at all owners",
        )
    bare = table.target is None
    if table.n_slots != upload.rows or (upload.target and bare != (wanted.target is None)):
        raise Code.WRONG_SHAPE.error(
            expected=f"{upload.rows:,} slots from party {upload.party}, with its target if any",
            found=f"{table.n_slots:,} slots" + (", no target" if bare else ", a target"),
        )


def check_uploads(layout: Layout, uploads: Sequence[Upload]) -> int:
    """Return the slots of the whole table, whose every cell is filled once."""
    n = max((upload.first + upload.rows for upload in uploads), default=0)
    filled = np.zeros(layout.n_features + 1, dtype=np.int64)
    for upload in uploads:
        filled[list(upload.features)] += upload.rows
        filled[-1] += upload.rows * upload.target
    if n == 0 or np.any(filled != n) or _overlaps(uploads) or _repeats(uploads):
        raise Code.BAD_PARAMETER.error(
            expected="every attribute and the target of every slot from exactly one owner",
            found=f"{n:,} slots, filled per attribute and target: {filled.tolist()}",
        )
    return n


def _repeats(uploads: Sequence[Upload]) -> bool:
    """Whether an owner names no attribute, or one twice."""
    return any(not u.features or len(set(u.features)) < len(u.features) for u in uploads)


def _overlaps(uploads: Sequence[Upload]) -> bool:
    pairs = [(a, b) for i, a in enumerate(uploads) for b in uploads[:i]]
    return any(
        a.first < b.first + b.rows
        and b.first < a.first + a.rows
        and (set(a.features) & set(b.features) or (a.target and b.target))
        for a, b in pairs
    )
