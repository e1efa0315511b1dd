"""`EvaluationJob`: how good a hidden model is on uploads, told to one analyst.

::

    name = "readmission-held-out"
    protocol = "evaluation"
    model = "readmission-1"        # hidden on the servers, of classes
    population = "patients"        # of the held-out uploads: it is charged
    uploads = ["east-1"]
    partition = "horizontal"
    analysts = ["zoe"]             # who gets the table
    slots = 1000                   # of the uploads
    places = 16                    # where a row may fall, by the model and the ranges below
    boundary = 8                   # of two classes: from here on the second is answered

    [plan]
    epsilon = 0.5                  # of a held-out record
    ranges = 16

    [domain]                       # that of the model

`propose` makes one of public figures; servers compare it with the model that they keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.parties.runs.job_tables import UploadsJob
from hedgerow.parties.store.manifests import MAX_ROWS
from hedgerow.protocols.contract import Size
from hedgerow.protocols.hidden.evaluation import (
    EvaluationOptions,
    EvaluationPlan,
    plan_evaluation,
)
from hedgerow.protocols.hidden.protocol import Places
from hedgerow.protocols.registry import EVALUATION, hidden_protocol
from hedgerow.protocols.sharing.integrate import Partition

if TYPE_CHECKING:
    from hedgerow.parties.store.models import ModelManifest

_MOST_PLACES = 1 << 16
Slots = Annotated[int, Strict(), Field(ge=1, le=MAX_ROWS)]
Place = Annotated[int, Strict(), Field(ge=1, le=_MOST_PLACES)]


class EvaluationJob(UploadsJob):
    """A job that evaluates a model; `propose` one. H885.

    `model` is evaluated, and stays as it is. `analysts` is the one who gets the table.
    """

    protocol: Literal["evaluation"]
    analysts: Annotated[tuple[str, ...], Field(min_length=1, max_length=1)]
    slots: Slots
    places: Place
    boundary: Place | None = None
    plan: EvaluationOptions

    @model_validator(mode="after")
    def _of_classes(self) -> Self:
        target = self.domain.target
        if target is None or not target.classes:
            raise ValueError("a domain without classes: nothing to compare answers with")
        return self

    @property
    def makes_model(self) -> bool:
        """The model is there before, and others may be evaluated at the same time."""
        return False

    def make_plan(self) -> EvaluationPlan:
        """Return the plan; `check_model` says whether it is that of a model."""
        places = Places(self.places, self.boundary, self.plan.ranges)
        return EvaluationPlan(self.domain, self.slots, places, self.plan.epsilon)

    def size(self) -> Size:
        """Return what the job asks for as it stands."""
        return self.plan.size(self.domain.target)

    def check_model(self, manifest: ModelManifest) -> None:
        """Refuse a model that is published, of numbers or of votes (H501), or not this one (H885).

        H871 for an analyst who may not ask it.
        """
        plan = planned(manifest, self.slots, self.plan)
        if plan.to_dict() != self.make_plan().to_dict():
            raise Code.BAD_JOB.error(
                expected=f"domain, places and boundary of model {self.model}",
                found="others in the job",
                fix="propose it with `hedgerow evaluate`, which takes them from the servers",
            )
        if not set(self.analysts) <= set(manifest.analysts):
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"an analyst that the job of {manifest.name} names",
                found=", ".join(self.analysts),
                fix="ask the owners for a job that names this analyst",
            )


def planned(manifest: ModelManifest, slots: int, options: EvaluationOptions) -> EvaluationPlan:
    """Return the plan to evaluate a model that servers keep; H501."""
    protocol, plan = hidden_protocol(manifest.protocol), manifest.read_plan()
    return plan_evaluation(protocol, plan, slots, options.epsilon, options.ranges)


def propose(
    manifest: ModelManifest,
    figures: Sequence[Mapping[str, Any]],
    options: EvaluationOptions,
    *,
    analyst: str,
    name: str | None = None,
    partition: Partition = "horizontal",
) -> EvaluationJob:
    """Return the job that evaluates a model on uploads, of which `figures` are in the order wanted.

    The name is made of those of the model and the uploads where none is given: the same question
    is the same run, and is charged once.
    """
    rows = [int(one["slots"]) for one in figures]
    slots = sum(rows) if partition == "horizontal" else min(rows)
    plan = planned(manifest, slots, options)
    ids = [str(one["id"]) for one in figures]
    places = plan.places
    boundary = {} if places.boundary is None else {"boundary": places.boundary}
    fields = {
        "name": name or "-".join([manifest.name, "on", *ids])[:50].rstrip("-"),
        "protocol": EVALUATION,
        "model": manifest.name,
        "population": str(figures[0]["population"]),
        "uploads": ids,
        "partition": partition,
        "analysts": [analyst],
        "slots": slots,
        "places": places.n,
        "plan": options.model_dump(exclude_none=True),
        "domain": plan.domain.to_dict(),
    }
    return EvaluationJob.read(fields | boundary, "the evaluation")
