"""Sixteen tables with a target of two classes, cut down to a few hundred or thousand rows.

Adult, bank and credit have the public grids of `bench.one_table`, breast cancer those of its
example. Elsewhere bounds are the range of the column, rounded outwards to one digit of its width,
and categories those in the file: they stand for what a documentation would say, and are the same
for all learners. Targets of several classes are "the most frequent against the others".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.datasets import load_breast_cancer

from bench.data import load
from bench.one_table import OneTable, adult, bank, categories, credit, number
from hedgerow.tables import Attribute, Domain, Target

BINS = 32
MOST = 40_000
"""Rows of a whole table; larger ones are sampled, seeded."""


def breast_cancer() -> OneTable:
    """569 rows, 30 numbers that go together."""
    X, y = load_breast_cancer(return_X_y=True)
    path = Path(__file__).parents[1] / "examples" / "breast_cancer.toml"
    domain = Domain.from_toml(path)
    frame = pa.table({name: X[:, i] for i, name in enumerate(domain.names)})
    return OneTable(frame, y.astype(np.int64), domain)


def exclusive_or() -> OneTable:
    """1,500 rows, six uniform numbers: two of them together tell the class, no one alone."""
    rng = np.random.default_rng(0)
    X = rng.random((1_500, 6))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(np.int64)
    y = np.where(rng.random(len(y)) < 0.03, 1 - y, y)
    frame = pa.table({f"x{i}": X[:, i] for i in range(X.shape[1])})
    return _ranged(frame, y)


def flights() -> OneTable:
    """Flights from New York: over a quarter of an hour late, from what was scheduled."""
    table = load("nycflights13")
    table = table.filter(pc.is_valid(table["arr_delay"]))
    late = pc.greater(table["arr_delay"], 15).to_numpy(zero_copy_only=False)
    names = ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "distance"]
    return _ranged(table.select(names), late.astype(np.int64))


def _one_against_others(
    file: str, target: str, positive: object, *, drop: tuple[str, ...] = ()
) -> OneTable:
    table = load(file)
    label = np.array([value == positive for value in table[target].to_pylist()], dtype=np.int64)
    return _ranged(table.drop_columns([target, *drop]), label)


def heart() -> OneTable:
    """Heart disease, Cleveland: any against none; a missing vessel or defect counts as 0."""
    table = load("heart_cleveland")
    ill = np.array([value > 0 for value in table["num"].to_pylist()], dtype=np.int64)
    return _ranged(table.drop_columns(["num"]), ill)


TABLES: dict[str, Callable[[], OneTable]] = {
    "adult": adult,
    "bank": bank,
    "banknote": lambda: _one_against_others("banknote", "class", 1),
    "breast cancer": breast_cancer,
    "car": lambda: _one_against_others("car_evaluation", "class", "unacc"),
    "credit": credit,
    "exclusive or": exclusive_or,
    "flights": flights,
    "heart": heart,
    "higgs": lambda: _one_against_others("higgs_35298", "label", 1, drop=("split",)),
    "kddcup": lambda: _one_against_others("kddcup99_10percent", "label", "normal."),
    "mushroom": lambda: _one_against_others("mushroom", "class", "p"),
    "pucrio": lambda: _one_against_others("pucrio_har", "class", "sitting", drop=("user",)),
    "skin": lambda: _one_against_others("skin_segmentation", "y", 1),
    "titanic": lambda: _one_against_others("titanic_887", "Survived", 1, drop=("Name",)),
    "wall": lambda: _one_against_others("wall_following_24", "Class", "Move-Forward"),
}
"""In alphabetical order."""

TRIED_ON = tuple(TABLES)[::2]


def _ranged(frame: pa.Table, label: np.ndarray) -> OneTable:
    if len(label) > MOST:
        kept = np.sort(np.random.default_rng(0).permutation(len(label))[:MOST])
        frame, label = frame.take(kept), label[kept]
    columns, attributes = {}, []
    for name in frame.column_names:
        column = frame[name]
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            columns[name] = column
            attributes.append(categories(frame, name))
            continue
        values = np.nan_to_num(column.to_pandas().to_numpy(dtype=np.float64))
        columns[name] = values
        attributes.append(_number(name, values))
    domain = Domain(
        attributes=tuple(attributes), target=Target(name="target", classes=(0, 1)), capacity=MOST
    )
    return OneTable(pa.table(columns), label, domain)


def _number(name: str, values: np.ndarray) -> Attribute:
    low, high = float(values.min()), float(values.max())
    whole = np.unique(values)
    if len(whole) <= BINS and np.all(whole == np.round(whole)) and high - low < BINS:
        return number(name, low - 0.5, high + 0.5, max(int(high - low) + 1, 2))
    digit = 10.0 ** math.floor(math.log10(max(high - low, 1e-12)))
    return number(name, math.floor(low / digit) * digit, math.ceil(high / digit) * digit, BINS)
