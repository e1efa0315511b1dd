"""`VerticalJob`: a vertical ID3 among sites that hold columns of the same records, as a TOML file.

::

    name = "tennis"
    kind = "ppid3"
    population = "days"             # whose account every site charges, at itself
    sites = ["club", "observatory", "office"]
    class_at = "club"               # or "all"
    classes = ["no", "yes"]         # or 2: then only the class site knows which is which
    answers_to = "asker"            # or "class site"
    cardinality = "commutative"     # or "secret": then the three servers count

    [timeouts]
    join = 600.0
    lost = 30.0
    answer = 60.0

Which attributes a site has, and what their values mean, does not stand here: each site reads its
own domain. Every site holds a copy of the job, and its hash stands in every request.

Paper: vaidya2005vertical.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, Strict, ValidationInfo, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import PartyConfig, Seconds
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.job_files import JobText
from hedgerow.protocols.contract import AtLeastOne
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.tables import Target

ALL = "all"
"""In place of the name of the class site: every site has the class."""
MOST_SITES = 1000
_KEYS = (
    *("name", "kind", "population", "sites", "class_at", "classes", "max_depth", "cardinality"),
    *("ring", "align", "least_records", "answers_to", "epsilon", "timeouts"),
)

Label = (
    Annotated[str, Strict()]
    | Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict(), Field(allow_inf_nan=False)]
)


class SiteTimeouts(Numbered):
    """The table ``[timeouts]``, in seconds.

    For which the site that begins waits for the others to serve the job; after which a site that is
    not reached is given up; for the answer to a question about instances.
    """

    code: ClassVar[Code] = Code.BAD_JOB

    join: Seconds = 600.0
    lost: Seconds = 30.0
    answer: Seconds = 60.0


class VerticalJob(VerticalOptions, JobText):
    """A vertical ID3, its `VerticalOptions` and who takes part; use `load`. H885.

    Parameters
    ----------
    population : str
        Charged with it, by every site in accounts of its own.
    sites : tuple of str
        Who takes part; their order is their numbering, and breaks ties between attributes.
    class_at : str
        The site with the class, or "all".
    classes : tuple of labels, or int
        The classes, in order, or how many there are.
    align : bool
        Whether the records that all sites have are found first. False wants the same ids at all.
    least_records : int
        Of which the tree is grown at least; fewer that all sites have end the attempt.
    """

    # Lists of a file are tuples here; numbers and words are as strict as the options are.
    model_config = ConfigDict(strict=False)

    kind: Literal["ppid3"]
    population: Name
    sites: Annotated[tuple[Name, ...], Field(min_length=2, max_length=MOST_SITES)]
    class_at: Name
    classes: Annotated[int, Strict(), Field(ge=2)] | tuple[Label, ...]
    align: Annotated[bool, Strict()] = True
    least_records: AtLeastOne = 1
    timeouts: SiteTimeouts = SiteTimeouts()

    @field_validator("timeouts", mode="before")
    @classmethod
    def _read_timeouts(cls, table: object, info: ValidationInfo) -> Numbered:
        """Read a table so that a refusal names it."""
        del info
        try:
            return SiteTimeouts.model_validate(table)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_name_length()
        if len(set(self.sites)) < len(self.sites):
            raise ValueError("sites lists a name twice")
        if ALL in self.sites:
            raise ValueError(f"a site called {ALL!r}, which stands for all of them")
        if self.class_at not in (*self.sites, ALL):
            raise ValueError(f"class_at is {self.class_at!r}, which is none of the sites")
        try:
            if not isinstance(self.classes, int):
                Target(classes=self.classes)
            self.protocol_job()
        except HedgerowError as error:
            raise ValueError(error.found) from None
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set; in the order of files."""
        found = super().to_dict()
        return {key: found[key] for key in _KEYS if key in found}

    @property
    def options(self) -> VerticalOptions:
        """The parameters of the protocol."""
        names = VerticalOptions.model_fields
        return VerticalOptions.from_table({name: getattr(self, name) for name in names})

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def starter(self) -> str:
        """The site that begins: the class site, or the first."""
        return self.sites[0] if self.class_at == ALL else self.class_at

    @property
    def secret(self) -> bool:
        """Whether three servers count on shares."""
        return self.cardinality == "secret"

    def protocol_job(self, server_keys: tuple[str, ...] = ()) -> SiteJob:
        """Return what the protocol needs of it, in an attempt with these keys of its servers."""
        class_at = None if self.class_at == ALL else self.sites.index(self.class_at)
        return self.options.job(
            len(self.sites), class_at, self.n_classes, align=self.align, server_keys=server_keys
        )

    def label(self, index: int) -> str:
        """Return a class in words."""
        return f"class {index}" if isinstance(self.classes, int) else str(self.classes[index])

    def costs(self) -> dict[str, float]:
        """Return epsilon by audience: infinite for those who take part.

        Sites learn exact counts; also where these have noise, sites and servers know whose records
        there are, or how many.
        """
        found = {f"site {name}": math.inf for name in self.sites}
        found |= {"server": math.inf} if self.secret else {}
        return found | {"public": math.inf if self.epsilon is None else self.epsilon}

    def index(self, config: PartyConfig) -> int:
        """Return the number of this party among the sites; H906 if it is none."""
        self.parties(config)
        if config.name not in self.sites:
            raise Code.NOT_IN_JOB.error(
                expected=f"a site that the job names: {', '.join(self.sites)}",
                found=config.name,
                fix="in the folder of a server: `hedgerow site count`" if self.secret else None,
            )
        return self.sites.index(config.name)

    def parties(self, config: PartyConfig) -> tuple[str, ...]:
        """Return the names of all who take part, as the protocol numbers them: servers come last.

        H850 for a site that is unknown, H907 or H908 where servers or their ports are missing.
        """
        for name in self.sites:
            config.member(name, "site")
        if not self.secret:
            return self.sites
        config.check_servers()
        for server in config.servers:
            if not (server.site_port and server.count_port):
                raise Code.PORT_MISSING.error(
                    expected="a site_port and a count_port of every server",
                    found=f"not both of {server.name}",
                    fix=f"add these lines to {server.name} in party.toml, the same at all parties",
                )
        return (*self.sites, *(server.name for server in config.servers))

    def check_policy(self, policy: Policy) -> None:
        """Refuse a job that the policy of this site does not allow; H858."""
        policy.check_job(
            protocol=self.kind,
            epsilon=self.costs(),
            analysts=(),
            populations=(self.population,),
        )


def not_the_starter(job: VerticalJob, name: str) -> HedgerowError:
    """Build the refusal of training at another site than the one that begins."""
    return Code.WRONG_ROLE.error(
        expected=f"the site that begins, {job.starter}",
        found=name,
        fix=f"have {job.starter} run `hedgerow site train`",
    )
