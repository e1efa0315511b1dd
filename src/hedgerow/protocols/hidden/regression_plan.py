"""`RegressionPlan`: what is fixed, and public, about a hidden regression tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from hedgerow.privacy import Release
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient
from hedgerow.protocols.growers.units import COARSE, FINE, Units, units_for
from hedgerow.protocols.hidden.server_plan import (
    LABELS,
    STRUCTURE,
    TreePlan,
    exact_release,
    number_releases,
)
from hedgerow.secure.noise.releases import NOBODY, Payer
from hedgerow.secure.ring import Z32, Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

RegressionNoise = Literal["none", "leaves", "splits+leaves"]

FRACTION = 24
"""Fraction bits of a leaf's value, in which 1 is half the width of the target's bounds."""
SCORE_SENSITIVITY = 4.0
"""Of the squared error in units of half the bounds' width, of which a record can hold 1."""


@dataclass(frozen=True)
class RegressionPlan(TreePlan):
    """A hidden regression tree in public numbers; made by `RegressionOptions.plan`.

    Its domain's target has bounds. Epsilons are of the choice at each level, and of sum and count
    of the leaves; 0 where there is no noise.
    """

    domain: Domain
    capacity: int
    depth: int
    noise: RegressionNoise = "none"
    split_epsilon: float = 0.0
    sum_epsilon: float = 0.0
    count_epsilon: float = 0.0
    grower: Literal["masks", "grouped"] = "masks"

    branching: ClassVar[Branching] = "binary"  # type: ignore[misc]
    n_trees: ClassVar[int] = 1

    @cached_property
    def units(self) -> Units:
        """Scale of the target."""
        return units_for(self.domain, self.capacity, COARSE if self.is_noisy_in_splits else FINE)

    @property
    def target_units(self) -> Units:
        """Scale of the target."""
        return self.units

    @property
    def ring(self) -> Ring:
        """Of the shared table."""
        return Z32

    @property
    def is_noisy_in_splits(self) -> bool:
        """Whether every split is a release of its own."""
        return self.noise == "splits+leaves"

    @cached_property
    def score(self) -> Criterion:
        """The criterion."""
        return criterion_named("squared_error", "sums")

    @property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        return Public(self.capacity, bounds=(-self.units.most, self.units.most))

    @property
    def quotient(self) -> Quotient:
        """Mean of a leaf, between -1 and 1."""
        return Quotient(self.capacity, self.units.bits, 0, 1, 0, FRACTION)

    def noisy_quotient(self, ledger: Payer) -> NoisyQuotient:
        """Return the noisy means of the leaves, which a payer is asked for."""
        return NoisyQuotient(
            self.quotient, self.sum_epsilon, self.count_epsilon, ledger, self.audience
        )

    def releases(self) -> Sequence[Release]:
        """Return what training charges: what has no noise, then noisy splits and leaves.

        Where only the leaves are noisy, the claim that hidden splits cost nothing stands beside
        the figure that holds.
        """
        found = []
        if not self.is_noisy_in_splits:
            claimed = 0.0 if self.sum_epsilon + self.count_epsilon else None
            found.append(exact_release(STRUCTURE, self.audience, claimed))
        if self.noise == "none":
            return (*found, exact_release(LABELS, self.audience))
        split = self.split_mechanism if self.is_noisy_in_splits else None
        leaves = [self.noisy_quotient(NOBODY)]
        return (
            *found,
            *number_releases(split, leaves, len(self.layout.candidates), self.depth),
        )
