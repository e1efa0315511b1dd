"""Tables as several owners bring them, made ready for the servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hedgerow.errors import Code, HedgerowError, InputError
from hedgerow.estimators.table import has_columns
from hedgerow.protocols.sharing.integrate import (
    Entropy,
    Integrated,
    by_columns,
    by_rows,
    equal_slots,
)
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows


def rows_of_owners(
    plan: Any,
    tables: Sequence[Any],
    ys: Sequence[Any],
    ids: Sequence[Any] | None,
    slots: Sequence[int] | None,
    *,
    encode: Callable[[Any, Any], Encoded],
    entropy: Entropy,
    absorbed: AbsorbedRows | None = None,
) -> Integrated:
    """Encode and pad the tables of owners that hold rows.

    Parameters
    ----------
    plan : Plan
    tables, ys, ids, slots
        As in `HiddenEstimator.fit_owners`.
    encode : callable
        Of a table and its target.
    entropy : callable
        Of the placements.
    absorbed : AbsorbedRows, optional
        With it, an owner's records beyond its slots are left out, and counted there.
    """
    _check_lengths(tables, ys=ys, slots=slots)
    if ids is not None:
        raise Code.BAD_PARAMETER.error(
            expected="ids for partition='vertical' alone: owners of rows need not align them",
            found="ids",
            fix="leave ids out",
        )
    for i, y in enumerate(ys):
        if y is None:
            raise Code.BAD_TARGET.error(
                expected="the target of the rows of every owner",
                found=f"ys[{i}]=None",
                fix=f"pass the target of owner {i}; for owners of columns, of whom one has the "
                "target, set partition='vertical'",
            )
    sizes = equal_slots(plan.n_slots, len(tables)) if slots is None else list(slots)
    # Slots are rounded up to equal numbers for all trees; the last owner has the rest.
    sizes[-1] += plan.n_slots - sum(sizes)
    parts = [encode(table, y) for table, y in zip(tables, ys, strict=True)]
    if absorbed is not None:
        parts = [p.within_capacity(n, absorbed) for p, n in zip(parts, sizes, strict=True)]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if absorbed is None and part.n_slots > size:
            raise _too_few_slots(i, part.n_slots, size, given=slots is not None)
    return by_rows(plan.layout, parts, sizes, entropy)


def columns_of_owners(
    plan: Any,
    tables: Sequence[Any],
    ys: Sequence[Any],
    ids: Sequence[Any] | None,
    slots: Sequence[int] | None,
    *,
    key: bytes | None,
) -> Integrated:
    """Encode, align and pad the tables of owners that hold columns.

    Parameters
    ----------
    plan : Plan
    tables, ys, ids, slots
        As in `HiddenEstimator.fit_owners`.
    key : bytes, optional
        Of the common placement; a fresh one by default.
    """
    _check_lengths(tables, ys=ys, ids=ids)
    if slots is not None:
        raise Code.BAD_PARAMETER.error(
            expected="slots for partition='horizontal' alone", found=f"slots={slots!r}"
        )
    if ids is None:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids of every owner", found="ids=None", fix="pass ids="
        )
    holders = [i for i, y in enumerate(ys) if y is not None]
    if len(holders) != 1:
        raise Code.BAD_TARGET.error(
            expected="the target at exactly one of the owners of columns",
            found=f"targets of {len(holders)} owners in ys",
            fix="pass the target at one place of ys and None at the others",
        )
    missing = [i for i, own in enumerate(ids) if own is None]
    if missing:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids of every owner",
            found=f"ids[{missing[0]}]=None",
            fix=f"pass the ids of the rows of owner {missing[0]}",
        )
    domain = plan.layout.domain
    groups = _groups(domain, tables)
    parts = [
        encode(table, domain.select(group, target=y is not None), y, ids=own)
        for table, y, own, group in zip(tables, ys, ids, groups, strict=True)
    ]
    try:
        return by_columns(plan.layout, parts, plan.n_slots, key)
    except InputError as error:
        if error.code is not Code.IDS_DO_NOT_ALIGN or _kinds_differ(parts):
            raise
        # The fix of `align` is an option that estimators do not have.
        raise error.code.error(
            expected="the same row ids at every owner",
            found=error.found,
            fix="leave out, at every owner, the rows whose id another owner does not have, from "
            "its table, its ids and the target",
        ) from None


def _kinds_differ(parts: Sequence[Encoded]) -> bool:
    return len({part.ids.dtype.kind for part in parts if part.ids is not None}) > 1


def _too_few_slots(owner: int, rows: int, size: int, *, given: bool) -> HedgerowError:
    """Build what an owner with more rows than slots is told."""
    if given:
        fix = f"give owner {owner} more in slots=; their sum may be the capacity of the domain"
    else:
        fix = (
            "the capacity is divided into equal parts: pass slots= with a number for each owner, "
            "or raise the capacity in the domain (all of it is public)"
        )
    return Code.CAPACITY_EXCEEDED.error(
        expected=f"at most {size:,} rows of owner {owner}, its slots",
        found=f"{rows:,} rows",
        fix=fix,
    )


def _groups(domain: Domain, tables: Sequence[Any]) -> list[list[int]]:
    """Return the attributes that each owner's columns are: by name, else by position in turn."""
    groups: list[list[int]] = []
    first = 0
    for i, table in enumerate(tables):
        names = _names(table)
        if names is None:
            width = len(table[0]) if not hasattr(table, "shape") else table.shape[1]
            group = list(range(first, first + width))
        else:
            group = [at for at, name in enumerate(domain.names) if name in names]
        if not group or group[-1] >= len(domain.names):
            raise Code.MISSING_COLUMN.error(
                expected=f"attributes among {', '.join(domain.names)}",
                found=f"{'none' if not group else len(group)} in the table of owner {i}",
                fix="pass columns that the domain declares",
            )
        groups.append(group)
        first = group[-1] + 1
    return groups


def _names(table: Any) -> set[str] | None:
    if isinstance(table, Mapping):
        return set(table)
    if not has_columns(table):
        return None
    names = table.column_names if hasattr(table, "column_names") else table.columns
    return {str(name) for name in names}


def check_lists(tables: Any, ys: Any) -> None:
    """Refuse one table where the tables of several owners are due, H109."""
    if not isinstance(tables, list | tuple) or not isinstance(ys, list | tuple):
        raise Code.WRONG_TYPE.error(
            expected="a list of tables and a list of targets, one per owner",
            found=f"{type(tables).__name__} and {type(ys).__name__}",
            fix="pass [table, table, ...] and [y, y, ...], or use fit for one table",
        )


def _check_lengths(tables: Sequence[Any], **others: Sequence[Any] | None) -> None:
    wrong = {
        name: len(values)
        for name, values in others.items()
        if values is not None and len(values) != len(tables)
    }
    if wrong or not tables:
        raise Code.WRONG_SHAPE.error(
            expected=f"one entry per owner, {len(tables)} in each list"
            if tables
            else "the table of at least one owner",
            found=", ".join(f"{n} in {name}" for name, n in wrong.items()) or "no table",
            fix="pass lists with one entry for every owner, in the same order"
            + (", and None where an owner has no target" if "ys" in wrong else ""),
        )
