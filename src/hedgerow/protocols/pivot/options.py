"""`PeerOptions`: the parameters of models among peers; `PivotOptions` and more: those of trees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.protocols.contract import AtLeastOne, AtLeastTwo, Count, Options, Rate, Size
from hedgerow.protocols.hidden.options import MAX_ROUNDS
from hedgerow.protocols.pivot.boosting_plan import HideAll, Joint, PivotBoostingPlan
from hedgerow.protocols.pivot.peer_plan import Align, PeerPlan
from hedgerow.protocols.pivot.plan import Hide, Linear, PivotPlan
from hedgerow.tables import Domain, Target


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


class PeerTreesOptions(PeerOptions):
    """Parameters of every tree among peers."""

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

    def _plan(self, **public: Any) -> PivotPlan:
        return PivotPlan(
            **public,
            depth=self.max_depth,
            least_split=self.min_samples_split,
            least_leaf=self.min_samples_leaf,
            least_decrease=self.min_impurity_decrease,
            hide=self.hide,
        )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`."""
        del target
        return Size(depth=self.max_depth)


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
