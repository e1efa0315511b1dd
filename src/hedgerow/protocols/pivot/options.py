"""`PeerOptions`: the parameters of models among peers; `PivotOptions` and more: those of trees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.contract import (
    AtLeastOne,
    AtLeastTwo,
    BudgetOptions,
    Count,
    Epsilon,
    Options,
    Rate,
    Share,
    Size,
)
from hedgerow.protocols.growers.units import cut
from hedgerow.protocols.hidden.boosting_plan import tree_epsilon
from hedgerow.protocols.hidden.options import MAX_ROUNDS, SUM_SHARE
from hedgerow.protocols.pivot.boosting_plan import HideAll, Joint, PivotBoostingPlan
from hedgerow.protocols.pivot.peer_plan import Align, PeerPlan
from hedgerow.protocols.pivot.plan import Hide, Linear, PeerNoise, PivotPlan
from hedgerow.tables import Domain, Target
from hedgerow.trees.growing.budget import SPLIT_SHARE, criterion_for, divide

MOST_NOISY_TREES = 256
"""Trees among which epsilon may be divided; each is charged for itself."""


class PeerOptions(Options):
    """Parameters of a model over the columns of two to ten peers."""

    def plan(
        self,
        domain: Domain,
        capacity: int | None = None,
        *,
        owners: Sequence[int] | None = None,
        n_peers: int | None = None,
        target_at: int = 0,
        align: Align = "given",
    ) -> PeerPlan:
        """See `Options.plan`; `owners` has the peer of each attribute, one each by default."""
        slots = capacity or domain.capacity
        if slots is None:
            raise Code.MISSING_CAPACITY.error(
                found="no capacity in the domain, the options or the job"
            )
        held = tuple(range(len(domain.names))) if owners is None else tuple(map(int, owners))
        return self._plan(
            domain=domain,
            capacity=slots,
            owners=held,
            n_peers=max(held) + 1 if n_peers is None else n_peers,
            target_at=target_at,
            align=align,
        )

    @abstractmethod
    def _plan(self, **public: Any) -> PeerPlan:
        """Return the plan, given the fields that all plans among peers have."""


class PeerTreesOptions(PeerOptions, BudgetOptions):
    """Parameters of every tree among peers; H501 for what noise could not cover."""

    max_depth: AtLeastOne = Field(4, description="Largest depth of a leaf.")
    min_samples_split: AtLeastTwo = Field(2, description="Rows that a node needs to be split.")
    min_samples_leaf: AtLeastOne = Field(1, description="Rows that each child must have.")
    min_impurity_decrease: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] = Field(
        0.0,
        description="Decrease of impurity that a split must bring, weighted by the node's share of "
        "rows.",
    )
    hide: Hide = Field(
        "nothing",
        description="What stays secret of the tree: nothing (the basic protocol), thresholds and "
        "leaves (the enhanced one), the attribute of each split too, or even the peer that has it.",
    )
    noise: PeerNoise = Field(
        "none",
        description="Where noise is added: nowhere, in splits and leaves, which has a finite "
        "epsilon, or as the paper does, which has none.",
    )
    epsilon: Epsilon | None = Field(
        None,
        description="Budget of the whole model, add/remove neighbours; needed, and allowed, where "
        "there is noise.",
    )
    criterion: Literal["auto", "max", "gini"] = Field(
        "auto",
        description="Score of splits of classes: gini; with noise by a public rule, unless it is "
        "chosen.",
    )
    split_share: Share = Field(
        SPLIT_SHARE, description="Share of epsilon for the splits; the leaves have what is left."
    )
    stop_share: Annotated[float, Strict(), Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        0.0,
        description="Share of epsilon for the counts that make nodes leaves; 0: trees with noise "
        "are complete.",
    )
    sum_share: Share = Field(
        SUM_SHARE,
        description="Of a number, share of the leaves' epsilon for their sums; the rest is for "
        "counts.",
    )

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise, and so an epsilon."""
        return self.noise != "none"

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """See `Options.from_parameters`; no noise is the default, and an epsilon then an error."""
        given = {key: one for key, one in parameters.items() if (key, one) != ("epsilon", None)}
        if "epsilon" in given and given.get("noise", "none") == "none":
            raise Code.BAD_PARAMETER.error(
                expected="epsilon with noise alone",
                found=f"epsilon={given['epsilon']!r} with noise='none'",
                fix="set noise='splits+leaves', or leave epsilon out",
            )
        return super().from_parameters(given)

    @model_validator(mode="after")
    def _covered_by_noise(self) -> Self:
        """Refuse exact checks beside noise: what they decide would show, and no epsilon covers."""
        if not self.is_noisy:
            if self.criterion == "max":
                raise Code.BAD_PARAMETER.error(
                    expected="criterion='gini' without noise", found="criterion='max'"
                )
            return self
        exact = {
            "min_samples_leaf": (self.min_samples_leaf, 1),
            "min_impurity_decrease": (self.min_impurity_decrease, 0.0),
        }
        for name, (value, default) in exact.items():
            if value != default:
                raise _uncovered(f"{name}={value}", f"leave {name} out")
        if self.min_samples_split != 2 and not self.stop_share:
            raise _uncovered(
                f"min_samples_split={self.min_samples_split}",
                "set stop_share, such as 0.1, so that a noisy count decides",
            )
        if self.split_share + self.stop_share >= 1:
            raise Code.BAD_PARAMETER.error(
                expected="split_share and stop_share below 1 together: leaves have the rest",
                found=f"split_share={self.split_share}, stop_share={self.stop_share}",
            )
        return self

    def _plan(self, **public: Any) -> PivotPlan:
        plan = PivotPlan(
            **public,
            depth=self.max_depth,
            least_split=self.min_samples_split,
            least_leaf=self.min_samples_leaf,
            least_decrease=self.min_impurity_decrease,
            hide=self.hide,
        )
        return self._with_noise(plan) if self.is_noisy else plan

    def _with_noise(self, plan: PivotPlan) -> PivotPlan:
        """Divide epsilon: among the trees, then in each among levels and leaves."""
        epsilon = tree_epsilon(self.budget(), self.size(None).trees)
        plan.layout.check_depth(self.max_depth)
        both = self.split_share + self.stop_share
        spending = divide(epsilon, self.max_depth, both)
        split, stop, leaf = spending.split, 0.0, spending.leaf
        if self.stop_share:
            stop, split = cut(split, self.stop_share / both)
        if plan.classes:
            criterion = self.criterion
            if self.noise == "as published":
                criterion = "gini"
            elif criterion == "auto":
                criterion = criterion_for(epsilon, plan.capacity, plan.classes)
            return replace(
                plan,
                noise=self.noise,
                criterion=criterion,
                split_epsilon=split,
                stop_epsilon=stop,
                leaf_epsilon=leaf,
            )
        if self.noise == "as published":
            raise Code.BAD_PARAMETER.error(
                expected="noise='as published' for classes, which the paper speaks of",
                found="a target that is a number",
                fix="set noise='splits+leaves'",
            )
        sums, counts = cut(leaf, self.sum_share)
        return replace(
            plan,
            noise=self.noise,
            split_epsilon=split,
            stop_epsilon=stop,
            sum_epsilon=sums,
            count_epsilon=counts,
        )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`; the paper's noise costs no less than epsilon."""
        del target
        return Size(depth=self.max_depth, epsilon=self.budget())


class PivotOptions(PeerTreesOptions):
    """One tree over the columns of two to ten peers, of classes or of a number."""

    linear: Linear = Field(
        "transfers",
        description="How histograms are made: by oblivious transfer; by products of shares, as "
        "the paper's baseline does; or as published, under threshold Paillier, packed or one "
        "number in each ciphertext.",
    )
    insecure_dealer: Annotated[bool, Strict()] = Field(
        False,
        description="Let peer 0 draw the key of Paillier: it can then decrypt everything alone.",
    )

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if self.linear.startswith("paillier") != self.insecure_dealer:
            raise Code.BAD_PARAMETER.error(
                expected="insecure_dealer=True with linear='paillier', and only there",
                found=f"linear={self.linear!r}, insecure_dealer={self.insecure_dealer}",
                fix="leave both out: transfers need no key and no dealer",
            )
        return self

    def _plan(self, **public: Any) -> PivotPlan:
        return replace(super()._plan(**public), linear=self.linear)


_ALL_ROWS = "set bootstrap=False and leave max_samples out: all trees then have all rows"


def _uncovered(found: str, fix: str) -> HedgerowError:
    """Return the refusal of what depends on records in a way that no noise here covers."""
    return Code.BAD_PARAMETER.error(
        expected="what noise covers: each record once in each tree, and no exact checks",
        found=f"noise and {found}",
        fix=fix,
    )


class PivotForestOptions(PeerTreesOptions):
    """A forest over the columns of two to ten peers, of classes or of a number."""

    n_estimators: AtLeastOne = Field(10, description="Trees, which grow side by side.")
    max_features: Literal["sqrt"] | AtLeastOne | None = Field(
        "sqrt",
        description="Attributes among which each node chooses, by public coins; all if it is left "
        "out.",
    )
    bootstrap: Annotated[bool, Strict()] = Field(
        True, description="Draw the rows of each tree with replacement, by public coins."
    )
    max_samples: Rate = Field(1.0, description="Rows of each tree, as a share of all.")
    public_seed: Count = Field(
        0, description="What the public coins are drawn from; everybody may know it."
    )

    @model_validator(mode="after")
    def _all_rows_with_noise(self) -> Self:
        """Refuse rows that are in a tree more than once, or depending on how many there are."""
        if not self.is_noisy:
            return self
        if self.bootstrap:
            raise _uncovered("bootstrap=True, by which a record counts several times", _ALL_ROWS)
        if self.max_samples < 1:
            # Coins are of places, and of so many rows: one record more changes who is in a tree.
            raise _uncovered(f"max_samples={self.max_samples:g}", _ALL_ROWS)
        if self.n_estimators > MOST_NOISY_TREES:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {MOST_NOISY_TREES} trees that divide epsilon",
                found=f"{self.n_estimators:,}",
            )
        return self

    def _plan(self, **public: Any) -> PivotPlan:
        return replace(
            super()._plan(**public),
            n_trees=self.n_estimators,
            max_features=self.max_features,
            bootstrap=self.bootstrap,
            max_samples=self.max_samples,
            public_seed=self.public_seed,
        )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`."""
        return super().size(target)._replace(trees=self.n_estimators)


class PivotBoostingOptions(PeerOptions):
    """Gradient boosting over the columns of two to ten peers, of classes or of a number."""

    n_estimators: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = Field(
        20, description="Rounds; in each grows a tree, or one for every class if there are more."
    )
    max_depth: AtLeastOne = Field(3, description="Levels of splits of every tree.")
    learning_rate: Rate = Field(0.1, description="Of what a tree adds to scores.")
    loss: Joint = Field(
        "softmax",
        description="Of more than two classes: one loss of all scores, of 15 classes at most, or "
        "one booster for each class against the rest. Two classes have the logistic loss, numbers "
        "the squared one.",
    )
    hide: HideAll = Field(
        "nothing",
        description="What stays secret of the trees: nothing, so that all peers see them, or "
        "everything but their depth.",
    )
    subsample: Rate = Field(
        1.0, description="Rows from which the trees of a round grow, as a share, by public coins."
    )
    max_features: Literal["sqrt"] | AtLeastOne | None = Field(
        None,
        description="Attributes among which each node chooses, by public coins; all if it is left "
        "out.",
    )
    public_seed: Count = Field(
        0, description="What the public coins are drawn from; everybody may know it."
    )

    def _plan(self, **public: Any) -> PivotBoostingPlan:
        return PivotBoostingPlan(
            **public,
            n_rounds=self.n_estimators,
            depth=self.max_depth,
            learning_rate=float(self.learning_rate),
            hide=self.hide,
            subsample=float(self.subsample),
            max_features=self.max_features,
            public_seed=self.public_seed,
            joint=self.loss,
        )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`."""
        classes = 0 if target is None else target.n_classes or 0
        return Size(self.n_estimators * (classes if classes > 2 else 1), self.max_depth)
