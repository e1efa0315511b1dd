"""Noise on the counts, for those who see the tree and its answers from outside.

Every table of counts that a site obtains gets two-sided geometric noise before anything computed
from it leaves the site: whether a node is a leaf, its distribution, the gains. A record is in one
node of each level and in one cell of each table, so that a table costs its epsilon once per level.
The worst case over the public numbers is charged first: on each level the class counts, and one
table for every attribute that no split above can have used; the class counts of the leaves.

For whom this holds: for the public, who sees the joined tree or its answers, and does not take
part. It holds for no site. The site that counts sees exact sizes of intersections before it adds
the noise, each site of the ring sees exact sizes of sets, and aligned sites know whose records
there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoiseSource,
    Partition,
    Release,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.protocols.growers.units import rounded_down

AUDIENCE = "public"
NODES = Partition("nodes", By.ATTRIBUTES)


@dataclass(frozen=True)
class CountNoise:
    """What noise costs, and the noise.

    Parameters
    ----------
    epsilon : float
        Of the whole tree.
    max_depth : int
    n_attributes : int
        Attributes of all sites together.
    n_classes, widest : int
        Classes, and the largest number of values of an attribute.
    """

    epsilon: float
    max_depth: int
    n_attributes: int
    n_classes: int
    widest: int

    @property
    def levels(self) -> int:
        """Levels of splits that there can be."""
        return min(self.max_depth, self.n_attributes)

    @property
    def tables(self) -> int:
        """Tables that one record can be in, in the worst case."""
        splits = sum(self.n_attributes - level for level in range(self.levels))
        return self.levels + 1 + splits

    @cached_property
    def mechanism(self) -> TwoSidedGeometric:
        """Noise of one table."""
        each = rounded_down(Fraction(self.epsilon) / self.tables)
        if not each > 0:
            raise Code.BAD_EPSILON.error(found=f"epsilon={self.epsilon!r}, too small to be divided")
        return TwoSidedGeometric(each)

    def releases(self) -> list[Release]:
        """Return what a tree costs the public, all of it in advance."""
        found = []
        for level in range(self.levels + 1):
            found.append(self._release(level, "class counts", 1, self.n_classes))
            if level < self.levels:
                tables = self.n_attributes - level
                size = self.n_classes * self.widest
                found.append(self._release(level, "counts by attribute", tables, size))
        return found

    def __call__(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return counts with noise, none below 0."""
        return np.maximum(self.mechanism(counts, source), 0)

    def _release(self, level: int, what: str, times: int, variables: int) -> Release:
        return Release(
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.epsilon,
            delta=self.mechanism.delta(variables),
            sensitivity=self.mechanism.sensitivity,
            scope=ROOT / step(f"{what}, level {level}") / part(NODES, EACH),
            audience=AUDIENCE,
            reason=f"{what} at level {level}",
            times=times,
            variables=variables,
        )
