"""A forest of private medians in public numbers, and the mechanisms that follow from them.

Paper: consul2021diprime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy import ExponentialMechanism, NoisyMax, PermuteAndFlip, TwoSidedGeometric
from hedgerow.privacy.mechanisms import Choice
from hedgerow.protocols.growers.units import COARSE, Units, units_for
from hedgerow.protocols.median.budget import MedianSpending
from hedgerow.protocols.median.ranges import Attributes, widest_choice
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.forest import Batch, ForestShape
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

Variant = Literal["base", "exp", "flip", "max", "random"]
Accounting = Literal["strict", "paper"]

# Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon.
GRID_BITS = 10

_MECHANISMS: dict[str, type[Choice]] = {
    "base": ExponentialMechanism,
    "exp": ExponentialMechanism,
    "flip": PermuteAndFlip,
    "max": NoisyMax,
}


@dataclass(frozen=True, eq=False)
class MedianMechanisms:
    """What is drawn in a forest of private medians, and how; a part of `MedianPlan`.

    Attributes
    ----------
    domain : Domain
    capacity : int
        Records at most.
    n_trees, depth : int
    variant : {"base", "exp", "flip", "max", "random"}
        How medians and attributes are drawn; see `plan_median`.
    candidates : int
        Attributes of which a node draws a median, K.
    partition : bool
        Whether a record is in one tree, by its own coin, or in all.
    spending : MedianSpending or None
        Epsilon of one tree; None without noise.
    accounting : {"strict", "paper"}
    criterion : str
        Score of a split, where one of several is chosen.
    shrinkage : bool
        Whether leaves are drawn towards the nodes above them, which costs nothing.
    public_seed : int
        Of the choices that depend on no record.
    """

    domain: Domain
    capacity: int
    n_trees: int
    depth: int
    variant: Variant
    candidates: int
    partition: bool
    spending: MedianSpending | None
    accounting: Accounting
    criterion: str
    shrinkage: bool
    public_seed: int

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.domain.target is not None and self.domain.target.classes is not None

    @property
    def score(self) -> Criterion:
        """The criterion, with its sensitivities."""
        return criterion_named(self.criterion, "classes" if self.is_classifier else "sums")

    @property
    def is_private(self) -> bool:
        """Whether there is noise."""
        return self.spending is not None

    @property
    def chooses(self) -> bool:
        """Whether a node chooses among several candidates by looking at the target."""
        return self.variant not in ("base", "random")

    @cached_property
    def shape(self) -> ForestShape:
        """What whoever counts rows has to know."""
        classes = self.domain.target.n_classes if self.domain.target else None
        bins = tuple(int(b) for b in self.domain.n_bins)
        return ForestShape(bins, self.n_trees, self.partition, classes)

    @cached_property
    def attributes(self) -> Attributes:
        """Candidates that the domain has."""
        return Attributes.of(self.domain)

    @cached_property
    def units(self) -> Units | None:
        """Scale of a numeric target."""
        return None if self.is_classifier else units_for(self.domain, self.capacity, COARSE)

    @property
    def shift(self) -> int:
        """Grid of the scores, in bits: fractions of a record matter for `gini` alone."""
        return GRID_BITS if self.criterion == "gini" else 0

    @cached_property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        if self.units is None:
            return Public(self.capacity, self.shape.n_classes)
        return Public(self.capacity, bounds=(-self.units.most, self.units.most))

    def median_at(self, level: int) -> Choice:
        """Mechanism of each median; the balance of two sides moves by 1, and both ways."""
        assert self.spending is not None
        return _MECHANISMS[self.variant](self.spending.medians[level], 1)

    def choice_at(self, level: int) -> Choice:
        """Mechanism of the choice of an attribute."""
        assert self.spending is not None
        figure = self.score.integer_sensitivity(self.public, self.shift)
        epsilon, mechanism = self.spending.choices[level], _MECHANISMS[self.variant]
        if self.accounting == "strict":
            return mechanism(epsilon, figure.add_remove, monotone=figure.monotone)
        return mechanism(epsilon, self._paper_sensitivity(figure.add_remove))

    def _paper_sensitivity(self, global_one: int) -> int:
        """Return 4 B^2 of the paper in integer units: its N cancels against the score's.

        The paper weighs -SSE/N with a sensitivity of 4 B^2/N; both divide by the same N, so that
        the law is that of -SSE with 4 B^2. B bounds the magnitude of the target, not its width.
        """
        if self.units is None:
            return global_one
        reach = max(abs(self.units.low), abs(self.units.high)) / self.units.half
        return max(1, math.ceil((2 * reach * self.units.most) ** 2)) << self.shift

    @cached_property
    def count(self) -> TwoSidedGeometric:
        """Mechanism of counts in the leaves; one record is in one leaf and one class."""
        assert self.spending is not None
        return TwoSidedGeometric(self.spending.counts)

    @cached_property
    def sum(self) -> TwoSidedGeometric:
        """Mechanism of sums in the leaves, in units: centred, so that a record adds U at most."""
        assert self.spending is not None
        assert self.units is not None
        return TwoSidedGeometric(self.spending.sums, self.units.most)

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Make a batch of an encoded table; a numeric target in whole units.

        Raises
        ------
        HedgerowError
            H117 for a table of another domain, H116 without a target.
        """
        if encoded.domain is not self.domain and encoded.domain != self.domain:
            raise Code.BAD_DOMAIN.error(
                expected="a table of the domain that was planned for", found="another domain"
            )
        if encoded.target is None:
            raise Code.BAD_TARGET.error(found="a table without a target")
        if self.units is None:
            return Batch(encoded.bins, encoded.target, encoded.present, number)
        counted = self.units.count(encoded).target
        assert counted is not None
        return Batch(encoded.bins, counted.astype(np.int64), encoded.present, number)

    @cached_property
    def _widest(self) -> int:
        """Candidates of a median at most."""
        return widest_choice(self.attributes)
