"""Where the public data sets lie: ``$HEDGEROW_DATA`` or ``../shared/datasets``."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hedgerow.tables import Attribute, Domain, Target, read_table


def folder() -> Path:
    """Folder of the Parquet files."""
    beside = Path(__file__).parents[2] / "shared" / "datasets"
    return Path(os.environ.get("HEDGEROW_DATA", beside))


def load(name: str) -> pa.Table:
    """Read one data set; a missing file is a numbered error that names the path."""
    return read_table(folder() / f"{name}.parquet")


def adult_like() -> tuple[pa.Table, np.ndarray, Domain]:
    """Adult with round bounds; its categories, listed in its documentation, come from the file."""
    table = load("adult_train")
    numeric = {
        "age": (0, 100, 20),
        "education-num": (0, 16, 16),
        "capital-gain": (0, 100_000, 40),
        "capital-loss": (0, 5_000, 20),
        "hours-per-week": (0, 100, 20),
    }
    attributes = []
    for name in table.column_names:
        if name in ("income", "fnlwgt"):
            continue
        if name in numeric:
            low, high, bins = numeric[name]
            attributes.append(Attribute(name=name, kind="numeric", bounds=(low, high), bins=bins))
        else:
            found = pc.unique(table[name]).drop_null().to_pylist()
            attributes.append(
                Attribute(
                    name=name,
                    kind="categorical",
                    categories=tuple(sorted(found)),
                    missing="own bin",
                )
            )
    domain = Domain(
        attributes=tuple(attributes),
        target=Target(name="income", classes=("<=50K", ">50K")),
        capacity=40_000,
    )
    return table.drop_columns(["income", "fnlwgt"]), np.array(table["income"].to_pylist()), domain
