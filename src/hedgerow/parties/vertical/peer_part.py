"""A model among peers at one of them, with its own columns."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import numpy as np

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.part import Attempt, StagedPart, as_text
from hedgerow.parties.runs.stages import Arrays
from hedgerow.parties.store.models import StoredModel
from hedgerow.parties.store.own_tables import OwnTable, check_same, keep_absorbed
from hedgerow.parties.vertical.columns import OwnColumns
from hedgerow.parties.vertical.part import check_columns, named_table, pieces, read_rows
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.prepared import PreparedStock
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.checkpoint import Stage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.programs import VERSION, PeerTable, peer
from hedgerow.protocols.registry import PEER_PROTOCOLS
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Encoded
from hedgerow.tables.absorbing import AbsorbedRows

SCHEMA, SCHEMA_VERSION = "hedgerow.peer-tree", 1


class PeersPart(StagedPart[PivotJob]):
    """What a peer does in a run of Pivot.

    A peer reads the table that it has named for the population, with a column of ids. Its part of
    it becomes a model in its own store: what all peers see, and in the vault its shares of
    what is hidden. How much they send follows from how many rows they have in common, of which
    nobody else learns anything.
    """

    result = "model"
    traffic_is_public = False

    def governors(self) -> Collection[str]:
        """Return the peers."""
        return self.job.peers

    def check(self) -> None:
        """Refuse a job where this peer has no table with ids and its columns; H934, H107.

        What cannot be grown, such as numbers that fit into no ring, the plan refuses: H501.
        """
        self.job.make_plan()
        check_columns(*peer_columns(self.config, self.job), self.config.name, self.job.population)

    def compute(self, attempt: Attempt) -> tuple[Arrays, Leakage]:
        """Train with the others."""
        job, plan, ledger = self.job, self.job.make_plan(), attempt.ledger
        agreeing.compare_numbers(attempt.network, "version of Pivot", VERSION, Code.WRONG_VERSION)
        ledger.parties = tuple(f"peer {i}" for i in range(plan.n_peers))
        if plan.is_private:
            ledger.capacity = plan.capacity
        plan.charge(ledger)
        stock = PreparedStock(self.config.state, attempt.run)
        prepared = stock.take(attempt.network, attempt.key)
        attempt.say("begun", prepared=prepared is not None)
        found = peer(
            Context(
                attempt.network,
                attempt.members,
                plan,
                job,
                self._table(attempt),
                ledger,
                attempt.stages,
                prepared=prepared,
                progress=lambda numbers: attempt.say("level", **numbers),
            )
        )
        return dict(found.model.to_state()), found.leakage

    def keep(self, attempt: Attempt, made: Arrays) -> None:
        """Keep this peer's part of the model."""
        shares = PEER_PROTOCOLS[self.job.protocol].shares
        last, ledger = attempt.stages.last(), as_text(made.pop("ledger"))
        assert last is not None
        # What is kept is read once more, every check replayed, before it is relied on.
        Ledger.from_json(ledger)
        leakage = as_text(made.pop("leakage"))
        self.keep_model(
            attempt,
            tag=last.tag.hex(),
            plan=self.job.make_plan().to_dict(),
            ledger=ledger,
            leakage=leakage,
            # A share of a server has an axis more.
            shares={name: made[name][:, None] for name in shares if name in made},
            tree={
                "schema": SCHEMA,
                "version": SCHEMA_VERSION,
                **{name: array.tolist() for name, array in made.items() if name not in shares},
            },
        )

    def _table(self, attempt: Attempt) -> PeerTable:
        named, own = peer_columns(self.config, self.job)
        plan, config = self.job.make_plan(), self.config
        # The others have written the domain: where there is an epsilon, what is refused would tell
        # them about rows.
        absorbed = AbsorbedRows() if plan.is_private else None
        # In a ring the capacity is that of common rows, which nobody knows yet.
        capacity = plan.capacity if plan.align == "hidden" else None
        table = read_rows(own, named, config.name, absorbed, capacity)
        if absorbed is not None:
            keep_absorbed(config.state, attempt.run, absorbed)
        check_same(config.state, attempt.run, pieces(table))
        return peer_table(self.job, own, table)


def peer_columns(config: PartyConfig, job: PivotJob) -> tuple[OwnTable, OwnColumns]:
    """Return the table of this peer, and its columns of the domain of the job; H934."""
    return named_table(config, job.population), columns_of(job, config.name)


def columns_of(job: PivotJob, name: str) -> OwnColumns:
    """Return what a peer has of the domain of a job."""
    mine, target = job.columns[name], job.domain.target
    assert target is not None
    names = [name for name in job.domain.names if name in mine]
    return OwnColumns(
        job.domain.select(names, target=False) if names else None,
        target if target.name in mine else None,
    )


def peer_table(job: PivotJob, own: OwnColumns, table: SiteTable) -> PeerTable:
    """Return the rows of a peer as its program takes them."""
    plan, target, names = job.make_plan(), table.labels, job.domain.names
    if target is not None and not plan.classes:
        there = np.ones(table.n_records, dtype=np.bool_)
        every = np.zeros((table.n_records, len(names)), dtype=job.domain.dtype)
        target = plan.units.count(Encoded(job.domain, every, target, there)).target
    mine = () if own.domain is None else own.domain.names
    bins = {names.index(name): table.bins[:, at] for at, name in enumerate(mine)}
    return PeerTable(bins, table.n_records, target, ids=table.ids)


def opened_document(stored: StoredModel) -> dict[str, Any] | None:
    """Return a model that all peers see, as its file, with its ledger; None of one that is hidden.

    Nothing of the shares is looked at.
    """
    protocol, plan = PEER_PROTOCOLS[stored.manifest.protocol], stored.manifest.read_plan()
    state = read_state(replace(stored, shares={}))
    # An engine is for shares.
    seen = protocol.opened(plan, protocol.read(cast("Any", None), plan, state))
    return None if seen is None else seen.to_dict(privacy=json.loads(stored.ledger))


def read_state(stored: StoredModel) -> Stage:
    """Return what `PeersPart.keep` wrote, as `PeerProtocol.read` takes it; H401, H402."""
    tree = dict(stored.tree or {})
    if tree.pop("schema", None) != SCHEMA:
        raise Code.BAD_MODEL_FILE.error(found="no tree of a peer")
    if (version := tree.pop("version", None)) != SCHEMA_VERSION:
        raise Code.MODEL_VERSION.error(
            expected=f"version {SCHEMA_VERSION}", found=f"version {version!r}"
        )
    public = {name: np.array(values, dtype=np.int64) for name, values in tree.items()}
    return public | {name: array[:, 0] for name, array in stored.shares.items()}
