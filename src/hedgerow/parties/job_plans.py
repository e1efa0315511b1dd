"""`PlanOptions`: the table ``[plan]`` of a job."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.protocols.plan import (
    Grower,
    HiddenPlan,
    LeafRelease,
    Mechanism,
    Noise,
    Sampling,
    plan_hidden,
)
from hedgerow.tables import Domain
from hedgerow.tables.numbered import Numbered
from hedgerow.trees.budget import SPLIT_SHARE
from hedgerow.trees.candidates import Branching

MAX_SLOTS = 1 << 40
MAX_TREES = 10_000

Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_SLOTS)]
AtLeastOne = Annotated[int, Strict(), Field(ge=1, le=MAX_SLOTS)]


class PlanOptions(Numbered):
    """The table ``[plan]`` of a job; see `hedgerow.protocols.plan.plan_hidden`.

    Parameters
    ----------
    epsilon : float, optional
        Needed, and allowed, where there is noise.
    max_depth : int or "auto"
        Levels of splits, or as many as a public rule finds good.
    criterion : {"auto", "max", "gini"}
    capacity : int, optional
        Slots of all uploads together; the domain's by default.
    noise, branching, mechanism, leaf_release, split_share, n_trees, sampling, rate, grower,
    random_splits, public_seed, max_features, queries, delta
        As there.
    """

    code: ClassVar[Code] = Code.BAD_JOB

    noise: Noise = "splits+leaves"
    epsilon: Positive | None = None
    max_depth: AtLeastOne | Literal["auto"] = "auto"
    criterion: Literal["auto", "max", "gini"] = "auto"
    branching: Branching = "binary"
    mechanism: Mechanism = "discrete"
    leaf_release: LeafRelease = "counts"
    split_share: Share = SPLIT_SHARE
    capacity: AtLeastOne | None = None
    n_trees: Annotated[int, Strict(), Field(ge=1, le=MAX_TREES)] = 1
    sampling: Sampling = "disjoint"
    rate: Annotated[float, Strict(), Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    grower: Grower = "auto"
    random_splits: Annotated[bool, Strict()] = False
    public_seed: Count = 0
    max_features: Count = 0
    queries: Count = 0
    delta: Annotated[float, Strict(), Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.noise == "none" and self.epsilon is not None:
            raise ValueError("epsilon, and noise = 'none', which has no finite epsilon")
        if self.noise != "none" and self.epsilon is None:
            raise ValueError(f"no epsilon for noise = {self.noise!r}")
        if self.noise != "votes" and (self.queries or self.delta):
            raise ValueError("queries or delta, which noise = 'votes' alone has")
        return self

    def plan(self, domain: Domain) -> HiddenPlan:
        """Plan the model; errors are those of `plan_hidden`."""
        options = {name: getattr(self, name) for name in type(self).model_fields}
        depth, criterion = options.pop("max_depth"), options.pop("criterion")
        epsilon = options.pop("epsilon")
        return plan_hidden(
            domain,
            epsilon=1.0 if epsilon is None else epsilon,
            depth=None if depth == "auto" else depth,
            criterion=None if criterion == "auto" else criterion,
            **options,
        )
