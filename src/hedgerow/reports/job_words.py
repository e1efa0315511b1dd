"""What a job and its members are called on a report: kind, setting, people, parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hedgerow.parties.consortium.config import HOLDERS, PartyConfig
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.runs.job_files import Job
from hedgerow.protocols.contract import Options
from hedgerow.protocols.registry import (
    EVALUATION,
    PEER_PROTOCOLS,
    TOPDOWN,
    VERTICAL,
    askers,
    is_published,
)
from hedgerow.reports.facts import Setting
from hedgerow.trees.export.text import count_noun

Rows = tuple[tuple[str, str], ...]
_KINDS = {
    "hidden-tree": "a hidden decision tree",
    "hidden-regression": "a hidden regression tree",
    "open-tree": "a decision tree",
    TOPDOWN: "a decision tree",
    VERTICAL: "a decision tree that lies in pieces",
    "pivot-tree": "a decision tree among peers",
    "pivot-logistic": "a logistic regression among peers",
}


def kind_of_plan(protocol: str, plan: Any, model: str = "") -> str:
    """Return what sort of model a plan makes, as far as it is public, or evaluates."""
    n = int(getattr(plan, "n_trees", 1))
    if protocol == EVALUATION:
        return f"an evaluation of the model {model}"
    if protocol == "hidden-boosting":
        return f"a hidden boosted model of {count_noun(n, 'tree', 'trees')}"
    if protocol == "hidden-tree" and n > 1:
        return f"a hidden forest of {n:,} trees"
    if protocol == "pivot-forest":
        return f"a forest of {n:,} trees among peers"
    if protocol == "pivot-boosting":
        return "a boosted model among peers"
    return _KINDS.get(protocol, f"a model of protocol {protocol}")


def setting_of(protocol: str, plan: Any) -> Setting:
    """Return who computes what a plan is about."""
    if protocol == TOPDOWN:
        return "owners and servers" if plan.method == "secure-counts" else "owners"
    if protocol == VERTICAL:
        return "sites and servers" if plan.secret else "sites"
    if protocol in PEER_PROTOCOLS:
        return "peers"
    if protocol == EVALUATION:
        return "evaluating servers"
    return "servers" if is_published(protocol) else "hidden servers"


def sentences(job: Job) -> tuple[str, ...]:
    """Say what a job is about, who gets what comes of it, and who pays."""
    gets = askers(job.protocol, job.analysts)
    if isinstance(job, EvaluationJob):
        gets = f"how good {job.model} is on them is told to {', '.join(job.analysts)} alone"
    elif gets.startswith("published"):
        gets = f"it is {gets}"
    else:
        gets = f"it {gets}"
    said = [*job.describe(), gets]
    said.append(f"{job.payers} charges its account of {job.population}")
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in said)


def names_of(
    config: PartyConfig, members: Sequence[str], analysts: Sequence[str]
) -> dict[str, str]:
    """Return who is behind the audiences of a ledger, and of a leakage record."""
    found: dict[str, str] = {}
    for role in ("server", *HOLDERS):
        those = [name for name in members if config.member(name).role == role]
        found |= {f"{role} {i}": name for i, name in enumerate(those)}
        found |= {f"{role} {name}": name for name in those}
    if analysts:
        found["analyst"] = f"{', '.join(analysts)}, as analyst{'s' if len(analysts) > 1 else ''}"
    return found


def people(
    config: PartyConfig,
    members: Sequence[str],
    analysts: Sequence[str],
    population: str,
    by: str,
    asked: Mapping[str, str],
) -> Rows:
    """Return who took part and how, who may ask, and whose data it rests on."""
    rows: list[tuple[str, str]] = [(name, config.member(name).role) for name in members]
    rows += [(name, f"analyst{asked.get(name, '')}") for name in analysts]
    rows += [(name, f"has asked{said}") for name, said in asked.items() if name not in analysts]
    if by:
        rows.append(("posted by", by))
    return (*rows, ("data of", population))


def parameters(job: Job) -> Rows:
    """Return the options of a job, those too that it leaves as they are."""
    # Sites have theirs beside the other lines of the job; what all others call plan is a table.
    options: Options = getattr(job, "options", None) or job.plan  # type: ignore[attr-defined]
    fields = options.model_dump(mode="json")
    return tuple((name, _shown(value)) for name, value in fields.items())


def parameters_of_plan(plan: Mapping[str, Any]) -> Rows:
    """Return the numbers of a plan, where nobody has told the options that it was made of."""
    return tuple(
        (name, _shown(value))
        for name, value in plan.items()
        if isinstance(value, str | int | float | bool)
    )


def moment(seconds: float) -> str:
    """Return when something was."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
