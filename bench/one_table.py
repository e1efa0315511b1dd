"""Adult, credit default and bank with public domains, for learners of one sensitive table.

Bounds and edges are numbers that the data sets' documentation allows for; the categories are those
that it lists, here read from the files. Amounts of money are cut on scales that grow with them:
most people have little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.data import load
from hedgerow.tables import Attribute, Domain, Target

SPLITS = 5
TEST_SHARE = 0.2


class OneTable(NamedTuple):
    """A table, its target as 0 and 1, and what is public about both."""

    frame: pa.Table
    target: NDArray[np.int64]
    domain: Domain

    def splits(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return training and test rows of the seeded 80-20 splits."""
        found = []
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(self.target))
            n_test = int(np.ceil(TEST_SHARE * len(order)))
            found.append((np.sort(order[n_test:]), np.sort(order[:n_test])))
        return found


def even(low: float, high: float, bins: int) -> tuple[float, ...]:
    """Cut a range into equal parts."""
    return tuple(np.linspace(low, high, bins + 1)[1:-1].tolist())


def growing(low: float, high: float, unit: float, bins: int) -> tuple[float, ...]:
    """Cut a range into parts that grow with the distance from 0, beyond `unit` in proportion."""
    ends = np.arcsinh(np.array([low, high]) / unit)
    return tuple((unit * np.sinh(np.linspace(*ends, bins + 1)[1:-1])).tolist())


def number(name: str, low: float, high: float, bins: int | tuple[float, ...]) -> Attribute:
    """Declare a number; what lies outside its bounds counts as the bound."""
    shape = {"bins": bins} if isinstance(bins, int) else {"edges": bins}
    return Attribute(name=name, kind="numeric", bounds=(low, high), outside="clip", **shape)


def categories(table: pa.Table, name: str) -> Attribute:
    """Declare a category with the values that the documentation lists."""
    found = sorted(pc.unique(table[name]).drop_null().to_pylist())
    return Attribute(name=name, kind="categorical", categories=tuple(found), missing="own bin")


def adult() -> OneTable:
    """Training and test part joined: 48,842 rows, 14 attributes."""
    table = pa.concat_tables([load("adult_train"), load("adult_test")])
    numbers = [
        number("age", 17, 90, tuple(np.arange(17.5, 90))),
        number("fnlwgt", 12_000, 1_500_000, 32),
        number("education-num", 0.5, 16.5, 16),
        number("capital-gain", 0, 100_000, (0.5, *np.geomspace(100, 100_000, 200)[:-1])),
        number("capital-loss", 0, 4_400, (0.5, *even(0, 4_400, 200))),
        number("hours-per-week", 1, 99, tuple(np.arange(1.5, 99))),
    ]
    return _table(table, "income", ">50K", numbers, capacity=50_000)


def credit() -> OneTable:
    """Credit default: 30,000 rows, 23 attributes without the row number."""
    table = load("credit_default").drop_columns(["ID"])
    bill = growing(-400_000, 2_000_000, 2_000, 40)
    pay = (0.5, *growing(0, 2_000_000, 1_000, 32))
    numbers = [
        number("LIMIT_BAL", 0, 1_000_000, growing(0, 1_000_000, 50_000, 32)),
        number("AGE", 21, 80, 30),
        *(number(f"PAY_{i}", -2.5, 8.5, 11) for i in (0, 2, 3, 4, 5, 6)),
        *(number(f"BILL_AMT{i}", -400_000, 2_000_000, bill) for i in range(1, 7)),
        *(number(f"PAY_AMT{i}", 0, 2_000_000, pay) for i in range(1, 7)),
    ]
    return _table(table, "default payment next month", 1, numbers, capacity=30_000)


def bank() -> OneTable:
    """Bank marketing: 45,211 rows, 16 attributes, the length of the call among them."""
    table = load("bank_full")
    numbers = [
        number("age", 18, 95, tuple(np.arange(18.5, 95))),
        number("balance", -10_000, 110_000, growing(-10_000, 110_000, 200, 40)),
        number("day", 0.5, 31.5, 31),
        number("duration", 0, 5_000, growing(0, 5_000, 60, 64)),
        number("campaign", 1, 64, (1.5, 2.5, 3.5, 4.5, 5.5, 7.5, 10.5, 15.5, 25.5)),
        number("pdays", -1, 900, (-0.5, *even(0, 900, 90))),
        number("previous", 0, 300, (0.5, 1.5, 2.5, 3.5, 5.5, 8.5, 15.5)),
    ]
    return _table(table, "y", "yes", numbers, capacity=50_000)


def _table(
    table: pa.Table, target: str, positive: str | int, numbers: list[Attribute], capacity: int
) -> OneTable:
    declared = {attribute.name: attribute for attribute in numbers}
    names = [name for name in table.column_names if name != target]
    domain = Domain(
        attributes=tuple(declared.get(name) or categories(table, name) for name in names),
        target=Target(name=target, classes=(0, 1)),
        capacity=capacity,
    )
    label = np.array([value == positive for value in table[target].to_pylist()], dtype=np.int64)
    return OneTable(table.select(names), label, domain)


TABLES = {"adult": adult, "credit": credit, "bank": bank}
