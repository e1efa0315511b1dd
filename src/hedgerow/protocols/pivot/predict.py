"""Answers of a tree among peers: who asks alone learns them.

Paper: wu2020pivot, algorithm 3 for a tree that the peers see, section 5.2 for one that is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import Opening
from hedgerow.protocols.pivot.columns import left_tables, route_bits, transfers
from hedgerow.protocols.pivot.growth import PeerTree, node_splits
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.bit_products import times_bits
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.ring import Z32, Ring
from hedgerow.secure.secret import Secret, SecretBits, concatenate, pack, unpack, words
from hedgerow.trees.layout import SplitKind

Array = NDArray[Any]
ANSWERS = "answers"


def answers_opening(plan: PivotPlan, n: int, asker: int) -> Opening:
    """Return what n answers open: to who asks, alone."""
    reasons = tuple(release.reason for release in plan.growth_releases())
    return Opening(ANSWERS, f"peer {asker}", (n,), derived=reasons)


def answer(
    engine: AdditiveEngine,
    plan: PivotPlan,
    tree: PeerTree,
    bins: Mapping[int, Array],
    n: int,
    asker: int,
) -> NDArray[np.int64] | None:
    """Answer n rows whose bins (n,) are given for each attribute that a peer here has.

    Returns, where the asker lives, classes or means with `FRACTION` bits.

    Reveals: the answers, to the asker: `answers_opening`.
    Cost: `_of_opened` or `_of_hidden`, and one opening.
    """
    work = _of_opened if plan.hide == "nothing" else _of_hidden
    found = work(engine, plan, tree, bins, n)
    opened = engine.open(found, ANSWERS, f"peer {asker}")
    return None if opened is None else found.ring.signed(opened)


def _of_opened(
    engine: AdditiveEngine, plan: PivotPlan, tree: PeerTree, bins: Mapping[int, Array], n: int
) -> Secret:
    """Answer by a tree that the peers see (algorithm 3).

    Every peer knows which leaves its own attributes leave open for a row: one bit each. The
    conjunction of the bits of all peers names the leaf, and is shared, as the paper's encrypted
    vector is that goes from peer to peer; what the leaf holds is public.

    Cost: ceil(log2 m) rounds of conjunctions of leaves * n bits, and one conversion of n numbers.
    """
    core, shape = engine.core, tree.shape
    assert tree.opened is not None
    index = np.concatenate(tree.groups) if tree.groups else np.zeros(0, dtype=np.int64)
    splits = node_splits(plan, np.arange(index.size), index)
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
            planes[at] = pack(_reached(tree, left))
        open_to.append(SecretBits(engine, n, planes))
    while len(open_to) > 1:
        half = len(open_to) // 2
        both = concatenate(open_to[:half]) & concatenate(open_to[half : 2 * half])
        met = [both[i * shape.n_leaves : (i + 1) * shape.n_leaves] for i in range(half)]
        open_to = [*met, *open_to[2 * half :]]
    return _weigh(open_to[0], _held(plan, tree), _answer_ring(plan))


def _weigh(leaf: SecretBits, held: NDArray[np.int64], ring: Ring) -> Secret:
    """Return of public numbers (leaves,) the one whose bit is set in a column of (leaves, n).

    Bit by bit: of each bit the sum of the leaves that have it, which is local.
    """
    numbers = held.astype(np.uint64)
    planes = []
    for bit in range(ring.bits):
        those = np.flatnonzero(numbers >> np.uint64(bit) & np.uint64(1))
        if those.size:
            planes.append((bit, reduce(xor, [leaf[int(i)] for i in those])))
    if not planes:
        return leaf.engine.public(np.zeros(leaf.n, dtype=np.uint8), ring)
    stacked = concatenate([plane[None] for _, plane in planes])
    weights = np.array([1 << bit for bit, _ in planes], dtype=np.uint64).astype(ring.dtype)
    return (leaf.engine.b2a(stacked, ring) * weights[:, None]).sum(axis=0)


def _of_hidden(
    engine: AdditiveEngine, plan: PivotPlan, tree: PeerTree, bins: Mapping[int, Array], n: int
) -> Secret:
    """Answer by a hidden tree (section 5.2).

    1. Whether a row goes left at a node is looked up by the owners of its attributes, as in
       training, and stays shared.
    2. Markers go down from the root: a child's is the conjunction of its parent's and the side.
    3. The marked leaf's label is summed up by bit products.

    Cost: planting seeds for n rows; a look-up, a round of conjunctions per level, bit products of
    leaves * n labels.
    """
    core, shape = engine.core, tree.shape
    assert tree.choices is not None
    assert tree.leaves is not None
    seeds = PuncturedBins(transfers(engine), plan.owners, plan.domain.n_bins.tolist(), bins, n)
    groups = [
        plan.attributes(group, size) for group, size in zip(tree.groups, _sizes(tree), strict=True)
    ]
    attributes = [those for group in groups for those in group]
    found = route_bits(seeds, left_tables(tree.choices, plan.layout, attributes), attributes)
    left = SecretBits(engine, n, pack(found.astype(np.bool_)))
    reached: dict[int, SecretBits] = {0: engine.public_bits(np.ones((1, n), dtype=np.bool_))}
    level = np.array([0])
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
    held = tree.leaves.reshape(-1, 1).broadcast_to((nodes.size, n))
    rows = np.ascontiguousarray(held.data).reshape(-1, nodes.size * n, 1)
    bits = unpack(marked.data, n).astype(np.uint8).reshape(len(rows), -1)
    stages = [{peer: slice(0, rows.shape[1])} for peer in range(core.n)]
    chosen = times_bits(transfers(engine), bits, rows, held.ring, stages)
    return held.like(chosen.reshape(-1, nodes.size, n)).sum(axis=0)


def _sizes(tree: PeerTree) -> list[int]:
    """Return how many nodes of each level are split."""
    shape, level, sizes = tree.shape, np.array([0]), []
    for _ in tree.groups:
        inner = level[shape.first_child[level] >= 0]
        sizes.append(inner.size)
        level = np.sort(np.concatenate([shape.first_child[inner], shape.first_child[inner] + 1]))
    return sizes


def _reached(tree: PeerTree, sides: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which leaves rows may reach, (leaves, n), by where each split lets them go.

    `sides` (2, splits, n): whether they may go left, and right.
    """
    shape, n = tree.shape, sides.shape[2]
    found = np.ones((shape.n_nodes, n), dtype=np.bool_)
    for node in np.flatnonzero(shape.first_child >= 0):
        child, split = shape.first_child[node], shape.split[node]
        found[child] = found[node] & sides[0, split]
        found[child + 1] = found[node] & sides[1, split]
    return found[shape.leaf >= 0]


def _held(plan: PivotPlan, tree: PeerTree) -> NDArray[np.int64]:
    """Return what the leaves of an opened tree hold: classes, or means."""
    assert tree.opened is not None
    return tree.opened.argmax(axis=1) if plan.classes else tree.opened[:, 0]


def _answer_ring(plan: PivotPlan) -> Ring:
    return plan.ring if plan.classes else Z32
