"""DP-RF: private random forests with one branch per bin, for classes and for numbers.

Papers: patil2014dprf, friedman2010data; the regression analogue is that of consul2021diprime.

1. Each tree has a sample of the rows: as published a bootstrap sample, or, strictly, the rows that
   were dealt to it by coins of their own.
2. Level by level, every node is split by one of K random attributes that no split above has used,
   chosen by the exponential mechanism; the score is the Gini index, or the squared error.
3. Class counts plus two-sided geometric noise, or a noisy mean, in every leaf. As published, counts
   in every node, and a node whose noisy counts name one class at most is a leaf.
4. Trees vote; those of numbers are averaged.

What holds. ``accounting="strict"``: trees are siblings, so that each has all of epsilon; the
choices of a tree have `SPLIT_SHARE` of it, its leaves the rest; means are noisy sums over noisy
counts. ``accounting="paper"``: each tree is said to cost epsilon / trees, half of it for choices
and half for counts, over depth + 1 levels. With classes that is true of the rows of its sample, and
a bootstrap sample costs more than its rows (`reproduce.paper_001.bootstrap`). With numbers the
noise of a mean is scaled by the number of records in the node, which is private: no finite epsilon.
(The same number cancels from the choice: the score and its sensitivity are both divided by it.)

Reveals: the forest with its noisy counts or means, to the public.
Cost: in the clear, no messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    ExponentialMechanism,
    Ledger,
    NoiseSource,
    Partition,
    Release,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.protocols.growers.units import COARSE, Units, cut, rounded_down, units_for
from hedgerow.protocols.median.plan import SUM_SHARE
from hedgerow.tables import Domain, Encoded, check_capacity
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.budget import SPLIT_SHARE, divide
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.growing.private import GRID_BITS
from hedgerow.trees.tree import Tree
from reproduce.paper_001 import bootstrap
from reproduce.paper_001.wary import (
    check_depth,
    cut_back,
    grow_wary,
    node_counts,
    some_attributes,
    tree_of,
    wary_candidates,
)

Accounting = Literal["strict", "paper"]

TREES = Partition("trees", By.COIN)
NODES = Partition("nodes", By.ATTRIBUTES)
_FINE = 20


@dataclass(frozen=True, eq=False)
class DpRfPlan:
    """Everything about a forest that is fixed before a row is touched; see `plan_dp_rf`.

    `epsilon`: strictly, what holds; as published, what is claimed. `max_features`: attributes drawn
    for each node; None for all.
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

    Raises H116 without a target, H201 for an epsilon that cannot be divided, H208 without a
    capacity, H501 for a forest that cannot be grown.
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


def grow_dp_rf(encoded: Encoded, plan: DpRfPlan, *, ledger: Ledger, source: NoiseSource) -> Forest:
    """Charge a plan and grow its forest.

    `ledger`: charged before anything is drawn; marked as not private if the noise is seeded. Raises
    H112 for more records than the capacity, H117 for a table of another domain, H202 for a domain
    read from the data unless the ledger is marked as not private; nothing is charged.
    """
    start_forest(encoded, plan.domain, plan.capacity, ledger, source)
    ledger.charge(*plan.releases())
    target = None
    if plan.units:
        target = np.asarray(plan.units.count(encoded).target, dtype=np.int64)
    if plan.strict:
        samples = bootstrap.dealt(encoded.n_slots, plan.n_trees, source)
    else:
        samples = [bootstrap.bootstrap_sample(encoded.present, source) for _ in range(plan.n_trees)]
    return Forest(tuple(_tree(encoded, plan, sample, target, source) for sample in samples))


def start_forest(
    encoded: Encoded, domain: Domain, capacity: int, ledger: Ledger, source: NoiseSource
) -> None:
    """Refuse what must not be charged for, and say in the ledger where noise is seeded."""
    if not domain.is_public and not ledger.not_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {domain.provenance!r}")
    check_capacity(int(encoded.present.sum()), capacity)
    if encoded.domain is not domain and encoded.domain != domain:
        raise Code.BAD_DOMAIN.error(
            expected="a table of the domain that was planned for", found="another domain"
        )
    if not source.private:
        ledger.mark_not_private("the noise was seeded")


def _tree(
    encoded: Encoded,
    plan: DpRfPlan,
    sample: NDArray[np.int32],
    target: NDArray[np.int64] | None,
    source: NoiseSource,
) -> Tree:
    rows = Rows(encoded, wary_candidates(plan.domain), index=sample, target=target)

    def choose(nodes: NDArray[np.int64], valid: NDArray[np.bool_], level: int) -> NDArray[np.int64]:
        scores = rows.integer_scores(nodes, plan.score, plan.public, plan.shift)
        drawn = some_attributes(valid, plan.max_features, source)
        return plan.choose(scores, source, valid=drawn)

    levels = grow_wary(rows, plan.depth, choose)
    counts = node_counts(rows, levels)
    if plan.units:
        leaf = _strict_means if plan.strict else _paper_means
        return tree_of(plan.domain, levels, _leaves_only(levels, leaf(counts[-1], plan, source)))
    if plan.strict:
        noisy = plan.count(counts[-1], source).astype(np.float64)
        return tree_of(plan.domain, levels, _leaves_only(levels, noisy))
    return stop_at_one_class(
        tree_of(plan.domain, levels, [plan.count(level, source).astype(float) for level in counts])
    )


def _leaves_only(
    levels: list[NodeSplits], leaves: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Put leaf values below inner nodes whose values were not released."""
    return [*(np.full((s.nodes.size, leaves.shape[1]), np.nan) for s in levels), leaves]


def _strict_means(counts: NDArray[Any], plan: DpRfPlan, source: NoiseSource) -> NDArray[np.float64]:
    """Return noisy sums of centred targets over noisy counts, within the bounds, (leaves, 1)."""
    assert plan.units is not None
    n = np.maximum(plan.count(counts[:, 0], source), 1)
    mean = np.clip(plan.total(counts[:, 1], source) / n / plan.units.most, -1.0, 1.0)
    return (plan.units.centre + plan.units.half * mean)[:, None]


def _paper_means(counts: NDArray[Any], plan: DpRfPlan, source: NoiseSource) -> NDArray[np.float64]:
    """Return means plus Laplace noise of scale (hi - lo) / (records epsilon), as published.

    Not clipped; a leaf without records has a uniform value. The noise is two-sided geometric on a
    grid of 2^-20 of its scale.
    """
    assert plan.units is not None
    n, units = counts[:, 0], plan.units
    noise = TwoSidedGeometric(1.0, 1 << _FINE)(np.zeros(n.size, dtype=np.int64), source)
    laplace = noise / 2.0**_FINE / plan.parts[1]
    uniform = source.integers((2 << _FINE) + 1, n.size) / 2.0**_FINE - 1
    mean = (counts[:, 1] / units.most + 2 * laplace) / np.maximum(n, 1)
    return (units.centre + units.half * np.where(n > 0, mean, uniform))[:, None]


def stop_at_one_class(tree: Tree) -> Tree:
    """Make leaves of nodes whose noisy counts name one class at most.

    A node without any positive count answers as the node above it. What was drawn below is not
    used; it was paid for all the same.
    """
    named = (tree.value > 0).sum(axis=1)
    value = tree.value.copy()
    for depth in range(1, tree.depth + 1):
        silent = np.flatnonzero((named == 0) & (tree.node_depths == depth))
        value[silent] = value[tree.parents[silent]]
    inner = tree.first_child >= 0
    return Tree(tree.domain, **cut_back(tree, inner & (named <= 1), value, tree.weight))
