"""A small table of patients, its domain, and its files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow import Attribute, Domain, Target

ATTRIBUTES = (
    Attribute(name="age", kind="numeric", bounds=(0, 100), bins=20),
    Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
)
DOMAIN = Domain(
    attributes=ATTRIBUTES, target=Target(name="ill", classes=("no", "yes")), capacity=1000
)
COSTS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 200)), capacity=1000)


def people(n: int = 600) -> pa.Table:
    """Older people are ill and cost more."""
    rng = np.random.default_rng(7)
    age = rng.integers(0, 100, n)
    return pa.table(
        {
            "note": ["x"] * n,
            "ward": rng.choice(["a", "b", "c"], n),
            "age": age,
            "ill": np.where(age > 60, "yes", "no"),
            "cost": age * 2.0,
        }
    )


def rows() -> tuple[pa.Table, np.ndarray]:
    """The same people for an estimator."""
    table = people()
    return table.select(["age", "ward"]), table["ill"].to_numpy()


def write_files(folder: Path) -> None:
    """Write people.csv, domain.toml and costs.toml."""
    pa.csv.write_csv(people(), folder / "people.csv")
    (folder / "domain.toml").write_text(DOMAIN.to_toml())
    (folder / "costs.toml").write_text(COSTS.to_toml())
