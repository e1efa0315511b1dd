"""Drafting a domain from data: convenient, and never private until somebody vouches for it."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, warn_caller
from hedgerow.options import check_option
from hedgerow.tables.attribute import MAX_BINS, Attribute, Category, Target
from hedgerow.tables.binning import quantile_cuts
from hedgerow.tables.categories import distinct
from hedgerow.tables.column import Column
from hedgerow.tables.frame import map_columns, view

Spacing = Literal["quantile", "uniform"]
Missing = Literal["own bin", "error"]
Task = Literal["auto", "classification", "regression"]

_MANY_CLASSES = 100
"""More different whole numbers than this are a quantity and not classes."""


def suggest_facts(
    frame: Any,
    target: Any = None,
    *,
    max_bins: int = 255,
    spacing: Spacing = "quantile",
    missing: Missing = "own bin",
    target_name: str | None = None,
    task: Task = "auto",
) -> tuple[tuple[Attribute, ...], Target | None]:
    """Read attributes and target from data; the parameters are those of `Domain.suggest`.

    Numeric columns (dates and times too) get bounds and cuts; strings, bools and dictionaries get
    their sorted categories. A column has a missing bin only if it has missing values. H101 missing
    value with missing="error", or a column without any value; H103 an infinite value; H118 more
    than 65,536 categories; H501 a parameter out of range; and what `encode` raises for the table
    itself.
    """
    check_option("spacing", spacing, Spacing)
    check_option("missing", missing, Missing)
    check_option("task", task, Task)
    if isinstance(max_bins, bool) or not 2 <= max_bins < MAX_BINS:
        raise Code.BAD_PARAMETER.error(
            expected=f"max_bins from 2 to {MAX_BINS - 1:,}", found=f"max_bins={max_bins!r}"
        )
    table = view(frame)
    label = None
    if isinstance(target, str):
        label = table.column(target)
        table = table.without(target)
    elif target is not None:
        label = Column(_name_of(target, table.names), target)
    attributes = map_columns(
        lambda column: _attribute(column, max_bins, spacing, missing),
        table.columns,
        cells=table.n_rows * len(table.columns),
    )
    found = None if label is None else _target(label, table.n_rows, target_name, task)
    return tuple(attributes), found


def warn_read() -> None:
    """Say loudly that a domain was read from the data."""
    warn_caller(
        "This domain was READ FROM THE DATA: its bounds, cuts, categories and classes are values "
        "of somebody's rows. It serves models without privacy. For a finite epsilon check every "
        "value against public knowledge and call domain.confirm_public().",
    )


def _name_of(target: Any, taken: tuple[str, ...]) -> str:
    """Return the target's own name (a pandas Series has one), changed if a column has it."""
    own = getattr(target, "name", None)
    name = own if isinstance(own, str) and own else "target"
    while name in taken:
        name += "_"
    return name


def _attribute(column: Column, max_bins: int, spacing: Spacing, missing: Missing) -> Attribute:
    if column.is_categorical:
        absent = column.arrow().is_null(nan_is_null=True).to_numpy()
    else:
        numbers = column.numbers()
        absent = np.isnan(numbers)
    any_missing = bool(absent.any())
    if any_missing and missing == "error":
        raise Code.MISSING_VALUE.error(found=column.where(np.flatnonzero(absent)))
    rule: Missing = "own bin" if any_missing else "error"
    if not column.is_categorical:
        return _numeric(
            column, numbers[~absent] if any_missing else numbers, max_bins, spacing, rule
        )
    categories: list[Category] = [False, True] if column.family == "bool" else distinct(column)
    if not categories:
        raise Code.MISSING_VALUE.error(
            expected="at least one value in every column",
            found=f"no value at all in column {column.name!r}",
            fix="drop the column, or declare its categories by hand",
        )
    return Attribute(
        name=column.name, kind="categorical", categories=tuple(categories), missing=rule
    )


def _numeric(
    column: Column, numbers: NDArray[np.float64], max_bins: int, spacing: Spacing, rule: Missing
) -> Attribute:
    ordered = np.sort(numbers)
    lo, hi = _bounds(column, ordered)
    if spacing == "uniform" and _spans_bins(lo, hi, max_bins):
        return Attribute(
            name=column.name, kind="numeric", bounds=(lo, hi), bins=max_bins, missing=rule
        )
    edges = quantile_cuts(ordered, max_bins) if ordered.size else ordered
    return Attribute(
        name=column.name,
        kind="numeric",
        bounds=(lo, hi),
        edges=tuple(edges.tolist()),
        missing=rule,
    )


def _spans_bins(lo: float, hi: float, n_bins: int) -> bool:
    """Whether bins of equal width can be told apart; where not, cuts between the values can."""
    return math.isfinite(hi - lo) and bool(np.all(np.diff(np.linspace(lo, hi, n_bins + 1)) > 0))


def _bounds(column: Column, ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of sorted numbers, widened where there is only one."""
    if not ordered.size:
        return 0.0, 1.0
    lo, hi = float(ordered[0]), float(ordered[-1])
    if not (math.isfinite(lo) and math.isfinite(hi)):
        raise Code.OUTSIDE_BOUNDS.error(
            expected="finite values",
            found=column.where(np.flatnonzero(np.isinf(column.numbers()))),
            fix="correct the value; a missing value is NaN or null",
        )
    if lo < hi:
        return lo, hi
    wider = lo + max(1.0, abs(lo))
    return (lo, wider) if math.isfinite(wider) else (0.0, hi)


def _target(column: Column, n_rows: int, name: str | None, task: Task) -> Target:
    name = name or column.name
    if len(column) != n_rows:
        raise Code.WRONG_SHAPE.error(
            expected=f"{n_rows:,} values in {name!r}, one per row of the table",
            found=f"{len(column):,} values",
            fix=f"check that the table and {name!r} come from the same rows",
        )
    absent = column.arrow().is_null(nan_is_null=True).to_numpy()
    if absent.any():
        raise Code.MISSING_VALUE.error(
            found=column.where(np.flatnonzero(absent)), fix="drop the rows without a target"
        )
    if task == "auto":
        task = _task_of(column)
    if task == "regression":
        return Target(name=name, bounds=_bounds(column, np.sort(column.numbers())))
    if column.family == "time":
        raise column.wrong_type("classes", "dates or times")
    return Target(name=name, classes=tuple(distinct(column)))


def _task_of(column: Column) -> Task:
    if column.is_categorical:
        return "classification"
    if column.family == "time":
        return "regression"
    numbers = column.numbers()
    whole = bool(np.all(numbers == np.round(numbers)))
    return "classification" if whole and len(np.unique(numbers)) <= _MANY_CLASSES else "regression"
