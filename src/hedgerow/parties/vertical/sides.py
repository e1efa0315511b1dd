"""What one holder of columns brings to a question about instances: a site, or a peer.

`side_of` says which. A side reads its part of the tree and its own table first, then attends the
session in which all holders of a tree answer.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.models import open_model, read_manifest
from hedgerow.parties.vertical.columns import bins_or_stand_ins, parsed_ids, rows_of
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.parties.vertical.part import own_columns
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.peer_part import peer_columns, read_state
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.programs import PeerAnswers, PeerQuestion, respond
from hedgerow.protocols.registry import IN_PIECES, peer_protocol
from hedgerow.protocols.vertical_id3.programs import AnsweringPart, Question, classify
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.tables.absorbing import AbsorbedRows

HolderJob = VerticalJob | PivotJob
Ids = list[str]
Found = dict[str, Any]
"""What the asker is told: ``classes`` and by instance ``counts``, ``index`` or ``probabilities``;
or ``values``."""


class AnsweringSide(ABC):
    """A party in one question to a model; use `prepare`, then `attend`.

    `all_know_ids`: whether every holder is told which instances are asked about.
    """

    all_know_ids: bool
    what: str
    """What an answer tells: "class", "value", "probabilities" and so on."""

    @abstractmethod
    def prepare(self, ids: Ids | None, asker: int, lock: threading.Lock) -> None:
        """Read part and table, and look for the instances, as far as they are told here.

        What questions show is charged, under the lock. H111, H109 for instances that are not here,
        unless nobody may learn that.
        """

    @abstractmethod
    def attend(self, network: TLSNetwork, asker: int, rows: int) -> Found | None:
        """Answer with the others; return what the asker is told, and None elsewhere."""


class SiteSide(AnsweringSide):
    """A site, whose nodes are asked along the path of an instance."""

    all_know_ids, what = False, "class"

    def __init__(self, config: PartyConfig, job: VerticalJob, model: str) -> None:
        self._config, self._job, self._model = config, job, model

    def prepare(self, ids: Ids | None, asker: int, lock: threading.Lock) -> None:
        """See `AnsweringSide.prepare`."""
        del asker
        config, job = self._config, self._job
        table, own = own_columns(config, job)
        tree = open_model(config.state, None, self._model).tree
        assert tree is not None
        stored = StoredNodes.from_dict(tree, job, config.name, own)
        # As in training, where noise lets no row be refused.
        absorbed = None if job.epsilon is None else AbsorbedRows()
        known, bins = own.instances(table.path, table.ids, absorbed)
        site = Site(job.sites.index(config.name), job.protocol_job(), own.no_rows())
        with lock:
            # What is charged again under the same reason is recognised.
            site.ledger = DurableLedger(open_store(config.state), job.run_id)
            site.take_up(stored.nodes, stored.root)
        asked = None if ids is None else parsed_ids(ids, known)
        self._part = AnsweringPart(site, known, bins, asked)

    def attend(self, network: TLSNetwork, asker: int, rows: int) -> Found | None:
        """See `AnsweringSide.attend`."""
        job, part = self._job, self._part
        try:
            context = Context(network, job.sites, job.make_plan(), Question(asker, rows), part)
            found = classify(context)
        finally:
            keep_answers(self._config.state, job.run_id, part.site)
        if network.party != asker:
            return None
        classes = [job.label(i) for i in range(job.n_classes)]
        return {"classes": classes, "counts": None if found is None else found.tolist()}


class PeerSide(AnsweringSide):
    """A peer, which looks up its own columns of the instances; all of them know which.

    Where rows were joined so that nobody learned which are common, an instance that is not here has
    the bins of an own row, found by its id and a key of this peer: the same in all models.
    """

    all_know_ids = True

    def __init__(
        self, config: PartyConfig, job: PivotJob, model: str, *, proba: bool = False
    ) -> None:
        self._config, self._job, self._model = config, job, model
        plan = job.make_plan()
        self.what = peer_protocol(plan).asks(plan, proba)

    def prepare(self, ids: Ids | None, asker: int, lock: threading.Lock) -> None:
        """See `AnsweringSide.prepare`."""
        config, job = self._config, self._job
        assert ids is not None
        table, own = peer_columns(config, job)
        key = operator_key(config.folder)
        stored = open_model(config.state, key, self._model)
        # As in training, where noise lets no row be refused.
        absorbed = AbsorbedRows() if job.make_plan().is_private else None
        known, bins = own.instances(table.path, table.ids, absorbed)
        if job.align == "hidden":
            found = bins_or_stand_ins(ids, known, bins, key)
        else:
            found = bins[rows_of(known, parsed_ids(ids, known))]
        names = job.domain.names
        columns = () if own.domain is None else own.domain.names
        held = {names.index(name): found[:, at] for at, name in enumerate(columns)}
        self._part = PeerAnswers(read_state(stored), held)
        with lock:
            # What is charged again under the same reason is recognised.
            self._ledger = DurableLedger(open_store(config.state), job.run_id, domain=job.domain)
            self._ledger.charge(*job.make_plan().answer_releases(asker))

    def attend(self, network: TLSNetwork, asker: int, rows: int) -> Found | None:
        """See `AnsweringSide.attend`."""
        job, plan, what = self._job, self._job.make_plan(), self.what
        question = PeerQuestion(asker, rows, what)
        found = respond(Context(network, job.peers, plan, question, self._part, self._ledger))
        if found is None:
            return None
        if what == "value":
            return {"classes": [], "values": found.tolist()}
        target = job.domain.target
        assert target is not None
        assert target.classes is not None
        key = "index" if what == "class" else "probabilities"
        return {"classes": list(target.classes), key: found.tolist()}


def side_of(
    config: PartyConfig, job: HolderJob, model: str, *, proba: bool = False
) -> AnsweringSide:
    """Return what this party is in questions to a model; H501 for what peers do not answer."""
    if isinstance(job, VerticalJob):
        return SiteSide(config, job, model)
    return PeerSide(config, job, model, proba=proba)


def job_of(state: StateFolder, model: str) -> HolderJob:
    """Return the job of a tree in pieces; H407 if it is not here, H501 for another protocol."""
    manifest = read_manifest(state, model)
    if manifest.protocol not in IN_PIECES:
        raise Code.BAD_PARAMETER.error(
            expected=f"a model of protocol {' or '.join(map(repr, IN_PIECES))}",
            found=f"one of protocol {manifest.protocol!r}",
        )
    job = job_of_run(state, manifest.run)
    assert isinstance(job, VerticalJob | PivotJob)
    return job


def keep_answers(state: StateFolder, run: str, site: Site) -> None:
    """Write down what the class site keeps to itself."""
    if not site.kept:
        return
    kept, site.kept = site.kept, []
    rows = [
        json.dumps({"id": readable_id(name), "counts": list(counts)})
        for instances, counts in kept
        for name in instances
    ]
    with open_store(state).transaction("keep answers") as made:
        for number, row in enumerate(rows, len(made.rows("kept_answers", run=run))):
            made.add("kept_answers", {"run": run, "number": number, "answer": row})


def read_kept(state: StateFolder, model: str) -> tuple[list[Any], Found]:
    """Return the answers that were kept, in order: ids, and what an asker would have been told."""
    job = job_of(state, model)
    if not isinstance(job, VerticalJob):
        raise Code.BAD_PARAMETER.error(
            expected="a model whose answers a class site may keep",
            found=f"one of protocol {job.protocol!r}, whose answers go to who asks",
        )
    with open_store(state).snapshot() as made:
        found = made.rows("kept_answers", run=job.run_id)
    rows = [jsonfile.loads(row["answer"], Code.JOURNAL_DAMAGED) for row in found]
    classes = [job.label(i) for i in range(job.n_classes)]
    return [row["id"] for row in rows], {
        "classes": classes,
        "counts": [row["counts"] for row in rows],
    }


def readable_id(name: bytes) -> int | str:
    """Return the id that `id_bytes` has written."""
    if name[:1] == b"i":
        return int.from_bytes(name[1:], "little", signed=True)
    return name[1:].decode("utf-8", "replace")
