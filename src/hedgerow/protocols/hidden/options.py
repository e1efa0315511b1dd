"""Options of the models that three servers train, and the plans that follow from them.

The names are those of the table ``[plan]`` of a job; estimators call some of them otherwise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from hedgerow.errors import Code
from hedgerow.protocols.contract import (
    AtLeastOne,
    Auto,
    BudgetOptions,
    Count,
    Epsilon,
    Options,
    Rate,
    Share,
    Size,
)
from hedgerow.protocols.growers.frontier import choose_grower
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import cut
from hedgerow.protocols.hidden.boosting_plan import BoostingNoise, BoostingPlan, tree_epsilon
from hedgerow.protocols.hidden.plan import (
    Grower,
    HiddenPlan,
    LeafRelease,
    Mechanism,
    Noise,
    OpenPlan,
    Sampling,
)
from hedgerow.protocols.hidden.regression_plan import (
    SCORE_SENSITIVITY,
    RegressionNoise,
    RegressionPlan,
)
from hedgerow.protocols.hidden.sampling import tree_epsilon_for
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.votes.budget import query_epsilon_for
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import Domain, Target
from hedgerow.trees.growing.budget import DEEPEST, NODE_TO_NOISE, SPLIT_SHARE, depth_for, divide
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.private import plan_private

MAX_TREES = 10_000
MAX_ROUNDS = 1_000
SUM_SHARE = 2 / 3
"""Of the leaves' epsilon for the sums: noise of a count moves a mean, which is below 1, less."""
_LEAF_ROWS = 10
"""Records of an average leaf for which a tree without noise goes one level deeper."""

Trees = Annotated[int, Field(ge=1, le=MAX_TREES)]

_EPSILON = (
    "Budget of the whole model, add/remove neighbours; needed, and allowed, where there is noise."
)
_CAPACITY = "Slots of all uploads together; by default the domain's capacity."
_SPLIT_SHARE = "Share of epsilon for the splits, where they are noisy; the rest is for the leaves."
_SUM_SHARE = "Share of the leaves' epsilon for their sums; the rest is for counts, or weights."
_GROWER = (
    "How rows are kept: a mask per node, or in the order of nodes, which is cheaper when deep."
)
_RANDOM_SPLITS = "Draw splits by public coins, which costs nothing: all of epsilon is for leaves."
_PUBLIC_SEED = "Of the public coins that draw splits and attributes."


class RunOptions(Options):
    """How an estimator runs the owners and the three servers."""

    engine: Literal["clear", "simulate", "processes"] = Field(
        "simulate",
        description="The three servers in this process, on real shares; a process for each of "
        "them, over mutual TLS on this machine; or plain arrays, to study accuracy.",
    )
    n_owners: AtLeastOne = Field(1, description="Owners to whom `fit` deals the table.")
    partition: Literal["horizontal", "vertical"] = Field(
        "horizontal", description="Whether owners hold rows or columns."
    )
    random_state: Count | None = Field(
        None,
        description="A number makes keys and noise repeatable, for tests only: the model is then "
        "NOT private.",
    )


class ServerOptions(BudgetOptions):
    """What the options of all that three servers train share."""

    if TYPE_CHECKING:
        # A field of every subclass, at its own place: their order is that of job files.
        capacity: int | None

    @abstractmethod
    def plan(self, domain: Domain, capacity: int | None = None) -> ServerPlan:
        """Return the plan. See `Options.plan`."""

    def size(self, target: Target | None) -> Size:
        """Return epsilon; there are no trees."""
        del target
        return Size(trees=0, epsilon=self.budget())

    def slots(self, domain: Domain, capacity: int | None) -> int:
        """Return the capacity that is given, the options' own, or the domain's; H208 for none."""
        for found in (capacity, self.capacity, domain.capacity):
            if found is not None:
                return found
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")


class NoiseOptions(ServerOptions):
    """What the options of all trees share: they may do without noise."""

    noise: str

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise, and so an epsilon."""
        return self.noise != "none"


class TreesOptions(NoiseOptions):
    """Hidden trees of classes: one tree, a forest, or trees that vote."""

    noise: Noise = Field(
        "splits+leaves",
        description="Where noise is added; only splits and leaves, or votes, have a finite "
        "epsilon against whoever asks the model.",
    )
    epsilon: Epsilon | None = Field(None, description=_EPSILON)
    max_depth: AtLeastOne | Auto = Field(
        "auto", description="Levels of splits, or as many as a public rule finds good."
    )
    criterion: Literal["auto", "max", "gini"] = Field(
        "auto", description="Score of splits; by default by a public rule where splits are noisy."
    )
    branching: Branching = Field(
        "binary", description="Two branches of every split, or one for every bin."
    )
    mechanism: Mechanism = Field(
        "discrete",
        description="Exact discrete noise, or the paper's approximate one, which has no epsilon.",
    )
    leaf_release: LeafRelease = Field(
        "counts", description="Noisy counts, which answer with probabilities too, or labels alone."
    )
    split_share: Share = Field(SPLIT_SHARE, description=_SPLIT_SHARE)
    capacity: AtLeastOne | None = Field(None, description=_CAPACITY)
    n_trees: Trees = Field(1, description="Trees.")
    sampling: Sampling = Field(
        "disjoint",
        description="Trees on disjoint slots, or on rows that secret coins pick for each tree.",
    )
    rate: Rate | Auto = Field(
        "auto",
        description="Probability with which sampling by coins picks a row for a tree; by default "
        "1 / number of trees.",
    )
    grower: Grower = Field("auto", description=_GROWER)
    random_splits: bool = Field(False, description=_RANDOM_SPLITS)
    public_seed: Count = Field(0, description=_PUBLIC_SEED)
    max_features: Count | None = Field(
        0,
        description="Attributes that a node may choose from, drawn by public coins; 0 for all.",
    )
    queries: Count = Field(
        0,
        description="Answers of voting trees to all analysts together, repeats included.",
    )
    delta: float = Field(
        0.0,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Of all answers of voting trees together, where more than addition counts "
        "them.",
    )

    @model_validator(mode="after")
    def _votes_alone_have_a_budget(self) -> Self:
        if self.noise != "votes" and (self.queries or self.delta):
            raise ValueError("queries or delta, which noise = 'votes' alone has")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Refuse forests whose guarantee or whose trees would not be what they seem."""
        if self.rate == "auto":
            # What it comes to is what is written, compared and hashed.
            self.__dict__["rate"] = 1 / self.n_trees if self.sampling == "poisson" else 1.0
        if self.rate != 1.0 and self.sampling != "poisson":
            name = self.parameters()["rate"]
            raise Code.BAD_PARAMETER.error(
                expected=f"{name} with sampling='poisson' alone",
                found=f"{name}={self.rate!r} with sampling={self.sampling!r}",
                fix=f"set sampling='poisson', or leave {name} out",
            )
        if self.noise == "votes" and self.sampling != "disjoint":
            # The price of an answer rests on one record being in one tree.
            raise Code.BAD_PARAMETER.error(
                expected="votes of trees on disjoint records",
                found=f"noise='votes' with sampling={self.sampling!r}",
                fix="choose sampling='disjoint', or noise='splits+leaves' for trees on sampled "
                "records",
            )
        if self.noise == "votes" and self.mechanism != "discrete":
            raise Code.BAD_PARAMETER.error(
                expected="votes with discrete noise",
                found=f"noise='votes' with mechanism={self.mechanism!r}",
                fix="choose mechanism='discrete'",
            )
        if self.max_features and self.branching == "wary":
            # All of the attributes that were drawn may be used up on a path, which nobody sees.
            raise Code.BAD_PARAMETER.error(
                expected="max_features for binary trees alone",
                found=f"max_features={self.max_features} with branching='wary'",
                fix="choose branching='binary', or leave max_features out",
            )
        return self

    @property
    def sample_rate(self) -> float:
        """Probability with which a record is in a tree, of sampling by coins; else 1."""
        assert self.rate != "auto"
        return self.rate

    def check_target(self, protocol: str, target: Target | None) -> None:
        """Refuse a target without classes."""
        if target is None or target.classes is None:
            raise ValueError(
                f"a domain whose target has no classes: protocol {protocol!r} needs them, "
                "'hidden-regression' and 'hidden-boosting' take bounds"
            )

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers; only noise everywhere costs epsilon and no less."""
        del target
        epsilon = self.budget() if self.noise == "splits+leaves" else 0.0
        return Size(self.n_trees, _known(self.max_depth), epsilon, self.queries)

    def plan(self, domain: Domain, capacity: int | None = None) -> HiddenPlan:
        """Plan a tree or a forest. See `Options.plan`."""
        if domain.target is None or domain.target.classes is None:
            raise Code.BAD_TARGET.error(found="a domain without target classes")
        slots = self.slots(domain, capacity)
        rate, epsilon = self.sample_rate, self.budget()
        noisy = self.noise in ("leaves", "splits+leaves")
        sampled = self.sampling == "poisson"
        if noisy:
            # Of one tree: the budget is that of all of them together.
            epsilon = tree_epsilon_for(epsilon, self.n_trees, rate) if sampled else epsilon
        layout = Layout(domain, self.branching)
        depth = None if self.max_depth == "auto" else self.max_depth
        if depth is not None:
            layout.check_depth(depth)
        max_features = self.max_features or 0
        if max_features > layout.n_features:
            raise Code.BAD_PARAMETER.error(
                expected=f"max_features from 1 to {layout.n_features}, the number of attributes",
                found=f"max_features={max_features}",
                fix="choose one of them, or leave max_features out: nodes then choose from all",
            )
        # What one tree sees, on average where its rows are sampled: for the depth, not for privacy.
        rows = math.ceil(slots * rate) if sampled else -(-slots // self.n_trees)
        split, leaf = 0.0, epsilon if noisy else 0.0
        criterion = None if self.criterion == "auto" else str(self.criterion)
        if self.noise == "splits+leaves" and not self.random_splits:
            inner = plan_private(
                domain,
                epsilon=epsilon,
                depth=depth,
                criterion=criterion,
                branching=self.branching,
                split_share=self.split_share,
                capacity=rows,
            )
            depth, criterion = min(inner.spending.depth, layout.deepest), inner.score.name
            # The paper divides equally between the levels and the leaves.
            papers = self.mechanism != "discrete"
            share = depth / (depth + 1) if papers else self.split_share
            spending = divide(epsilon, depth, share)
            split, leaf = spending.split, spending.leaf
        if depth is None:
            depth = _depth_without_noisy_splits(layout, rows, leaf)
        layout.check_depth(depth)
        plan = HiddenPlan(
            domain=domain,
            capacity=slots,
            branching=self.branching,
            depth=depth,
            criterion=criterion or "max",
            noise=self.noise,
            mechanism=self.mechanism,
            leaf_release=self.leaf_release,
            split_epsilon=split,
            leaf_epsilon=leaf,
            n_trees=self.n_trees,
            sampling=self.sampling,
            rate=rate,
            random_splits=self.random_splits,
            public_seed=self.public_seed,
            max_features=max_features,
        )
        if self.noise == "votes":
            each = query_epsilon_for(epsilon, self.queries, plan.n_classes, delta=self.delta)
            plan = replace(plan, queries=self.queries, query_epsilon=each, delta=self.delta)
        return replace(plan, grower=self._grower_of(plan))

    def _grower_of(self, plan: HiddenPlan) -> Literal["masks", "grouped"]:
        """Choose how rows are kept, by public numbers; refuse what the grouped grower cannot do."""
        able = plan.branching == "binary" and plan.n_trees == 1 and plan.sampling == "disjoint"
        if self.grower == "grouped" and not able:
            raise Code.BAD_PARAMETER.error(
                expected="grower='grouped' for one binary tree",
                found=f"branching={plan.branching!r}, {plan.n_trees} trees",
                fix="choose grower='auto'",
            )
        return choose_grower(self.grower, plan.depth, ReplicatedEngine, groupable=able)


class TreeOptions(TreesOptions):
    """One hidden tree of classes."""

    noise: Literal["none", "leaves", "splits+leaves"] = Field(
        "splits+leaves",
        description="Where noise is added; only splits and leaves have a finite epsilon against "
        "whoever asks the model.",
    )


class ForestOptions(TreesOptions):
    """A hidden forest of classes, or trees that vote."""

    parameter_names: ClassVar[dict[str, str]] = {
        "n_trees": "n_estimators",
        "rate": "sample_rate",
        "random_splits": "extra_trees",
    }

    n_trees: Trees = Field(10, description="Trees.")
    leaf_release: LeafRelease = Field(
        "labels", description="Noisy labels alone, or noisy counts, of which trees use the largest."
    )
    max_features: AtLeastOne | None = Field(
        None,
        description="Attributes that a node may choose from, drawn by public coins; None for all.",
    )
    queries: AtLeastOne = Field(
        1000, description="Answers of voting trees to all analysts together, repeats included."
    )

    @model_validator(mode="after")
    def _votes_alone_have_a_budget(self) -> Self:
        # An estimator has a number of queries, whatever it is trained for.
        return self


class OpenOptions(TreesOptions):
    """One tree of classes, opened to everybody: no votes, random_splits or max_features."""

    def check_target(self, protocol: str, target: Target | None) -> None:
        """Refuse what an opened tree does not have."""
        super().check_target(protocol, target)
        several = self.n_trees > 1 or self.sampling != "disjoint"
        if several or self.noise == "votes" or self.random_splits:
            raise ValueError("'open-tree' with more than one tree, votes, or random_splits")
        if self.max_features:
            raise ValueError(
                "protocol 'open-tree' with max_features: a single tree looks at all attributes"
            )

    def plan(self, domain: Domain, capacity: int | None = None) -> OpenPlan:
        """Plan the tree. See `Options.plan`."""
        return super().plan(domain, capacity).opened()


class OpenTreeOptions(OpenOptions):
    """One tree of classes that is opened to everybody, with noise everywhere or nowhere."""

    noise: Literal["none", "splits+leaves"] = Field(
        "splits+leaves",
        description="Where noise is added; without noise there is no finite epsilon.",
    )
    # The frontier of opened trees keeps masks of the branches that exist.
    grower: Literal["masks"] = Field("masks", description="How rows are kept: a mask per node.")


class RegressionOptions(NoiseOptions):
    """One hidden tree of numbers."""

    noise: RegressionNoise = Field(
        "splits+leaves",
        description="Where noise is added; only splits and leaves have a finite epsilon.",
    )
    epsilon: Epsilon | None = Field(None, description=_EPSILON)
    max_depth: AtLeastOne | Auto = Field(
        "auto", description="Levels of splits, or as many as a public rule finds good."
    )
    split_share: Share = Field(SPLIT_SHARE, description=_SPLIT_SHARE)
    sum_share: Share = Field(SUM_SHARE, description=_SUM_SHARE)
    capacity: AtLeastOne | None = Field(None, description=_CAPACITY)
    grower: Grower = Field("auto", description=_GROWER)

    def check_target(self, protocol: str, target: Target | None) -> None:
        """Refuse a target that is no number."""
        if target is None or target.bounds is None:
            raise ValueError(
                f"a domain whose target has no bounds: protocol {protocol!r} needs them, "
                "'hidden-tree', 'open-tree' and 'hidden-boosting' take classes"
            )

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers."""
        del target
        return Size(1, _known(self.max_depth), self.budget())

    def plan(self, domain: Domain, capacity: int | None = None) -> RegressionPlan:
        """Plan the tree. See `Options.plan`."""
        if domain.target is None or domain.target.bounds is None:
            raise Code.BAD_TARGET.error(found="a domain without target bounds")
        slots = self.slots(domain, capacity)
        layout, epsilon = Layout(domain, "binary"), self.budget()
        depth = None if self.max_depth == "auto" else self.max_depth
        split, leaf = 0.0, epsilon
        if self.noise == "splits+leaves":
            if depth is None:
                many = len(layout.candidates)
                depth = depth_for(epsilon, slots, many, SCORE_SENSITIVITY)
            spending = divide(epsilon, depth, self.split_share)
            split, leaf = spending.split, spending.leaf
        if depth is None:
            depth = _depth_without_noisy_splits(layout, slots, leaf)
        layout.check_depth(depth)
        sums, counts = cut(leaf, self.sum_share) if leaf else (0.0, 0.0)
        kept = choose_grower(self.grower, depth, ReplicatedEngine)
        return RegressionPlan(
            domain,
            slots,
            depth,
            self.noise,
            split,
            sums,
            counts,
            kept,
        )


class BoostingOptions(NoiseOptions):
    """Hidden gradient boosting, of classes or of numbers."""

    noise: BoostingNoise = Field(
        "splits+leaves",
        description="Where noise is added; without noise there is no finite epsilon.",
    )
    epsilon: Epsilon | None = Field(None, description=_EPSILON)
    n_rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = Field(
        20, description="Rounds; in each grows a tree, or one for every class if there are more."
    )
    max_depth: AtLeastOne = Field(3, description="Levels of splits of every tree.")
    learning_rate: Rate = Field(0.1, description="Of what a tree adds to scores.")
    split_share: Share = Field(SPLIT_SHARE, description=_SPLIT_SHARE)
    sum_share: Share = Field(SUM_SHARE, description=_SUM_SHARE)
    capacity: AtLeastOne | None = Field(None, description=_CAPACITY)
    random_splits: bool = Field(False, description=_RANDOM_SPLITS)
    public_seed: Count = Field(0, description=_PUBLIC_SEED)

    @property
    def draws_splits(self) -> bool:
        """Whether splits are drawn by public coins."""
        return self.random_splits

    def check_target(self, protocol: str, target: Target | None) -> None:
        """Refuse too many trees; any target will do."""
        if target is None:
            raise ValueError(
                f"a domain without a target: protocol {protocol!r} needs classes or bounds"
            )
        if target.n_classes == 1:
            raise ValueError("a target of one class: there is nothing to learn")
        trees = self.size(target).trees
        if trees > MAX_TREES:
            raise ValueError(f"{trees:,} trees, one a round for every class: more than {MAX_TREES}")

    def size(self, target: Target | None) -> Size:
        """Return the table's own numbers, and the trees of all rounds."""
        classes = 0 if target is None else target.n_classes or 0
        trees = self.n_rounds * (classes if classes > 2 else 1)
        return Size(trees, self.max_depth, self.budget())

    def plan(self, domain: Domain, capacity: int | None = None) -> BoostingPlan:
        """Plan the trees. See `Options.plan`."""
        target = domain.target
        if target is None or target.n_classes == 1:
            raise Code.BAD_TARGET.error(found="a domain without a target of two classes or bounds")
        slots = self.slots(domain, capacity)
        Layout(domain, "binary").check_depth(self.max_depth)
        split = sums = weights = 0.0
        if self.noise == "splits+leaves":
            leaf = tree_epsilon(self.budget(), self.size(target).trees)
            if not self.draws_splits:
                spending = divide(leaf, self.max_depth, self.split_share)
                split, leaf = spending.split, spending.leaf
            sums, weights = cut(leaf, self.sum_share)
        plan = BoostingPlan(
            domain,
            slots,
            self.n_rounds,
            self.max_depth,
            float(self.learning_rate),
            self.noise,
            split,
            sums,
            weights,
            self.draws_splits,
            self.public_seed,
        )
        plan.check_scores()
        return plan


class BoosterOptions(BoostingOptions):
    """Hidden gradient boosting, as estimators spell it."""

    parameter_names: ClassVar[dict[str, str]] = {"n_rounds": "n_estimators"}

    splitter: Literal["best", "random"] = Field(
        "best",
        description="Splits by their scores, or drawn by public coins, which costs nothing: all "
        "of epsilon is for the leaves.",
    )

    @property
    def draws_splits(self) -> bool:
        """Whether splits are drawn by public coins."""
        return self.splitter == "random"


def plan_hidden(domain: Domain, **parameters: Any) -> HiddenPlan:
    """Plan a hidden tree or forest: `TreesOptions` with an epsilon of 1.0 by default."""
    plan = _options_of(TreesOptions, parameters).plan(domain)
    assert isinstance(plan, HiddenPlan)
    return plan


def plan_regression(domain: Domain, **parameters: Any) -> RegressionPlan:
    """Plan a hidden regression tree: `RegressionOptions` with an epsilon of 1.0 by default."""
    plan = _options_of(RegressionOptions, parameters).plan(domain)
    assert isinstance(plan, RegressionPlan)
    return plan


def plan_boosting(domain: Domain, **parameters: Any) -> BoostingPlan:
    """Plan hidden gradient boosting: `BoostingOptions` with an epsilon of 1.0 by default."""
    plan = _options_of(BoostingOptions, parameters).plan(domain)
    assert isinstance(plan, BoostingPlan)
    return plan


def _options_of(options: type[Options], parameters: dict[str, Any]) -> Options:
    given = {"epsilon": 1.0, **parameters}
    given = {"max_depth" if name == "depth" else name: value for name, value in given.items()}
    unknown = set(given) - set(options.model_fields)
    if unknown:
        raise TypeError(f"no options of {options.__name__}: {', '.join(sorted(unknown))}")
    for name in ("max_depth", "criterion"):
        if given.get(name, "") is None:
            given[name] = "auto"
    return options.from_parameters(given)


def _known(depth: int | str) -> int:
    # A depth by the public rule is small.
    return depth if isinstance(depth, int) else 0


def _depth_without_noisy_splits(layout: Layout, rows: int, leaf_epsilon: float) -> int:
    """Return the depth at which an average leaf still has records enough for its noise."""
    needed = max(float(_LEAF_ROWS), NODE_TO_NOISE / leaf_epsilon if leaf_epsilon else 0.0)
    arity = float(np.exp(np.log(layout.candidates.n_children).mean()))
    depth = max(1, int(math.log(max(rows / needed, 1.0)) / math.log(max(arity, 2.0))))
    return min(depth, layout.deepest, DEEPEST)
