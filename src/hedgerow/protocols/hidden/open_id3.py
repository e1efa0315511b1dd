"""Trees that the servers train on shares and then open: `MPC-ID3` and `CDP+PMPC-ID3`.

Paper: hiddentrees, algorithms 7 to 10. What is opened is public from then on: without
noise (`MPC-ID3`) there is no finite epsilon; with noise in every split and leaf it is the private
tree of `hedgerow.trees.growing.private`, trained without a curator.

Opened splits make the rest cheaper: rows go down by public columns, and branches that do not exist
are not carried along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import Ledger
from hedgerow.protocols.checkpoint import Checkpoints, restored
from hedgerow.protocols.growers.frontier import OpenFrontier
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.growers.leaves import LEAF_LABELS, Leaves
from hedgerow.protocols.growers.masks import OpenMasks, existing_branches
from hedgerow.protocols.hidden.id3 import (
    NOTHING_KEPT,
    GrownTrees,
    Progress,
    branch_sums,
    no_progress,
    node_totals,
)
from hedgerow.protocols.hidden.options import OpenOptions, ServerOptions
from hedgerow.protocols.hidden.plan import LEAF, OpenPlan, split_name
from hedgerow.protocols.hidden.protocol import Made, ServerProtocol
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.hidden.training import leaf_update_of, score_of, splits_of
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.noise.releases import Payer
from hedgerow.secure.secret import Secret, concatenate
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.growing.private import DrawnTree, assemble
from hedgerow.trees.growing.reachable import below, undecided_candidates
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree


def train_open(
    table: SecretTable,
    plan: OpenPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> Tree:
    """Train a tree and open it (algorithm 7), level by level instead of node by node.

    For every level:

    1. Scores of all candidates of all nodes, hidden (steps 6 and 7).
    2. The choice, noisy or not, is opened (step 8, algorithm 8).
    3. Rows go down by the opened choice (steps 9 to 12).

    Then the leaves: noisy class counts, from which everybody takes the label (algorithm 9), or the
    label alone (algorithm 10, and `MPC-ID3`).

    The ledger is charged, to the public, before anything is drawn. `keep` gets what is going to be
    opened, before it is opened. Where its `save` returns only when all servers have it, nothing
    that anybody has seen is ever drawn again.

    Reveals: the splits and the noisy counts or labels of the leaves, to the public.
    Cost: that of `hedgerow.protocols.hidden.id3.grow` with one opening per level.
    """
    check_slots(table, plan)
    plan.layout.check_depth(plan.depth)
    return open_rows(OpenMasks(table), plan, plan.charge(ledger), progress, keep)


def open_rows(
    rows: OpenFrontier,
    plan: OpenPlan,
    paid: Payer,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> Tree:
    """Train and open a tree of rows, however and by whomever they are kept; see `train_open`."""
    layout, engine = rows.layout, rows.engine
    score, choose = score_of(plan), splits_of(plan, paid)
    possible = np.ones((1, layout.candidates.total_bins), dtype=np.bool_)
    levels: list[NodeSplits] = []
    choices: list[Secret] = []
    totals: list[Secret] = []
    for level in range(plan.depth):
        hist = rows.histogram()
        totals.append(node_totals(hist, layout))
        known = keep.load(split_name(level))
        if known is None:
            valid = undecided_candidates(possible, layout.candidates)[None]
            chosen = choose(level, score(hist), score.bound, valid)
            secret = _index(chosen[0], level, layout)
            keep.save(split_name(level), {"index": secret.data})
        else:
            secret = restored(engine, known["index"])
        index = _opened_index(secret, level, hist.shape[1])
        split = _split(layout, index, plan.n_classes)
        levels.append(split)
        hot = as_one_hot(index, len(layout.candidates))[None]
        choices.append(engine.public(hot, rows.ring))
        if level + 1 < plan.depth:
            rows.go_down(split, last=level + 2 == plan.depth)
            possible = below(possible, split, layout.candidates)
        progress(level + 1)
    sums = branch_sums(hist, choices[-1], layout)[:, existing_branches(levels[-1], layout)]
    grown = GrownTrees(choices, totals, sums, [split.owner for split in levels])
    known = keep.load(LEAF)
    if known is None:
        leaves = leaf_update_of(plan, paid)(grown, plan.tree_rows)
        shown, fraction = _shown(leaves, plan), leaves.fraction
        keep.save(LEAF, {"shown": shown.data, "fraction": np.array([fraction])})
    else:
        shown, fraction = restored(engine, known["shown"]), int(known["fraction"][0])
    return _assembled(plan, levels, _opened_leaves(shown, fraction, sums.shape[1]))


def _index(chosen: Secret, level: int, layout: Layout) -> Secret:
    """Return the candidates of a level's nodes, behind which stand public zeros."""
    index = (chosen * np.arange(chosen.shape[-1])).sum(axis=-1)
    return _padded(index, layout.n_nodes(level))


def _opened_index(index: Secret, level: int, nodes: int) -> NDArray[np.int64]:
    opened = index.engine.open_to_all(index, split_name(level))
    return opened[:nodes].astype(np.int64)


def _shown(leaves: Leaves, plan: OpenPlan) -> Secret:
    """Return what is opened of the leaves, behind which stand public zeros."""
    shown = leaves.labels if plan.leaf_reason == LEAF_LABELS else leaves.counts
    assert shown is not None
    return _padded(shown[0], plan.layout.n_nodes(plan.depth))


def _opened_leaves(shown: Secret, fraction: int, n: int) -> NDArray[np.float64]:
    opened = shown.engine.open_to_all(shown, LEAF)
    found: NDArray[np.float64] = shown.ring.signed(opened)[:n] / 2.0**fraction
    return found


def _padded(x: Secret, rows: int) -> Secret:
    zeros = x.engine.public(np.zeros((rows - x.shape[0], *x.shape[1:]), dtype=np.uint8), x.ring)
    return concatenate([x, zeros])


def _split(layout: Layout, index: NDArray[np.int64], k: int) -> NodeSplits:
    those = layout.candidates
    first = np.concatenate([[0], np.cumsum(those.n_children[index], dtype=np.int64)])
    return NodeSplits(
        nodes=np.arange(index.size, dtype=np.int64),
        feature=those.feature[index],
        cut=those.cut[index],
        kind=those.kind[index],
        first=first,
        counts=np.zeros((int(first[-1]), k), dtype=np.int64),
        gap=np.full((index.size, 2), -1, dtype=np.int64),
    )


def _assembled(plan: OpenPlan, levels: list[NodeSplits], leaves: NDArray[np.float64]) -> Tree:
    tree = assemble(plan.domain, DrawnTree(levels, leaves))  # type: ignore[arg-type]
    if plan.leaf_reason != LEAF_LABELS:
        return tree
    # Labels say nothing about how many records a node has, nor about inner nodes.
    value, inner = np.array(tree.value), tree.kind != SplitKind.LEAF
    value[inner] = np.nan
    return replace(tree, value=value, weight=np.full(tree.n_nodes, np.nan))


class OpenTreeProtocol(ServerProtocol):
    """One tree that everybody sees, and that answers by itself."""

    options_type: ClassVar[type[ServerOptions]] = OpenOptions
    plan_type: ClassVar[type[ServerPlan]] = OpenPlan

    def train(
        self,
        table: SecretTable,
        plan: OpenPlan,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        """Train. See `train_open`."""
        return Made({}, train_open(table, plan, ledger, progress, keep).to_dict())

    def document(self, public: Any, privacy: Any) -> str:
        """Return the model file of the tree."""
        return self.tree(public).to_json(privacy=privacy)

    def tree(self, document: Any) -> Tree:
        """Return the tree."""
        return Tree.from_dict(document)


OPEN_TREE = OpenTreeProtocol()
