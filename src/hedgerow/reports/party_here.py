"""A run, and the model that it has made, as a party that takes part has them in its store."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.store import OPEN, PartyRun, RunStore
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.meters import read_meter, sums_of
from hedgerow.parties.store.models import StoredModel, open_model
from hedgerow.parties.vertical.columns import OwnColumns
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.parties.vertical.peer_part import read_state
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.registry import IN_PIECES, PEER_PROTOCOLS, TOPDOWN, VERTICAL, is_published
from hedgerow.protocols.vertical_id3.site import Interior, Leaf
from hedgerow.reports import job_words
from hedgerow.reports.facts import Facts, NumberTable, RunCost
from hedgerow.reports.pictures.pieces import tree_pieces
from hedgerow.reports.records import cost_by, learned_by, offline_and_online
from hedgerow.reports.visible import Visible, visible_of_state, visible_on_servers
from hedgerow.reports.words import kind_of
from hedgerow.tables import Domain
from hedgerow.trees.model import model_from_json

_OWN = (
    "This page is of {name} alone. It says what {name} has seen, among it numbers that nobody else "
    "has: whoever gets the page learns them."
)


def facts_here(config: PartyConfig, run_id: str, model: str | None) -> Facts:
    """Return what the store of this party has of a run, and of the model that it has made."""
    run, store = RunStore(config.state).get(run_id), open_store(config.state)
    # Without its key: what is public is here, and shares stay where they are.
    stored = None if model is None else open_model(config.state, None, model)
    job, plan = run.job, run.job.make_plan()
    seats = [seat.name for seat in job.seats(config)]
    members = list(stored.manifest.members if stored and stored.manifest.members else seats)
    asked = _questions(store, model)
    seen = Visible() if stored is None else _visible(config, job, stored)
    ledger = _ledger(store, run, stored)
    kind = job_words.kind_of_plan(job.protocol, plan, job.model_name)
    facts = Facts(
        name=model or run.id,
        kind=kind if seen.model is None else kind_of(seen.model),
        setting=job_words.setting_of(job.protocol, plan),
        domain=_domain(config, job),
        model=seen.model,
        ledger=ledger,
        totals=job.costs() if ledger is None else {},
        names=job_words.names_of(config, members, job.analysts),
        state=run.state,
        by=f"{config.name}, {config.me.kind} of {config.consortium}",
        job=job_words.sentences(job),
        notes=tuple(filter(None, (seen.note, _own_note(config, job, run)))),
        people=job_words.people(config, members, job.analysts, job.population, run.by, asked),
        parameters=job_words.parameters(job),
        provenance=_provenance(run, stored),
        hidden=seen.hidden,
        numbers=seen.numbers,
    )
    facts = replace(
        facts, openings=_openings(facts, config, stored), costs=_costs(config, store, run)
    )
    return facts if run.state == "done" else _of_unfinished(config, store, run, facts)


def _domain(config: PartyConfig, job: Job) -> Domain | None:
    """Return the domain of all columns; where nobody knows it, this party knows its own alone."""
    return getattr(job, "domain", None) or job.public_domain


def _own_note(config: PartyConfig, job: Job, run: PartyRun) -> str:
    own = job.protocol in IN_PIECES and run.state == "done"
    return _OWN.format(name=config.name) if own else ""


def _ledger(store: Store, run: PartyRun, stored: StoredModel | None) -> Ledger | None:
    """Return what was charged in a run; None if nothing was, so far.

    Of a tree in pieces, questions are charged after it was made.
    """
    if stored is not None and stored.manifest.protocol not in IN_PIECES:
        return stored.read_ledger()
    ledger = DurableLedger(store, run.id)
    if stored is not None:
        ledger.parties = stored.read_ledger().parties
    return ledger if stored is not None or ledger.entries else None


def _visible(config: PartyConfig, job: Job, stored: StoredModel) -> Visible:
    protocol, tree = stored.manifest.protocol, stored.tree
    if protocol in PEER_PROTOCOLS:
        return visible_of_state(job.make_plan(), read_state(stored))
    if protocol == VERTICAL:
        assert isinstance(job, VerticalJob)
        return Visible() if tree is None else _pieces(config, job, tree)
    if tree is not None:
        return Visible(model_from_json(json.dumps(tree)).model)
    return visible_on_servers(job.make_plan())


def _pieces(config: PartyConfig, job: VerticalJob, tree: Mapping[str, Any]) -> Visible:
    """Return the nodes that lie at this site; the class site has leaves as well."""
    own = OwnColumns.from_dict(tree["columns"])
    kept = StoredNodes.from_dict(tree, job, config.name, own)

    def words(node: Interior) -> tuple[str, tuple[str, ...]]:
        assert own.domain is not None
        attribute = own.domain.attributes[node.attribute]
        return attribute.name, tuple(f"= {label}" for label in attribute.labels())

    site = job.sites.index(config.name)
    leaves = tuple(
        (f"S{site + 1}L{number}", tuple(map(float, node.counts)))
        for number, node in sorted(kept.nodes.items())
        if isinstance(node, Leaf)
    )
    columns = tuple(job.label(i) for i in range(job.n_classes))
    table = NumberTable("Leaves that lie here: records of each class", columns, leaves)
    return Visible(
        hidden=tree_pieces(kept.nodes, site, job.sites, words), numbers=(table,) if leaves else ()
    )


def _openings(facts: Facts, config: PartyConfig, stored: StoredModel | None) -> Any:
    if stored is None or stored.manifest.protocol == TOPDOWN:
        return ()
    protocol, tree = stored.manifest.protocol, stored.tree or {}
    # At a site, of setting up and of growing.
    parts = tree.get("learned", ()) if protocol == VERTICAL else ()
    records = [Leakage.from_json(text) for text in map(json.dumps, parts)]
    records = records or [Leakage.from_json(stored.leakage)]
    seen = {a: name for a, name in facts.names.items() if a[-1].isdigit() or a == "analyst"}
    if protocol in IN_PIECES:
        # What others have seen, others have written down; servers open all in step.
        seen = {audience: name for audience, name in seen.items() if name == config.name}
    return learned_by(records, seen, published=is_published(protocol))


def _questions(store: Store, model: str | None) -> dict[str, str]:
    """Return how many rows were asked and charged, by who has asked."""
    if model is None:
        return {}
    asked: Counter[str] = Counter()
    with store.snapshot() as made:
        for row in made.each("questions", model=model):
            asked[row["analyst"]] += row["n"]
    return {name: f"; rows asked: {n:,}" for name, n in sorted(asked.items())}


def _costs(config: PartyConfig, store: Store, run: PartyRun) -> tuple[RunCost, ...]:
    reading = read_meter(store, run.id)
    if reading is None:
        return ()
    found = offline_and_online(f"What {config.name} has sent in all attempts", reading)
    attempts, stages = (sums_of(store, run.id, by) for by in ("attempts", "stages"))
    if len(stages) > 1:
        found = (cost_by("stage", "By stage, each until all have kept it", stages), *found)
    if len(attempts) > 1:
        found = (*found, cost_by("attempt", "By attempt", attempts))
    return found


def _provenance(run: PartyRun, stored: StoredModel | None) -> job_words.Rows:
    rows = [
        ("run", run.id),
        ("job, SHA-256", run.job.hash),
        ("protocol", run.job.protocol),
        ("posted", f"{job_words.moment(run.created)} by {run.by}"),
        ("last change", f"{job_words.moment(run.changed)}, {run.state}"),
        ("attempts", str(run.attempt)),
    ]
    # A page goes on to others, who could guess what a text of a model in pieces says of records.
    if stored is not None and stored.manifest.protocol not in IN_PIECES:
        rows += [(f"{file}, SHA-256", hash_) for file, hash_ in stored.manifest.files.items()]
    return tuple(rows)


def _of_unfinished(config: PartyConfig, store: Store, run: PartyRun, facts: Facts) -> Facts:
    """Say how far a run is, why it has ended, who is waited for, and what was charged so far."""
    notes = [*facts.notes]
    if run.error is not None:
        notes.append(str(run.error))
    if run.state in OPEN:
        notes.append(_waits(config, run))
    with store.snapshot() as made:
        charge = made.row("charges", population=run.job.population, key=run.job.account_key)
    if charge is not None:
        said = f"epsilon {charge['epsilon']:.6g}, delta {charge['delta']:.3g}"
        said = said if math.isfinite(charge["epsilon"]) else "no finite epsilon"
        notes.append(
            f"The account of {run.job.population} at {config.name} was charged for it: {said}. "
            "That stays charged, and pays for all attempts at this job."
        )
    if facts.ledger is None:
        notes.append(
            f"Nothing was released so far, as far as {config.name} knows. The figures below are "
            "what the job would cost, from public numbers."
        )
    else:
        notes.append("The figures below are what was charged so far.")
    return replace(facts, notes=tuple(filter(None, notes)))


def _waits(config: PartyConfig, run: PartyRun) -> str:
    try:
        status = RunClient(config).status(run.id)
    except HedgerowError:
        return "Nobody could be asked how far it is."
    why = "" if status.reason is None else f" ({status.reason})"
    return f"How far it is: {status.describe()}{why}."
