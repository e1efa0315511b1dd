"""`MedianOptions`: parameters of a forest of private medians, and the public rules behind "auto".

Paper: consul2021diprime, section 4. The rules that the paper leaves open were chosen by
measurement; ``docs/explanation/median-forest.md`` shows what came out.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.contract import AtLeastOne, Auto, Epsilon, Options, Share
from hedgerow.protocols.growers.units import rounded_down
from hedgerow.protocols.median.plan import (
    Accounting,
    DepthBudget,
    MedianPlan,
    Variant,
    divide_tree,
)
from hedgerow.tables import Domain

LEAST_RECORDS = 25.0
"""Records that a leaf holds on average, in the paper's rule of depth."""
RECORDS_TO_NOISE = 6.0
"""Records of an average leaf over the scale of its noise, 1 / epsilon of the leaves."""
DEEPEST = 12
MOST_CANDIDATES = 16
CANDIDATE_RECORDS = 144.0
"""K candidates are worth their budget from K^2 times so many records times epsilon on."""
MOST_NODES = 1 << 22


class MedianOptions(Options):
    """A forest of one curator's table whose splits are private medians."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    # Without one a forest grows without noise, for the comparison; estimators always have one.
    epsilon: Epsilon | None = Field(
        None, description="Budget of the whole forest, add/remove neighbours."
    )
    n_estimators: AtLeastOne = Field(4, description="Trees.")
    max_depth: Auto | AtLeastOne = Field(
        "auto", description="Levels of splits; by a public rule from capacity, trees and epsilon."
    )
    variant: Variant = Field(
        "flip",
        description="How medians and attributes are drawn: by permute-and-flip, the exponential "
        "mechanism or noisy max; one attribute at random; attribute and cut at random.",
    )
    max_features: Auto | AtLeastOne = Field(
        "auto", description="Attributes of which a node draws a median (K)."
    )
    split_share: Share = Field(0.6, description="Share of epsilon for the splits.")
    partition: bool = Field(
        False, description="Each row in one tree, by a secret coin of its own, or in all of them."
    )
    accounting: Accounting = Field(
        "strict", description="Sound, or as published; the ledger has what that costs."
    )
    depth_budget: DepthBudget = Field(
        "uniform", description="How the splits' budget is spread over the levels."
    )
    shrinkage: bool = Field(True, description="Draw leaves towards the nodes above them.")
    public_seed: Annotated[int, Field(ge=0)] = Field(
        0, description="Of the choices that depend on no row; public."
    )

    def plan(self, domain: Domain, capacity: int | None = None) -> MedianPlan:
        """Plan a forest from public numbers.

        H116 without a target, H208 without a capacity, H501 for a forest that cannot be grown.
        """
        if domain.target is None:
            raise Code.BAD_TARGET.error(found="a domain without a target")
        capacity = domain.capacity if capacity is None else capacity
        if capacity is None:
            raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
        self._check_trees(capacity)
        epsilon = None if self.epsilon is None else self._tree_epsilon(self.epsilon)
        candidates = self._candidates(capacity, len(domain.attributes))
        _check_attributes(domain, candidates)
        share = 0.0 if self.variant == "random" else self.split_share
        if self.max_depth == "auto":
            records = capacity / (self.n_estimators if self.partition else 1)
            depth = depth_for(records, math.inf if epsilon is None else epsilon, share)
        else:
            depth = self.max_depth
        if self.n_estimators << min(depth, 40) > MOST_NODES:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {MOST_NODES:,} leaves",
                found=f"{self.n_estimators} trees of depth {depth}",
                fix="choose a smaller max_depth or fewer trees",
            )
        spending = None
        if epsilon is not None:
            spending = divide_tree(
                epsilon,
                depth,
                split_share=share,
                times=candidates,
                chooses=self.variant in ("exp", "flip", "max"),
                regression=domain.target.classes is None,
                depth_budget=self.depth_budget,
                strict=self.accounting == "strict",
            )
        plan = MedianPlan(
            domain=domain,
            capacity=capacity,
            n_trees=self.n_estimators,
            depth=depth,
            variant=self.variant,
            candidates=candidates,
            partition=self.partition,
            spending=spending,
            accounting=self.accounting,
            shrinkage=self.shrinkage,
            public_seed=self.public_seed,
        )
        plan.score.check(plan.public, plan.shift)
        return plan

    def _tree_epsilon(self, epsilon: float) -> float:
        """Return the epsilon of one tree: all of it where a record is in one tree alone."""
        check_whole_epsilon(epsilon)
        return epsilon if self.partition else rounded_down(Fraction(epsilon) / self.n_estimators)

    def _candidates(self, capacity: int, n_attributes: int) -> int:
        if self.variant in ("base", "random"):
            return 1
        if self.max_features != "auto":
            return self.max_features
        if self.epsilon is None:
            return n_attributes
        return candidates_for(capacity, self.epsilon, n_attributes)

    def _check_trees(self, capacity: int) -> None:
        if self.partition and self.n_estimators > capacity:
            raise Code.BAD_PARAMETER.error(
                expected=f"from 1 to {capacity} trees, the capacity",
                found=f"{self.n_estimators} trees",
                fix="choose fewer trees, or partition=False",
            )


def candidates_for(capacity: int, epsilon: float, n_attributes: int) -> int:
    """Choose K for a forest's epsilon: the more noise, the fewer medians share a node's budget."""
    worth = math.isqrt(int(capacity * epsilon / CANDIDATE_RECORDS))
    return min(n_attributes, MOST_CANDIDATES, max(1, worth))


def depth_for(records: float, epsilon: float, split_share: float) -> int:
    """Choose the depth of a tree of so many records at most, by a tree's epsilon.

    The paper takes the deepest tree whose leaves hold 25 records on average. Where noise is
    larger than that, leaves have to be, too: they hold at least `RECORDS_TO_NOISE` times the
    scale of a leaf's noise.
    """
    leaf = max(LEAST_RECORDS, RECORDS_TO_NOISE / ((1 - split_share) * epsilon))
    return int(min(DEEPEST, max(1, math.floor(math.log2(max(records / leaf, 2.0))))))


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
