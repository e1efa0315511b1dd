"""Owners' tables and jobs of DP-TopDown, for tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import encoded_table
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import Tree
from tests.parties.towns import Town

OWNERS = ("north", "south", "east")
SERVERS = ("alder", "birch", "cedar")
DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=8),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=4000,
)
NO_NOISE = 1e3
"""An epsilon at which no draw of noise ever changes a count."""


def people(n: int, seed: int) -> pa.Table:
    """Make the table of an owner."""
    rng = np.random.default_rng(seed)
    age, ward, sex = rng.uniform(0, 100, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    ill = (age > 50) ^ (ward == 1) & (sex == 0) ^ (rng.uniform(size=n) < 0.1)
    return pa.table(
        {
            "age": age,
            "ward": np.array(["a", "b", "c"])[ward],
            "sex": np.array(["f", "m"])[sex],
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes; None takes a key out."""
    plan = {"epsilon": 8.0, "n_splits": 6, "max_depth": 3} | changes.pop("plan", {})
    made = {
        "name": "wards",
        "protocol": "topdown",
        "population": "patients",
        "owners": list(OWNERS),
        "plan": {key: value for key, value in plan.items() if value is not None},
        "domain": DOMAIN.to_dict(),
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def make_job(**changes: Any) -> TopDownJob:
    return TopDownJob.model_validate(job_dict(**changes))


def topdown_town(root: Path, *, secret: bool = False, **options: Any) -> Town:
    """Found a town of owners, each with a table that stays with it, and a coordinator."""
    settings: dict[str, Any] = {
        "owners": OWNERS,
        "coordinator": "delta",
        "servers": SERVERS if secret else (),
        "populations": {"patients": 2 * NO_NOISE},
        "largest_epsilon_per_job": NO_NOISE,
    }
    town = Town(root, **settings | options)
    for number, name in enumerate(OWNERS):
        pyarrow.csv.write_csv(people(200, number), table(town, name))
        keep_own_table(town.parties[name].state, OwnTable("patients", table(town, name)))
    return town


def table(town: Town, name: str) -> Path:
    return town.root / f"{name}.csv"


def reference(town: Town, job: TopDownJob) -> Tree:
    """Grow the tree in this process."""
    tables = {
        name: encoded_table(table(town, name), job.domain, AbsorbedRows()) for name in job.owners
    }
    return run_topdown(job.make_plan(), tables).tree
