"""A run, and the model that it has made, as those who take part tell a member that does not."""

from __future__ import annotations

import json
import math

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.evaluation.client import Evaluator
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.queries.asking import KnownModel, Reader
from hedgerow.parties.roles.server_reports import LedgerLine, ModelClient, Opened, Shown
from hedgerow.parties.runs.client import RunClient, RunStatus
from hedgerow.parties.runs.job_files import Job
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.release import PUBLIC
from hedgerow.protocols.hidden.evaluation import Evaluation
from hedgerow.protocols.registry import EVALUATION, IN_PIECES
from hedgerow.reports import job_words
from hedgerow.reports.audiences import members_of
from hedgerow.reports.facts import (
    Accuracy,
    Facts,
    OpenedValue,
    Openings,
    RunCost,
    StageCost,
)
from hedgerow.reports.visible import Visible, visible_on_servers
from hedgerow.reports.words import kind_of
from hedgerow.trees.model import model_from_json


def facts_told(config: PartyConfig, run: str, model: str | None) -> Facts:
    """Return what members tell this one of a run, and of a model that it has made."""
    client = RunClient(config)
    status, job = client.status(run), _job(client, run)
    shown = None if model is None else ModelClient(config).show(model)
    known = None if shown is None else _known(config, shown)
    plan = known.plan if known is not None else None if job is None else job.make_plan()
    seen, ledger = _visible(known)
    analysts = () if job is None else job.analysts
    if shown is not None:
        analysts = shown.report.analysts
    members = list((shown and shown.report.members) or status.parties)
    kind = f"a model of protocol {status.protocol}"
    if plan is not None:
        kind = job_words.kind_of_plan(status.protocol, plan, status.model)
    population = job.population if job is not None else ""
    if shown is not None:
        population = ", ".join(shown.report.populations)
    totals = {} if job is None else job.costs()
    return Facts(
        name=model or run,
        kind=kind if seen.model is None else kind_of(seen.model),
        setting=job_words.setting_of(status.protocol, plan) if plan is not None else "told",
        domain=None if plan is None else getattr(plan, "domain", None),
        model=seen.model,
        ledger=ledger,
        totals=totals if shown is None else _totals(shown.report.learned),
        names=job_words.names_of(config, members, analysts),
        state=status.state,
        by=f"{config.name}, {config.me.kind} of {config.consortium}",
        job=() if job is None else job_words.sentences(job),
        notes=_notes(status, shown),
        people=job_words.people(config, members, analysts, population, status.by, _asked(shown)),
        openings=() if shown is None else _openings(shown),
        costs=_costs(shown),
        accuracies=_accuracies(config, client, status, job),
        parameters=_parameters(job, known),
        provenance=_provenance(status, shown),
        hidden=seen.hidden,
    )


def _job(client: RunClient, run: str) -> Job | None:
    """Return the job, if it concerns this member and those who have it can tell it."""
    try:
        return client.job(run)
    except HedgerowError as error:
        # Members of an earlier version do not know the request.
        if error.code not in (Code.CALLER_NOT_ALLOWED, Code.UNKNOWN_VERB):
            raise
        return None


def _known(config: PartyConfig, shown: Shown) -> KnownModel | None:
    """Return what those who keep a model tell of it; None of one in pieces, which they keep."""
    if shown.report.protocol in IN_PIECES:
        return None
    keepers = shown.report.members or [server.name for server in config.servers]
    there = [config.member(name) for name in keepers if name not in shown.refusals]
    return Reader(config, there).find(shown.report.model)


def _visible(known: KnownModel | None) -> tuple[Visible, Ledger | None]:
    if known is None:
        return Visible(), None
    if known.document is None:
        return visible_on_servers(known.plan), None
    read = model_from_json(json.dumps(known.document))
    ledger = None if read.privacy is None else Ledger.from_json(json.dumps(read.privacy))
    return Visible(read.model), ledger


def _totals(lines: tuple[LedgerLine, ...]) -> dict[str, Guarantee]:
    """Return what each audience learns by what was told, under the relation to be quoted."""
    found: dict[str, Guarantee] = {}
    for line in lines:
        relation = Relation(line.relation.partition(", ")[0])
        total = Guarantee(line.epsilon, line.delta, relation, why=line.why)
        if line.audience not in found or relation is Relation.ADD_REMOVE:
            found[line.audience] = total
    alone = (name for audience in found for name in members_of(audience))
    # Who is named in no charge has seen what the public has.
    return {name: found[PUBLIC] for name in alone if PUBLIC in found} | found


def _notes(status: RunStatus, shown: Shown | None) -> tuple[str, ...]:
    found = []
    if status.state != "done":
        why = "" if status.reason is None else f" ({status.reason})"
        found.append(f"How far it is: {status.describe()}{why}.")
    if status.error is not None:
        found.append(str(status.error))
    if status.without:
        found.append(f"It has gone on without {', '.join(status.without)}, who did not come.")
    if shown is None and status.state == "done" and status.protocol != EVALUATION:
        found.append("Those who have the model tell this party nothing of it.")
    elif shown is None and status.state != "done":
        found.append(
            "There is no model. The figures below, if there are any, are what the job would cost, "
            "from public numbers; what was charged so far, those know who take part."
        )
    if shown is not None and shown.differences:
        said = "; ".join(
            f"{', '.join(told)} differ in {key}" for key, told in shown.differences.items()
        )
        found.append(f"Those who keep the model do not tell the same: {said}.")
    if shown is not None and shown.refusals:
        found.append(f"Nothing was heard from {', '.join(shown.refusals)}.")
    return tuple(found)


def _asked(shown: Shown | None) -> dict[str, str]:
    if shown is None:
        return {}
    return {
        one.analyst: f"; rows asked: {one.asked:,}, may ask {one.left:,} more"
        for one in shown.report.asking
    }


def _openings(shown: Shown) -> tuple[Openings, ...]:
    rows = tuple(_opened(one) for one in shown.report.opened if one.opened)
    return (Openings("What training opened, and to whom", rows),)


def _opened(one: Opened) -> OpenedValue:
    sizes = [int(size) for size in one.shape.split("x")] if "x" in one.shape else []
    each = math.prod(sizes) if sizes else int(one.shape) if one.shape.isdigit() else 1
    return OpenedValue(one.name, one.audience, one.opened, each * one.opened, one.why)


def _costs(shown: Shown | None) -> tuple[RunCost, ...]:
    if shown is None or not shown.sent:
        return ()
    rows = tuple(
        StageCost(name, sent.rounds, sent.payload, sent.wire, seconds=sent.seconds)
        for name, sent in shown.sent.items()
    )
    return (RunCost("What each has sent in all attempts, as they tell it", rows, by="party"),)


def _parameters(job: Job | None, known: KnownModel | None) -> job_words.Rows:
    if job is not None:
        return job_words.parameters(job)
    return () if known is None else job_words.parameters_of_plan(known.manifest.plan)


def _provenance(status: RunStatus, shown: Shown | None) -> job_words.Rows:
    rows = [
        ("run", status.run),
        ("protocol", status.protocol),
        ("posted", f"{job_words.moment(status.since)} by {status.by}"),
        ("attempts", str(status.attempt)),
    ]
    if shown is not None:
        rows.insert(1, ("job, SHA-256", shown.report.job))
    return tuple(rows)


def _accuracies(
    config: PartyConfig, client: RunClient, status: RunStatus, job: Job | None
) -> tuple[Accuracy, ...]:
    """Return the evaluations that were made for this analyst: of the model, or this one."""
    if config.role != "analyst":
        return ()
    if isinstance(job, EvaluationJob):
        jobs = [job] if status.state == "done" else []
    else:
        jobs = list(_evaluations(client, status.model))
    evaluator = Evaluator(config)
    return tuple(accuracy_of(_held_out(one), evaluator.fetch(one)) for one in jobs)


def _evaluations(client: RunClient, model: str) -> list[EvaluationJob]:
    runs = {
        line.run: line.state
        for lines in client.list().values()
        if isinstance(lines, tuple)
        for line in lines
        if line.protocol == EVALUATION and line.model == model
    }
    jobs = [_job(client, run) for run, state in runs.items() if state == "done"]
    return [job for job in jobs if isinstance(job, EvaluationJob)]


def _held_out(job: EvaluationJob) -> str:
    return f"On {', '.join(job.uploads)}, held out"


def accuracy_of(title: str, found: Evaluation) -> Accuracy:
    """Return what an evaluation says, with what it costs a held-out record."""
    figures = found.to_dict()
    return Accuracy(
        title,
        figures["accuracy"],
        figures["auc"],
        tuple(str(one) for one in found.classes),
        tuple(tuple(row) for row in figures["confusion"]),
        found.privacy.total("analyst"),
    )
