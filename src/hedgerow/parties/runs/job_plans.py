"""The table ``[plan]`` of a job: what may stand in it depends on the kind of the job."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.protocols.hidden.boosting_plan import BoostingNoise, BoostingPlan, plan_boosting
from hedgerow.protocols.hidden.plan import (
    Grower,
    HiddenPlan,
    LeafRelease,
    Mechanism,
    Noise,
    Sampling,
    plan_hidden,
)
from hedgerow.protocols.hidden.regression_plan import (
    SUM_SHARE,
    RegressionNoise,
    RegressionPlan,
    plan_regression,
)
from hedgerow.tables import Domain, Target
from hedgerow.trees.growing.budget import SPLIT_SHARE
from hedgerow.trees.growing.candidates import Branching

MAX_SLOTS = 1 << 40
MAX_TREES = 10_000
MAX_ROUNDS = 1_000

Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_SLOTS)]
AtLeastOne = Annotated[int, Strict(), Field(ge=1, le=MAX_SLOTS)]


AnyPlan = HiddenPlan | RegressionPlan | BoostingPlan


class Size(NamedTuple):
    """What a table asks for: what a policy can compare before anything is computed.

    ``epsilon`` is one that the total cannot stay below, and ``queries`` the answers that are paid
    for in advance; 0 where there is no such number.
    """

    trees: int = 1
    depth: int = 0
    epsilon: float = 0.0
    queries: int = 0


class Options(Numbered):
    """What all tables ``[plan]`` can do; `OPTIONS` has those of the kinds."""

    code: ClassVar[Code] = Code.BAD_JOB

    def check(self, kind: str, target: Target | None) -> None:
        """Refuse, with a ValueError, what this kind of job or its target does not go with."""
        if target is None or target.classes is None:
            raise ValueError(
                f"a domain whose target has no classes: kind {kind!r} needs them, "
                "'regression' and 'boosting' take bounds"
            )

    def size(self, target: Target | None) -> Size:
        """Return what the table asks for, as it stands there: nothing is computed."""
        del target
        return Size()

    def plan(self, domain: Domain) -> AnyPlan:
        """Plan the model, from public numbers alone; H885 for a table of no kind."""
        raise Code.BAD_JOB.error(
            found=f"a table [plan] of no kind, for {len(domain.names)} columns"
        )


class PlanOptions(Options):
    """The table ``[plan]`` of a job of trees; see `hedgerow.protocols.hidden.plan.plan_hidden`.

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
        _check_epsilon(self.noise, self.epsilon)
        if self.noise != "votes" and (self.queries or self.delta):
            raise ValueError("queries or delta, which noise = 'votes' alone has")
        return self

    def check(self, kind: str, target: Target | None) -> None:
        """Refuse what an opened tree does not have. See `Options.check`."""
        super().check(kind, target)
        if kind != "open":
            return
        several = self.n_trees > 1 or self.sampling != "disjoint"
        if several or self.noise == "votes" or self.random_splits:
            raise ValueError("kind 'open' with more than one tree, votes, or random_splits")
        if self.max_features:
            raise ValueError("kind 'open' with max_features: a single tree looks at all attributes")

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers; a sample of the records costs less than its epsilon."""
        del target
        whole = self.noise == "splits+leaves" and self.sampling == "disjoint"
        epsilon = self.epsilon if whole and self.epsilon is not None else 0.0
        return Size(self.n_trees, _depth(self.max_depth), epsilon, self.queries)

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


class RegressionOptions(Options):
    """The table ``[plan]`` of a regression job.

    See `hedgerow.protocols.hidden.regression_plan.plan_regression`.

    Parameters
    ----------
    epsilon : float, optional
        Needed, and allowed, where there is noise.
    max_depth : int or "auto"
        Levels of splits, or as many as a public rule finds good.
    capacity : int, optional
        Slots of all uploads together; the domain's by default.
    noise, split_share, sum_share, grower
        As there.
    """

    noise: RegressionNoise = "splits+leaves"
    epsilon: Positive | None = None
    max_depth: AtLeastOne | Literal["auto"] = "auto"
    split_share: Share = SPLIT_SHARE
    sum_share: Share = SUM_SHARE
    capacity: AtLeastOne | None = None
    grower: Grower = "auto"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_epsilon(self.noise, self.epsilon)
        return self

    def check(self, kind: str, target: Target | None) -> None:
        """Refuse a target that is no number. See `Options.check`."""
        if target is None or target.bounds is None:
            raise ValueError(
                f"a domain whose target has no bounds: kind {kind!r} needs them, "
                "'trees', 'open' and 'boosting' take classes"
            )

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers."""
        del target
        return Size(1, _depth(self.max_depth), self.epsilon or 0.0)

    def plan(self, domain: Domain) -> RegressionPlan:
        """Plan the tree; errors are those of `plan_regression`."""
        return plan_regression(
            domain,
            epsilon=1.0 if self.epsilon is None else self.epsilon,
            noise=self.noise,
            depth=None if self.max_depth == "auto" else self.max_depth,
            split_share=self.split_share,
            sum_share=self.sum_share,
            capacity=self.capacity,
            grower=self.grower,
        )


class BoostingOptions(Options):
    """The table ``[plan]`` of a boosting job; see `hidden.boosting_plan.plan_boosting`.

    Parameters
    ----------
    epsilon : float, optional
        Of all trees together; needed, and allowed, where there is noise.
    n_rounds : int
        At most `MAX_ROUNDS`, and `MAX_TREES` trees in all.
    max_depth : int
        Levels of splits of every tree.
    capacity : int, optional
        Slots of all uploads together; the domain's by default.
    noise, learning_rate, split_share, sum_share, random_splits, public_seed
        As there.
    """

    noise: BoostingNoise = "splits+leaves"
    epsilon: Positive | None = None
    n_rounds: Annotated[int, Strict(), Field(ge=1, le=MAX_ROUNDS)] = 20
    max_depth: AtLeastOne = 3
    learning_rate: Annotated[float, Strict(), Field(gt=0, le=1, allow_inf_nan=False)] = 0.1
    split_share: Share = SPLIT_SHARE
    sum_share: Share = SUM_SHARE
    capacity: AtLeastOne | None = None
    random_splits: Annotated[bool, Strict()] = False
    public_seed: Count = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_epsilon(self.noise, self.epsilon)
        return self

    def check(self, kind: str, target: Target | None) -> None:
        """Refuse too many trees; any target will do. See `Options.check`."""
        if target is None:
            raise ValueError(f"a domain without a target: kind {kind!r} needs classes or bounds")
        if target.n_classes == 1:
            raise ValueError("a target of one class: there is nothing to learn")
        trees = self.size(target).trees
        if trees > MAX_TREES:
            raise ValueError(f"{trees:,} trees, one a round for every class: more than {MAX_TREES}")

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers, and the trees of all rounds."""
        classes = 0 if target is None else target.n_classes or 0
        trees = self.n_rounds * (classes if classes > 2 else 1)
        return Size(trees, self.max_depth, self.epsilon or 0.0)

    def plan(self, domain: Domain) -> BoostingPlan:
        """Plan the trees; errors are those of `plan_boosting`."""
        return plan_boosting(
            domain,
            epsilon=1.0 if self.epsilon is None else self.epsilon,
            noise=self.noise,
            n_rounds=self.n_rounds,
            depth=self.max_depth,
            learning_rate=self.learning_rate,
            split_share=self.split_share,
            sum_share=self.sum_share,
            capacity=self.capacity,
            random_splits=self.random_splits,
            public_seed=self.public_seed,
        )


OPTIONS: dict[str, type[Options]] = {
    "trees": PlanOptions,
    "open": PlanOptions,
    "regression": RegressionOptions,
    "boosting": BoostingOptions,
}
"""By kind of job."""


def _depth(depth: int | str) -> int:
    # A depth by the public rule is small.
    return depth if isinstance(depth, int) else 0


def _check_epsilon(noise: str, epsilon: float | None) -> None:
    if noise == "none" and epsilon is not None:
        raise ValueError("epsilon, and noise = 'none', which has no finite epsilon")
    if noise != "none" and epsilon is None:
        raise ValueError(f"no epsilon for noise = {noise!r}")
