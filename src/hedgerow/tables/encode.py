"""A table under its public domain: small-integer bins, class indices and presence bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.attribute import Attribute, Category, Target, family
from hedgerow.tables.binning import bin_numbers
from hedgerow.tables.categories import MISSING, OTHER_TYPE, UNLISTED, kind_of, lookup
from hedgerow.tables.column import Column
from hedgerow.tables.domain import Domain
from hedgerow.tables.frame import Frame, map_columns, view
from hedgerow.tables.ids import id_tags, read_ids

_ORDER = b"rows within a capacity"
"""No key: which rows are used where there are too many is as public a rule as any."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table as every learner sees it; H108 if the arrays do not fit together.

    `bins` are uint8 or uint16 (n_slots, d), in Fortran order; `target` (n_slots,) the class index,
    or the number itself in float64; `present` (n_slots,) says whether a slot holds a record; `ids`,
    int64 or str (n_slots,), are meaningless where it is false.
    """

    domain: Domain
    bins: NDArray[Any]
    target: NDArray[Any] | None
    present: NDArray[np.bool_]
    ids: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        n_features = len(self.domain.attributes)
        if self.bins.ndim != 2 or self.bins.shape[1] != n_features:
            raise Code.WRONG_SHAPE.error(
                expected=f"bins of shape (n_slots, {n_features})", found=f"{self.bins.shape}"
            )
        if self.bins.dtype != self.domain.dtype:
            raise Code.WRONG_TYPE.error(
                expected=f"bins of type {self.domain.dtype}", found=f"{self.bins.dtype}"
            )
        # Kernels index by bin without a look at the bounds.
        if self.bins.size and (self.bins.max(axis=0) >= self.domain.n_bins).any():
            raise Code.OUTSIDE_BOUNDS.error(
                expected="bins below the number of bins of their attribute",
                found=f"a bin of {int(self.bins.max())}",
                fix="encode the table with `hedgerow.tables.encode`",
            )
        for name in ("target", "present", "ids"):
            array = getattr(self, name)
            if array is not None and array.shape != (self.n_slots,):
                raise Code.WRONG_SHAPE.error(
                    expected=f"{name} of shape ({self.n_slots},)", found=f"{array.shape}"
                )

    def check_domain(self, planned: Domain) -> None:
        """Refuse, H117, another domain than was planned for: bins would mean something else."""
        if self.domain is not planned and self.domain != planned:
            raise Code.BAD_DOMAIN.error(
                expected="a table of the domain that was planned for", found="another domain"
            )

    @property
    def n_slots(self) -> int:
        """Number of slots, records and empty ones together."""
        return int(self.bins.shape[0])

    @property
    def n_features(self) -> int:
        """Number of attributes."""
        return int(self.bins.shape[1])

    def rows(self, index: NDArray[np.intp]) -> Encoded:
        """Return the slots at `index`, in that order; intp (m,)."""
        bins = np.empty((len(index), self.n_features), dtype=self.bins.dtype, order="F")
        np.take(self.bins.T, index, axis=1, out=bins.T)
        return Encoded(
            domain=self.domain,
            bins=bins,
            target=None if self.target is None else self.target[index],
            present=self.present[index],
            ids=None if self.ids is None else self.ids[index],
        )

    def within_capacity(self, capacity: int | None, absorbed: AbsorbedRows) -> Encoded:
        """Keep `capacity` records, as `rows_within`, and clear the presence of the others.

        One record more changes which are kept by at most one record in and one out: beyond the
        capacity neighbours are those of the replace relation.
        """
        kept = rows_within(self.present, capacity, absorbed, self.ids)
        if len(kept) == np.count_nonzero(self.present):
            return self
        present = np.zeros_like(self.present)
        present[kept] = True
        return replace(self, present=present)

    def select(self, columns: Iterable[str | int], *, target: bool = True) -> Encoded:
        """Return some columns, names or positions, in that order, with or without the target."""
        index = self.domain.indices(columns)
        domain = self.domain.select(index, target=target)
        return Encoded(
            domain=domain,
            # A narrower type may do once the widest attribute is elsewhere.
            bins=np.asfortranarray(self.bins[:, index], dtype=domain.dtype),
            target=self.target if target else None,
            present=self.present,
            ids=self.ids,
        )


def rows_within(
    present: NDArray[np.bool_],
    capacity: int | None,
    absorbed: AbsorbedRows,
    ids: NDArray[Any] | None = None,
) -> NDArray[np.intp]:
    """Return `capacity` rows of those that are present, in order, and count the others.

    These are the first ones; with ids, by which parties match rows, those whose ids come first in
    an order that is the same everywhere. So one record more at all parties moves one other record
    out of what all have in common, where the last row of each table would be another record.
    """
    rows = np.flatnonzero(present)
    if capacity is None or len(rows) <= capacity:
        return rows
    absorbed.count_rows(over=len(rows) - capacity)
    if ids is None:
        return rows[:capacity]
    tags = id_tags(_ORDER, ids[rows]).view(">u8")
    kept: NDArray[np.intp] = np.sort(rows[np.lexsort(tags.T)[:capacity]])
    return kept


def encode(
    frame: Any,
    domain: Domain,
    y: Any = None,
    *,
    ids: Any = None,
    absorbed: AbsorbedRows | None = None,
) -> Encoded:
    """Encode a table under a domain.

    The result depends on each record alone: every value is read by itself, under the declared kind
    of its attribute, and no value of another row, no type of a column and no count enters. Errors
    name rows and values; they are for the eyes of the data's owner.

    `frame` (n, d) is NumPy 2-D, pandas, pyarrow Table or RecordBatch, anything with
    ``__arrow_c_stream__``, a mapping of columns, or a sequence of rows. Columns are matched by name
    (others are ignored), or by position where there are no names. `y` and `ids` (whole numbers or
    strings) are arrays (n,), or names of columns in `frame`.

    With `absorbed` no value and no number of rows is refused; it counts what was done, for the
    owner's eyes only. A number outside the bounds is clipped. A value that is unreadable under its
    attribute's kind, or not listed where there is no bin "other", is as missing. Missing without a
    bin for it is the middle bin of a numeric attribute, or the first category. A record whose
    target is missing, unreadable or no class is not present, and neither is one without an id of
    its own (`read_ids`).

    H101 missing value without a rule, H102 unknown category, H103 outside the bounds where the
    domain says "error", H104 unknown class, H105 empty table, H106 duplicate column, H107 column
    not found, H108 wrong shape, H109 values of another type, H110 duplicate id, H116 no target in
    the domain.
    """
    table = view(frame, empty=absorbed is not None)
    columns = table.pick(domain.names)
    bins = np.empty((table.n_rows, len(columns)), dtype=domain.dtype, order="F")
    jobs = list(zip(domain.attributes, columns, bins.T, strict=True))
    map_columns(lambda job: _encode_attribute(*job, absorbed), jobs, cells=bins.size)
    target, present = None, np.ones(table.n_rows, dtype=np.bool_)
    if y is not None:
        if domain.target is None:
            raise Code.BAD_TARGET.error(found="a target, and a domain that declares none")
        column = _beside(table, y, domain.target.name)
        target, present = read_target(column, domain.target, absorbed)
    names = None
    if ids is not None:
        names, named = read_ids(_beside(table, ids, "ids"), absorbed)
        present &= named
    return Encoded(domain=domain, bins=bins, target=target, present=present, ids=names)


def _beside(table: Frame, values: Any, name: str) -> Column:
    """Return a column that belongs to the table's rows: one of its own, or an array."""
    column = table.column(values) if isinstance(values, str) else Column(name, values)
    if len(column) != table.n_rows:
        raise Code.WRONG_SHAPE.error(
            expected=f"{table.n_rows:,} values in {name!r}, one per row of the table",
            found=f"{len(column):,} values",
            fix=f"check that the table and {name!r} come from the same rows",
        )
    return column


def _encode_attribute(
    attribute: Attribute, column: Column, out: NDArray[Any], absorbed: AbsorbedRows | None
) -> None:
    """Write the bins of one column, uint8 or uint16 (n,)."""
    if attribute.bounds is not None:
        _encode_numeric(attribute, attribute.bounds, column, out, absorbed)
        return
    categories = attribute.categories or ()
    if absorbed is None:
        codes = _codes(column, categories)
        if attribute.missing == "error":
            _refuse(Code.MISSING_VALUE, column, codes == MISSING)
        if attribute.outside == "error":
            _refuse(Code.UNKNOWN_CATEGORY, column, codes == UNLISTED)
    else:
        codes = lookup(column, categories)
        absorbed.count(
            column.name,
            unlisted=np.count_nonzero(codes == UNLISTED),
            unreadable=np.count_nonzero(codes == OTHER_TYPE),
            missing=np.count_nonzero(codes == MISSING) * (attribute.missing == "error"),
        )
    n_values = attribute.n_values
    missing = n_values if attribute.missing == "own bin" else 0
    other = n_values - 1 if attribute.outside == "clip" else missing
    # Codes -3, -2 and -1 count from the end of this table.
    bin_of_code = np.append(np.arange(n_values), [other, missing, other]).astype(out.dtype)
    np.take(bin_of_code, codes, out=out, mode="wrap")


def _codes(column: Column, categories: Sequence[Category]) -> NDArray[np.int32]:
    """Look the values up; H109 for those of another type than the list."""
    codes = lookup(column, categories)
    rows = np.flatnonzero(codes == OTHER_TYPE)
    if rows.size:
        wanted = {"string": "strings", "bool": "bools", "number": "numbers"}[family(categories[0])]
        kind = kind_of(column.value(int(rows[0])))
        raise column.wrong_type(f"{wanted}, as the domain lists", f"{kind}: {column.where(rows)}")
    return codes


def _encode_numeric(
    attribute: Attribute,
    bounds: tuple[float, float],
    column: Column,
    out: NDArray[Any],
    absorbed: AbsorbedRows | None,
) -> None:
    numbers, unreadable = column.read_numbers()
    if unreadable is not None and absorbed is None:
        raise column.no_numbers(np.flatnonzero(unreadable))
    missing_bin = attribute.n_values
    if attribute.missing == "error":
        missing_bin //= 2
    count = bin_numbers(numbers, attribute.cuts, bounds, missing_bin, out)
    if absorbed is not None:
        n_unreadable = 0 if unreadable is None else np.count_nonzero(unreadable)
        n_missing = (count.n_missing - n_unreadable) * (attribute.missing == "error")
        absorbed.count(
            column.name, clipped=count.n_outside, unreadable=n_unreadable, missing=n_missing
        )
        return
    if count.n_missing and attribute.missing == "error":
        _refuse(Code.MISSING_VALUE, column, np.isnan(numbers))
    if count.n_outside and attribute.outside == "error":
        _refuse_outside(column, numbers, bounds)


def read_target(
    column: Column, target: Target, absorbed: AbsorbedRows | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Encode the target as `encode_target`, and say of which records (n,) it can be used.

    Without `absorbed` that is all of them, or one is refused.
    """
    if absorbed is None:
        return encode_target(column, target), np.ones(len(column), dtype=np.bool_)
    if target.classes is not None:
        codes = lookup(column, target.classes)
        usable = codes >= 0
        values: NDArray[Any] = np.where(usable, codes, 0).astype(_class_type(target.classes))
    else:
        numbers, _ = column.read_numbers()
        lo, hi = target.bounds or (-np.inf, np.inf)
        usable = ~np.isnan(numbers)
        values = np.clip(np.where(usable, numbers, lo), lo, hi)
        absorbed.count(column.name, clipped=np.count_nonzero((numbers < lo) | (numbers > hi)))
    absorbed.count_rows(without_target=np.count_nonzero(~usable))
    return values, usable


def _class_type(classes: Sequence[Category]) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if len(classes) <= 256 else np.uint16


def encode_target(column: Column, target: Target) -> NDArray[Any]:
    """Encode (n,) as class indices or numbers; H101 missing, H103 outside, H104 unknown."""
    if target.classes is not None:
        codes = _codes(column, target.classes)
        _refuse(Code.MISSING_VALUE, column, codes == MISSING, **_UNLABELLED)
        _refuse(Code.UNKNOWN_CLASS, column, codes == UNLISTED)
        return codes.astype(_class_type(target.classes))
    numbers = column.numbers()
    _refuse(Code.MISSING_VALUE, column, np.isnan(numbers), **_UNLABELLED)
    lo, hi = target.bounds or (-np.inf, np.inf)
    if target.outside == "error":
        _refuse_outside(column, numbers, (lo, hi))
    return np.clip(numbers, lo, hi)


_UNLABELLED = {"expected": "a target in every row", "fix": "drop the rows without a target"}


def _refuse_outside(
    column: Column, numbers: NDArray[np.float64], bounds: tuple[float, float]
) -> None:
    lo, hi = bounds
    _refuse(
        Code.OUTSIDE_BOUNDS,
        column,
        (numbers < lo) | (numbers > hi),
        expected=f"a value from {lo:g} to {hi:g}, the bounds that the domain declares",
    )


def _refuse(
    code: Code,
    column: Column,
    mask: NDArray[np.bool_],
    *,
    expected: str | None = None,
    fix: str | None = None,
) -> None:
    """Raise `code` with the rows in `mask`, if there are any."""
    rows = np.flatnonzero(mask)
    if rows.size:
        raise code.error(found=column.where(rows), expected=expected, fix=fix)
