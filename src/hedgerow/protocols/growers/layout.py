"""`Layout`: how the public domain lies in the columns of secret tables, histograms and choices.

Nothing here depends on a record, so every size that follows from it is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Branching, Candidates

MOST_LEAVES = 1 << 20
"""Leaves of a tree, dummies included, up to which one is grown."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of one-hot tables and histograms.

    ``"binary"``: the bins of all attributes side by side. ``"wary"``: every attribute has as many
    columns as the largest has bins; those of values that do not exist are zero.
    """

    domain: Domain
    branching: Branching

    @cached_property
    def candidates(self) -> Candidates:
        """Splits to choose from, C of them."""
        return Candidates.from_domain(self.domain, self.branching)

    @property
    def n_features(self) -> int:
        """Number of attributes m."""
        return self.candidates.n_features

    @cached_property
    def width(self) -> int:
        """Bins w of the attribute that has the most."""
        return int(self.candidates.n_bins.max())

    @property
    def arity(self) -> int:
        """Children of every node: 2, or w."""
        return 2 if self.branching == "binary" else self.width

    @property
    def n_columns(self) -> int:
        """Columns B of the one-hot table."""
        wary = self.branching == "wary"
        return self.n_features * self.width if wary else self.candidates.total_bins

    @cached_property
    def first_column(self) -> NDArray[np.int64]:
        """Where the columns of each attribute begin, int64 (m,)."""
        if self.branching == "wary":
            return np.arange(self.n_features, dtype=np.int64) * self.width
        return self.candidates.offset[:-1]

    @cached_property
    def left(self) -> NDArray[np.uint8]:
        """Columns that go left for each candidate of a binary tree, uint8 (C, B)."""
        return self.candidates.left.astype(np.uint8)

    def widths(self, features: Sequence[int]) -> NDArray[np.int64]:
        """Return how many columns each of some attributes has, int64 (len(features),)."""
        if self.branching == "wary":
            return np.full(len(features), self.width, dtype=np.int64)
        return self.candidates.n_bins[list(features)].astype(np.int64)

    def n_nodes(self, level: int) -> int:
        """Return how many nodes a level has."""
        return int(self.arity**level)

    @property
    def deepest(self) -> int:
        """Depth for which attributes and memory still suffice, at least 1."""
        by_leaves = next(d for d in range(20, -1, -1) if self.arity**d <= MOST_LEAVES)
        return max(1, min(by_leaves, self.n_features) if self.branching == "wary" else by_leaves)

    def check_depth(self, depth: int) -> None:
        """Refuse a depth for which attributes or memory do not suffice."""
        if isinstance(depth, bool) or not isinstance(depth, Integral):
            raise Code.BAD_PARAMETER.error(
                expected="max_depth as a whole number", found=f"max_depth={depth!r}"
            )
        if self.branching == "wary" and depth > self.n_features:
            raise Code.BAD_PARAMETER.error(
                expected=f"max_depth at most {self.n_features}: each attribute is used once",
                found=f"max_depth={depth}",
                fix="choose a smaller max_depth or branching='binary'",
            )
        if depth < 1 or depth > self.deepest or self.arity > MOST_LEAVES:
            raise Code.BAD_PARAMETER.error(
                expected=f"max_depth at least 1 and at most {MOST_LEAVES:,} leaves",
                found=f"max_depth={depth} with {self.arity} branches per node",
                fix="choose a smaller max_depth, fewer bins or branching='binary'",
            )
        if not len(self.candidates):
            raise Code.BAD_PARAMETER.error(
                expected="at least one attribute with two bins", found="no candidate split"
            )


def counting_ring(capacity: int) -> Ring:
    """Return the smallest ring whose lower half holds every count, and one more."""
    for ring in (Z16, Z32):
        if capacity + 1 < 1 << (ring.bits - 1):
            return ring
    most = (1 << (Z32.bits - 1)) - 2
    raise Code.BAD_PARAMETER.error(
        expected=f"a capacity of at most {most:,}, for counts in Z_2^{Z32.bits}",
        found=f"{capacity:,}",
    )


def as_one_hot(index: NDArray[Any], n: int) -> NDArray[np.uint8]:
    """Return public one-hot vectors, uint8 (..., n)."""
    hot: NDArray[np.uint8] = (np.asarray(index)[..., None] == np.arange(n)).astype(np.uint8)
    return hot
