"""Secret tables, and the uploads that they are put together from.

Paper: hiddentrees, algorithm 11 and section 1.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, eq=False)
class TaggedTable(Encoded):
    """A table of columns in the order of its `tags`, uint8 (n_slots, 16); see `sharing.join`."""

    tags: NDArray[np.uint8] = field(kw_only=True, repr=False)


@dataclass(frozen=True)
class Upload:
    """What one owner shares, public: `rows` slots from `first` on, and attributes, ascending.

    The party is 3 or more where the servers are 0, 1 and 2. `target`: whether the target, where the
    table has one, is among the columns. A `tagged` upload has columns of records that are joined
    with those of others; all others have whole rows.
    """

    party: int
    first: int
    rows: int
    features: tuple[int, ...]
    target: bool
    tagged: bool = False


def horizontal_uploads(layout: Layout, capacities: Sequence[int], party: int = 3) -> list[Upload]:
    """Describe owners that hold rows: each fills slots of its own, of a public number."""
    every = tuple(range(layout.n_features))
    firsts = np.concatenate([[0], np.cumsum(capacities)])
    return [
        Upload(party + i, int(firsts[i]), int(rows), every, True)
        for i, rows in enumerate(capacities)
    ]


def vertical_uploads(
    rows: Sequence[int], groups: Sequence[Sequence[int]], target_at: int, party: int = 3
) -> list[Upload]:
    """Describe owners that hold columns: each of records of its own, in slots of its own."""
    return [
        Upload(party + i, 0, n, tuple(sorted(group)), i == target_at, tagged=True)
        for i, (n, group) in enumerate(zip(rows, groups, strict=True))
    ]


def is_joined(uploads: Sequence[Upload]) -> bool:
    """Whether the table is a join of columns."""
    return any(upload.tagged for upload in uploads)


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
    if upload.tagged != isinstance(table, TaggedTable):
        raise Code.WRONG_SHAPE.error(
            expected="tags of columns, and of columns alone",
            found=f"{'no ' if upload.tagged else ''}tags from party {upload.party}",
        )
    bare = table.target is None
    if table.n_slots != upload.rows or (upload.target and bare != (wanted.target is None)):
        raise Code.WRONG_SHAPE.error(
            expected=f"{upload.rows:,} slots from party {upload.party}, with its target if any",
            found=f"{table.n_slots:,} slots" + (", no target" if bare else ", a target"),
        )


def check_uploads(layout: Layout, uploads: Sequence[Upload]) -> int:
    """Return the slots that uploads fill, every cell of them once; H501 for any others.

    Uploads of rows lie one behind the other. Of joined columns, the owner with the fewest slots
    bounds how many records they have in common.
    """
    every = list(range(layout.n_features))
    joined = is_joined(uploads)
    if joined:
        given = sorted(feature for upload in uploads for feature in upload.features)
        fits = given == every and sum(upload.target for upload in uploads) == 1
        fits &= all(u.tagged and u.features and u.first == 0 for u in uploads)
        n = min(upload.rows for upload in uploads)
    else:
        whole = all(list(u.features) == every and u.target for u in uploads)
        ends = np.cumsum([0, *(upload.rows for upload in uploads)])
        fits = whole and [upload.first for upload in uploads] == ends[:-1].tolist()
        n = int(ends[-1])
    if not fits or min([n, *(upload.rows for upload in uploads)]) < 1:
        raise Code.BAD_PARAMETER.error(
            expected="every attribute and the target from exactly one owner of columns"
            if joined
            else "every attribute and the target of every slot from one owner, in order",
            found="; ".join(_shown(upload) for upload in uploads) or "no uploads",
        )
    return n


def _shown(upload: Upload) -> str:
    slots = f"slots {upload.first:,} to {upload.first + upload.rows:,}"
    target = " and the target" if upload.target else ""
    return f"{slots}, attributes {list(upload.features)}{target}"
