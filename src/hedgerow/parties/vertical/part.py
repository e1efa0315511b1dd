"""Vertical ID3 at a party: a site with its own columns, or one of the servers that count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import SERVERS, PartyConfig
from hedgerow.parties.runs.part import Attempt, Part
from hedgerow.parties.store.own_tables import (
    OwnTable,
    check_same,
    keep_absorbed,
    kept_from_others,
    own_table,
)
from hedgerow.parties.vertical.columns import OwnColumns
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.protocols.contract import Context
from hedgerow.protocols.vertical_id3.leakage import parties_of
from hedgerow.protocols.vertical_id3.programs import CountRecord, program_of
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.tables.absorbing import AbsorbedRows

OTHERS = "what this party learned is in a ledger of its own"


class VerticalPart(Part[VerticalJob]):
    """What a site, or a server, does in a run of vertical ID3.

    A site reads the table that it has named for the population, with a column of ids and a domain
    of its own. Its part of the tree becomes a model in its own store, and goes nowhere else; a
    server keeps what was charged and opened. How much they send follows from the tree, of which
    nobody else learns anything.
    """

    traffic_is_public = False

    def governors(self) -> Collection[str]:
        """Return the sites."""
        return self.job.sites

    def check(self) -> None:
        """Refuse a job where this site has no table, ids and domain; H934, H755, H202, H107."""
        if self.config.role == "site":
            table, own = own_columns(self.config, self.job)
            check_columns(table, own, self.config.name, self.job.population)

    def attend(self, attempt: Attempt) -> None:
        """Run the program of this member; it charges the ledger when the sizes are known."""
        job, plan, ledger = self.job, self.job.make_plan(), attempt.ledger
        ledger.parties = tuple(parties_of(plan.job, servers=SERVERS if job.secret else 0))
        known: dict[str, Any] = {}
        own: OwnColumns | None = None
        if self.config.role == "site":
            table, own = own_columns(self.config, job)
            if job.epsilon is not None:
                ledger.domain = own.domain
            others = [
                f"site {i}" for i in range(len(job.sites)) if job.sites[i] != self.config.name
            ]
            for audience in (*others, *(["server"] if job.secret else [])):
                ledger.mark_not_private(OTHERS, [audience])
            # With an epsilon for whoever sees the tree, there is one whatever the rows.
            absorbed = None if job.epsilon is None else AbsorbedRows()
            known["table"] = read_rows(own, table, self.config.name, absorbed)
            if absorbed is not None:
                keep_absorbed(self.config.state, attempt.run, absorbed)
            check_same(self.config.state, attempt.run, pieces(known["table"]))
        context = Context(
            attempt.network,
            attempt.members,
            plan,
            job=job,
            ledger=ledger,
            memory=attempt.memory,
            # How many nodes lie at a site is for nobody else to know.
            progress=lambda numbers: attempt.say("growing"),
            **known,
        )
        self._keep(attempt, program_of(plan, attempt.network.party)(context), own)

    def _keep(self, attempt: Attempt, found: Site | CountRecord, own: OwnColumns | None) -> None:
        job, tree = self.job, None
        leakage = found.leakages[-1] if isinstance(found, Site) else found.leakage
        if isinstance(found, Site):
            assert own is not None
            assert found.root is not None
            learned = [json.loads(one.to_json()) for one in found.leakages]
            nodes = StoredNodes(found.root, dict(found.nodes), learned)
            tree = nodes.to_dict(job, self.config.name, own)
        self.keep_model(
            attempt,
            # Nothing of what lies here is told by it.
            tag=hashlib.sha256(job.hash.encode()).hexdigest(),
            plan=plan_fields(job),
            ledger=found.ledger.to_json(),
            leakage=leakage.to_json(),
            tree=tree,
        )


def own_columns(config: PartyConfig, job: VerticalJob) -> tuple[OwnTable, OwnColumns]:
    """Return the table of this site and what it says about its columns; H934, H755, H114, H202."""
    table = named_table(config, job.population, with_domain=True)
    assert table.domain is not None
    return table, OwnColumns.load(table.domain, job, job.sites.index(config.name))


def named_table(config: PartyConfig, population: str, *, with_domain: bool = False) -> OwnTable:
    """Return the table that this party has named, with ids; H934 if there is none."""
    table = own_table(config.state, population)
    if not table.ids or (with_domain and table.domain is None):
        more, option = (" and a domain", " --domain FILE") if with_domain else ("", "")
        raise Code.NO_TABLE_HERE.error(
            expected=f"a table of {population} with a column of ids{more}",
            found="one without",
            fix="name it again: `hedgerow upload TABLE --here --population NAME --ids COLUMN"
            f"{option}`",
        )
    return table


def check_columns(table: OwnTable, own: OwnColumns, name: str, population: str) -> None:
    """Refuse, H107, a table without the ids or the columns of its party."""
    if {table.ids, *own.names} - set(table.columns):
        # Which columns a party has is nobody else's business.
        option = "" if table.domain is None else " --domain FILE"
        raise Code.MISSING_COLUMN.error(
            expected=f"ids and all columns of its domain in a table of {name}",
            found="a table without some of them",
            fix="name a table that has them: `hedgerow upload TABLE --here --population "
            f"{population} --ids COLUMN{option}`",
        )


def read_rows(
    own: OwnColumns,
    table: OwnTable,
    site: str,
    absorbed: AbsorbedRows | None = None,
    capacity: int | None = None,
) -> SiteTable:
    """Read the rows that the tree grows from; the others are not told what is wrong with them."""
    with kept_from_others(site):
        return own.table(table.path, table.ids, absorbed, capacity)


def plan_fields(job: VerticalJob) -> dict[str, Any]:
    """Return the public facts of a run as plain data."""
    plan = job.make_plan()
    facts = {key: value for key, value in asdict(plan.job).items() if key != "server_keys"}
    return {"job": facts, "secret": plan.secret, "sites": list(job.sites)}


def pieces(table: SiteTable) -> list[bytes]:
    """Return all of a table, to be compared with that of another attempt."""
    columns = [table.bins, *([] if table.labels is None else [table.labels]), table.ids]
    return [f"{table.bins.shape}".encode(), *(np.ascontiguousarray(c).tobytes() for c in columns)]
