"""Jobs by their protocol; and `ServerJob`: what three servers train, on which uploads, for whom.

::

    name = "readmission"
    protocol = "hidden-tree"       # or hidden-regression, hidden-boosting; open-tree is published
    model = "readmission-1"
    population = "patients"
    uploads = ["north-1", "south-1"]
    partition = "horizontal"       # owners hold rows; "vertical": columns, which are joined
    analysts = ["zoe"]

    [plan]
    epsilon = 1.0
    max_depth = 4

    [domain]
    file = "domain.toml"           # put in place of this line when the job is read

The servers get the text with the domain in it. Its hash is that of all of it, so one job is one
run, however often it is proposed.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hedgerow.errors import Code, HedgerowError, ask_whether
from hedgerow.jsonfile import shown
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.runs.job_files import MAX_JOB_BYTES as MAX_JOB_BYTES
from hedgerow.parties.runs.job_files import Job, data_of_file, data_of_text
from hedgerow.parties.runs.job_tables import UploadsJob
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.protocols.contract import MAX_COUNT, Options, Size
from hedgerow.protocols.hidden.options import ServerOptions
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.registry import (
    EVALUATION,
    PEER_PROTOCOLS,
    SERVER_PROTOCOLS,
    TOPDOWN,
    VERTICAL,
    current_name,
    is_published,
    server_protocol,
)

_KEYS = (
    *("name", "protocol", "model", "population", "uploads", "partition", "analysts", "plan"),
    "domain",
)


def _listed_protocol(name: object) -> object:
    if not isinstance(name, str) or name not in SERVER_PROTOCOLS:
        *others, last = map(repr, SERVER_PROTOCOLS)
        raise ValueError(f"a protocol should be {', '.join(others)} or {last}")
    return name


class ServerJob(UploadsJob):
    """A job; use `load` at whoever proposes it and `from_toml` at a server. H885.

    `protocol` is one of the servers, and `plan` has the options of it. `analysts` may ask the
    model; what is published needs nobody. `domain` has all columns and, for a protocol that needs
    one, the target, with its classes or, for numbers, its bounds.
    """

    protocol: Annotated[str, BeforeValidator(_listed_protocol)]
    plan: SerializeAsAny[Options]

    @field_validator("plan", mode="before")
    @classmethod
    def _of_its_protocol(cls, plan: object, info: ValidationInfo) -> Options:
        """Read the table by the protocol of the job, which stands before it."""
        protocol = info.data.get("protocol")
        if protocol is None:
            # Of a protocol that is refused nobody can tell what belongs into the table.
            return Options()
        try:
            return server_protocol(protocol).options_type.from_table(plan)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.plan.check_target(self.protocol, self.domain.target)
        if (self.domain.capacity or 0) > MAX_COUNT:
            raise ValueError(f"a domain with room for more than {MAX_COUNT} records")
        if not is_published(self.protocol) and not self.analysts:
            raise ValueError("no analysts: nobody could ask the model")
        return self

    def make_plan(self, capacity: int | None = None) -> ServerPlan:
        """Return the plan, or that for so many slots; errors are those of `Options.plan`."""
        return self._plan if capacity is None else self._plan_for(capacity)

    @cached_property
    def _plan(self) -> ServerPlan:
        return self._plan_for(None)

    def _plan_for(self, capacity: int | None) -> ServerPlan:
        assert isinstance(self.plan, ServerOptions)
        return self.plan.plan(self.domain, capacity)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set; in the order of files."""
        found = super().to_dict()
        return {key: found[key] for key in _KEYS if key in found}

    def size(self) -> Size:
        """Return what the job asks for as it stands."""
        return self.plan.size(self.domain.target)

    @property
    def levels(self) -> int:
        """Levels of all trees that grow one after the other: what progress is counted in."""
        return self.make_plan().levels


def load_job(path: str | Path) -> Job:
    """Read a job file of any protocol, as `JobText.load`."""
    return _read(data_of_file(Path(path)), str(path))


def read_job(text: str) -> Job:
    """Read the text of a job of any protocol, as `JobText.from_toml`."""
    return _read(data_of_text(text), "the job")


def read_kept_job(text: str) -> Job:
    """Read a job out of this party's store, also one of older versions; H885."""
    data = data_of_text(text)
    if "kind" not in data:
        return _read(data, "the store")
    return _job_type(current_name(data["kind"]), "the store").read_old(data, "the store")


def _read(data: dict[str, Any], source: str) -> Job:
    # A job of older versions says its kind, and is told what to say instead.
    found = Job if "kind" in data else _job_type(data.get("protocol"), source)
    return found.read(data, source)


def _job_type(protocol: object, source: str) -> type[Job]:
    jobs: dict[str, type[Job]] = {
        **dict.fromkeys(SERVER_PROTOCOLS, ServerJob),
        TOPDOWN: TopDownJob,
        VERTICAL: VerticalJob,
        **dict.fromkeys(PEER_PROTOCOLS, PivotJob),
        EVALUATION: EvaluationJob,
    }
    found = jobs.get(protocol) if isinstance(protocol, str) else None
    if found is None:
        *others, last = map(repr, jobs)
        said = "no protocol" if protocol is None else f"protocol = {shown(protocol)}"
        if isinstance(protocol, str):
            said += ask_whether(protocol, jobs)
        raise Code.BAD_JOB.error(
            expected=f"protocol as one of {', '.join(others)} or {last}",
            found=f"in {source}: {said}",
        )
    return found
