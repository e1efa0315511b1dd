"""`VerticalOptions`: the parameters of a vertical ID3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from hedgerow.errors import Code
from hedgerow.protocols.contract import AtLeastOne, Epsilon, Options, Size
from hedgerow.protocols.vertical_id3.job import AnswersTo, Ring, SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced
from hedgerow.protocols.vertical_id3.plan import VerticalPlan
from hedgerow.tables import Domain, Target

Cardinality = Literal["commutative", "secret"]


class VerticalOptions(Options):
    """ID3 over columns that lie at several sites, between machines or in one process.

    Fails with H755 for noise without a depth: what it costs would depend on the records.
    """

    max_depth: AtLeastOne | None = Field(
        None,
        description="Largest depth of a leaf; None grows until the leaves are pure or no attribute "
        "is left.",
    )
    epsilon: Epsilon | None = Field(
        None,
        description="Budget of the noise on all counts, for the public's sake; needs `max_depth`.",
    )
    cardinality: Cardinality = Field(
        "commutative",
        description="How sizes of intersections are found: under a commutative cipher by the "
        "sites, as published, or on shares by three servers.",
    )
    ring: Ring = Field(
        "needed",
        description="Who takes part in an intersection: the sites whose constraints can change "
        "it, or all of them, as published.",
    )
    answers_to: AnswersTo = Field(
        "asker", description="Who learns the class of an instance that the sites are asked about."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.epsilon is not None and self.max_depth is None:
            raise Code.BAD_SITES.error(
                expected="a max_depth beside epsilon",
                found="noise without a max_depth: what it costs would depend on the records",
                fix="set max_depth",
            )
        return self

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """See `Options.from_parameters`; without an epsilon there is no noise."""
        given = {key: one for key, one in parameters.items() if (key, one) != ("epsilon", None)}
        return super().from_parameters(given)

    def job(
        self,
        n_sites: int,
        class_at: int | None,
        n_classes: int,
        *,
        align: bool,
        server_keys: tuple[str, ...] = (),
    ) -> SiteJob:
        """Return what all sites of a run agree on; H755 for facts that make no run."""
        return SiteJob(
            n_sites,
            class_at,
            n_classes,
            max_depth=self.max_depth,
            ring=self.ring,
            align=align,
            answers_to=self.answers_to,
            epsilon=self.epsilon,
            server_keys=server_keys,
        )

    def plan(
        self,
        domain: Domain,
        capacity: int | None = None,
        *,
        columns: Sequence[Sequence[int]] | None = None,
        class_at: int | None = -1,
        align: bool = False,
    ) -> VerticalPlan:
        """Return what a run reveals and charges.

        `columns` are the domain's by site, one at each by default; `class_at` None: all have it.
        """
        groups = [[i] for i in range(len(domain.names))] if columns is None else columns
        classes = domain.target.n_classes if domain.target is not None else None
        if not classes:
            raise Code.BAD_TARGET.error(found="a domain without target classes")
        holder = None if class_at is None else class_at % max(len(groups), 1)
        job = self.job(len(groups), holder, classes, align=align)
        widths, records = domain.n_bins.tolist(), capacity or domain.capacity or 0
        announced = {
            site: Announced(
                tuple(sorted(widths[i] for i in group)),
                classes if job.knows_class(site) else 0,
                records,
            )
            for site, group in enumerate(groups)
        }
        return VerticalPlan(job, announced, self.cardinality == "secret", domain)

    def size(self, target: Target | None) -> Size:
        """See `Options.size`; a depth of 0 is one without a limit."""
        del target
        return Size(depth=self.max_depth or 0, epsilon=self.epsilon or 0.0)
