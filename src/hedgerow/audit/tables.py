"""Neighbouring tables on which tree learners give most away.

Each family is a small table and the one record that makes the difference: a tie between
attributes that the record breaks, a leaf that is empty without it, a class that occurs only
through it. Tables are plain integers, so that every learner can read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import Pair
from hedgerow.errors import Code
from hedgerow.privacy.accounting import Relation

Ints = NDArray[np.int64]


class AuditTable(NamedTuple):
    """A table of bins (n, d) and classes (n,), from 0, with its public domain."""

    rows: Ints
    classes: Ints
    n_bins: tuple[int, ...]
    n_classes: int


class Side(NamedTuple):
    """One table of a pair, and both: an attacker knows them, and asks which one was used."""

    table: AuditTable
    first: AuditTable
    second: AuditTable


Record = tuple[int, ...]
"""Bins, then the class."""


@dataclass(frozen=True)
class _Family:
    """`extra` is added or removed; under replace it takes the place of `instead`."""

    label: str
    counts: dict[Record, int]
    extra: Record
    instead: Record
    n_bins: tuple[int, ...] = (2, 2)
    n_classes: int = 2


_FAMILIES = (
    # The max operator gives both attributes 220; one more (0, 0, 1) makes it 220 to 221.
    _Family(
        "tie of 240 records",
        {
            (0, 0, 0): 10,
            (0, 0, 1): 10,
            (0, 1, 0): 100,
            (1, 0, 1): 100,
            (1, 1, 0): 10,
            (1, 1, 1): 10,
        },
        extra=(0, 0, 1),
        instead=(1, 1, 1),
    ),
    _Family("tie of ten records", {(0, 1, 0): 5, (1, 0, 1): 5}, extra=(0, 0, 1), instead=(1, 1, 1)),
    _Family(
        "nearly empty leaf", {(0, 0, 0): 20, (0, 1, 1): 20}, extra=(1, 1, 1), instead=(0, 1, 1)
    ),
    _Family("single record", {(0, 0, 0): 1}, extra=(1, 1, 1), instead=(0, 0, 0)),
    _Family(
        "outlier at the bound",
        {(0, 0): 10, (1, 0): 10, (2, 1): 10},
        extra=(15, 1),
        instead=(0, 0),
        n_bins=(16,),
    ),
    _Family("all records alike", {(0, 0, 0): 30}, extra=(0, 0, 0), instead=(1, 1, 1)),
    _Family(
        "class with one record",
        {(0, 0, 0): 10, (1, 0, 0): 10, (0, 1, 1): 10, (1, 1, 1): 10},
        extra=(1, 1, 2),
        instead=(1, 1, 1),
        n_classes=3,
    ),
    # By the max operator the record makes one split better at the root, and one below it.
    _Family(
        "a tie above another",
        {(1, 0, 0, 0): 10, (0, 0, 1, 1): 9, (1, 1, 0, 0): 5, (0, 1, 1, 1): 5},
        extra=(1, 1, 1, 1),
        instead=(1, 0, 0, 0),
        n_bins=(2, 2, 2),
    ),
    # Beside its own class the record costs a split nothing, beside the other one the most.
    _Family(
        "between two pure sides, its own the larger",
        {(0, 0): 220, (2, 1): 40},
        extra=(1, 0),
        instead=(0, 0),
        n_bins=(3,),
    ),
    _Family(
        "between two pure sides, its own the smaller",
        {(0, 0): 5, (2, 1): 270},
        extra=(1, 0),
        instead=(0, 0),
        n_bins=(3,),
    ),
)


def families(relation: Relation = Relation.ADD_REMOVE) -> list[Pair]:
    """Build the built-in pairs ``(label, AuditTable, AuditTable)``, for `AuditTarget.pairs`.

    Add/remove: the second table has one record more. Replace: both have it, and another record
    stands in its place in the first.
    """
    pairs = []
    for family in _FAMILIES:
        instead = [family.instead] if relation is Relation.REPLACE else []
        first, second = (_table(family, more) for more in (instead, [family.extra]))
        pairs.append(neighbours(family.label, first, second, relation))
    return pairs


def sides(pairs: Iterable[Pair]) -> list[Pair]:
    """Turn the tables of pairs into `Side`, for targets that compute what an attacker knows."""
    return [
        (label, Side(first, first, second), Side(second, first, second))
        for label, first, second in pairs
    ]


def neighbours(
    label: str, table: AuditTable, neighbour: AuditTable, relation: Relation = Relation.ADD_REMOVE
) -> Pair:
    """Check that two tables, in any order of records, are neighbours and make a pair of them.

    `Code.BAD_AUDIT` if they differ in more than one record, or in their public domain: an attack on
    such a pair refutes nothing.
    """
    for side in (table, neighbour):
        _check(label, side)
    if (table.n_bins, table.n_classes) != (neighbour.n_bins, neighbour.n_classes):
        raise Code.BAD_AUDIT.error(
            found=f"{label}: two domains", expected="one public domain for both tables"
        )
    gone, come = _difference(table, neighbour)
    allowed = [(1, 1)] if relation is Relation.REPLACE else [(0, 1), (1, 0)]
    if (gone, come) not in allowed:
        raise Code.BAD_AUDIT.error(
            found=f"{label}: {gone} records only in the first table, {come} only in the second",
            expected=f"neighbours under {relation.name}",
            fix="change the pair, or audit the claim under the other relation",
        )
    return label, table, neighbour


def _table(family: _Family, more: list[Record]) -> AuditTable:
    records = np.array([*family.counts, *more], np.int64)
    records = np.repeat(records, [*family.counts.values(), *(1 for _ in more)], axis=0)
    return AuditTable(records[:, :-1], records[:, -1], family.n_bins, family.n_classes)


def _check(label: str, table: AuditTable) -> None:
    rows, classes = table.rows, table.classes
    if rows.ndim != 2 or rows.shape != (classes.size, len(table.n_bins)):
        raise Code.BAD_AUDIT.error(
            found=f"{label}: rows of shape {rows.shape} for {classes.size} classes",
            expected="(n, d) rows and (n,) classes, with d numbers in n_bins",
        )
    inside = (rows >= 0).all() and (rows < np.array(table.n_bins)).all()
    if not (inside and (classes >= 0).all() and (classes < table.n_classes).all()):
        raise Code.BAD_AUDIT.error(
            found=f"{label}: a value outside the domain",
            expected="0 <= bin < n_bins and 0 <= class < n_classes",
        )


def _difference(table: AuditTable, neighbour: AuditTable) -> tuple[int, int]:
    """Count the records that only the first has, and only the second, with multiplicity."""
    records = [np.column_stack([side.rows, side.classes]) for side in (table, neighbour)]
    _, codes = np.unique(np.concatenate(records), axis=0, return_inverse=True)
    codes = codes.ravel()
    size = int(codes.max(initial=-1)) + 1
    first, second = np.split(codes, [table.classes.size])
    surplus = np.bincount(first, minlength=size) - np.bincount(second, minlength=size)
    return int(surplus.clip(min=0).sum()), int((-surplus).clip(min=0).sum())
