"""`HiddenPlan`: what is fixed, and public, about a hidden tree before a row is shared."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import NoisyMax, TwoSidedGeometric
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.growers.frontier import choose_grower
from hedgerow.protocols.growers.layout import Layout, counting_ring
from hedgerow.protocols.votes.budget import query_epsilon_for
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import DEEPEST, NODE_TO_NOISE, SPLIT_SHARE, divide
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.private import GRID_BITS, plan_private

Score = Literal["max", "gini"]
Noise = Literal["none", "leaves", "splits+leaves", "votes"]
Mechanism = Literal["discrete", "laplace", "exponential"]
LeafRelease = Literal["counts", "labels"]
Grower = Literal["auto", "masks", "grouped"]
Sampling = Literal["disjoint", "poisson"]

# Records of an average leaf for which a tree without noise goes one level deeper.
_LEAF_ROWS = 10
_SCORE_BITS = 44
"""Bits of an exact score; what the capacity leaves is the grid of trees without noise."""


@dataclass(frozen=True)
class HiddenPlan:
    """A hidden tree or forest in public numbers; made by `plan_hidden`.

    Attributes
    ----------
    domain : Domain
    capacity : int
        Records at most.
    branching, depth, criterion
        Candidates, levels of splits, score.
    noise : {"none", "leaves", "splits+leaves", "votes"}
    mechanism : {"discrete", "laplace", "exponential"}
        The paper's leaf updates (algorithms 12 and 13) in place of the exact discrete ones.
    leaf_release : {"counts", "labels"}
        Noisy class counts, which answer with distributions too, or noisy labels alone.
    split_epsilon, leaf_epsilon : float
        Of the choice at each level, and of the leaves; 0 where there is no noise.
    n_trees : int
    sampling : {"disjoint", "poisson"}
        Trees on disjoint slots, or on rows that secret coins pick for each tree.
    rate : float
        Of Poisson sampling.
    grower : {"masks", "grouped"}
    random_splits : bool
        Splits drawn by public coins (extra trees).
    public_seed : int
        Of those coins, and of those that draw attributes.
    max_features : int
        Attributes that a node may choose from, drawn by public coins; 0 for all.
    queries : int
        Answers of voting trees to all analysts together, repeats included.
    query_epsilon, delta : float
        Of one answer of voting trees; of all together, where more than addition counts them.
    """

    domain: Domain
    capacity: int
    branching: Branching
    depth: int
    criterion: str
    noise: Noise = "none"
    mechanism: Mechanism = "discrete"
    leaf_release: LeafRelease = "counts"
    split_epsilon: float = 0.0
    leaf_epsilon: float = 0.0
    n_trees: int = 1
    sampling: Sampling = "disjoint"
    rate: float = 1.0
    grower: Literal["masks", "grouped"] = "masks"
    random_splits: bool = False
    public_seed: int = 0
    max_features: int = 0
    queries: int = 0
    query_epsilon: float = 0.0
    delta: float = 0.0

    @cached_property
    def layout(self) -> Layout:
        """Columns of tables and histograms."""
        return Layout(self.domain, self.branching)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        assert self.domain.target is not None
        assert self.domain.target.classes is not None
        return len(self.domain.target.classes)

    @property
    def n_slots(self) -> int:
        """Slots of the table: the capacity, rounded up to equal numbers for all trees."""
        if self.sampling == "poisson":
            return self.capacity
        return -(-self.capacity // self.n_trees) * self.n_trees

    @property
    def tree_rows(self) -> int:
        """Slots that one tree sees."""
        return self.n_slots if self.sampling == "poisson" else self.n_slots // self.n_trees

    @property
    def ring(self) -> Ring:
        """Of the shared table."""
        if self.prefers_nonempty and self.criterion == "max":
            return counting_ring(self.tree_rows + 2)
        return counting_ring(self.tree_rows)

    @property
    def prefers_nonempty(self) -> bool:
        """Whether of equal splits one that divides the records wins, as in the clear."""
        return self.branching == "binary" and self.noise != "splits+leaves"

    @cached_property
    def score(self) -> Criterion:
        """The criterion."""
        return criterion_named(self.criterion, "classes")

    @property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        return Public(self.tree_rows, self.n_classes)

    @property
    def shift(self) -> int:
        """Bits of the grid on which scores are whole numbers."""
        if self.criterion == "max":
            return 0
        if self.is_noisy_in_splits:
            return GRID_BITS
        return max(0, _SCORE_BITS - 2 * self.tree_rows.bit_length())

    @property
    def is_noisy_in_splits(self) -> bool:
        """Whether every split is a release of its own."""
        return self.noise == "splits+leaves" and not self.random_splits

    @property
    def split_mechanism(self) -> NoisyMax:
        """Noisy max over the candidates."""
        sensitivity = self.score.integer_sensitivity(self.public, self.shift)
        return NoisyMax(self.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone)

    @property
    def count_mechanism(self) -> TwoSidedGeometric:
        """Noise of the class counts in a leaf."""
        return TwoSidedGeometric(self.leaf_epsilon)

    @property
    def label_mechanism(self) -> NoisyMax:
        """Noisy max over the classes of a leaf."""
        return NoisyMax(self.leaf_epsilon, 1, monotone=True)

    @property
    def shows_counts(self) -> bool:
        """Whether answers may be distributions: leaves hold noisy counts, or trees vote."""
        if self.noise == "votes":
            return False
        single = self.mechanism == "discrete" and self.leaf_release == "counts"
        return self.n_trees > 1 or (single and self.noise in ("leaves", "splits+leaves"))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {name: getattr(self, name) for name in _FIELDS} | {"domain": self.domain.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**data | {"domain": Domain.from_dict(data["domain"], source="the plan")})


_FIELDS = tuple(field.name for field in fields(HiddenPlan))


def plan_hidden(
    domain: Domain,
    *,
    epsilon: float = 1.0,
    noise: Noise = "splits+leaves",
    depth: int | None = None,
    criterion: str | None = None,
    branching: Branching = "binary",
    mechanism: Mechanism = "discrete",
    leaf_release: LeafRelease = "counts",
    split_share: float = SPLIT_SHARE,
    capacity: int | None = None,
    n_trees: int = 1,
    sampling: Sampling = "disjoint",
    rate: float = 1.0,
    grower: Grower = "auto",
    random_splits: bool = False,
    public_seed: int = 0,
    max_features: int = 0,
    queries: int = 0,
    delta: float = 0.0,
) -> HiddenPlan:
    """Plan a hidden tree or forest from public numbers.

    Parameters
    ----------
    domain : Domain
        Public description of the table.
    epsilon : float
        Whole budget of one tree, add/remove neighbours; with "votes" that of all `queries`
        answers together; unused with ``noise="none"``.
    noise : {"none", "leaves", "splits+leaves", "votes"}
    depth : int, optional
        Levels of splits; by a public rule if None: that of `growing.budget.depth_for` where
        splits are noisy, as many as leave an average leaf enough records for its noise else.
    criterion : {"max", "gini"}, optional
        By default a public rule where splits are noisy, ``"max"`` else.
    branching : {"binary", "wary"}
    mechanism : {"discrete", "laplace", "exponential"}
        With one of the last two epsilon is the paper's, divided as there: equally between the
        levels and the leaves, or all of it for the leaves where the splits have no noise.
    leaf_release : {"counts", "labels"}
    split_share : float
        Share of epsilon for the splits.
    capacity : int, optional
        Instead of the domain's.
    n_trees, sampling, rate, grower, random_splits, public_seed, max_features, queries, delta
        As in `HiddenPlan`.

    Raises
    ------
    HedgerowError
        H116 without target classes, H201 for an epsilon that is no budget, H208 without a capacity,
        H501 for a tree that cannot be grown.
    """
    for name, value, allowed in (
        ("noise", noise, Noise),
        ("mechanism", mechanism, Mechanism),
        ("leaf_release", leaf_release, LeafRelease),
        ("sampling", sampling, Sampling),
        ("grower", grower, Grower),
    ):
        check_option(name, value, allowed)
    if criterion is not None:
        check_option("criterion", criterion, Score)
    if domain.target is None or domain.target.classes is None:
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    capacity = domain.capacity if capacity is None else capacity
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
    if capacity < 1:
        raise Code.BAD_PARAMETER.error(expected="room for records", found=f"capacity={capacity}")
    if noise in ("leaves", "splits+leaves"):
        epsilon = check_whole_epsilon(epsilon)
    if not 0 < split_share < 1:
        raise Code.BAD_PARAMETER.error(
            expected="split_share between 0 and 1", found=f"split_share={split_share}"
        )
    layout = Layout(domain, branching)
    if depth is not None:
        layout.check_depth(depth)
    check_forest(layout, noise, mechanism, n_trees, sampling, rate, max_features)
    # What one tree sees, on average where its rows are sampled: for the depth, not for privacy.
    sampled = sampling == "poisson"
    rows = math.ceil(capacity * rate) if sampled else -(-capacity // n_trees)
    split = leaf = 0.0
    if noise == "splits+leaves" and not random_splits:
        inner = plan_private(
            domain,
            epsilon=epsilon,
            depth=depth,
            criterion=criterion,
            branching=branching,
            split_share=split_share,
            capacity=rows,
        )
        depth, criterion = min(inner.spending.depth, layout.deepest), inner.score.name
        spending = divide(epsilon, depth, split_share)
        if mechanism != "discrete":
            spending = divide(epsilon, depth, depth / (depth + 1))
        split, leaf = spending.split, spending.leaf
    elif noise in ("leaves", "splits+leaves"):
        leaf = epsilon
    if depth is None:
        depth = _depth_without_noisy_splits(layout, rows, leaf)
    layout.check_depth(depth)
    plan = HiddenPlan(
        domain=domain,
        capacity=capacity,
        branching=branching,
        depth=depth,
        criterion=criterion or "max",
        noise=noise,
        mechanism=mechanism,
        leaf_release=leaf_release,
        split_epsilon=split,
        leaf_epsilon=leaf,
        n_trees=n_trees,
        sampling=sampling,
        rate=rate,
        grower="masks",
        random_splits=random_splits,
        public_seed=public_seed,
        max_features=max_features,
    )
    if noise == "votes":
        each = query_epsilon_for(epsilon, queries, plan.n_classes, delta=delta)
        plan = replace(plan, queries=queries, query_epsilon=each, delta=delta)
    return replace(plan, grower=chosen_grower(plan, grower))


def _depth_without_noisy_splits(layout: Layout, rows: int, leaf_epsilon: float) -> int:
    """Return the depth at which an average leaf still has records enough for its noise."""
    needed = max(float(_LEAF_ROWS), NODE_TO_NOISE / leaf_epsilon if leaf_epsilon else 0.0)
    arity = float(np.exp(np.log(layout.candidates.n_children).mean()))
    depth = max(1, int(math.log(max(rows / needed, 1.0)) / math.log(max(arity, 2.0))))
    return min(depth, layout.deepest, DEEPEST)


def check_forest(
    layout: Layout,
    noise: Noise,
    mechanism: Mechanism,
    n_trees: int,
    sampling: Sampling,
    rate: float,
    max_features: int,
) -> None:
    """Refuse forests whose guarantee or whose trees would not be what they seem."""
    if n_trees < 1:
        raise Code.BAD_PARAMETER.error(expected="at least one tree", found=f"n_trees={n_trees}")
    if not 0 < rate <= 1:
        raise Code.BAD_PARAMETER.error(
            expected="a sampling rate above 0 and at most 1", found=f"rate={rate}"
        )
    if noise == "votes" and sampling != "disjoint":
        # The price of an answer rests on one record being in one tree.
        raise Code.BAD_PARAMETER.error(
            expected="votes of trees on disjoint records",
            found=f"noise='votes' with sampling={sampling!r}",
            fix="choose sampling='disjoint', or noise='splits+leaves' for trees on sampled records",
        )
    if noise == "votes" and mechanism != "discrete":
        raise Code.BAD_PARAMETER.error(
            expected="votes with discrete noise",
            found=f"noise='votes' with mechanism={mechanism!r}",
            fix="choose mechanism='discrete'",
        )
    if max_features and layout.branching == "wary":
        # All of the attributes that were drawn may be used up on a path, which nobody sees.
        raise Code.BAD_PARAMETER.error(
            expected="max_features for binary trees alone",
            found=f"max_features={max_features} with branching='wary'",
            fix="choose branching='binary', or leave max_features out",
        )
    if not 0 <= max_features <= layout.n_features:
        raise Code.BAD_PARAMETER.error(
            expected=f"max_features from 1 to {layout.n_features}, the number of attributes",
            found=f"max_features={max_features}",
            fix="choose one of them, or leave max_features out: nodes then choose from all",
        )


def chosen_grower(plan: HiddenPlan, grower: Grower) -> Literal["masks", "grouped"]:
    """Choose how rows are kept, by public numbers; refuse what the grouped grower cannot do."""
    able = plan.branching == "binary" and plan.n_trees == 1 and plan.sampling == "disjoint"
    if grower == "grouped" and not able:
        raise Code.BAD_PARAMETER.error(
            expected="grower='grouped' for one binary tree",
            found=f"branching={plan.branching!r}, {plan.n_trees} trees",
            fix="choose grower='auto'",
        )
    return choose_grower(grower, plan.depth, ReplicatedEngine, groupable=able)
