"""DP-RF: private random forests with one branch per bin, for classes and for numbers.

Papers: patil2014dprf, friedman2010data; the regression analogue is that of consul2021diprime.

1. Each tree has a sample of the rows: as published a bootstrap sample, or, strictly, the rows that
   were dealt to it by coins of their own.
2. Level by level, every node is split by one of K random attributes that no split above has used,
   chosen by the exponential mechanism; the score is the Gini index, or the squared error.
3. Class counts plus two-sided geometric noise, or a noisy mean, in every leaf. As published, counts
   in every node, and a node whose noisy counts name one class at most is a leaf.
4. Trees vote; those of numbers are averaged.

What holds is said in `hedgerow.protocols.dp_rf_plan`.

Reveals: the forest with its noisy counts or means, to the public.
Cost: in the clear, no messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, NoiseSource, TwoSidedGeometric
from hedgerow.protocols import bootstrap
from hedgerow.protocols.dp_rf_plan import DpRfPlan
from hedgerow.protocols.wary import (
    grow_wary,
    node_counts,
    some_attributes,
    tree_of,
    wary_candidates,
)
from hedgerow.tables import Domain, Encoded, check_capacity
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.nodes import Split
from hedgerow.trees.prune import cut_back
from hedgerow.trees.tree import Tree

_FINE = 20


def grow_dp_rf(encoded: Encoded, plan: DpRfPlan, *, ledger: Ledger, source: NoiseSource) -> Forest:
    """Charge a plan and grow its forest.

    Parameters
    ----------
    encoded : Encoded
        Training table of the plan's domain.
    plan : DpRfPlan
    ledger : Ledger
        Charged before anything is drawn; marked as not private if the noise is seeded.
    source : NoiseSource

    Raises
    ------
    HedgerowError
        H112 for more records than the capacity, H117 for a table of another domain, H202 for a
        domain read from the data unless the ledger is marked as not private; nothing is charged.
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


def _leaves_only(levels: list[Split], leaves: NDArray[np.float64]) -> list[NDArray[np.float64]]:
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
