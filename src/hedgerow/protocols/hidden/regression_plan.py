"""`RegressionPlan`: what is fixed, and public, about a hidden regression tree."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import ROOT, Ledger, NoisyMax, Scope
from hedgerow.protocols.growers.frontier import choose_grower
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient
from hedgerow.protocols.growers.units import COARSE, FINE, Units, cut, units_for
from hedgerow.protocols.hidden.plan import Grower
from hedgerow.protocols.hidden.plan import _depth_without_noisy_splits as depth_without_noisy_splits
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z32, Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import SPLIT_SHARE, depth_for, divide
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

RegressionNoise = Literal["none", "leaves", "splits+leaves"]

SUM_SHARE = 2 / 3
"""Of the leaves' epsilon for the sums: noise of a count moves a mean, which is below 1, less."""
FRACTION = 24
"""Fraction bits of a leaf's value, in which 1 is half the width of the target's bounds."""
SCORE_SENSITIVITY = 4.0
"""Of the squared error in units of half the bounds' width, of which a record can hold 1."""


@dataclass(frozen=True)
class RegressionPlan:
    """A hidden regression tree in public numbers; made by `plan_regression`.

    Attributes
    ----------
    domain : Domain
        Its target has bounds.
    capacity : int
        Records at most.
    depth : int
        Levels of splits.
    noise : {"none", "leaves", "splits+leaves"}
    split_epsilon, sum_epsilon, count_epsilon : float
        Of the choice at each level, and of sum and count of the leaves; 0 where there is no noise.
    grower : {"masks", "grouped"}
    """

    domain: Domain
    capacity: int
    depth: int
    noise: RegressionNoise = "none"
    split_epsilon: float = 0.0
    sum_epsilon: float = 0.0
    count_epsilon: float = 0.0
    grower: Literal["masks", "grouped"] = "masks"

    branching: ClassVar[Branching] = "binary"
    n_columns: ClassVar[int] = 2
    """Shared columns: presence, and the target in units."""
    n_trees: ClassVar[int] = 1

    @cached_property
    def layout(self) -> Layout:
        """Columns of tables and histograms."""
        return Layout(self.domain, self.branching)

    @cached_property
    def units(self) -> Units:
        """Scale of the target."""
        return units_for(self.domain, self.capacity, COARSE if self.is_noisy_in_splits else FINE)

    @property
    def n_slots(self) -> int:
        """Slots of the table."""
        return self.capacity

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
    def split_mechanism(self) -> NoisyMax:
        """Noisy max over the candidates."""
        sensitivity = self.score.integer_sensitivity(self.public, 0)
        return NoisyMax(self.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone)

    @property
    def quotient(self) -> Quotient:
        """Mean of a leaf, between -1 and 1."""
        return Quotient(self.capacity, self.units.bits, 0, 1, 0, FRACTION)

    def noisy_quotient(self, ledger: Ledger, scope: Scope = ROOT) -> NoisyQuotient:
        """Return the noisy means of the leaves, charged to a ledger."""
        return NoisyQuotient(
            self.quotient, self.sum_epsilon, self.count_epsilon, ledger, scope=scope
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {name: getattr(self, name) for name in _FIELDS} | {"domain": self.domain.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**data | {"domain": Domain.from_dict(data["domain"], source="the plan")})


_FIELDS = tuple(field.name for field in fields(RegressionPlan))


def plan_regression(
    domain: Domain,
    *,
    epsilon: float = 1.0,
    noise: RegressionNoise = "splits+leaves",
    depth: int | None = None,
    split_share: float = SPLIT_SHARE,
    sum_share: float = SUM_SHARE,
    capacity: int | None = None,
    grower: Grower = "auto",
) -> RegressionPlan:
    """Plan a hidden regression tree from public numbers.

    Parameters
    ----------
    domain : Domain
        Public description of the table, with the bounds of the target.
    epsilon : float
        Whole budget, add/remove neighbours; unused with ``noise="none"``.
    noise : {"none", "leaves", "splits+leaves"}
        Only the last has a finite epsilon.
    depth : int, optional
        Levels of splits; by a public rule if None.
    split_share : float
        Share of epsilon for the splits, where they are noisy.
    sum_share : float
        Share of the leaves' epsilon for the sums; the rest is for the counts.
    capacity : int, optional
        Instead of the domain's.
    grower : {"auto", "masks", "grouped"}

    Raises
    ------
    HedgerowError
        H116 without target bounds, H208 without a capacity, H501 for a tree that cannot be grown.
    """
    check_option("noise", noise, RegressionNoise)
    check_option("grower", grower, Grower)
    if domain.target is None or domain.target.bounds is None:
        raise Code.BAD_TARGET.error(found="a domain without target bounds")
    capacity = domain.capacity if capacity is None else capacity
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
    layout = Layout(domain, "binary")
    split, leaf = 0.0, 0.0
    if noise == "splits+leaves":
        if depth is None:
            many = len(layout.candidates)
            depth = depth_for(epsilon, capacity, many, SCORE_SENSITIVITY)
        spending = divide(epsilon, depth, split_share)
        split, leaf = spending.split, spending.leaf
    elif noise == "leaves":
        leaf = epsilon
    if depth is None:
        depth = depth_without_noisy_splits(layout, capacity, leaf)
    layout.check_depth(depth)
    sums, counts = cut(leaf, sum_share) if leaf else (0.0, 0.0)
    kept = choose_grower(grower, depth, ReplicatedEngine)
    return RegressionPlan(domain, capacity, depth, noise, split, sums, counts, kept)
