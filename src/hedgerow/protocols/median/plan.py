"""`MedianPlan`: everything about a forest of private medians that is fixed before a row is seen.

Paper: consul2021diprime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    Partition,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.mechanisms import Choice
from hedgerow.privacy.planned import cost, planned, planned_total
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.protocols.median.budget import (
    DepthBudget,
    candidates_for,
    depth_for,
    divide_tree,
    tree_epsilon,
)
from hedgerow.protocols.median.mechanisms import Accounting as Accounting
from hedgerow.protocols.median.mechanisms import MedianMechanisms
from hedgerow.protocols.median.mechanisms import Variant as Variant
from hedgerow.tables import Domain

MEDIANS = "median of each candidate attribute"
CHOICES = "attribute of each node"
COUNTS = "counts of each leaf"
SUMS = "sum of each leaf"
MEANS = "mean of each leaf"

MOST_NODES = 1 << 22


@dataclass(frozen=True, eq=False)
class MedianPlan(MedianMechanisms):
    """A forest of private medians in public numbers; made by `plan_median`.

    Attributes are those of `MedianMechanisms`. A plan knows every release before it is drawn.
    """

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
