"""`Tree`: a public decision tree as arrays of nodes over encoded bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.tables.domain import Domain
from hedgerow.trees import layout, predict, schema
from hedgerow.trees.layout import Bins, SplitKind

__all__ = ["SplitKind", "Tree"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Tree(schema.ModelDocument):
    """A decision tree for classification or regression; checked and read-only once built.

    A target with c classes makes a classification tree with k = c, one with bounds a regression
    tree with k = 1. Arrays have an entry per node: `kind` is a `SplitKind`; `feature` -1 in leaves;
    `cut` a bin (THRESHOLD, VALUE) or a row of `subsets` (SUBSET), stored as -1 where it is not
    read; `first_child` the first of the children, which are contiguous and come after their parent,
    -1 in leaves; `value` (n, k) class counts or the mean of the target, finite in leaves, all NaN
    in an inner node where it was not released; `weight` the records, noisy in private trees, NaN
    when not released. `subsets` (n_subsets, bins) are the bins that a SUBSET split sends to its
    first child: a row may serve several splits, and a table may be as wide as the domain's widest
    attribute, and is stored only as wide as it is read.

    `Code.BAD_TREE` if the arrays are not such a tree, `Code.BAD_TARGET` if the domain has no
    target.
    """

    domain: Domain
    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    cut: NDArray[np.int32]
    first_child: NDArray[np.int32]
    value: NDArray[np.float64]
    weight: NDArray[np.float64]
    subsets: NDArray[np.bool_]

    def __init__(
        self,
        domain: Domain,
        kind: ArrayLike,
        feature: ArrayLike,
        cut: ArrayLike,
        first_child: ArrayLike,
        value: ArrayLike,
        weight: ArrayLike,
        subsets: ArrayLike | None = None,
    ) -> None:
        k = n_outputs(domain)
        given = (kind, feature, cut, first_child, value, weight, () if subsets is None else subsets)
        made = {
            name: layout.as_array(name, array)
            for name, array in zip(layout.DTYPES, given, strict=True)
        }
        layout.check(domain, k, **made)
        made["cut"][np.isin(made["kind"], (SplitKind.LEAF, SplitKind.WARY))] = -1
        splits = (made[name] for name in ("kind", "feature", "cut", "subsets"))
        made["subsets"] = layout.read_part(domain, *splits)
        object.__setattr__(self, "domain", domain)
        for name, array in made.items():
            object.__setattr__(self, name, _read_only(array))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self.domain == other.domain and all(
            np.array_equal(mine, other.arrays[name], equal_nan=mine.dtype.kind == "f")
            for name, mine in self.arrays.items()
        )

    def __hash__(self) -> int:
        return hash((self.kind.tobytes(), self.feature.tobytes(), self.cut.tobytes()))

    def __repr__(self) -> str:
        task = "classification" if self.is_classifier else "regression"
        return f"Tree({task}, {self.n_nodes} nodes, {self.n_leaves} leaves, depth {self.depth})"

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, in the order of the fields."""
        return {name: getattr(self, name) for name in layout.DTYPES}

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.domain.target is not None and self.domain.target.classes is not None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for regression."""
        return int(self.value.shape[1])

    @cached_property
    def leaves(self) -> NDArray[np.int32]:
        """Numbers of the leaves, ascending."""
        return _read_only(np.flatnonzero(self.kind == SplitKind.LEAF).astype(np.int32))

    @cached_property
    def arity(self) -> NDArray[np.int32]:
        """Number of children of each node."""
        return _read_only(layout.arity(self.domain, self.kind, self.feature))

    @cached_property
    def parents(self) -> NDArray[np.int32]:
        """Parent of each node, -1 for the root."""
        inner = np.flatnonzero(self.kind != SplitKind.LEAF)
        inner = inner[np.argsort(self.first_child[inner])]
        parents = np.concatenate([[-1], np.repeat(inner, self.arity[inner])])
        return _read_only(parents.astype(np.int32))

    @cached_property
    def node_depths(self) -> NDArray[np.int32]:
        """Depth of each node, 0 for the root."""
        return _read_only(predict.depths(self.parents))

    @property
    def depth(self) -> int:
        """Largest number of splits on a way from the root to a leaf."""
        return int(self.node_depths.max())

    @cached_property
    def plan(self) -> predict.PackedTrees:
        """The tree as the prediction kernels read it."""
        return predict.plan(
            self.domain.n_bins, self.kind, self.feature, self.cut, self.first_child, self.subsets
        )

    @cached_property
    def labels_alone(self) -> bool:
        """Whether leaves say a class and nothing of how many records they stand for."""
        value = self.value[self.leaves]
        hot = (value == 0).sum(axis=1) + (value == 1).sum(axis=1) == value.shape[1]
        alone = hot.all() and (value.sum(axis=1) == 1).all() and np.isnan(self.weight).all()
        return self.is_classifier and bool(alone)

    @cached_property
    def distributions(self) -> NDArray[np.float64]:
        """Class probabilities of each node, shape (n, k).

        Counts below 0, as noise makes them, are taken as 0; a node without a count above 0 is
        uniform; NaN where the counts were not released.
        """
        self._needs_classes()
        counts = np.maximum(self.value, 0.0)
        # Divided by the largest count first: the sum of huge counts could be infinite.
        peak = counts.max(axis=1, keepdims=True)
        scaled = np.where(peak == 0.0, 1.0, counts / np.where(peak == 0.0, 1.0, peak))
        return _read_only(scaled / scaled.sum(axis=1, keepdims=True))

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Most probable class of each node (lowest index wins ties), -1 if not released."""
        self._needs_classes()
        released = ~np.isnan(self.value[:, 0])
        best = np.argmax(np.maximum(self.value, 0.0), axis=1)
        return _read_only(np.where(released, best, -1).astype(np.int32))

    def apply(self, bins: Bins) -> NDArray[np.int32]:
        """Find the leaf of every row.

        `bins`: uint8 or uint16 (m, d); rows as encoded by the tree's domain; fastest in Fortran
        order. Returns int32 (m,).
        """
        return predict.leaves(self.plan, layout.check_bins(self.domain, bins, self.feature))

    def decide(self, bins: Bins) -> NDArray[np.float64]:
        """Value of the leaf of every row: class counts or the mean, float64 (m, k)."""
        return self.value[self.apply(bins)]

    def predict_class(self, bins: Bins) -> NDArray[np.int32]:
        """Class index of every row, int32 (m,); of equal probabilities the lowest index wins."""
        return self.labels[self.apply(bins)]

    def distribution(self, bins: Bins) -> NDArray[np.float64]:
        """Class probabilities of every row, float64 (m, k); see `distributions`."""
        return self.distributions[self.apply(bins)]

    def to_dict(self, *, privacy: dict[str, Any] | None = None) -> dict[str, Any]:
        """Model document (see ``model.schema.json``), with the ledger's JSON object if given."""
        minor = schema.minor_needed([self.subsets])
        body = schema.pack_tree(self.arrays)
        return schema.document("tree", self.domain, body, privacy, minor=minor)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read a model document; checked whole, `Code.BAD_MODEL_FILE` otherwise."""
        domain, body, _ = schema.open_document(document, "tree")
        minor = schema.minor_version(document)
        return schema.build(lambda: cls(domain, **schema.unpack_tree(body, domain, minor)))

    def _needs_classes(self) -> None:
        if not self.is_classifier:
            raise Code.BAD_TARGET.error(
                found="a regression tree", expected="a tree whose target has classes"
            )


def n_outputs(domain: Domain) -> int:
    """Columns of `Tree.value` for a domain: its number of classes, or 1 for a bounded target."""
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    return len(domain.target.classes) if domain.target.classes is not None else 1


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
