"""What the experiments share: a data set with its public domain, splits, mushroom and car."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.data import load
from hedgerow.tables import Attribute, Domain, Target

SPLITS = 5
"""Splits into training and test rows, with the seeds 0 to 4."""

TEST_SHARE = 0.2


class DataSet(NamedTuple):
    """A table without its target, the target, and what is public about both."""

    frame: pa.Table
    target: NDArray[np.object_]
    domain: Domain

    def rows(self, index: NDArray[np.int64]) -> DataSet:
        """Return some of the rows under the same domain."""
        return DataSet(self.frame.take(index), self.target[index], self.domain)


def split(
    n_rows: int, seed: int, test_share: float = TEST_SHARE
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of one split: those to train on and those to test on, in order.

    Plain, not stratified: the papers name the shares and nothing else. The test rows are rounded
    up, as in scikit-learn.
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test = int(np.ceil(test_share * n_rows))
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def splits(data: DataSet, n_splits: int = SPLITS) -> Iterator[tuple[DataSet, DataSet]]:
    """Yield training and test part of each split."""
    for seed in range(n_splits):
        train, test = split(len(data.target), seed)
        yield data.rows(train), data.rows(test)


def bands(name: str, bounds: tuple[float, float], *edges: float) -> Attribute:
    """Declare a number that is cut at `edges`; a value on an edge belongs below it."""
    return Attribute(name=name, kind="numeric", bounds=bounds, edges=edges)


def values(name: str, categories: Iterable[str | int], *, missing: bool = False) -> Attribute:
    """Declare a category; with `missing`, absent values are one more."""
    return Attribute(
        name=name,
        kind="categorical",
        categories=tuple(categories),
        missing="own bin" if missing else "error",
    )


def regroup(table: pa.Table, groups: Mapping[str, Mapping[str, tuple[str, ...]]]) -> pa.Table:
    """Replace categories by the group that lists them; missing values stay missing.

    `groups`: column name to group name to the categories of the group. A category that no group
    lists stays as it is, so that the domain refuses it.
    """
    for name, members in groups.items():
        group_of = {member: group for group, listed in members.items() for member in listed}
        column = [group_of.get(value, value) for value in table[name].to_pylist()]
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(column, type=pa.string()))
    return table


def labelled(table: pa.Table, domain: Domain) -> DataSet:
    """Part a table into the attributes of the domain, in its order, and the target."""
    assert domain.target is not None
    target = np.array(table[domain.target.name].to_pylist(), dtype=object)
    return DataSet(table.select(domain.names), target, domain)


# One letter per category, as the documentation of the data set lists them (some never occur).
_MUSHROOM = {
    "cap-shape": "bcxfks",
    "cap-surface": "fgys",
    "cap-color": "nbcgrpuewy",
    "bruises": "tf",
    "odor": "alcyfmnps",
    "gill-attachment": "adfn",
    "gill-spacing": "cwd",
    "gill-size": "bn",
    "gill-color": "knbhgropuewy",
    "stalk-shape": "et",
    "stalk-root": "bcuezr",
    "stalk-surface-above-ring": "fyks",
    "stalk-surface-below-ring": "fyks",
    "stalk-color-above-ring": "nbcgopewy",
    "stalk-color-below-ring": "nbcgopewy",
    "veil-type": "pu",
    "veil-color": "nowy",
    "ring-number": "not",
    "ring-type": "ceflnpsz",
    "spore-print-color": "knbhrouwy",
    "population": "acnsvy",
    "habitat": "glmpuwd",
}

_CAR = {
    "buying": ("low", "med", "high", "vhigh"),
    "maint": ("low", "med", "high", "vhigh"),
    "doors": ("2", "3", "4", "5more"),
    "persons": ("2", "4", "more"),
    "lug_boot": ("small", "med", "big"),
    "safety": ("low", "med", "high"),
}


def mushroom() -> DataSet:
    """Mushroom as it is: 22 attributes of up to 12 values; ``stalk-root`` may be missing."""
    domain = Domain(
        attributes=tuple(
            values(name, letters, missing=name == "stalk-root")
            for name, letters in _MUSHROOM.items()
        ),
        target=Target(name="class", classes=("e", "p")),
        capacity=8_500,
    )
    return labelled(load("mushroom"), domain)


def car() -> DataSet:
    """Car evaluation as it is: 6 attributes of 3 or 4 values, four classes."""
    domain = Domain(
        attributes=tuple(values(name, categories) for name, categories in _CAR.items()),
        target=Target(name="class", classes=("unacc", "acc", "good", "vgood")),
        capacity=1_800,
    )
    return labelled(load("car_evaluation"), domain)
