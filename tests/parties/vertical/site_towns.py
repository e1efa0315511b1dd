"""Sites with tables and domains of their own, and jobs of vertical ID3, for tests.

The weather of the paper, in three parts: the club has outlook and the class, the observatory
humidity and wind, the office temperature. Rows come in another order at each of them, and each has
a day that not all have.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.vertical.columns import OwnColumns
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.protocols.vertical_id3.run import VerticalRun, run_vertical
from hedgerow.protocols.vertical_id3.site import SiteTable
from tests.parties.towns import Town
from tests.protocols.vertical_id3.ppid3_runs import DAYS, WEATHER

SITES = ("club", "observatory", "office")
SERVERS = ("alder", "birch", "cedar")
COLUMNS = {"club": [0], "observatory": [2, 3], "office": [1]}
# A day that one site has and another has not; a row of whatever values.
_MORE = {"club": 98, "observatory": 99, "office": 98}


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes; None takes a key out."""
    made = {
        "name": "tennis",
        "protocol": "vertical-id3",
        "population": "days",
        "sites": list(SITES),
        "class_at": "club",
        "classes": ["no", "yes"],
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def make_job(**changes: Any) -> VerticalJob:
    return VerticalJob.model_validate(job_dict(**changes))


def part(name: str) -> pa.Table:
    """Return the rows of a site."""
    order = np.random.default_rng(SITES.index(name)).permutation(len(DAYS))
    names = [WEATHER.names[i] for i in COLUMNS[name]]
    columns: dict[str, list[Any]] = {"id": [int(i) + 1 for i in order]}
    for place, column in zip(COLUMNS[name], names, strict=True):
        columns[column] = [DAYS[i][place] for i in order]
    if name == "club":
        columns["play"] = [DAYS[i][4] for i in order]
    for column, values in columns.items():
        values.append(_MORE[name] if column == "id" else values[0])
    return pa.table(columns)


class SiteFiles:
    """The table and the domain of every site, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in SITES:
            pyarrow.csv.write_csv(part(name), self.table(name))
            own = WEATHER.select(COLUMNS[name], target=name == "club")
            self.domain(name).write_text(own.to_toml())

    def table(self, name: str) -> Path:
        return self.root / f"{name}.csv"

    def domain(self, name: str) -> Path:
        return self.root / f"{name}.toml"

    def parts(self) -> tuple[list[pa.Table], list[Any], list[Any]]:
        """Return columns, class and ids of every site, as estimators take them."""
        made = [part(name) for name in SITES]
        known = [[column for column in one.column_names if column != "id"] for one in made]
        tables = [
            one.select([c for c in own if c != "play"])
            for one, own in zip(made, known, strict=True)
        ]
        classes = [
            one["play"].to_numpy() if "play" in own else None
            for one, own in zip(made, known, strict=True)
        ]
        return tables, classes, [one["id"].to_numpy() for one in made]

    def columns(self, name: str, job: VerticalJob) -> OwnColumns:
        return OwnColumns.load(self.domain(name), job, SITES.index(name))

    def tables(self, job: VerticalJob) -> list[SiteTable]:
        return [self.columns(name, job).table(self.table(name), "id") for name in SITES]


class VerticalTown(Town):
    """Members of a consortium of sites, each with a table that stays with it."""

    def __init__(self, root: Path, *, secret: bool = False, **options: Any) -> None:
        settings: dict[str, Any] = {
            "sites": SITES,
            "servers": SERVERS if secret else (),
            "populations": {"days": float("inf")},
            "allow_exact": True,
        }
        super().__init__(root, **settings | options)
        self.files = SiteFiles(root)
        for name in SITES:
            table = OwnTable("days", self.files.table(name), "id", self.files.domain(name))
            keep_own_table(self.parties[name].state, table)

    def nodes(self, name: str, job: VerticalJob) -> StoredNodes:
        """Return the part of the tree that a site keeps."""
        tree = self.model(name, job.model_name).tree
        assert tree is not None
        return StoredNodes.from_dict(tree, job, name, self.files.columns(name, job))

    def check_tree(self, job: VerticalJob) -> VerticalRun:
        """Compare the parts of all sites with those of a run in one process; return that."""
        found = run_vertical(job.make_plan(), self.files.tables(job))
        for site, name in zip(found.sites, SITES, strict=True):
            kept = self.nodes(name, job)
            assert kept.root == found.root, name
            assert kept.nodes == site.nodes, name
            shown = [json.loads(one.to_json()) for one in site.leakages]
            assert learned(kept.learned) == learned(shown), name
        return found


def learned(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was declared and shown, in one order: messages come in any."""
    return [{**part, "record": sorted(part["record"], key=json.dumps)} for part in parts]
