"""Tables as sites with different columns bring them, made ready for vertical ID3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.table import declared_target, labels_of, numbers_of, read_domain
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Domain, encode
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.column import Column
from hedgerow.tables.encode import read_target, rows_within
from hedgerow.tables.frame import view
from hedgerow.tables.ids import read_ids
from hedgerow.tables.suggest import Task


class SitePart(NamedTuple):
    """Columns of the domain that a site holds, its table, and which rows it can use."""

    columns: list[int]
    table: SiteTable
    usable: NDArray[np.bool_]


def columns_of_sites(
    domain: Domain, groups: Sequence[Sequence[str | int]] | None, n_sites: int
) -> list[list[int]]:
    """Return the columns of each site: as given, or dealt in order, the first ones getting more.

    H106 for a column at two sites, H107 for one at none, H755 for fewer than two sites.
    """
    n = len(domain.attributes)
    if groups is None:
        return [part.tolist() for part in np.array_split(np.arange(n), n_sites)]
    found = [domain.indices(group) if len(group) else [] for group in groups]
    if len(found) < 2:
        raise Code.BAD_SITES.error(
            expected="at least two groups of columns, one for each site",
            found="one group" if found else "none",
            fix="divide the columns among at least two sites",
        )
    times = np.bincount(
        np.array([i for group in found for i in group], dtype=np.int64), minlength=n
    )
    if np.any(times > 1):
        name = domain.names[int(np.argmax(times > 1))]
        raise Code.DUPLICATE_COLUMN.error(found=f"{name} at more than one site")
    if np.any(times == 0):
        name = domain.names[int(np.argmax(times == 0))]
        raise Code.MISSING_COLUMN.error(
            expected="every column at one of the sites", found=f"{name} at none"
        )
    return found


def parts_of_sites(
    tables: Sequence[Any],
    ys: Sequence[Any],
    ids: Sequence[Any] | None,
    domain: Domain | None,
    *,
    task: Task = "classification",
    absorbed: AbsorbedRows | None = None,
    **suggest: Any,
) -> tuple[Domain, list[SitePart], int | None]:
    """Encode what each site brings, as in `VerticalID3Classifier.fit_sites`.

    Without a domain each site's part is read from its own table, binned as `suggest` says. Returns
    the domain of all columns, in the order of the sites; the parts; and the site with the class.
    With `absorbed` no row is refused. Rows that go by ids are left out where one site cannot use
    them; those that go by their places stay, `usable` or not, up to the capacity of the domain.
    """
    holders = _holders(tables, ys, ids)
    if domain is None:
        domain = _read_domains(tables, ys, holders[0], task, **suggest)
    target = domain.target
    if target is None or (task == "classification" and target.classes is None):
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    groups, brought = [], []
    for i, table in enumerate(tables):
        with _at(i):
            group = _columns(domain, table, empty=absorbed is not None)
            rows = _rows(table, ys[i])
            there, labels = np.ones(rows, dtype=np.bool_), None
            if ys[i] is not None:
                column = Column(target.name, declared_target(ys[i], rows))
                labels, there = read_target(column, target, absorbed)
            names: NDArray[Any] = np.arange(rows)
            if ids is not None:
                names, named = _ids(ids[i], rows, absorbed)
                there &= named
            bins = np.zeros((rows, 0), dtype=np.uint8)
            if group:
                bins = encode(table, domain.select(group, target=False), absorbed=absorbed).bins
        groups.append(group)
        brought.append((bins, labels, names, there))
    # Every column at one of the sites.
    columns_of_sites(domain, groups, len(groups))
    all_names = [names for _, _, names, _ in brought]
    if ids is None:
        _check_lengths(all_names)
    elif absorbed is None:
        _check_types(all_names)
    kept: NDArray[np.intp] | None = None
    if absorbed is not None and ids is None:
        kept = rows_within(np.ones(len(all_names[0]), np.bool_), domain.capacity, absorbed)
    parts = []
    for group, (bins, labels, names, there) in zip(groups, brought, strict=True):
        if absorbed is not None:
            used = np.flatnonzero(there) if kept is None else kept
            bins, names, there = bins[used], names[used], there[used]
            labels = None if labels is None else labels[used]
        values = domain.n_bins[group].astype(np.int64)
        parts.append(SitePart(group, SiteTable(bins, values, labels, names), there))
    if len(holders) > 1 and absorbed is None:
        _check_same_class([part.table for part in parts])
    return domain, parts, holders[0] if len(holders) == 1 else None


def empty_site(site: int) -> HedgerowError:
    """Build what is said of a site that has nothing."""
    return Code.BAD_SITES.error(
        expected="an attribute or the class at every site",
        found=f"neither at site {site}",
        fix="use fewer sites, or give each of them a column",
    )


def _holders(tables: Sequence[Any], ys: Sequence[Any], ids: Sequence[Any] | None) -> list[int]:
    """Return the sites with the class: one of them, or all."""
    n = len(tables)
    if n < 2:
        raise Code.BAD_SITES.error(
            expected="at least two tables, one for each site",
            found="one table" if n else "none",
            fix="pass the tables of at least two sites; for one, use ID3Classifier",
        )
    for name, others in (("ys", ys), ("ids", ids)):
        if others is not None and (isinstance(others, str) or len(others) != n):
            found = f"the text {others!r}" if isinstance(others, str) else f"{len(others)}"
            raise Code.WRONG_SHAPE.error(
                expected=f"one entry per site, {n} in each list",
                found=f"{found} in {name}",
                fix=f"pass {name} as a list with an entry for each table",
            )
    holders = [i for i, y in enumerate(ys) if y is not None]
    if len(holders) not in (1, n):
        raise Code.BAD_SITES.error(
            expected="the class at one site, or at all of them",
            found=f"the class at {len(holders) or 'none'} of {n} sites",
            fix="pass the labels in ys at one site and None at the others, or at all sites",
        )
    for i, table in enumerate(tables):
        if table is None and ys[i] is None:
            raise empty_site(i)
    return holders


@contextmanager
def _at(site: int) -> Iterator[None]:
    """Name the site in what is said of its table, its labels or its ids."""
    try:
        yield
    except HedgerowError as error:
        raise error.code.error(
            expected=error.expected, found=f"at site {site}: {error.found}", fix=error.fix
        ) from None


def _rows(table: Any, y: Any) -> int:
    if table is not None:
        return view(table, empty=True).n_rows
    # What has no length is refused when it is read as labels.
    return len(y) if hasattr(y, "__len__") and np.ndim(y) else 0


def _ids(
    ids: Any, rows: int, absorbed: AbsorbedRows | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the ids of a site, and which of its rows have one of their own."""
    if ids is None:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids of every site, or of none", found="no ids", fix="pass its ids too"
        )
    found, usable = read_ids(Column("ids", ids), absorbed)
    if len(found) != rows:
        raise Code.WRONG_SHAPE.error(
            expected=f"{rows:,} ids, one for every row",
            found=f"{len(found):,}",
            fix="check that the table and the ids come from the same rows",
        )
    return found, usable


def _check_lengths(rows: Sequence[NDArray[Any]]) -> None:
    """Refuse tables of different lengths, whose rows go by their places."""
    lengths = [len(one) for one in rows]
    if len(set(lengths)) > 1:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="the same rows at every site, in the same order",
            found=" and ".join(f"{rows:,} rows at site {i}" for i, rows in enumerate(lengths)),
            fix="pass ids=, one array of row ids per site: records that not all have are left out",
        )


def _check_types(ids: Sequence[NDArray[Any]]) -> None:
    """Refuse ids that are numbers at one site and texts at another."""
    text = [i for i, names in enumerate(ids) if names.dtype.kind == "U"]
    numbers = [i for i in range(len(ids)) if i not in text]
    if text and numbers:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="whole numbers as ids at all sites, or texts at all",
            found=f"text at {_sites(text)}, whole numbers at {_sites(numbers)}",
            fix="convert the ids of all sites to whole numbers, or of all to text spelled alike",
        )


def _sites(places: Sequence[int]) -> str:
    names = " and ".join(map(str, places)) if len(places) < 3 else ", ".join(map(str, places))
    return f"site{'s' if len(places) > 1 else ''} {names}"


def _columns(domain: Domain, table: Any, *, empty: bool) -> list[int]:
    if table is None:
        return []
    names = _column_names(table, empty=empty)
    return [i for i, name in enumerate(domain.names) if name in names]


def _check_same_class(tables: Sequence[SiteTable]) -> None:
    """Refuse sites that give a record different classes; only who has all tables can see it."""
    first = tables[0]
    assert first.labels is not None
    for i, other in enumerate(tables[1:], start=1):
        assert other.labels is not None
        _, here, there = np.intersect1d(first.ids, other.ids, return_indices=True)
        differ = int(np.count_nonzero(first.labels[here] != other.labels[there]))
        if differ:
            raise Code.BAD_SITES.error(
                expected="the same class of a record at every site that holds the class",
                found=f"another class at site {i} than at site 0 for {differ:,} of {len(here):,} "
                "records",
                fix="give the class at one site, or the same column at all of them",
            )


def _read_domains(
    tables: Sequence[Any], ys: Sequence[Any], holder: int, task: Task, **suggest: Any
) -> Domain:
    """Read each site's attributes from its own table, and the class where it lies."""
    attributes: list[Any] = []
    for i, table in enumerate(tables):
        if table is not None:
            with _at(i):
                _column_names(table)
                attributes += read_domain(table, None, **suggest).attributes
    names = [attribute.name for attribute in attributes]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise Code.DUPLICATE_COLUMN.error(found=f"{', '.join(sorted(repeated))} at several sites")
    with _at(holder):
        read = labels_of if task == "classification" else numbers_of
        labels = read(ys[holder], _rows(tables[holder], ys[holder]))
        target = read_domain({"y": labels}, labels, task=task).target
    return Domain(attributes=tuple(attributes), target=target, provenance="read from data")


def _column_names(table: Any, *, empty: bool = False) -> tuple[str, ...]:
    frame = view(table, empty=empty)
    if not frame.named:
        raise Code.MISSING_COLUMN.error(
            expected="names for the columns of every site",
            found="a table without names",
            fix="pass pandas or Arrow tables, or mappings of columns",
        )
    return frame.names
