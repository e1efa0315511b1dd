"""`Forest`: public trees whose answers are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.domain import Domain
from hedgerow.trees import layout, predict, schema
from hedgerow.trees.layout import Bins
from hedgerow.trees.tree import Tree


@dataclass(frozen=True, repr=False)
class Forest(schema.ModelDocument):
    """Trees over one domain; the forest answers with the mean of their answers.

    `trees`: at least one; all of the same domain. Raises `Code.BAD_TREE` if there is no tree or the
    domains differ.
    """

    trees: tuple[Tree, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "trees", tuple(self.trees))
        if not self.trees or not all(isinstance(tree, Tree) for tree in self.trees):
            raise Code.BAD_TREE.error(found="no trees", expected="a forest of at least one Tree")
        if any(tree.domain != self.domain for tree in self.trees):
            raise Code.BAD_TREE.error(
                found="trees of different domains", expected="trees that share one domain"
            )

    def __repr__(self) -> str:
        task = "classification" if self.is_classifier else "regression"
        return f"Forest({task}, {len(self.trees)} trees, {self.n_nodes} nodes)"

    @property
    def domain(self) -> Domain:
        """The domain of all trees."""
        return self.trees[0].domain

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.trees[0].is_classifier

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together."""
        return sum(tree.n_nodes for tree in self.trees)

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for regression."""
        return self.trees[0].n_outputs

    @cached_property
    def _packed_trees(self) -> tuple[predict.PackedTrees, NDArray[np.float64], NDArray[np.int32]]:
        """Plan of all trees, what their nodes answer, and the features in use."""
        answers = [t.distributions if self.is_classifier else t.value for t in self.trees]
        features = np.unique(np.concatenate([np.unique(tree.feature) for tree in self.trees]))
        return predict.join([t.plan for t in self.trees]), np.concatenate(answers), features

    def decide(self, bins: Bins) -> NDArray[np.float64]:
        """Mean over the trees of their class probabilities, or of their means.

        `bins`: uint8 or uint16 (m, d); rows as encoded by the forest's domain; fastest in Fortran
        order. Returns float64 (m, k).
        """
        plan, answers, features = self._packed_trees
        layout.check_bins(self.domain, bins, features)
        return predict.total(plan, answers, bins) / len(self.trees)

    def distribution(self, bins: Bins) -> NDArray[np.float64]:
        """Class probabilities of every row, float64 (m, k)."""
        if not self.is_classifier:
            raise Code.BAD_TARGET.error(
                found="a regression forest", expected="a forest whose target has classes"
            )
        return self.decide(bins)

    def predict_class(self, bins: Bins) -> NDArray[np.int32]:
        """Class index of every row, int32 (m,); of equal probabilities the lowest wins."""
        labels: NDArray[np.int32] = np.argmax(self.distribution(bins), axis=1).astype(np.int32)
        return labels

    def to_dict(self, *, privacy: dict[str, Any] | None = None) -> dict[str, Any]:
        """Model document (see ``model.schema.json``), with the ledger's JSON object if given."""
        packed = [schema.pack_tree(tree.arrays) for tree in self.trees]
        minor = schema.minor_needed(tree.subsets for tree in self.trees)
        return schema.document("forest", self.domain, packed, privacy, minor=minor)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read a model document; checked whole, `Code.BAD_MODEL_FILE` otherwise."""
        domain, body, _ = schema.open_document(document, "forest")
        if not isinstance(body, list):
            schema.refuse(f"trees of type {type(body).__name__}")

        minor = schema.minor_version(document)

        def trees() -> Iterator[Tree]:
            return (Tree(domain, **schema.unpack_tree(one, domain, minor)) for one in body)

        return schema.build(lambda: cls(tuple(trees())))
