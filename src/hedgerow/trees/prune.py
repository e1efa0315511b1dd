"""Post-processing that makes a public tree smaller; it sees no data, so it costs no privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.compiled import A, jit
from hedgerow.trees.layout import SplitKind

if TYPE_CHECKING:
    from hedgerow.trees.tree import Tree


def same_label(tree: Tree) -> dict[str, NDArray[Any]]:
    """Arrays of the tree in which sibling leaves of one label are merged, from the bottom up.

    A merged node takes the sum of its children's counts and weights.
    """
    labels = tree.labels.copy()
    value, weight = tree.value.copy(), tree.weight.copy()
    merged = _merge(tree.first_child, tree.arity, labels, value, weight)
    return cut_back(tree, merged, value, weight)


def cut_back(
    tree: Tree,
    cut_at: NDArray[np.bool_],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Arrays of the tree in which the marked nodes are leaves and what was below them is gone.

    Parameters
    ----------
    tree : Tree
    cut_at : bool array of shape (n,)
    value : float64 array of shape (n, k)
    weight : float64 array of shape (n,)
        What the nodes that stay hold.
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
def _merge(first_child: A, arity: A, labels: A, value: A, weight: A) -> A:
    """Mark nodes to merge and give them label, value and weight; children come after parents."""
    n, k = value.shape
    merged = np.zeros(n, dtype=np.bool_)
    total = np.empty(k)
    for v in range(n - 1, -1, -1):
        first, w = first_child[v], arity[v]
        if w == 0:
            continue
        same = True
        for c in range(first, first + w):
            same &= (arity[c] == 0 or merged[c]) and labels[c] == labels[first]
        if not same:
            continue
        merged[v] = True
        labels[v] = labels[first]
        total[:] = 0.0
        weight[v] = 0.0
        for c in range(first, first + w):
            total += np.maximum(value[c], 0.0)
            weight[v] += weight[c]
        # A sum of huge counts can lose the difference between classes, or overflow.
        if np.argmax(total) == labels[v] and np.all(np.isfinite(total)):
            value[v] = total
        else:
            value[v] = value[first]
        if np.isinf(weight[v]):
            weight[v] = np.nan
    return merged


@jit
def _reachable(parents: A, cut_at: A) -> A:
    keep = np.ones(parents.shape[0], dtype=np.bool_)
    for v in range(1, parents.shape[0]):
        p = parents[v]
        keep[v] = keep[p] and not cut_at[p]
    return keep
