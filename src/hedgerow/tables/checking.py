"""A whole table against a domain, for its owner's eyes: all that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.categories import UNLISTED, lookup
from hedgerow.tables.column import Column
from hedgerow.tables.domain import Domain
from hedgerow.tables.encode import encode, encode_target
from hedgerow.tables.frame import Frame, missing_columns, view
from hedgerow.tables.ids import row_ids
from hedgerow.tables.padding import check_capacity


@dataclass(frozen=True)
class TableCheck:
    """What `check_table` has found.

    `problems`: why a fit with `bad_rows="error"` refuses the table, one for every column that does
    not fit. `clipped`: by column, how many values go to the bounds or to the bin "other".
    """

    rows: int
    attributes: int
    problems: tuple[HedgerowError, ...]
    clipped: dict[str, int]

    @property
    def fits(self) -> bool:
        """Whether nothing was found that a fit refuses."""
        return not self.problems


def check_table(
    frame: Any,
    domain: Domain,
    unread: Mapping[str, HedgerowError] | None = None,
    *,
    ids: str | None = None,
) -> TableCheck:
    """Check every column of a table, the number of rows, and whether the domain is public.

    The target is among the columns. `unread` says of columns what could not be read. `ids`: a
    column in which each row has an id of its own. H105, H106, H108 and H109 where it is no table at
    all.
    """
    table = view(frame)
    problems: list[HedgerowError] = []
    clipped: dict[str, int] = {}
    declared: list[Attribute | Target] = [*domain.attributes]
    if domain.target is not None:
        declared.append(domain.target)
    missing = [one.name for one in declared if one.name not in table.names]
    if missing:
        problems.append(missing_columns(missing, table.names))
    for one in declared:
        if one.name in missing:
            continue
        if unread is not None and one.name in unread:
            problems.append(unread[one.name])
            continue
        try:
            clipped |= _count_clipped(table, domain, one)
        except HedgerowError as error:
            problems.append(error)
    if ids is not None:
        # What a model promises holds for one row: somebody with two of them has half of it.
        try:
            row_ids(table.column(ids))
        except HedgerowError as error:
            problems.append(error)
    if domain.capacity is None:
        problems.append(Code.MISSING_CAPACITY.error(found="no capacity in the domain"))
    else:
        try:
            check_capacity(table.n_rows, domain.capacity)
        except HedgerowError as error:
            problems.append(error)
    if not domain.is_public:
        problems.append(Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {domain.provenance!r}"))
    return TableCheck(table.n_rows, len(domain.attributes), tuple(problems), clipped)


def _count_clipped(table: Frame, domain: Domain, one: Attribute | Target) -> dict[str, int]:
    """Encode one column, or say why it cannot be; count what is clipped on the way."""
    column = table.column(one.name)
    if isinstance(one, Target):
        encode_target(column, one)
    else:
        encode(table, domain.select([one.name], target=False))
    count = _n_outside(column, one) if one.outside == "clip" else 0
    return {one.name: count} if count else {}


def _n_outside(column: Column, one: Attribute | Target) -> int:
    if one.bounds is not None:
        lo, hi = one.bounds
        numbers = column.numbers()
        return int(np.count_nonzero((numbers < lo) | (numbers > hi)))
    if isinstance(one, Target):
        return 0
    return int(np.count_nonzero(lookup(column, one.categories or ()) == UNLISTED))
