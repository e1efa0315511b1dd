"""Answers of trees among peers, on shares.

Paper: wu2020pivot, algorithm 3 for a tree that the peers see, section 5.2 for one that is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.pivot.columns import left_tables, node_splits, route_bits, transfers
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.bit_products import every_peer, times_bits
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.argmax import argmax
from hedgerow.secure.ring import Z32, Ring
from hedgerow.secure.secret import Secret, SecretBits, concatenate, pack, unpack, words
from hedgerow.trees.layout import SplitKind

Array = NDArray[Any]


def answer(
    engine: AdditiveEngine, plan: PivotPlan, trees: PeerTrees, bins: Mapping[int, Array], n: int
) -> Secret:
    """Answer n rows whose bins (n,) are given for each attribute that a peer here has.

    Returns shares of classes (n,), of a forest those that most of its trees answer, the lowest
    index of equals; or of means with `FRACTION` bits, of a forest their sum.

    Reveals: nothing.
    Cost: `marked_leaves` and `_weigh`, or `of_hidden`; of a forest of classes an argmax.
    """
    if plan.hides:
        among = [plan.attributes(*of) for of in zip(trees.groups, _sizes(trees), strict=True)]
        found = of_hidden(engine, plan, trees, [j for group in among for j in group], bins, n)
    else:
        found = _weigh(marked_leaves(engine, plan, trees, bins, n), trees, plan)
    if plan.n_trees == 1 or not plan.classes:
        return found[0]
    hot = argmax(found.transpose(), bits=plan.n_trees.bit_length() + 1)
    return (hot * np.arange(plan.classes)).sum(axis=-1)


def marked_leaves(
    engine: AdditiveEngine, plan: PeerPlan, trees: PeerTrees, bins: Mapping[int, Array], n: int
) -> SecretBits:
    """Mark the leaves (leaves, n) of rows in trees that the peers see (algorithm 3).

    Every peer knows which leaves its own attributes leave open for a row: one bit each. The
    conjunction of the bits of all peers names the leaf, and is shared, as the paper's encrypted
    vector is that goes from peer to peer; what the leaf holds is public.

    Cost: ceil(log2 m) rounds of conjunctions of leaves * n bits.
    """
    core, shape = engine.core, trees.shape
    index = np.concatenate(trees.groups) if trees.groups else np.zeros(0, dtype=np.int64)
    splits = node_splits(plan.layout, np.arange(index.size), index)
    open_to = []
    for peer in range(core.n):
        planes = core.shares((shape.n_leaves, words(n)), np.uint64, zero=True)
        at = core.at(peer)
        if at is not None:
            left = np.ones((2, index.size, n), dtype=np.bool_)
            for s in range(index.size):
                if plan.owners[splits.feature[s]] == peer:
                    own = bins[int(splits.feature[s])]
                    ordered = splits.kind[s] == SplitKind.THRESHOLD
                    left[0, s] = own <= splits.cut[s] if ordered else own == splits.cut[s]
                    left[1, s] = ~left[0, s]
            planes[at] = pack(_reached(trees, left))
        open_to.append(SecretBits(engine, n, planes))
    while len(open_to) > 1:
        half = len(open_to) // 2
        both = concatenate(open_to[:half]) & concatenate(open_to[half : 2 * half])
        met = [both[i * shape.n_leaves : (i + 1) * shape.n_leaves] for i in range(half)]
        open_to = [*met, *open_to[2 * half :]]
    return open_to[0]


def _weigh(marked: SecretBits, trees: PeerTrees, plan: PivotPlan) -> Secret:
    """Return what marked leaves hold, summed over trees: (1, n), or votes (k, n) of a forest.

    Of the bits (leaves, n) one is set for each tree. Every bit of a tree's answer is the sum of the
    leaves that have it, which is local.

    Cost: one conversion of n numbers, of a forest of trees * k * n bits.
    """
    ring, opened = answer_ring(plan), trees.opened
    assert opened is not None
    votes = bool(plan.classes) and plan.n_trees > 1
    held = opened if votes else (opened.argmax(axis=1) if plan.classes else opened[:, 0])[:, None]
    numbers = ring.encode(held).astype(np.uint64)
    # Of votes, which are bits, the lowest plane is all there is.
    planes, weights = [], []
    tree = trees.shape.tree[trees.shape.leaf >= 0]
    for t in range(plan.n_trees):
        for column in range(held.shape[1]):
            for bit in range(1 if votes else ring.bits):
                has = numbers[:, column] >> np.uint64(bit) & np.uint64(1) != 0
                those = np.flatnonzero((tree == t) & has)
                if those.size:
                    planes.append(reduce(xor, [marked[int(i)] for i in those])[None])
                    weight = np.zeros(held.shape[1], dtype=np.uint64)
                    weight[column] = 1 << bit
                    weights.append(weight)
    engine, n = marked.engine, marked.n
    if not planes:
        return engine.public(np.zeros((held.shape[1], n), dtype=np.uint8), ring)
    each = np.stack(weights).astype(ring.dtype)
    return (engine.b2a(concatenate(planes), ring).transpose() @ each).transpose()


def of_hidden(
    engine: AdditiveEngine,
    plan: PeerPlan,
    trees: PeerTrees,
    attributes: Sequence[Sequence[int]],
    bins: Mapping[int, Array],
    n: int,
) -> Secret:
    """Answer by hidden trees (section 5.2): what their leaves hold, summed over trees, (k, n).

    Every split is by one of public `attributes`.

    1. Whether a row goes left at a node is looked up by the owners of its attributes, as in
       training, and stays shared.
    2. Markers go down from the root: a child's is the conjunction of its parent's and the side.
    3. The marked leaf's label is summed up by bit products.

    Cost: planting seeds for n rows; a look-up, a round of conjunctions per level, bit products of
    leaves * n labels.
    """
    core, shape = engine.core, trees.shape
    assert trees.choices is not None
    assert trees.leaves is not None
    seeds = PuncturedBins(transfers(engine), plan.owners, plan.domain.n_bins.tolist(), bins, n)
    found = route_bits(seeds, left_tables(trees.choices, plan.layout, attributes), attributes)
    left = SecretBits(engine, n, pack(found.astype(np.bool_)))
    whole = engine.public_bits(np.ones((1, n), dtype=np.bool_))
    reached: dict[int, SecretBits] = dict.fromkeys(range(shape.n_trees), whole)
    level = np.arange(shape.n_trees)
    while (inner := level[shape.first_child[level] >= 0]).size:
        parents = concatenate([reached[int(node)] for node in inner])
        sides = parents & left[shape.split[inner]]
        for place, node in enumerate(inner):
            child = int(shape.first_child[node])
            one = sides[place : place + 1]
            reached[child], reached[child + 1] = one, reached[int(node)] ^ one
        level = np.sort(np.concatenate([shape.first_child[inner], shape.first_child[inner] + 1]))
    nodes = np.flatnonzero(shape.leaf >= 0)
    marked = concatenate([reached[int(node)] for node in nodes])
    held = trees.leaves.reshape(nodes.size, 1, -1)
    k = held.shape[2]
    rows = np.ascontiguousarray(held.broadcast_to((nodes.size, n, k)).data)
    rows = rows.reshape(-1, nodes.size * n, k)
    bits = unpack(marked.data, n).astype(np.uint8).reshape(len(rows), -1)
    stages = every_peer(core.n, rows.shape[1])
    chosen = times_bits(transfers(engine), bits, rows, held.ring, stages)
    return held.like(chosen.reshape(-1, nodes.size, n, k)).sum(axis=0).transpose()


def _sizes(trees: PeerTrees) -> list[int]:
    """Return how many nodes of each level are split."""
    shape, level, sizes = trees.shape, np.arange(trees.shape.n_trees), []
    for _ in trees.groups:
        inner = level[shape.first_child[level] >= 0]
        sizes.append(inner.size)
        level = np.sort(np.concatenate([shape.first_child[inner], shape.first_child[inner] + 1]))
    return sizes


def _reached(trees: PeerTrees, sides: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which leaves rows may reach, (leaves, n), by where each split lets them go.

    `sides` (2, splits, n): whether they may go left, and right.
    """
    shape, n = trees.shape, sides.shape[2]
    found = np.ones((shape.n_nodes, n), dtype=np.bool_)
    for node in np.flatnonzero(shape.first_child >= 0):
        child, split = shape.first_child[node], shape.split[node]
        found[child] = found[node] & sides[0, split]
        found[child + 1] = found[node] & sides[1, split]
    return found[shape.leaf >= 0]


def answer_ring(plan: PivotPlan) -> Ring:
    """Return the ring of answers."""
    return plan.ring if plan.classes else Z32
