"""DP-DF: private decision forests with one branch per bin, pruned and voting by confidence.

Paper: fletcher2015dpdf; compared with in consul2021diprime.

1. Level by level, noisy class counts of every node, then one attribute for each, chosen by the
   exponential mechanism on the Gini index among those that no split above has used. Roots differ
   from tree to tree while there are attributes left.
2. From the bottom up and below the root, leaves are taken back into a node whose noisy Gini index
   they do not improve on. A node whose noisy counts name one class at most is a leaf too.
3. A tree votes for the largest noisy count of a leaf with that count's share as its weight.

What holds. As published (``accounting="paper"``) every query costs epsilon / (trees (2 depth + 1)),
and all trees see all records. The counts do cost that. The Gini index is not given its global
sensitivity but its worst change at the noisy size n of the node,
1 - (n / (n + 1))^2 - (1 / (n + 1))^2: a local sensitivity at a size that may be wrong, not a bound
for all tables, so that there is no finite epsilon. ``accounting="strict"``: rows are dealt to the
trees by coins of their own, so that a query has epsilon / (2 depth + 1), and attributes are chosen
by the Gini index times the number of records, whose global sensitivity is 2.

Reveals: the forest with its noisy counts, to the public.
Cost: in the clear, no messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import (
    EACH,
    ROOT,
    ExponentialMechanism,
    Ledger,
    NoiseSource,
    Release,
    TwoSidedGeometric,
    part,
    register_mechanism,
    step,
)
from hedgerow.protocols.growers.units import rounded_down
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.private import GRID_BITS
from hedgerow.trees.tree import Tree
from reproduce.paper_001 import bootstrap
from reproduce.paper_001.dp_rf import NODES, TREES, Accounting, start_forest, stop_at_one_class
from reproduce.paper_001.wary import check_depth, cut_back, grow_wary, tree_of, wary_candidates

LOCAL = "exponential mechanism by local sensitivity"
_LOCAL_BITS = 30

register_mechanism(
    LOCAL,
    argument="the noise is scaled by the sensitivity at one table, of a noisy size: other tables "
    "have a larger one",
    guarantee=False,
)


@dataclass(frozen=True, eq=False)
class DpDfPlan:
    """Everything about a forest that is fixed before a row is touched; see `plan_dp_df`.

    `epsilon`: strictly, what holds; as published, what is claimed.
    """

    domain: Domain
    epsilon: float
    n_trees: int
    depth: int
    accounting: Accounting
    capacity: int

    @property
    def strict(self) -> bool:
        """Whether epsilon holds."""
        return self.accounting == "strict"

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        assert self.domain.target is not None
        return self.domain.target.n_classes or 0

    @cached_property
    def query(self) -> float:
        """Epsilon of one query: a choice or the counts, at one level of one tree."""
        queries = (2 * self.depth + 1) * (1 if self.strict else self.n_trees)
        each = rounded_down(Fraction(self.epsilon) / queries)
        if not each > 0:
            raise Code.BAD_EPSILON.error(found=f"epsilon={self.epsilon!r}, too small to be divided")
        return each

    @cached_property
    def score(self) -> Criterion:
        """What attributes are chosen by."""
        return criterion_named("gini", "classes")

    @cached_property
    def public(self) -> Public:
        """Public numbers behind the sensitivity."""
        return Public(self.capacity, self.n_classes)

    @cached_property
    def choose(self) -> ExponentialMechanism:
        """Mechanism of the attributes; as published, of scores in units of local sensitivity."""
        if not self.strict:
            return ExponentialMechanism(self.query, 1 << _LOCAL_BITS)
        sensitivity = self.score.integer_sensitivity(self.public, GRID_BITS)
        return ExponentialMechanism(
            self.query, sensitivity.add_remove, monotone=sensitivity.monotone
        )

    @cached_property
    def count(self) -> TwoSidedGeometric:
        """Mechanism of the counts; one record is in one node of a level and in one class."""
        return TwoSidedGeometric(self.query)

    def releases(self) -> Iterator[Release]:
        """Yield counts and choices of each level; nodes are parts, and strictly trees too."""
        trees, times = ROOT / step("trees"), self.n_trees
        if self.strict:
            trees, times = ROOT / part(TREES, EACH), 1
        m = self.domain.n_bins.size
        for level in range(self.depth + 1):
            yield Release(
                mechanism=self.count.name,
                epsilon=self.count.epsilon,
                delta=self.count.delta(self.n_classes),
                sensitivity=self.count.sensitivity,
                scope=trees / step(f"counts {level}") / part(NODES, EACH),
                audience="public",
                reason=f"class counts of each node at level {level}",
                times=times,
                variables=self.n_classes,
            )
            if level == self.depth:
                return
            yield Release(
                mechanism=self.choose.name if self.strict else LOCAL,
                epsilon=self.choose.epsilon if self.strict else math.inf,
                delta=0.0,
                sensitivity=self.choose.sensitivity,
                scope=trees / step(f"choice {level}") / part(NODES, EACH),
                audience="public",
                reason=f"attribute of each node at level {level}",
                claimed=None if self.strict else self.query,
                times=times,
                variables=m,
            )


def plan_dp_df(
    domain: Domain,
    *,
    epsilon: float,
    depth: int,
    n_trees: int = 10,
    accounting: Accounting = "strict",
    capacity: int | None = None,
) -> DpDfPlan:
    """Plan a forest from public numbers; parameters as in `DpDfPlan`.

    Raises H116 without target classes, H201 for an epsilon that cannot be divided, H208 without a
    capacity, H501 for a forest that cannot be grown.
    """
    check_option("accounting", accounting, Accounting)
    if domain.target is None or domain.target.classes is None:
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    known = capacity or domain.capacity
    if known is None:
        raise Code.MISSING_CAPACITY.error(found="no capacity")
    if n_trees < 1:
        raise Code.BAD_PARAMETER.error(expected="n_trees of at least 1", found=f"n_trees={n_trees}")
    check_depth(domain, depth)
    plan = DpDfPlan(domain, epsilon, n_trees, depth, accounting, known)
    _ = plan.choose, plan.count  # refuses what cannot be divided or does not fit into 64 bits
    return plan


def grow_dp_df(encoded: Encoded, plan: DpDfPlan, *, ledger: Ledger, source: NoiseSource) -> Forest:
    """Charge a plan and grow its forest; answer with ``votes(forest, bins, confident=True)``.

    Parameters and refusals as in `reproduce.paper_001.dp_rf.grow_dp_rf`.
    """
    start_forest(encoded, plan.domain, plan.capacity, ledger, source)
    ledger.charge(*plan.releases())
    samples: list[NDArray[np.int32] | None] = [None] * plan.n_trees
    if plan.strict:
        samples = [*bootstrap.dealt(encoded.n_slots, plan.n_trees, source)]
    trees: list[Tree] = []
    for sample in samples:
        roots = [int(tree.feature[0]) for tree in trees]
        trees.append(_tree(encoded, plan, sample, roots, source))
    return Forest(tuple(stop_at_one_class(pruned(tree)) for tree in trees))


def _tree(
    encoded: Encoded,
    plan: DpDfPlan,
    sample: NDArray[np.int32] | None,
    roots: list[int],
    source: NoiseSource,
) -> Tree:
    rows = Rows(encoded, wary_candidates(plan.domain), index=sample)
    counts: list[NDArray[np.float64]] = []

    def release(exact: NDArray[np.int64]) -> NDArray[np.float64]:
        counts.append(plan.count(exact, source).astype(np.float64))
        return counts[-1]

    def choose(nodes: NDArray[np.int64], valid: NDArray[np.bool_], level: int) -> NDArray[np.int64]:
        noisy = release(rows.counts(nodes))
        if level == 0:
            valid = _fresh(valid, roots)
        if plan.strict:
            scores = rows.integer_scores(nodes, plan.score, plan.public, GRID_BITS)
        else:
            scores = _by_local_sensitivity(rows, nodes, plan.score, noisy)
        return plan.choose(scores, source, valid=valid)

    levels = grow_wary(rows, plan.depth, choose)
    release(levels[-1].counts)
    return tree_of(plan.domain, levels, counts)


def _fresh(valid: NDArray[np.bool_], roots: list[int]) -> NDArray[np.bool_]:
    """Leave out the roots of earlier trees, which are public; all over again when none is left."""
    d = valid.shape[1]
    used = roots[len(roots) // d * d :]
    fresh = valid.copy()
    fresh[:, used] = False
    return fresh if fresh.any() else valid


def _by_local_sensitivity(
    rows: Rows, nodes: NDArray[np.int64], score: Criterion, noisy: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return Gini indices in units of their worst change at the noisy size of the node."""
    size = np.maximum(np.maximum(noisy, 0).sum(axis=1), 1.0)
    worst = 1 - (size / (size + 1)) ** 2 - (1 / (size + 1)) ** 2
    gini = rows.scores(nodes, score) / np.maximum(rows.sizes(nodes), 1)[:, None]
    scaled: NDArray[np.int64] = np.rint(gini / worst[:, None] * 2.0**_LOCAL_BITS).astype(np.int64)
    return scaled


def pruned(tree: Tree) -> Tree:
    """Take leaves back into their node where they do not lower its noisy Gini index.

    From the bottom up, never into the root. It sees the noisy counts alone, so it costs no privacy.
    """
    size = np.maximum(tree.value, 0.0).sum(axis=1)
    gini = 1 - (tree.distributions**2).sum(axis=1)
    gini[size == 0] = 1.0
    leaf = tree.first_child < 0
    cut_at = np.zeros(tree.n_nodes, dtype=np.bool_)
    for depth in range(tree.depth - 1, 0, -1):
        nodes = np.flatnonzero((tree.node_depths == depth) & (tree.first_child >= 0))
        parents = np.maximum(tree.parents, 0)
        below = tree.node_depths == depth + 1
        weighted = np.bincount(parents[below], (gini * size)[below], minlength=tree.n_nodes)
        inner = np.bincount(parents[below], ~leaf[below], minlength=tree.n_nodes)
        average = weighted[nodes] / np.maximum(size[nodes], 1.0)
        taken = nodes[(inner[nodes] == 0) & (average >= gini[nodes])]
        cut_at[taken] = leaf[taken] = True
    return Tree(tree.domain, **cut_back(tree, cut_at, tree.value, tree.weight))
