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

from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict, ValidationInfo, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import PartyConfig, Seconds
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import JobFile
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import AtLeastOne, Share, guarantees
from hedgerow.protocols.contract import Epsilon as Positive
from hedgerow.protocols.topdown.plan import TopDownPlan, plan_topdown
from hedgerow.protocols.topdown.rules import MOST_SPLITS, Accounting, Histograms, Method
from hedgerow.tables import Domain

Dropouts = Literal["go on", "wait"]

_Part = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]


class TopDownOptions(Numbered):
    """The table ``[plan]``; see `hedgerow.protocols.topdown.plan.plan_topdown`.

    Parameters
    ----------
    epsilon : float
        Of a record of one owner. Needed: what goes to a coordinator always has noise.
    max_depth : int or "auto"
        Depth of the deepest node that may be split, or as a public rule finds good.
    method, histograms, criterion, n_splits, budget, leaf_share, node_shares, min_gain, error,
    lookahead, accounting, capacity
        As there, and with the defaults there, but for the method.
    """

    code: ClassVar[Code] = Code.BAD_JOB

    epsilon: Positive
    method: Method = "noisy-counts"
    max_depth: AtLeastOne | Literal["auto"] = "auto"
    histograms: Histograms | None = None
    criterion: Literal["gini", "entropy", "max"] | None = None
    n_splits: Annotated[int, Strict(), Field(ge=1, le=MOST_SPLITS)] | None = None
    budget: Literal["uniform", "decay"] | tuple[Positive, ...] | None = None
    leaf_share: Share | None = None
    node_shares: tuple[_Part, _Part, _Part] | None = None
    min_gain: _Part | None = None
    error: _Part | None = None
    lookahead: AtLeastOne | None = None
    accounting: Accounting | None = None
    capacity: AtLeastOne | None = None

    def plan(self, domain: Domain, n_owners: int) -> TopDownPlan:
        """Plan the tree; errors are those of `plan_topdown`, and so is what is not set."""
        options = {name: getattr(self, name) for name in type(self).model_fields}
        given = {name: value for name, value in options.items() if value is not None}
        given["max_depth"] = None if self.max_depth == "auto" else self.max_depth
        return plan_topdown(domain, n_owners=n_owners, **given)


class TopDownTimeouts(Numbered):
    """The table ``[timeouts]``: how long a participant is waited for, in seconds.

    Parameters
    ----------
    join : float
        For its first request, and for a coordinator or an owner that fell over to come back.
    answer : float
        For an answer, once it was asked and is there.
    """

    code: ClassVar[Code] = Code.BAD_JOB

    join: Seconds = 600.0
    answer: Seconds = 300.0


class TopDownJob(JobFile):
    """A DP-TopDown run; use `load`.

    Parameters
    ----------
    name : str
        At most 50 characters.
    kind : "topdown"
    population : str
        Charged with it, by every owner in accounts of its own.
    owners : tuple of str
        Who takes part.
    dropouts : {"go on", "wait"}
        What happens when an owner does not answer in time.
    least_owners : int
        With fewer the run stops, and can be resumed when they are back.
    timeouts : TopDownTimeouts
    plan : TopDownOptions
    domain : Domain
        All columns and the target, with its classes.

    Raises
    ------
    FormatError
        H885.
    """

    kind: Literal["topdown"]
    population: Name
    owners: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    dropouts: Dropouts = "go on"
    least_owners: AtLeastOne = 1
    timeouts: TopDownTimeouts = TopDownTimeouts()
    plan: TopDownOptions

    @field_validator("timeouts", "plan", mode="before")
    @classmethod
    def _named(cls, table: object, info: ValidationInfo) -> Numbered:
        """Read a table so that a refusal names it."""
        kind = TopDownTimeouts if info.field_name == "timeouts" else TopDownOptions
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

    def make_plan(self) -> TopDownPlan:
        """Return the plan, from public numbers alone.

        Raises
        ------
        HedgerowError
            As `plan_topdown`: H201, H208 (no capacity), H501.
        """
        return self._plan

    @cached_property
    def _plan(self) -> TopDownPlan:
        return self.plan.plan(self.domain, len(self.owners))

    def costs(self) -> dict[str, Guarantee]:
        """Return what the run costs each audience about a record of one owner: the worst case.

        Raises
        ------
        HedgerowError
            H202 for a domain that was read from data.
        """
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
