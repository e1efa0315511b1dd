"""Candidate splits: a public list that depends on the domain alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.options import check_option
from hedgerow.tables.domain import Domain
from hedgerow.trees.layout import SplitKind

Branching = Literal["binary", "wary"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The splits a learner may choose from, in a fixed order: by attribute, then by cut.

    An attribute of kind THRESHOLD has one per cut 0..n_bins-2, so that "everything but missing" is
    the last cut where there is a missing bin; VALUE one per bin, a single one if there are two
    bins, none if there is one; WARY one.
    """

    n_bins: NDArray[np.int32]
    kinds: NDArray[np.uint8]

    @classmethod
    def from_domain(cls, domain: Domain, branching: Branching = "binary") -> Candidates:
        """List binary splits (categories: one value against the rest), or one branch per bin."""
        numeric = [attribute.kind == "numeric" for attribute in domain.attributes]
        return cls.from_bins(domain.n_bins, numeric, branching)

    @classmethod
    def from_bins(
        cls, n_bins: ArrayLike, ordered: ArrayLike, branching: Branching = "binary"
    ) -> Candidates:
        """List the candidates of attributes with `n_bins` (d,) bins, `ordered` (d,) or not."""
        check_option("branching", branching, Branching)
        bins = np.array(n_bins, dtype=np.int32)
        kinds = np.where(ordered, SplitKind.THRESHOLD, SplitKind.VALUE).astype(np.uint8)
        if branching == "wary":
            kinds[:] = SplitKind.WARY
        bins.setflags(write=False)
        kinds.setflags(write=False)
        return cls(bins, kinds)

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def n_features(self) -> int:
        """Number of attributes d."""
        return int(self.n_bins.size)

    @property
    def total_bins(self) -> int:
        """Bins of all attributes together."""
        return int(self.offset[-1])

    @cached_property
    def per_feature(self) -> NDArray[np.int64]:
        """Number of candidates of each attribute, int64 (d,)."""
        bins = self.n_bins.astype(np.int64)
        values = np.where(bins <= 2, bins - 1, bins)
        return np.select(
            [self.kinds == SplitKind.THRESHOLD, self.kinds == SplitKind.VALUE],
            [bins - 1, values],
            default=1,
        )

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Candidates of attribute j are ``first[j]:first[j + 1]``, int64 (d + 1,)."""
        return np.concatenate([[0], np.cumsum(self.per_feature)])

    @cached_property
    def offset(self) -> NDArray[np.int64]:
        """Bins of attribute j in a histogram are ``offset[j]:offset[j + 1]``, int64 (d + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_bins, dtype=np.int64)])

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Attribute of each bin of a histogram, int64 (total bins,)."""
        return np.repeat(np.arange(self.n_features), self.n_bins)

    @cached_property
    def value(self) -> NDArray[np.int64]:
        """Number of each bin of a histogram within its attribute, int64 (total bins,)."""
        return np.arange(self.total_bins) - self.offset[self.owner]

    @cached_property
    def left(self) -> NDArray[np.bool_]:
        """Bins of its attribute that the first branch of each binary candidate takes, (c, bins)."""
        cut, threshold = self.cut[:, None], (self.kind == SplitKind.THRESHOLD)[:, None]
        taken = np.where(threshold, self.value <= cut, self.value == cut)
        return np.asarray(taken & (self.owner == self.feature[:, None]))

    @cached_property
    def feature(self) -> NDArray[np.int32]:
        """Attribute of each candidate, int32 (c,)."""
        return np.repeat(np.arange(self.n_features, dtype=np.int32), self.per_feature)

    @cached_property
    def kind(self) -> NDArray[np.uint8]:
        """`SplitKind` of each candidate, uint8 (c,)."""
        return self.kinds[self.feature]

    @cached_property
    def cut(self) -> NDArray[np.int32]:
        """Cut or value of each candidate, int32 (c,); 0 for WARY."""
        return (np.arange(len(self)) - self.first[self.feature]).astype(np.int32)

    @cached_property
    def n_children(self) -> NDArray[np.int32]:
        """Number of branches of each candidate, int32 (c,)."""
        return np.where(self.kind == SplitKind.WARY, self.n_bins[self.feature], 2).astype(np.int32)
