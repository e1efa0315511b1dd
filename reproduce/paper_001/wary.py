"""Trees with one branch per bin, level by level: what the private forests of that shape share.

Papers: friedman2010data, patil2014dprf, fletcher2015dpdf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.compiled import A, jit
from hedgerow.errors import Code
from hedgerow.privacy import NoiseSource
from hedgerow.tables import Domain
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.growing.private import MOST_LEAVES
from hedgerow.trees.growing.reachable import below, undecided_candidates
from hedgerow.trees.layout import Bins, SplitKind
from hedgerow.trees.tree import Tree

Choose = Callable[[NDArray[np.int64], NDArray[np.bool_], int], NDArray[np.int64]]
"""From nodes, the attributes that are valid in each (nodes, d) and the level to one choice each."""


def check_depth(domain: Domain, depth: int) -> None:
    """Refuse a tree without splits, deeper than it has attributes, or with too many leaves; H501.

    An attribute is used once on a path, and every node is split: the shape follows from the
    choices alone.
    """
    widest = np.sort(domain.n_bins)[::-1][: max(depth, 0)]
    if not 1 <= depth <= domain.n_bins.size:
        raise Code.BAD_PARAMETER.error(
            expected=f"a depth from 1 to {domain.n_bins.size}, the number of attributes",
            found=f"depth={depth}",
        )
    if np.log2(widest, dtype=np.float64).sum() > np.log2(MOST_LEAVES):
        raise Code.BAD_PARAMETER.error(
            expected=f"at most {MOST_LEAVES:,} leaves",
            found=f"depth={depth} with up to {int(widest[0])} branches per node",
            fix="choose a smaller depth or fewer bins",
        )


def grow_wary(rows: Rows, depth: int, choose: Choose) -> list[NodeSplits]:
    """Split every node of every level by the attribute chosen for it, empty nodes too.

    `rows`: of candidates with one branch per bin. `choose`: see `Choose`; valid are the attributes
    that no split above has used.
    """
    candidates = rows.candidates
    nodes = np.zeros(1, dtype=np.int64)
    possible = np.ones((1, candidates.total_bins), dtype=np.bool_)
    levels: list[NodeSplits] = []
    for level in range(depth):
        split = rows.tally(nodes, choose(nodes, undecided_candidates(possible, candidates), level))
        levels.append(split)
        # The rows of the last level need not move: the leaves are counted already.
        if level + 1 < depth:
            first = rows.move(split)
            possible = below(possible, split, candidates)
            nodes = first[0] + np.arange(int(split.first[-1]), dtype=np.int64)
    return levels


def node_counts(rows: Rows, levels: Sequence[NodeSplits]) -> list[NDArray[Any]]:
    """Return the channels of the nodes, level by level from the root to the leaves."""
    return [rows.counts([0]), *(split.counts for split in levels)]


def some_attributes(
    valid: NDArray[np.bool_], most: int | None, source: NoiseSource
) -> NDArray[np.bool_]:
    """Keep `most` random ones of the valid attributes of each node; all where there are fewer.

    `valid`: bool (nodes, d). `most`: None keeps all. `source`: the draw does not depend on the
    data.
    """
    if most is None or most >= valid.shape[1]:
        return valid
    # 63 bits, so that every valid key is below those of the others.
    keys = source.words(valid.size).reshape(valid.shape) >> np.uint64(1)
    keys[~valid] = np.iinfo(np.uint64).max
    drawn = np.zeros_like(valid)
    np.put_along_axis(drawn, np.argpartition(keys, most - 1, axis=1)[:, :most], True, axis=1)
    return valid & drawn


def tree_of(
    domain: Domain, levels: Sequence[NodeSplits], values: Sequence[NDArray[np.float64]]
) -> Tree:
    """Put the levels one after the other.

    `values`: sequence of float64 arrays (nodes of the level, k); from the root to the leaves; all
    NaN in a node whose value was not released.
    """
    sizes = [len(value) for value in values]
    start = np.concatenate([[0], np.cumsum(sizes)])
    n = int(start[-1])
    feature, first_child = np.full((2, n), -1, dtype=np.int32)
    kind = np.full(n, SplitKind.LEAF, dtype=np.uint8)
    for level, split in enumerate(levels):
        here = slice(start[level], start[level + 1])
        kind[here], feature[here] = SplitKind.WARY, split.feature
        first_child[here] = start[level + 1] + split.first[:-1]
    value = np.concatenate(values)
    weight = value.sum(axis=1) if value.shape[1] > 1 else np.full(n, np.nan)
    return Tree(domain, kind, feature, np.full(n, -1), first_child, value, weight)


def cut_back(
    tree: Tree,
    cut_at: NDArray[np.bool_],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Arrays of the tree in which the marked nodes are leaves and what was below them is gone.

    `cut_at`: bool (n,). `value`: float64 (n, k). `weight`: float64 (n,); what the nodes that stay
    hold.
    """
    keep = _reachable(tree.parents, cut_at)
    number = np.cumsum(keep, dtype=np.int32) - np.int32(1)
    leaf = (cut_at | (tree.kind == SplitKind.LEAF))[keep]
    kind = np.where(leaf, np.uint8(SplitKind.LEAF), tree.kind[keep])
    cut, subset = tree.cut[keep], kind == SplitKind.SUBSET
    # Subsets that only what is gone looked at go too: they would tell what was there.
    used, cut[subset] = np.unique(cut[subset], return_inverse=True)
    first_child = tree.first_child[keep]
    return {
        "kind": kind,
        "feature": np.where(leaf, np.int32(-1), tree.feature[keep]),
        "cut": cut,
        # Siblings stay or go together, so they keep lying next to each other.
        "first_child": np.where(leaf, np.int32(-1), number[first_child]),
        "value": value[keep],
        "weight": weight[keep],
        "subsets": tree.subsets[used],
    }


@jit
def _reachable(parents: A, cut_at: A) -> A:
    keep = np.ones(parents.shape[0], dtype=np.bool_)
    for v in range(1, parents.shape[0]):
        p = parents[v]
        keep[v] = keep[p] and not cut_at[p]
    return keep


def wary_candidates(domain: Domain) -> Candidates:
    """Return the splits of a domain, one for each attribute."""
    return Candidates.from_domain(domain, "wary")


def votes(forest: Forest, bins: Bins, *, confident: bool = False) -> NDArray[np.float64]:
    """Return the votes for each class: every tree names the class of a row's leaf.

    `bins`: uint8 or uint16 (m, d). `confident`: a vote counts as much as the class's share of its
    leaf instead of one. Returns float64 (m, k): the class with the most votes is the answer, the
    lowest index of equals.
    """
    total = np.zeros((len(bins), forest.n_outputs))
    row = np.arange(len(bins))
    for tree in forest.trees:
        leaf = tree.apply(bins)
        label = tree.labels[leaf]
        total[row, label] += tree.distributions[leaf, label] if confident else 1.0
    return total
