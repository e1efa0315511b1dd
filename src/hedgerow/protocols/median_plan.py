"""`MedianPlan`: everything about a forest of private medians that is fixed before a row is seen.

Paper: consul2021diprime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    ExponentialMechanism,
    NoisyMax,
    Partition,
    PermuteAndFlip,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.mechanisms import Choice
from hedgerow.privacy.planned import cost, planned, planned_total
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.protocols.median_budget import (
    DepthBudget,
    MedianSpending,
    candidates_for,
    depth_for,
    divide_tree,
    tree_epsilon,
)
from hedgerow.protocols.median_ranges import Attributes, widest_choice
from hedgerow.protocols.units import COARSE, Units, units_for
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.criteria import Criterion, Public, criterion_named
from hedgerow.trees.forest_counts import Batch, ForestShape

Variant = Literal["base", "exp", "flip", "max", "random"]
Accounting = Literal["strict", "paper"]

MEDIANS = "median of each candidate attribute"
CHOICES = "attribute of each node"
COUNTS = "counts of each leaf"
SUMS = "sum of each leaf"
MEANS = "mean of each leaf"

# Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon.
GRID_BITS = 10
MOST_NODES = 1 << 22
_MOST_ROWS = (1 << 31) - 1

_MECHANISMS: dict[str, type[Choice]] = {
    "base": ExponentialMechanism,
    "exp": ExponentialMechanism,
    "flip": PermuteAndFlip,
    "max": NoisyMax,
}


@dataclass(frozen=True, eq=False)
class MedianPlan:
    """A forest of private medians in public numbers; made by `plan_median`.

    Attributes
    ----------
    domain : Domain
    capacity : int
        Records at most.
    n_trees, depth : int
    variant : {"base", "exp", "flip", "max", "random"}
        How medians and attributes are drawn; see `plan_median`.
    candidates : int
        Attributes of which a node draws a median, K.
    partition : bool
        Whether a record is in one tree, by its own coin, or in all.
    spending : MedianSpending or None
        Epsilon of one tree; None without noise.
    accounting : {"strict", "paper"}
    criterion : str
        Score of a split, where one of several is chosen.
    shrinkage : bool
        Whether leaves are drawn towards the nodes above them, which costs nothing.
    public_seed : int
        Of the choices that depend on no record.
    """

    domain: Domain
    capacity: int
    n_trees: int
    depth: int
    variant: Variant
    candidates: int
    partition: bool
    spending: MedianSpending | None
    accounting: Accounting
    criterion: str
    shrinkage: bool
    public_seed: int

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.domain.target is not None and self.domain.target.classes is not None

    @property
    def score(self) -> Criterion:
        """The criterion, with its sensitivities."""
        return criterion_named(self.criterion, "classes" if self.is_classifier else "sums")

    @property
    def is_private(self) -> bool:
        """Whether there is noise."""
        return self.spending is not None

    @property
    def chooses(self) -> bool:
        """Whether a node chooses among several candidates by looking at the target."""
        return self.variant not in ("base", "random")

    @cached_property
    def shape(self) -> ForestShape:
        """What whoever counts rows has to know."""
        classes = self.domain.target.n_classes if self.domain.target else None
        bins = tuple(int(b) for b in self.domain.n_bins)
        return ForestShape(bins, self.n_trees, self.partition, classes)

    @cached_property
    def attributes(self) -> Attributes:
        """Candidates that the domain has."""
        return Attributes.of(self.domain)

    @cached_property
    def units(self) -> Units | None:
        """Scale of a numeric target."""
        return None if self.is_classifier else units_for(self.domain, self.capacity, COARSE)

    @property
    def shift(self) -> int:
        """Grid of the scores, in bits: fractions of a record matter for `gini` alone."""
        return GRID_BITS if self.criterion == "gini" else 0

    @cached_property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        if self.units is None:
            return Public(self.capacity, self.shape.n_classes)
        return Public(self.capacity, bounds=(-self.units.most, self.units.most))

    def median_at(self, level: int) -> Choice:
        """Mechanism of each median; the balance of two sides moves by 1, and both ways."""
        assert self.spending is not None
        return _MECHANISMS[self.variant](self.spending.medians[level], 1)

    def choice_at(self, level: int) -> Choice:
        """Mechanism of the choice of an attribute."""
        assert self.spending is not None
        figure = self.score.integer_sensitivity(self.public, self.shift)
        epsilon, mechanism = self.spending.choices[level], _MECHANISMS[self.variant]
        if self.accounting == "strict":
            return mechanism(epsilon, figure.add_remove, monotone=figure.monotone)
        return mechanism(epsilon, self._paper_sensitivity(figure.add_remove))

    def _paper_sensitivity(self, global_one: int) -> int:
        """Return 4 B^2 of the paper in integer units: its N cancels against the score's.

        The paper weighs -SSE/N with a sensitivity of 4 B^2/N; both divide by the same N, so that
        the law is that of -SSE with 4 B^2. B bounds the magnitude of the target, not its width.
        """
        if self.units is None:
            return global_one
        reach = max(abs(self.units.low), abs(self.units.high)) / self.units.half
        return max(1, math.ceil((2 * reach * self.units.most) ** 2)) << self.shift

    @cached_property
    def count(self) -> TwoSidedGeometric:
        """Mechanism of counts in the leaves; one record is in one leaf and one class."""
        assert self.spending is not None
        return TwoSidedGeometric(self.spending.counts)

    @cached_property
    def sum(self) -> TwoSidedGeometric:
        """Mechanism of sums in the leaves, in units: centred, so that a record adds U at most."""
        assert self.spending is not None
        assert self.units is not None
        return TwoSidedGeometric(self.spending.sums, self.units.most)

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Make a batch of an encoded table; a numeric target in whole units.

        Raises
        ------
        HedgerowError
            H117 for a table of another domain, H116 without a target.
        """
        if encoded.domain is not self.domain and encoded.domain != self.domain:
            raise Code.BAD_DOMAIN.error(
                expected="a table of the domain that was planned for", found="another domain"
            )
        if encoded.target is None:
            raise Code.BAD_TARGET.error(found="a table without a target")
        if self.units is None:
            return Batch(encoded.bins, encoded.target, encoded.present, number)
        counted = self.units.count(encoded).target
        assert counted is not None
        return Batch(encoded.bins, counted.astype(np.int64), encoded.present, number)

    def __str__(self) -> str:
        return planned(self._heading, self.releases())

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        return f"<MedianPlan: {self._heading}; {cost(planned_total(self.releases()))}>"

    @property
    def _heading(self) -> str:
        task = "classification" if self.is_classifier else "regression"
        records = "each record in one of them" if self.partition else "all records in each"
        trees = "1 tree" if self.n_trees == 1 else f"{self.n_trees} trees ({records})"
        return (
            f"{task}, {trees}, depth {self.depth}, {self.variant} with "
            f"K = {self.candidates}, {self.accounting} accounting"
        )

    def releases(self) -> list[Release]:
        """List every release: trees that share no record are parts, others are steps.

        Within a tree the levels are steps, and the nodes of a level parts.
        """
        if self.partition:
            trees = [ROOT / part(Partition("trees", By.COIN), EACH)]
        else:
            trees = [ROOT / step(f"tree {t}") for t in range(self.n_trees)]
        return [release for tree in trees for release in self._of_one_tree(tree)]

    def _of_one_tree(self, tree: Scope) -> list[Release]:
        nodes, leaves = (Partition(name, By.ATTRIBUTES) for name in ("nodes", "leaves"))
        if self.spending is None:
            scope = tree / step("tree") / part(nodes, EACH)
            return [Release("exact", math.inf, 0.0, 1.0, scope, "public", "splits and leaves")]
        found = []
        for level in range(len(self.spending.medians)):
            scope = tree / step(f"level {level}") / part(nodes, EACH)
            times = self.spending.times
            # As published: the medians of a node are claimed to cost what one of them costs.
            claimed = self.spending.medians[level] / times if self.accounting == "paper" else None
            found.append(
                _release(
                    self.median_at(level),
                    scope,
                    MEDIANS,
                    self._widest,
                    times=times,
                    claimed=claimed,
                )
            )
            if self.chooses:
                found.append(_release(self.choice_at(level), scope, CHOICES, self.candidates))
        scope = tree / step("leaves") / part(leaves, EACH)
        if self.is_classifier:
            return [*found, _release(self.count, scope, COUNTS, self.shape.n_channels)]
        if self.accounting == "paper":
            epsilon = self.spending.counts
            name = DATA_SCALED.name
            return [
                *found,
                Release(name, math.inf, 0.0, 1.0, scope, "public", MEANS, claimed=epsilon),
            ]
        return [
            *found,
            _release(self.count, scope, COUNTS, 1),
            _release(self.sum, scope, SUMS, 1),
        ]

    @cached_property
    def _widest(self) -> int:
        return widest_choice(self.attributes)


@lru_cache(maxsize=512)
def _delta(mechanism: Choice | TwoSidedGeometric, variables: int) -> float:
    return mechanism.delta(variables)


def _release(
    mechanism: Choice | TwoSidedGeometric,
    scope: Scope,
    reason: str,
    variables: int,
    *,
    times: int = 1,
    claimed: float | None = None,
) -> Release:
    return Release(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=_delta(mechanism, variables),
        sensitivity=mechanism.sensitivity,
        scope=scope,
        audience="public",
        reason=reason,
        claimed=claimed,
        times=times,
        variables=variables,
    )


def plan_median(
    domain: Domain,
    *,
    epsilon: float | None,
    n_trees: int = 10,
    depth: int | None = None,
    variant: Variant = "flip",
    candidates: int | None = None,
    split_share: float = 0.5,
    partition: bool = True,
    accounting: Accounting = "strict",
    depth_budget: DepthBudget = "uniform",
    criterion: str | None = None,
    shrinkage: bool = True,
    public_seed: int = 0,
    capacity: int | None = None,
) -> MedianPlan:
    """Plan a forest of private medians from public numbers.

    Parameters
    ----------
    domain : Domain
        Public description of the table, with its target.
    epsilon : float or None
        Whole budget, add/remove neighbours; None grows the same forest without noise.
    n_trees : int
    depth : int, optional
        Levels of splits; by a public rule if None.
    variant : {"base", "exp", "flip", "max", "random"}
        "base": one attribute at random, its median by the exponential mechanism. "exp", "flip",
        "max": medians of `candidates` attributes, and one of these, by the exponential
        mechanism, permute-and-flip or noisy max. "random": attribute and cut at random, so that
        the whole budget is for the leaves.
    candidates : int, optional
        K, at most the number of attributes; by a public rule if None.
    split_share : float
        Share of epsilon for the splits.
    partition : bool
        Put each record into one tree, by its own secret coin, or into all of them.
    accounting : {"strict", "paper"}
        "paper" draws as published; what that costs is in the ledger, beside what is claimed.
    depth_budget : {"uniform", "rising", "falling"}
        How the splits' budget is spread over the levels.
    criterion : str, optional
        ``"gini"`` or ``"max"`` for classes.
    shrinkage : bool
    public_seed : int
        Of the choices that depend on no record; not secret.
    capacity : int, optional
        Instead of the domain's.

    Raises
    ------
    HedgerowError
        H116 without a target, H208 without a capacity, H501 for a forest that cannot be grown.
    """
    check_option("variant", variant, Variant)
    check_option("accounting", accounting, Accounting)
    check_option("depth_budget", depth_budget, DepthBudget)
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    capacity = domain.capacity if capacity is None else capacity
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
    classes = domain.target.n_classes
    _check_trees(n_trees, partition, capacity)
    own = None if epsilon is None else tree_epsilon(epsilon, n_trees, partition)
    if variant in ("base", "random"):
        candidates = 1
    elif candidates is None:
        many = len(domain.attributes)
        candidates = many if epsilon is None else candidates_for(capacity, epsilon, many)
    times = candidates
    _check_attributes(domain, times)
    share = 0.0 if variant == "random" else split_share
    if depth is None:
        records = capacity / (n_trees if partition else 1)
        depth = depth_for(records, math.inf if own is None else own, share)
    if n_trees << min(depth, 40) > MOST_NODES:
        raise Code.BAD_PARAMETER.error(
            expected=f"at most {MOST_NODES:,} leaves",
            found=f"{n_trees} trees of depth {depth}",
            fix="choose a smaller max_depth or fewer trees",
        )
    spending = None
    if own is not None:
        spending = divide_tree(
            own,
            depth,
            split_share=share,
            times=times,
            chooses=variant in ("exp", "flip", "max"),
            regression=classes is None,
            depth_budget=depth_budget,
            strict=accounting == "strict",
        )
    if criterion is None:
        criterion = "gini" if classes is not None else "squared_error"
    plan = MedianPlan(
        domain,
        capacity,
        n_trees,
        depth,
        variant,
        times,
        partition,
        spending,
        accounting,
        criterion,
        shrinkage,
        int(public_seed),
    )
    plan.score.check(plan.public, plan.shift)
    return plan


def _check_trees(n_trees: int, partition: bool, capacity: int) -> None:
    if n_trees < 1 or (partition and n_trees > capacity):
        raise Code.BAD_PARAMETER.error(
            expected=f"from 1 to {capacity} trees, the capacity",
            found=f"{n_trees} trees",
            fix="choose fewer trees, or partition=False",
        )


def _check_attributes(domain: Domain, candidates: int) -> None:
    if not any(bins >= 2 for bins in domain.n_bins):
        raise Code.BAD_PARAMETER.error(
            expected="at least one attribute with two bins", found="no candidate split"
        )
    d = len(domain.attributes)
    if not 1 <= candidates <= d:
        raise Code.BAD_PARAMETER.error(
            expected=f"max_features from 1 to {d}, the number of attributes",
            found=f"max_features={candidates}",
        )
