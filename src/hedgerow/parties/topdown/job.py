"""`TopDownJob`: a DP-TopDown run between owners and a coordinator, from one TOML file.

::

    name = "wards"
    protocol = "topdown"
    model = "wards-1"              # the name of the job, if it is left out
    population = "patients"        # whose account every owner charges, at itself
    owners = ["north", "south"]
    least_owners = 2               # without whom there is no tree; all, if it is left out

    [plan]
    epsilon = 1.0
    method = "noisy-counts"
    n_splits = 16
    max_depth = 5

    [domain]
    file = "domain.toml"           # put in place of this line when the job is read

The coordinator asks, owners answer from tables that stay with them; on secret counts the three
servers add up what owners seal for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import Job, JobFile
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import AtLeastOne, Epsilon, Size, guarantees
from hedgerow.protocols.topdown.coordinator import Dropouts
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.plan import Method, TopDownPlan
from hedgerow.protocols.topdown.run import Owners


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


class TopDownJob(JobFile, Job):
    """A DP-TopDown run; use `load`. H885 for a file that is none.

    Every owner charges `population` in accounts of its own. An attempt begins without owners that
    have stayed away for as long as the leader waits, if `least_owners` are left; with fewer the run
    fails, and can be resumed when they are back.
    """

    protocol: Literal["topdown"]
    model: Name | None = None
    owners: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    least_owners: AtLeastOne | None = None
    plan: TopDownTable

    @field_validator("plan", mode="before")
    @classmethod
    def _named(cls, table: object) -> TopDownTable:
        """Read the table so that a refusal names it."""
        try:
            return TopDownTable.model_validate(table)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_name_length()
        if len(set(self.owners)) < len(self.owners):
            raise ValueError("owners lists a name twice")
        if (self.least_owners or 0) > len(self.owners):
            raise ValueError(f"least_owners is {self.least_owners} of {len(self.owners)} owners")
        if self.domain.target is None or self.domain.target.classes is None:
            raise ValueError("a domain whose target has no classes: protocol 'topdown' needs them")
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

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        """Return the worst case for a record of one owner."""
        ledger = Ledger(domain=self.domain)
        ledger.charge(*self.make_plan().releases())
        return guarantees(ledger)

    @property
    def model_name(self) -> str:
        """Name of the tree, which everybody gets who takes part."""
        return self.model or self.name

    @property
    def least(self) -> int:
        """Owners without whom there is no tree."""
        return self.least_owners or len(self.owners)

    @property
    def terms(self) -> Owners:
        """What the programs take from the job, beside its plan."""
        dropouts: Dropouts = "go on" if self.least < len(self.owners) else "wait"
        return Owners(self.owners, dropouts, self.least)

    def seats(self, config: PartyConfig) -> tuple[Member, ...]:
        """Return the servers, where counts are secret, then the coordinator and the owners."""
        servers: tuple[Member, ...] = ()
        if self.plan.method == "secure-counts":
            config.check_servers()
            servers = config.servers
        owners = (config.member(name, "owner") for name in self.owners)
        return (*servers, config.coordinator, *owners)

    def can_do_without(self, absent: Collection[str]) -> bool:
        """Whether these are owners, of whom the job has enough left."""
        return set(absent) <= set(self.owners) and len(self.owners) - len(absent) >= self.least

    def describe(self) -> list[str]:
        """Say who answers, and who is trusted with what."""
        lines = [f"owners: {', '.join(self.owners)}, at least {self.least} of them"]
        if self.plan.method == "secure-counts":
            lines.append("of the three servers, no two may work together")
            lines.append("the coordinator sees what is published, and is trusted by nobody")
        else:
            lines.append("the coordinator sees the noisy answers of all, and is trusted by nobody")
        return lines

    @property
    def payers(self) -> str:
        """Who charges it."""
        servers = ", and each of the three servers," if self.plan.method == "secure-counts" else ""
        return f"Each of {', '.join(self.owners)}{servers}"

    def size(self) -> Size:
        """Return what the job asks for as it stands."""
        return self.plan.size(self.domain.target)
