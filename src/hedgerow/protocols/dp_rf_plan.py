"""`DpRfPlan`: everything about a DP-RF forest that is fixed before a row is touched.

Papers: patil2014dprf, friedman2010data, consul2021diprime.

``accounting="strict"``: trees are siblings, so that each has all of epsilon; the choices of a tree
have `SPLIT_SHARE` of it, its leaves the rest; means are noisy sums over noisy counts.
``accounting="paper"``: each tree is said to cost epsilon / trees, half of it for choices and half
for counts, over depth + 1 levels. With classes that is true of the rows of its sample, and a
bootstrap sample costs more than its rows (`hedgerow.protocols.bootstrap`). With numbers the noise
of a mean is scaled by the number of records in the node, which is private: no finite epsilon. (The
same number cancels from the choice: the score and its sensitivity are both divided by it.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    ExponentialMechanism,
    Partition,
    Release,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.protocols import bootstrap
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.protocols.growers.units import COARSE, Units, cut, rounded_down, units_for
from hedgerow.protocols.median.budget import SUM_SHARE
from hedgerow.protocols.wary import check_depth
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import SPLIT_SHARE, divide
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.private import GRID_BITS

Accounting = Literal["strict", "paper"]

TREES = Partition("trees", By.COIN)
NODES = Partition("nodes", By.ATTRIBUTES)


@dataclass(frozen=True, eq=False)
class DpRfPlan:
    """Everything about a forest that is fixed before a row is touched; see `plan_dp_rf`.

    Parameters
    ----------
    domain : Domain
    epsilon : float
        Strictly, what holds; as published, what is claimed.
    n_trees, depth : int
    max_features : int or None
        Attributes drawn for each node; None for all.
    accounting : {"strict", "paper"}
    capacity : int
        Public upper bound on the number of records.
    """

    domain: Domain
    epsilon: float
    n_trees: int
    depth: int
    max_features: int | None
    accounting: Accounting
    capacity: int

    @property
    def strict(self) -> bool:
        """Whether epsilon holds."""
        return self.accounting == "strict"

    @cached_property
    def units(self) -> Units | None:
        """Scale of a numeric target; None with classes."""
        target = self.domain.target
        if target is None or target.classes is not None:
            return None
        return units_for(self.domain, self.capacity, COARSE)

    @cached_property
    def score(self) -> Criterion:
        """What splits are chosen by."""
        return criterion_named(*(("squared_error", "sums") if self.units else ("gini", "classes")))

    @cached_property
    def public(self) -> Public:
        """Public numbers behind the sensitivity."""
        if self.units:
            return Public(self.capacity, bounds=(-self.units.most, self.units.most))
        return Public(self.capacity, self.n_classes)

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for numbers."""
        return (self.domain.target.n_classes or 0) if self.domain.target else 0

    @property
    def shift(self) -> int:
        """Bits of the grid of the scores."""
        return 0 if self.units else GRID_BITS

    @cached_property
    def parts(self) -> tuple[float, float]:
        """Epsilon of one choice and of the counts or means of one level, in one tree."""
        if self.strict:
            spending = divide(self.epsilon, self.depth, SPLIT_SHARE)
            return spending.split, spending.leaf
        each = rounded_down(Fraction(self.epsilon) / (2 * self.n_trees * (self.depth + 1)))
        if not each > 0:
            raise Code.BAD_EPSILON.error(found=f"epsilon={self.epsilon!r}, too small to be divided")
        return each, each

    @cached_property
    def choose(self) -> ExponentialMechanism:
        """Mechanism of the splits."""
        sensitivity = self.score.integer_sensitivity(self.public, self.shift)
        if self.strict:
            return ExponentialMechanism(
                self.parts[0], sensitivity.add_remove, monotone=sensitivity.monotone
            )
        if self.units:
            # The paper's 4 B^2 / N for a mean squared error over N records, B a bound on abs(y).
            return ExponentialMechanism(self.parts[0], 4 * self._bound**2 << self.shift)
        return ExponentialMechanism(self.parts[0], sensitivity.add_remove)

    @property
    def _bound(self) -> int:
        """The largest abs(y) of the bounds, in units."""
        assert self.units is not None
        scale = self.units.most / self.units.half
        return math.ceil(max(abs(self.units.low), abs(self.units.high)) * scale)

    @cached_property
    def count(self) -> TwoSidedGeometric:
        """Mechanism of class counts, and strictly of the counts behind means."""
        epsilon = cut(self.parts[1], 1 - SUM_SHARE)[0] if self.units else self.parts[1]
        return TwoSidedGeometric(epsilon)

    @cached_property
    def total(self) -> TwoSidedGeometric:
        """Strictly, mechanism of the sums behind means."""
        assert self.units is not None
        return TwoSidedGeometric(cut(self.parts[1], 1 - SUM_SHARE)[1], self.units.most)

    def releases(self) -> list[Release]:
        """Return what the forest costs, all of it in advance."""
        return list(self._strict_releases()) if self.strict else [self._paper_release()]

    def _strict_releases(self) -> Iterator[Release]:
        """One release per level and one or two for the leaves; trees, nodes, leaves are parts."""
        tree = ROOT / part(TREES, EACH)
        m = self.domain.n_bins.size
        for level in range(self.depth):
            yield Release(
                mechanism=self.choose.name,
                epsilon=self.choose.epsilon,
                delta=self.choose.delta(m),
                sensitivity=self.choose.sensitivity,
                scope=tree / step(f"level {level}") / part(NODES, EACH),
                audience="public",
                reason=f"attribute of each node at level {level}",
                variables=m,
            )
        named = [("class counts", self.count, self.n_classes)]
        if self.units:
            named = [("number of records", self.count, 1), ("sum of the target", self.total, 1)]
        for what, mechanism, variables in named:
            yield Release(
                mechanism=mechanism.name,
                epsilon=mechanism.epsilon,
                delta=mechanism.delta(variables),
                sensitivity=mechanism.sensitivity,
                scope=tree / step(what) / part(Partition("leaves", By.ATTRIBUTES), EACH),
                audience="public",
                reason=f"{what} of each leaf",
                variables=variables,
            )

    def _paper_release(self) -> Release:
        """One release per tree: all its choices and counts, on its sample."""
        epsilon, delta, mechanism = math.inf, 0.0, DATA_SCALED.name
        if not self.units:
            inner = self.depth * self.parts[0] + (self.depth + 1) * self.parts[1]
            own = (self.depth + 1) * self.count.delta(self.n_classes)
            epsilon, delta = bootstrap.bootstrapped(inner, own)
            mechanism = bootstrap.MECHANISM
        return Release(
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            sensitivity=1.0,
            scope=ROOT / step("trees"),
            audience="public",
            reason="tree on a bootstrap sample of the records",
            claimed=self.epsilon / self.n_trees,
            times=self.n_trees,
        )


def plan_dp_rf(
    domain: Domain,
    *,
    epsilon: float,
    depth: int,
    n_trees: int = 10,
    max_features: int | None = 5,
    accounting: Accounting = "strict",
    capacity: int | None = None,
) -> DpRfPlan:
    """Plan a forest from public numbers; parameters as in `DpRfPlan`.

    Raises
    ------
    HedgerowError
        H116 without a target, H201 for an epsilon that cannot be divided, H208 without a capacity,
        H501 for a forest that cannot be grown.
    """
    check_option("accounting", accounting, Accounting)
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    known = capacity or domain.capacity
    if known is None:
        raise Code.MISSING_CAPACITY.error(found="no capacity")
    if n_trees < 1 or (max_features is not None and max_features < 1):
        raise Code.BAD_PARAMETER.error(
            expected="n_trees and max_features of at least 1",
            found=f"n_trees={n_trees}, max_features={max_features}",
        )
    check_depth(domain, depth)
    plan = DpRfPlan(domain, epsilon, n_trees, depth, max_features, accounting, known)
    _ = plan.choose, plan.count  # refuses what cannot be divided or does not fit into 64 bits
    return plan
