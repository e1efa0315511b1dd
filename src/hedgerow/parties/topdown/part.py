"""DP-TopDown at a party: an owner with its own table, the coordinator, or one of the servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import Code
from hedgerow.parties.runs.part import Attempt, Part
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.own_tables import (
    check_same,
    keep_absorbed,
    kept_from_others,
    own_table,
)
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.topdown.programs import GrownTree, ServerRecord, program_of
from hedgerow.tables import Domain, Encoded, SqlQuery, encode, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees.model import model_from_json
from hedgerow.trees.tree import Tree


class TopDownPart(Part[TopDownJob]):
    """What an owner, the coordinator or a server does in a run of DP-TopDown.

    An owner reads the table that it has named for the population. One without rows is answered for
    like any other, and no row is refused: others have written the domain, and would see that this
    owner does not come. What was done to rows that do not fit is in the folder of the run.
    """

    def governors(self) -> Collection[str]:
        """Return the owners."""
        return self.job.owners

    def check(self) -> None:
        """Refuse a job for which this owner has no table, or one of other columns; H934, H107."""
        if self.config.role == "owner":
            domain = self.job.domain
            assert domain.target is not None
            table = own_table(self.config.state, self.job.population)
            table.check_columns([*domain.names, domain.target.name])

    def attend(self, attempt: Attempt) -> None:
        """Run the program of this member.

        The ledger has every release of the plan, the worst case, before the first message.
        """
        job, plan, ledger = self.job, self.job.make_plan(), attempt.ledger
        secret = plan.method == "secure-counts"
        # Servers see the sums of all owners, and no record is at two of them.
        ledger.charge(*plan.releases(joint=self.config.role == "server"))
        if secret:
            mark_collusion(ledger)
        known: dict[str, Any] = {}
        if self.config.role == "owner":
            known["table"] = self._table(attempt)
        context = Context(
            attempt.network,
            attempt.members,
            plan,
            job=job.terms,
            ledger=ledger,
            memory=attempt.memory,
            progress=lambda numbers: attempt.say("round", **numbers),
            **known,
        )
        self._keep(attempt, program_of(plan, attempt.network.party)(context))

    def _table(self, attempt: Attempt) -> Encoded:
        config = self.config
        absorbed = AbsorbedRows()
        path = own_table(config.state, self.job.population).path
        with kept_from_others(config.name):
            table = encoded_table(path, self.job.domain, absorbed)
        pin_table(config.state, attempt.run, table)
        keep_absorbed(config.state, attempt.run, absorbed)
        return table

    def _keep(self, attempt: Attempt, found: GrownTree | ServerRecord | bytes) -> None:
        """Keep the tree with the ledger of all owners, which everybody can compute."""
        job, plan = self.job, self.job.make_plan()
        leakage, text = Leakage([]), found
        if isinstance(found, GrownTree):
            text = found.tree.to_json().encode()
            attempt.say("left out", owners=[list(one) for one in found.left_out])
        elif isinstance(found, ServerRecord):
            text = found.tree
        assert isinstance(text, bytes)
        tree = model_from_json(text).model
        if not isinstance(tree, Tree) or tree.domain != job.domain:
            raise Code.BAD_REPLY.error(
                expected="a tree under the domain of the job", found="one under another domain"
            )
        joint = Ledger(domain=job.domain, capacity=job.domain.capacity)
        joint.charge(*plan.releases(joint=len(job.owners) > 1))
        if plan.method == "secure-counts":
            mark_collusion(joint)
        ledger = joint.to_json()
        self.keep_model(
            attempt,
            tag=hashlib.sha256(text).hexdigest(),
            plan=plan.to_dict(),
            ledger=ledger,
            leakage=leakage.to_json(),
            tree=json.loads(tree.to_json(privacy=json.loads(ledger))),
        )


def encoded_table(path: Path | SqlQuery, domain: Domain, absorbed: AbsorbedRows) -> Encoded:
    """Read an owner's table under the domain of a job, which others have written.

    No row is refused, as for `hedgerow.tables.encode`, and the first records up to the capacity are
    kept: an owner that does not come to a run, or says why, has told about its rows.
    """
    assert domain.target is not None
    table = read_table(path, domain=domain, absorbed=absorbed)
    encoded = encode(table, domain, domain.target.name, absorbed=absorbed)
    return encoded.within_capacity(domain.capacity, absorbed)


def pin_table(state: StateFolder, run: str, table: Encoded) -> None:
    """Refuse, H119, another table than that of the first attempt at a run."""
    check_same(state, run, _pieces(table))


def _pieces(table: Encoded) -> list[bytes]:
    assert table.target is not None
    found = [f"{table.bins.shape}".encode(), np.ascontiguousarray(table.bins.T).tobytes()]
    found.append(np.ascontiguousarray(table.target).tobytes())
    if not table.present.all():
        found.append(np.ascontiguousarray(table.present).tobytes())
    return found
