"""`TopDownJob`: a DP-TopDown run between owners and a coordinator, from one TOML file.

::

    name = "wards"
    kind = "topdown"
    population = "patients"        # whose account every owner charges, at itself
    owners = ["north", "south"]
    dropouts = "go on"             # or "wait"
    least_owners = 2

    [plan]
    epsilon = 1.0
    method = "noisy-counts"
    n_splits = 16
    max_depth = 5

    [timeouts]
    join = 600.0
    answer = 300.0

    [domain]
    file = "domain.toml"           # put in place of this line when the job is read

Every party reads its own copy. Its hash is that of all of it, and stands in every request: nobody
can be talked into another epsilon, another domain or another list of owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import PartyConfig, Role, Seconds
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import JobFile
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import AtLeastOne, Epsilon, guarantees
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.plan import Method, TopDownPlan

Dropouts = Literal["go on", "wait"]


_VERBS: dict[Role, str] = {
    "coordinator": "hedgerow topdown coordinate",
    "owner": "hedgerow topdown join",
    "server": "hedgerow topdown serve",
}


class TopDownTable(TopDownOptions):
    """The table ``[plan]``: epsilon is needed, because what goes to a coordinator has noise."""

    epsilon: Epsilon = Field(description="Budget of a record of one owner, over the whole tree.")
    method: Method = Field("noisy-counts", description="The implementation of PrivateSplit.")

    def to_dict(self) -> dict[str, Any]:
        """Return what the file sets, and what every job has always said."""
        keys = {*self.model_fields_set, "epsilon", "method", "max_depth"}
        return self.model_dump(mode="json", include=keys, exclude_none=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a checked copy; what the file did not set stays so, and out of the hash."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate(given | dict(update or {}))


class TopDownTimeouts(Numbered):
    """Seconds to wait for a first request or a return (`join`), and for an `answer`."""

    code: ClassVar[Code] = Code.BAD_JOB

    join: Seconds = 600.0
    answer: Seconds = 300.0


class TopDownJob(JobFile):
    """A DP-TopDown run; use `load`. H885 for a file that is none.

    Every owner charges `population` in accounts of its own. With fewer than `least_owners` the run
    stops, and can be resumed when they are back.
    """

    kind: Literal["topdown"]
    population: Name
    owners: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    dropouts: Dropouts = "go on"
    least_owners: AtLeastOne = 1
    timeouts: TopDownTimeouts = TopDownTimeouts()
    plan: TopDownTable

    @field_validator("timeouts", "plan", mode="before")
    @classmethod
    def _named(cls, table: object, info: ValidationInfo) -> Numbered:
        """Read a table so that a refusal names it."""
        kind = TopDownTimeouts if info.field_name == "timeouts" else TopDownTable
        try:
            return kind.model_validate(table)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_name_length()
        if len(set(self.owners)) < len(self.owners):
            raise ValueError("owners lists a name twice")
        if self.least_owners > len(self.owners):
            raise ValueError(f"least_owners is {self.least_owners} of {len(self.owners)} owners")
        if self.domain.target is None or self.domain.target.classes is None:
            raise ValueError("a domain whose target has no classes: kind 'topdown' needs them")
        if self.plan.method == "single-machine" and len(self.owners) > 1:
            raise ValueError("method 'single-machine' and more than one owner")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set."""
        return super().to_dict() | {"plan": self.plan.to_dict()}

    def make_plan(self) -> TopDownPlan:
        """Return the plan, from public numbers alone; errors are those of `TopDownOptions.plan`."""
        return self._plan

    @cached_property
    def _plan(self) -> TopDownPlan:
        return self.plan.plan(self.domain, n_owners=len(self.owners))

    def costs(self) -> dict[str, Guarantee]:
        """Return the worst case for a record of one owner; H202 for a domain read from data."""
        return dict(self._costs)

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        ledger = Ledger(domain=self.domain)
        ledger.charge(*self.make_plan().releases())
        return guarantees(ledger)

    def check_members(self, config: PartyConfig) -> None:
        """Refuse a job whose parties are no members in their roles; H850."""
        config.coordinator  # noqa: B018
        for owner in self.owners:
            config.member(owner, "owner")
        if self.plan.method == "secure-counts":
            config.check_servers()


def check_part(config: PartyConfig, role: Role) -> None:
    """Refuse a party in another role, and say which command is for it; H905."""
    if config.role == role:
        return
    verb = _VERBS.get(config.role)
    here = f"in this folder: {verb}" if verb else "such a party takes no part in these runs"
    raise Code.WRONG_ROLE.error(
        expected=f"the folder of {'an' if role == 'owner' else 'a'} {role}",
        found=f"{config.name}: this folder is {config.me.kind}'s",
        fix=f"{here}; `{_VERBS[role]}` is for the {role}",
    )
