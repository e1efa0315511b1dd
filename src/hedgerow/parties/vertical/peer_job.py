"""`PivotJob`: a model among peers that hold columns of the same records, as a TOML file.

::

    name = "credit"
    protocol = "pivot-tree"
    model = "credit-1"             # the name of the job, if it is left out
    population = "customers"       # whose account every peer charges, at itself
    peers = ["bank", "shop", "telco"]
    align = "ring"                 # how rows come into one order; "hidden": nobody learns which

    [columns]                      # who has which, and who the target
    bank = ["income", "default"]
    shop = ["orders", "returns"]
    telco = ["tariff"]

    [plan]
    max_depth = 4
    hide = "thresholds"

    [domain]
    file = "domain.toml"           # put in place of this line when the job is read

All peers know the domain: the attributes of all of them, with their bins, and the target.

Paper: wu2020pivot.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import inf, isinf
from typing import Annotated, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import Job, JobFile
from hedgerow.parties.vertical.job import LEAST_WITH_NOISE
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import AtLeastOne, Size, guarantees
from hedgerow.protocols.pivot.options import PeerOptions, PivotOptions
from hedgerow.protocols.pivot.peer_plan import INSTANCES, PeerPlan
from hedgerow.protocols.registry import PEER_PROTOCOLS
from hedgerow.secure.additive.core import FEWEST, MOST


class PivotJob(JobFile, Job):
    """A model among peers; use `load`. H885 for a file that is none.

    Every peer charges `population` in accounts of its own. The order of `peers` is their numbering;
    the first one leads. `columns` has every column of the domain, and the target, at one of them.
    Fewer than `least_records` rows that all of them have end the run, where they learn how many.
    """

    protocol: Literal["pivot-tree", "pivot-forest", "pivot-boosting", "pivot-logistic"]
    model: Name | None = None
    peers: Annotated[tuple[Name, ...], Field(min_length=FEWEST, max_length=MOST)]
    columns: dict[Name, tuple[str, ...]]
    align: Literal["ring", "hidden"] = "ring"
    least_records: AtLeastOne = 1
    plan: SerializeAsAny[PeerOptions]

    @field_validator("plan", mode="before")
    @classmethod
    def _named(cls, table: object, info: ValidationInfo) -> PeerOptions:
        """Read the table of the protocol, so that a refusal names it."""
        named = PEER_PROTOCOLS.get(info.data.get("protocol", ""))
        if named is None:
            raise ValueError("a table of no protocol")
        try:
            return named.options_type.from_table(table)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_name_length()
        if self.analysts:
            raise ValueError("analysts: a model among peers is asked by the peers alone")
        if len(set(self.peers)) < len(self.peers):
            raise ValueError("peers lists a name twice")
        if self.align == "hidden" and self.least_records > 1:
            raise ValueError(
                "least_records beside align 'hidden': nobody learns how many there are"
            )
        if isinstance(self.plan, PivotOptions) and self.plan.linear != "transfers":
            raise ValueError("plan.linear other than 'transfers': there is no dealer among peers")
        strangers = set(self.columns) - set(self.peers)
        if strangers:
            raise ValueError(f"columns of {min(strangers)}, which is none of the peers")
        target = self.domain.target
        if target is None:
            raise ValueError("a domain without a target")
        held = Counter(name for names in self.columns.values() for name in names)
        if held[target.name] != 1:
            found = "two peers or more" if held[target.name] else "no peer"
            raise ValueError(f"the target {target.name!r} at {found}: one of them has it")
        for name in self.domain.names:
            if held[name] != 1:
                found = "at two peers or more" if held[name] else "at no peer"
                raise ValueError(f"column {name!r} {found}: one of them has it")
        unknown = set(held) - {*self.domain.names, target.name}
        if unknown:
            raise ValueError(f"column {min(unknown)!r}, which the domain does not have")
        idle = [name for name in self.peers if not self.columns.get(name)]
        if idle:
            raise ValueError(f"no columns of {idle[0]}, which is one of the peers")
        if self.least_records > 1 and self.make_plan().is_private:
            raise ValueError(LEAST_WITH_NOISE)
        return self

    def make_plan(self) -> PeerPlan:
        """Return the plan, from public numbers alone; errors are those of `PeerOptions.plan`."""
        return self._plan

    @cached_property
    def _plan(self) -> PeerPlan:
        places = {column: i for i, name in enumerate(self.peers) for column in self.columns[name]}
        target = self.domain.target
        assert target is not None
        return self.plan.plan(
            self.domain,
            owners=[places[name] for name in self.domain.names],
            n_peers=len(self.peers),
            target_at=places[target.name],
            align=self.align,
        )

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        """Return the cost by audience; without noise nothing is finite."""
        ledger = Ledger(domain=self.domain)
        self.make_plan().charge(ledger)
        return guarantees(ledger)

    def answer_costs(self) -> dict[str, Guarantee]:
        """Return what peers that ask learn of instances, where the run promises an epsilon."""
        if any(isinf(cost.epsilon) for cost in self.costs().values()):
            return {}
        return {"peer": Guarantee(inf, 0.0, why=INSTANCES)}

    @property
    def model_name(self) -> str:
        """Name of the model, of which every peer has its part."""
        return self.model or self.name

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds columns, and takes part in answers."""
        return self.peers

    def seats(self, config: PartyConfig) -> tuple[Member, ...]:
        """Return the peers."""
        return tuple(config.member(name, "peer") for name in self.peers)

    def describe(self) -> list[str]:
        """Say who holds what, and who is trusted."""
        target = self.domain.target
        assert target is not None
        place = self.peers[self.make_plan().target_at]
        return [
            f"peers: {', '.join(self.peers)}; {target.name!r} is at {place}",
            "all but one of them may pool what they see; they must keep to the protocol",
        ]

    @property
    def payers(self) -> str:
        """Who charges it."""
        return f"Each of {', '.join(self.peers)}"

    def size(self) -> Size:
        """Return what the job asks for as it stands."""
        return self.plan.size(self.domain.target)

    @property
    def levels(self) -> int:
        """Levels of what grows, one after the other."""
        return self.make_plan().levels
