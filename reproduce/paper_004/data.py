"""The data sets of paper 004 (its section 4 and appendix A.6) as cells: equal records together.

The paper names the data sets and says "evenly spaced thresholds". Where they lie follows from the
authors' program: n thresholds for a range [a, b] are the centres of n equal parts of its length,
counted from 0 and not from a. That program takes the ranges from the files (adult's are round
numbers), which is fine for files that everybody has and would be a release for a private table: the
domains are marked as confirmed by hand. Categories have a splitting function each.

* Adult: the training file, 32,561 rows as in the paper. A missing category is one of its own.
* Bank: ``pdays`` has one more threshold, which tells those who were never called before.
* Credit: all attributes are numbers.
* KDD Cup: normal against attack, as the paper says; the authors' program has the 23 labels.
* MNIST: mean intensity of the 49 blocks of 4 x 4 pixels, three thresholds each; ten classes; the
  60,000 and 10,000 images of the original. See `reproduce.paper_004.mnist`.
* Avazu's click-through data could not be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.data import load
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from hedgerow.trees.counts.leaves import LeafCounts, merge_equal_rows
from hedgerow.trees.growing.candidates import Candidates
from reproduce.paper_004.mnist import TRAIN, blocks, digits

TEST_SHARE = 0.1
PAPER_ROWS = {
    "adult": 32_561,
    "bank": 45_211,
    "credit": 30_000,
    "skin": 245_057,
    "kddcup": 494_021,
    "mnist": 70_000,
}
"""Rows that the paper prints."""
PAPER_H = {"adult": 159, "bank": 115, "credit": 210, "skin": 96, "kddcup": 427, "mnist": 147}
"""Splitting functions that the paper prints."""

Range = tuple[float, float, int]
Counts = NDArray[np.int64]

_ADULT: dict[str, Range] = {
    "age": (18, 80, 10),
    "fnlwgt": (0, 800_000, 10),
    "education-num": (1, 16, 10),
    "capital-gain": (0, 20_000, 10),
    "capital-loss": (0, 25_000, 10),
    "hours-per-week": (0, 100, 10),
}
_BANK: dict[str, Range] = {
    "age": (18, 95, 10),
    "balance": (-8_019, 102_127, 10),
    "day": (1, 31, 10),
    "duration": (0, 4_918, 10),
    "campaign": (1, 63, 10),
    "pdays": (0, 871, 10),
    "previous": (0, 275, 10),
}
_CREDIT: dict[str, Range] = {
    "LIMIT_BAL": (10_000, 1_000_000, 10),
    "SEX": (1, 2, 1),
    "EDUCATION": (0, 6, 6),
    "MARRIAGE": (0, 3, 3),
    "AGE": (21, 79, 10),
    **{f"PAY_{i}": (-2, 8, 10) for i in (0, 2, 3, 4, 5, 6)},
}
_KDD_CATEGORIES = (
    "protocol_type",
    "service",
    "flag",
    "land",
    "logged_in",
    "is_host_login",
    "is_guest_login",
)
_YES_NO = ("land", "logged_in", "is_host_login", "is_guest_login")


@dataclass(frozen=True, eq=False)
class Task:
    """A data set: distinct cells, and how many records each holds.

    `bins`: unsigned integers (cells, d). `label`: unsigned integers (cells,). `number`: int64
    (cells,); all records. `tests`: int64 (cells,); those to test on, where the split is fixed.
    """

    name: str
    domain: Domain
    bins: NDArray[Any]
    label: NDArray[Any]
    number: Counts
    tests: Counts | None = None

    @cached_property
    def candidates(self) -> Candidates:
        """The splitting functions."""
        return Candidates.from_domain(self.domain, "binary")

    @property
    def n_classes(self) -> int:
        """Classes of the target."""
        assert self.domain.target is not None
        return len(self.domain.target.classes or ())

    @property
    def n_records(self) -> int:
        """Records."""
        return int(self.number.sum())

    def split(self, seed: int, share: float = 1.0) -> tuple[Counts, Counts]:
        """Return how many records of each cell are trained on and tested on.

        `seed`: records are drawn without replacement; which of equal records does not matter.
        `share`: of the records to train on; those to test on stay the same.
        """
        rng = np.random.default_rng([seed, 4])
        tests = self.tests
        if tests is None:
            tests = _drawn(rng, self.number, int(self.n_records * TEST_SHARE))
        train = self.number - tests
        if share < 1:
            train = _drawn(rng, train, round(share * int(train.sum())))
        return train, tests

    def counts(self, number: Counts) -> LeafCounts:
        """Return the counts of a learner that sees so many records of each cell."""
        return LeafCounts.of_cells(self.bins, self.label, number, self.candidates, self.n_classes)


def _drawn(rng: np.random.Generator, number: Counts, n: int) -> Counts:
    """Draw n records of cells without replacement."""
    return rng.multivariate_hypergeometric(number, n, method="marginals")


def dealt(number: Counts, owners: int, seed: int) -> list[Counts]:
    """Give every record to an owner, each as likely, and return what each holds of the cells."""
    rng = np.random.default_rng([seed, 5])
    held = rng.multinomial(number, np.full(owners, 1 / owners))
    return [np.ascontiguousarray(held[:, i]) for i in range(owners)]


def thresholds(low: float, high: float, n: int) -> tuple[float, ...]:
    """Return the centres of n equal parts of the length of a range, counted from 0."""
    return tuple(((np.arange(n) + 0.5) * (high - low) / n).tolist())


def number(name: str, low: float, high: float, n: int, *more: float) -> Attribute:
    """Declare a number with its thresholds; a value on one of them belongs below it."""
    edges = tuple(sorted((*thresholds(low, high, n), *more)))
    start = min(low, 0, *more)
    return Attribute(name=name, kind="numeric", bounds=(start, high - start), edges=edges)


def category(table: pa.Table, name: str, values: tuple[Any, ...] = ()) -> Attribute:
    """Declare a category with the values given or found; missing ones are one more, if any."""
    found = values or tuple(sorted(pc.unique(table[name]).drop_null().to_pylist()))
    missing = "own bin" if table[name].null_count else "error"
    return Attribute(name=name, kind="categorical", categories=found, missing=missing)


def _task(name: str, table: pa.Table, attributes: list[Attribute], target: Target) -> Task:
    domain = Domain(attributes=tuple(attributes), target=target, provenance="confirmed public")
    label = np.array(table[target.name].to_pylist())
    return of_rows(name, encode(table.select([a.name for a in attributes]), domain, label))


def of_rows(name: str, table: Encoded, tested: slice | None = None) -> Task:
    """Merge equal records; `tested` are the rows of a fixed split."""
    assert table.target is not None
    if tested is None:
        return Task(name, table.domain, *merge_equal_rows(table.bins, table.target))
    # Whether a row is tested on is one more column for as long as rows are merged.
    part = np.zeros(len(table.target), dtype=table.bins.dtype)
    part[tested] = 1
    bins, label, found = merge_equal_rows(np.column_stack([table.bins, part]), table.target)
    here = np.ascontiguousarray(bins[:, :-1])
    return Task(name, table.domain, here, label, found, np.where(bins[:, -1] == 1, found, 0))


def _mixed(
    name: str, table: pa.Table, ranges: Mapping[str, Range], target: Target, **more: float
) -> Task:
    """Declare numbers by their ranges and all else as categories."""
    names = [column for column in table.column_names if column != target.name]
    attributes = [
        number(column, *ranges[column], *((more[column],) if column in more else ()))
        if column in ranges
        else category(table, column)
        for column in names
    ]
    return _task(name, table, attributes, target)


def adult() -> Task:
    """Adult: income above 50,000 dollars."""
    target = Target(name="income", classes=("<=50K", ">50K"))
    return _mixed("adult", load("adult_train"), _ADULT, target)


def bank() -> Task:
    """Bank marketing: who subscribes."""
    return _mixed(
        "bank", load("bank_full"), _BANK, Target(name="y", classes=("no", "yes")), pdays=-0.5
    )


def credit() -> Task:
    """Credit card default."""
    table = load("credit_default").drop_columns(["ID"])
    target = Target(name="default payment next month", classes=(0, 1))
    amounts = [c for c in table.column_names if c.startswith(("BILL_AMT", "PAY_AMT"))]
    return _mixed("credit", table, _CREDIT | _ranges(table, amounts), target)


def skin() -> Task:
    """Skin: colours of skin and of all else, 32 thresholds each."""
    ranges = dict.fromkeys("BGR", (0.0, 255.0, 32))
    return _mixed("skin", load("skin_segmentation"), ranges, Target(name="y", classes=(1, 2)))


def kddcup() -> Task:
    """KDD Cup 1999: normal connections against attacks of every kind."""
    table = load("kddcup99_10percent")
    attack = pc.not_equal(table["label"], "normal.").cast(pa.int64())
    table = table.drop_columns(["label"]).append_column("attack", attack)
    numbers = [c for c in table.column_names if c not in (*_KDD_CATEGORIES, "attack")]
    ranges = _ranges(table, numbers)
    attributes = [
        number(c, *ranges[c]) if c in ranges else category(table, c, (0, 1) if c in _YES_NO else ())
        for c in table.column_names
        if c != "attack"
    ]
    return _task("kddcup", table, attributes, Target(name="attack", classes=(0, 1)))


def mnist() -> Task:
    """MNIST: ten digits; the split of the original."""
    found = digits()
    names = [f"block {i}" for i in range(49)]
    table = pa.table(dict(zip(names, blocks(found.pixels).T, strict=True)))
    domain = Domain(
        attributes=tuple(number(name, 0, 255, 3) for name in names),
        target=Target(name="digit", classes=tuple(range(10))),
    )
    return of_rows("mnist", encode(table, domain, found.label.astype(np.int64)), slice(TRAIN, None))


def _ranges(table: pa.Table, names: list[str]) -> dict[str, Range]:
    """Return the ranges of columns, as the authors' program has them; a constant one is [0, 1]."""
    found = {}
    for name in names:
        ends = pc.min_max(table[name]).as_py()
        high = ends["max"] if ends["max"] > ends["min"] else ends["min"] + 1
        found[name] = (float(ends["min"]), float(high), 10)
    return found


READ: dict[str, Callable[[], Task]] = {
    "adult": adult,
    "bank": bank,
    "credit": credit,
    "skin": skin,
    "kddcup": kddcup,
    "mnist": mnist,
}


@cache
def task_of(name: str) -> Task:
    """Read a data set, once in each process."""
    return READ[name]()
