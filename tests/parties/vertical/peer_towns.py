"""Peers with tables of their own, and jobs of Pivot, for tests.

The weather in three parts, as the sites of `site_towns` have it: rows come in another order at
each, and each has a day that not all have.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.store.models import StoredModel
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.peer_part import columns_of, peer_table, read_state
from hedgerow.privacy import Ledger
from hedgerow.protocols.pivot.boosting_plan import PivotBoostingPlan
from hedgerow.protocols.pivot.logistic.plan import LogisticPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import PeerTable
from hedgerow.protocols.pivot.run import PivotRun, run_pivot
from hedgerow.protocols.registry import PEER_PROTOCOLS
from tests.parties.towns import Town
from tests.parties.vertical.site_towns import COLUMNS, SITES, SiteFiles
from tests.protocols.vertical_id3.ppid3_runs import DAYS, WEATHER, weather

PEERS = ("heron", "rook", "wren")
PLACES = dict(zip(PEERS, SITES, strict=True))
"""Whose columns, of the sites, a peer has."""


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes; None takes a key out."""
    columns = {
        name: [WEATHER.names[i] for i in COLUMNS[site]] + ["play"] * (site == "club")
        for name, site in PLACES.items()
    }
    made = {
        "name": "tennis",
        "protocol": "pivot-tree",
        "population": "days",
        "peers": list(PEERS),
        "columns": columns,
        "plan": {"max_depth": 2},
        "domain": WEATHER.to_dict(),
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def make_job(**changes: Any) -> PivotJob:
    return PivotJob.model_validate(job_dict(**changes))


def run_here(job: PivotJob) -> PivotRun:
    """Grow the tree of a job in this process, on the days that all peers have."""
    plan, table = aligned(job), weather()
    tables = [
        PeerTable(
            {j: table.bins[:, j] for j, owner in enumerate(plan.owners) if owner == i},
            len(table.bins),
            table.target if i == plan.target_at else None,
        )
        for i in range(plan.n_peers)
    ]
    return run_pivot(plan, tables, charged(plan))


def tables_of(job: PivotJob, files: SiteFiles) -> list[PeerTable]:
    """Read the rows of all peers, in whatever order they have them."""
    made = []
    for name, site in PLACES.items():
        own = columns_of(job, name)
        made.append(peer_table(job, own, own.table(files.table(site), "id")))
    return made


def aligned(job: PivotJob) -> PivotPlan:
    return replace(job.make_plan(), align="given", capacity=len(DAYS))


def charged(plan: PivotPlan) -> Ledger:
    ledger = Ledger(domain=plan.domain)
    plan.charge(ledger)
    return ledger


class PeerTown(Town):
    """Members of a consortium of peers, each with a table that stays with it."""

    def __init__(self, root: Path, **options: Any) -> None:
        settings: dict[str, Any] = {
            "peers": PEERS,
            "populations": {"days": float("inf")},
            "allow_exact": True,
        }
        super().__init__(root, **settings | options)
        name_tables(self, SiteFiles(root))

    def stored(self, name: str, job: PivotJob) -> StoredModel:
        """Return the part of the tree that a peer keeps."""
        return self.model(name, job.model_name, operator_key(self.parties[name].folder))

    def check_tree(self, job: PivotJob) -> PivotRun:
        """Compare what all peers keep with the model of one process; return that.

        Of boosting and logistic regression, numbers are rounded at random, by one unit each.
        """
        found, protocol, plan = run_here(job), PEER_PROTOCOLS[job.protocol], job.make_plan()
        expected, off = found.model.to_state(), 0.0
        if isinstance(plan, PivotBoostingPlan):
            off = 0.002 * 2**plan.numbers.fraction
        elif isinstance(plan, LogisticPlan):
            off = 0.05 * 2.0 ** expected["bits"][0]
        kept = [read_state(self.stored(name, job)) for name in PEERS]
        assert all(one.keys() == expected.keys() for one in kept)
        for key, array in expected.items():
            parts = [one[key] for one in kept]
            if key in protocol.shares:
                # One by one they say nothing.
                assert len({part.tobytes() for part in parts}) == len(PEERS)
                assert (sum(parts)[0] == array.sum(axis=0, dtype=array.dtype)).all(), key
            else:
                assert all((part == parts[0]).all() for part in parts), key
                most = off if key == "opened" else 0
                np.testing.assert_allclose(parts[0], array, rtol=0, atol=most, err_msg=key)
        return found


def name_tables(town: Town, files: SiteFiles) -> None:
    """Have peers name the tables of the sites whose columns they have."""
    for name, site in PLACES.items():
        keep_own_table(town.parties[name].state, OwnTable("days", files.table(site), "id"))
