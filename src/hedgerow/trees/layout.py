"""The layout of a tree as arrays: split kinds, and what makes the arrays a tree.

Nodes are numbered from the root, 0; the children of a node lie next to each other and after it.
So a way down only ever goes to larger numbers, and whatever follows the arrays ends.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.domain import Domain

Bins = NDArray[np.uint8] | NDArray[np.uint16]


class SplitKind(IntEnum):
    """How a node sends a record with bin `b` of its feature on."""

    LEAF = 0
    THRESHOLD = 1
    """``b <= cut`` goes to child 0, everything else to child 1."""
    VALUE = 2
    """``b == cut`` goes to child 0, everything else to child 1."""
    SUBSET = 3
    """``subsets[cut, b]`` goes to child 0, everything else to child 1."""
    WARY = 4
    """Child `b`: one per bin."""


DTYPES: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "feature": np.int32,
    "cut": np.int32,
    "first_child": np.int32,
    "value": np.float64,
    "weight": np.float64,
    "subsets": np.bool_,
}
"""Arrays of a tree, in the order of `Tree`'s fields."""


NDIM = {"value": 2, "subsets": 2}
"""Dimensions of the arrays that do not have one."""


def as_array(name: str, given: Any) -> NDArray[Any]:
    """Copy what was given into a fresh array of the field's type, refusing what does not fit."""
    dtype = np.dtype(DTYPES[name])
    ndim = NDIM.get(name, 1)
    try:
        raw = np.asarray(given)
        if raw.size == 0:
            # An empty list has one dimension, whatever it is a list of.
            raw = raw.astype(dtype).reshape(raw.shape if raw.ndim == ndim else (0,) * ndim)
        with np.errstate(over="raise", invalid="ignore"):
            array = raw.astype(dtype, order="C", copy=True)
    except (TypeError, ValueError, OverflowError, FloatingPointError) as error:
        raise bad(f"{name} that is not an array of {dtype}: {error}") from error
    if raw.dtype.kind not in {"f": "iuf", "b": "biu"}.get(dtype.kind, "iu"):
        raise bad(f"{name} of type {raw.dtype} where {dtype} is stored")
    if dtype.kind != "f" and not np.array_equal(array, raw):
        raise bad(f"{name} with numbers that do not fit into {dtype}")
    if array.ndim != ndim:
        raise bad(f"{name} with {array.ndim} dimensions where {ndim} is needed")
    return array


def arity(domain: Domain, kind: NDArray[np.uint8], feature: NDArray[np.int32]) -> NDArray[np.int32]:
    """Count the children that each node's split needs, int32 (n,)."""
    n_bins = np.append(domain.n_bins, 0)[feature]
    return np.select(
        [kind == SplitKind.LEAF, kind == SplitKind.WARY], [0, n_bins], default=2
    ).astype(np.int32)


def check(
    domain: Domain,
    k: int,
    *,
    kind: NDArray[np.uint8],
    feature: NDArray[np.int32],
    cut: NDArray[np.int32],
    first_child: NDArray[np.int32],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
    subsets: NDArray[np.bool_],
) -> None:
    """Raise `Code.BAD_TREE` unless the arrays are one tree of the domain with k outputs."""
    n = len(kind)
    if n == 0:
        raise bad("no nodes")
    per_node: dict[str, NDArray[Any]]
    per_node = {"feature": feature, "cut": cut, "first_child": first_child, "weight": weight}
    for name, array in per_node.items():
        if len(array) != n:
            raise bad(f"{len(array)} entries of {name} for {n} nodes")
    if value.shape != (n, k):
        raise bad(f"value of shape {value.shape} where {(n, k)} is needed")
    _check_splits(domain, kind, feature, cut, subsets)
    _check_children(arity(domain, kind, feature), first_child)
    _check_values(kind, value, weight)


def _check_splits(
    domain: Domain,
    kind: NDArray[np.uint8],
    feature: NDArray[np.int32],
    cut: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> None:
    """Every split uses an attribute of the domain and bins of that attribute."""
    leaf, threshold, value, subset, _ = (kind == k for k in SplitKind)
    _refuse(kind > max(SplitKind), "an unknown kind of split")
    _refuse(leaf & (feature != -1), "a feature in a leaf")
    unknown = (feature < 0) | (feature >= len(domain.attributes))
    _refuse(~leaf & unknown, "a feature outside the domain")
    n_bins = np.append(domain.n_bins, 0)[feature].astype(np.int64)
    below = cut < 0
    rows, width = subsets.shape
    _refuse(
        threshold & (below | (cut >= n_bins - 1)),
        "a threshold that does not separate the attribute's bins",
    )
    _refuse(value & (below | (cut >= n_bins)), "a value that is no bin of the attribute")
    _refuse(subset & (below | (cut >= rows)), "a subset that is no row of `subsets`")
    _refuse(subset & (n_bins > width), "a subset that does not say where every bin goes")
    if width > (widest := int(domain.n_bins.max())):
        raise bad(f"subsets of {width} bins where no attribute has more than {widest}")


def read_part(
    domain: Domain,
    kind: NDArray[np.uint8],
    feature: NDArray[np.int32],
    cut: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return the part of a checked tree's `subsets` that its splits read, in one fixed form.

    Rows keep their numbers; a bin that nothing looks up is False, and columns end with the widest
    attribute that is split by a subset. So trees that decide alike by the same rows are equal.
    """
    subset = np.flatnonzero(kind == SplitKind.SUBSET)
    if not len(subset):
        return np.zeros((0, 0), dtype=np.bool_)
    ends = np.zeros(len(subsets), dtype=np.int64)
    np.maximum.at(ends, cut[subset], domain.n_bins[feature[subset]])
    part: NDArray[np.bool_] = subsets[:, : ends.max()] & (np.arange(ends.max()) < ends[:, None])
    return part


def _check_children(arity: NDArray[np.int32], first_child: NDArray[np.int32]) -> None:
    """Every node but the root has exactly one parent, and that comes before it."""
    n = len(arity)
    leaf = arity == 0
    _refuse(leaf & (first_child != -1), "a leaf with children")
    _refuse(~leaf & (first_child <= np.arange(n)), "children that do not come after their parent")
    inner = np.flatnonzero(~leaf)
    inner = inner[np.argsort(first_child[inner], kind="stable")]
    counts = arity[inner].astype(np.int64)
    # That is the same as: the ranges of children follow each other from 1 to n without gap or
    # overlap.
    starts = 1 + np.cumsum(counts) - counts
    if not np.array_equal(first_child[inner], starts) or 1 + counts.sum() != n:
        raise bad("nodes that are not the child of exactly one node")


def _check_values(
    kind: NDArray[np.uint8], value: NDArray[np.float64], weight: NDArray[np.float64]
) -> None:
    """Leaves have values, and no number is infinite."""
    some, all_ = np.isnan(value).any(axis=1), np.isnan(value).all(axis=1)
    _refuse((kind == SplitKind.LEAF) & some, "a leaf without a value")
    _refuse(some & ~all_, "a value that is released in part only")
    _refuse(np.isinf(value).any(axis=1) | np.isinf(weight), "an infinite value or weight")


def check_bins(domain: Domain, bins: Bins, feature: NDArray[np.int32]) -> Bins:
    """Raise unless `bins` are rows of the domain in the columns that are looked at.

    `bins`: uint8 or uint16 (m, d). `feature`: features in use, -1 is ignored.
    """
    d = len(domain.attributes)
    if not isinstance(bins, np.ndarray) or bins.dtype not in (np.uint8, np.uint16):
        found = bins.dtype if isinstance(bins, np.ndarray) else type(bins).__name__
        raise Code.WRONG_TYPE.error(
            found=str(found), expected="encoded bins, uint8 or uint16", fix="encode the rows first"
        )
    if bins.ndim != 2 or bins.shape[1] != d:
        raise Code.WRONG_SHAPE.error(
            found=f"bins of shape {bins.shape}", expected=f"shape (rows, {d}), as encoded"
        )
    if len(bins) == 0:
        return bins
    for j in np.unique(feature[feature >= 0]):
        if (largest := int(bins[:, j].max())) >= domain.n_bins[j]:
            raise Code.OUTSIDE_BOUNDS.error(
                found=f"bin {largest} of attribute {domain.attributes[j].name!r}",
                expected=f"bins below {domain.n_bins[j]}",
                fix="encode the rows with the model's own domain",
            )
    return bins


def bad(found: str) -> Exception:
    """Build the error for arrays that are no tree."""
    return Code.BAD_TREE.error(found=found)


def _refuse(wrong: Any, found: str) -> None:
    if wrong.any():
        raise bad(f"{found}, first at node {int(np.argmax(wrong))}")
