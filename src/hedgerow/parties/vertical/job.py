"""`VerticalJob`: a vertical ID3 among sites that hold columns of the same records, as a TOML file.

::

    name = "tennis"
    protocol = "vertical-id3"
    population = "days"             # whose account every site charges, at itself
    sites = ["club", "observatory", "office"]
    class_at = "club"               # or "all"
    classes = ["no", "yes"]         # or 2: then only the class site knows which is which
    answers_to = "asker"            # or "class site"
    cardinality = "commutative"     # or "secret": then the three servers count

Which attributes a site has, and what their values mean, does not stand here: each site reads its
own domain (`hedgerow upload --here`).

Paper: vaidya2005vertical.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, Strict, model_validator

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import Job
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import AtLeastOne, Size
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.tables import Target

ALL = "all"
"""In place of the name of the class site: every site has the class."""
MOST_SITES = 1000
_KEYS = (
    *("name", "protocol", "population", "sites", "class_at", "classes", "max_depth", "cardinality"),
    *("ring", "align", "least_records", "answers_to", "epsilon"),
)
LEAST_WITH_NOISE = (
    "least_records beside epsilon: whether there is a model would tell exactly whether so many are "
    "common"
)
GIVEN_WITH_NOISE = (
    "align = false beside epsilon: a row that one site cannot use would end the run, and tell; "
    "with align sites may have different rows"
)
_EXACT = "those who take part learn exact counts, or whose records there are"

Label = (
    Annotated[str, Strict()]
    | Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict(), Field(allow_inf_nan=False)]
)


class VerticalJob(VerticalOptions, Job):
    """A vertical ID3, its `VerticalOptions` and who takes part; use `load`. H885.

    Every site, and every server that counts, charges `population` in accounts of its own. The order
    of `sites` is their numbering, and breaks ties between attributes; `class_at` is the one with
    the class, or "all". `classes` are in order, or how many there are. Without `align` all sites
    have the same ids; fewer than `least_records` that all of them have end the run.
    """

    # Lists of a file are tuples here; numbers and words are as strict as the options are.
    model_config = ConfigDict(strict=False)

    protocol: Literal["vertical-id3"]
    sites: Annotated[tuple[Name, ...], Field(min_length=2, max_length=MOST_SITES)]
    class_at: Name
    classes: Annotated[int, Strict(), Field(ge=2)] | tuple[Label, ...]
    align: Annotated[bool, Strict()] = True
    least_records: AtLeastOne = 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_name_length()
        if self.analysts:
            raise ValueError("analysts: a tree in pieces is asked by its sites alone")
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
        if self.epsilon is not None:
            if self.least_records > 1:
                raise ValueError(LEAST_WITH_NOISE)
            if not self.align:
                raise ValueError(GIVEN_WITH_NOISE)
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
    def secret(self) -> bool:
        """Whether three servers count on shares."""
        return self.cardinality == "secret"

    @property
    def model_name(self) -> str:
        """Name of the tree, of which every site has a part."""
        return self.name

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds columns, and takes part in answers."""
        return self.sites

    def protocol_job(self) -> SiteJob:
        """Return what the protocol needs of it."""
        class_at = None if self.class_at == ALL else self.sites.index(self.class_at)
        return self.options.job(len(self.sites), class_at, self.n_classes, align=self.align)

    def make_plan(self) -> Session:
        """Return the public facts before any size is announced: nobody knows those of all sites."""
        return Session(self.protocol_job(), {}, self.secret)

    @property
    def public_domain(self) -> None:
        """There is none: a site knows its own columns alone."""

    def opened(self) -> list[tuple[str, str]]:
        """Return what is opened before the tree grows; sizes decide how the rest is named."""
        first = [(one.name, one.audience) for one in self.make_plan().setup()]
        return [*first, ("counts, gains and tokens, by the sizes that sites announce", "site")]

    def label(self, index: int) -> str:
        """Return a class in words."""
        return f"class {index}" if isinstance(self.classes, int) else str(self.classes[index])

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        """Return the cost by audience: no finite epsilon for those who take part.

        Sites learn exact counts; also where these have noise, sites and servers know whose records
        there are, or how many.
        """
        nothing = Guarantee(math.inf, 0.0, why=_EXACT)
        found = {f"site {name}": nothing for name in self.sites}
        found |= {"server": nothing} if self.secret else {}
        public = nothing if self.epsilon is None else Guarantee(self.epsilon, 0.0)
        return found | {"public": public}

    def seats(self, config: PartyConfig) -> tuple[Member, ...]:
        """Return the servers, where counts are secret, then the sites."""
        servers: tuple[Member, ...] = ()
        if self.secret:
            config.check_servers()
            servers = config.servers
        return (*servers, *(config.member(name, "site") for name in self.sites))

    def describe(self) -> list[str]:
        """Say who holds columns, who the class, and who counts."""
        lines = [f"sites: {', '.join(self.sites)}; the class is at {self.class_at}"]
        if self.secret:
            lines.append("the servers count; of the three, no two may work together")
        else:
            lines.append("the sites count with each other, and must keep to the protocol")
        return lines

    @property
    def payers(self) -> str:
        """Who charges it."""
        servers = ", and each of the three servers," if self.secret else ""
        return f"Each of {', '.join(self.sites)}{servers}"

    def size(self, target: Target | None = None) -> Size:
        """Return what the job asks for as it stands."""
        return self.options.size(target)
