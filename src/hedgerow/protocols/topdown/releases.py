"""What DP-TopDown releases, as the ledger is told before the first message.

Papers: wang2020topdown, dwork2014foundations, ghosh2012universally.

A record is in one node of each depth, in one leaf and at one owner; which one depends on its
attributes and on earlier releases alone. So nodes of a depth, leaves and owners are siblings, and
depths and leaves add up. Which nodes are asked about follows from earlier releases: growth may
stop early or look below a leaf that it does not split in the end, and is charged as if it reached
every depth.

Everything that an owner sends is released as if to the public: the coordinator sees all of it and
is trusted by nobody, and the tree follows from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoisyMax,
    Partition,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.secure.noise.discrete import precision

if TYPE_CHECKING:
    from hedgerow.protocols.topdown.plan import TopDownPlan

AUDIENCE = "public"


def releases_of(plan: TopDownPlan, joint: bool) -> list[Release]:
    """List the releases of one owner, or of all owners as parts; see `TopDownPlan.releases`."""
    root = ROOT / part(Partition("owners", By.OWNERS), EACH) if joint else ROOT
    if not plan.is_private:
        scope = root / step("tree")
        return [Release("exact", math.inf, 0.0, 1.0, scope, AUDIENCE, "splits and leaves")]
    found: list[Release] = []
    for depth in range(1, plan.max_depth + 1):
        nodes = root / step(f"depth {depth}") / part(Partition("nodes", By.ATTRIBUTES), EACH)
        found += _of_depth(plan, depth, nodes)
    leaves = root / step("leaves") / part(Partition("leaves", By.ATTRIBUTES), EACH)
    return [*found, _counted(plan, plan.label, plan.n_classes, leaves, "class counts of each leaf")]


def _of_depth(plan: TopDownPlan, depth: int, nodes: Scope) -> list[Release]:
    at = f"of each node at depth {depth}"
    weight = _counted(plan, plan.weigh(depth), 1, nodes, f"number of records {at}")
    if plan.method == "noisy-counts":
        n_cells = plan.n_classes * (
            2 * len(plan.candidates) if plan.histograms == "split" else plan.candidates.total_bins
        )
        return [weight, _counted(plan, plan.counts(depth), n_cells, nodes, f"histograms {at}")]
    found = [weight, _chosen(plan, depth, nodes, f"split {at}")]
    if plan.method == "local-rnm":
        n_cells = 2 * plan.n_owners * plan.n_classes
        counts = plan.recounts(depth, plan.n_owners)
        found.append(_counted(plan, counts, n_cells, nodes, f"counts of the best splits {at}"))
    elif plan.accounting == "strict":
        found.append(_counted(plan, plan.value(depth), 1, nodes, f"worth of the split {at}"))
    return found


def _chosen(plan: TopDownPlan, depth: int, nodes: Scope, reason: str) -> Release:
    m, epsilon = len(plan.candidates), plan.at(depth).choice
    if plan.accounting == "paper":
        # The paper's noise is scaled by the number of records of the node, which is private.
        name = DATA_SCALED.name
        return Release(name, math.inf, 0.0, 1.0, nodes, AUDIENCE, reason, claimed=epsilon)
    mechanism = plan.choose(depth)
    return Release(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=_delta(plan, mechanism, m),
        sensitivity=mechanism.sensitivity,
        scope=nodes,
        audience=AUDIENCE,
        reason=reason,
        variables=m,
    )


def _counted(
    plan: TopDownPlan, mechanism: TwoSidedGeometric, m: int, scope: Scope, reason: str
) -> Release:
    return Release(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=_delta(plan, mechanism, m),
        sensitivity=mechanism.sensitivity,
        scope=scope,
        audience=AUDIENCE,
        reason=reason,
        variables=2 * m,
    )


def _delta(plan: TopDownPlan, mechanism: TwoSidedGeometric | NoisyMax, m: int) -> float:
    # Coins on shares have finitely many bits.
    return precision(mechanism, m).delta if plan.method == "secure-counts" else mechanism.delta(m)
