"""`BoostingPlan`: what is fixed, and public, about hidden gradient boosting."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoisyMax, Scope
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient
from hedgerow.protocols.growers.units import COARSE, Units, bits_for, cut, rounded_down, units_for
from hedgerow.protocols.hidden.regression_plan import SUM_SHARE
from hedgerow.secure.ring import Z32, Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import SPLIT_SHARE, divide
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

BoostingNoise = Literal["none", "splits+leaves"]
Loss = Literal["squared", "logistic"]

FINE = 14
"""Bits of a gradient's units without noise."""
RATE_BITS = 16
"""Fraction bits of the learning rate."""
VALUE_BITS = 24
"""Fraction bits of a leaf's value before the learning rate."""
_NEWTON_REACH = {"none": 6, "splits+leaves": 1}
"""Newton steps are clipped to 2 to this power; the first from 1/2 is 2 at most."""
_SCORE_BITS = 30
_MOST_FRACTION = 20


@dataclass(frozen=True)
class BoostingPlan:
    """Hidden gradient boosting in public numbers; made by `plan_boosting`.

    Attributes
    ----------
    domain : Domain
        Its target has classes (logistic loss) or bounds (squared loss).
    capacity : int
        Records at most.
    n_rounds, depth : int
        Trees of each score, and their levels of splits.
    learning_rate : float
    noise : {"none", "splits+leaves"}
    split_epsilon, sum_epsilon, weight_epsilon : float
        Of each level of one tree, and of sum and weight of its leaves; 0 where there is no noise.
    random_splits : bool
        Splits drawn by public coins, which cost nothing.
    public_seed : int
        Of those coins.
    """

    domain: Domain
    capacity: int
    n_rounds: int
    depth: int
    learning_rate: float
    noise: BoostingNoise = "none"
    split_epsilon: float = 0.0
    sum_epsilon: float = 0.0
    weight_epsilon: float = 0.0
    random_splits: bool = False
    public_seed: int = 0

    branching: ClassVar[Branching] = "binary"
    grower: ClassVar[Literal["masks"]] = "masks"

    @cached_property
    def layout(self) -> Layout:
        """Columns of tables and histograms."""
        return Layout(self.domain, self.branching)

    @property
    def loss(self) -> Loss:
        """Loss: logistic for classes, squared for numbers."""
        assert self.domain.target is not None
        return "squared" if self.domain.target.classes is None else "logistic"

    @property
    def n_classes(self) -> int:
        """Number of classes k, 0 for a numeric target."""
        assert self.domain.target is not None
        return self.domain.target.n_classes or 0

    @property
    def n_scores(self) -> int:
        """Scores of a row: one; one per class, against the rest, where there are more than two."""
        return self.n_classes if self.n_classes > 2 else 1

    @property
    def n_trees(self) -> int:
        """Trees in all: in every round one for each score."""
        return self.n_rounds * self.n_scores

    @property
    def n_columns(self) -> int:
        """Shared columns: one per class, or presence and the target in units."""
        return self.n_classes or 2

    @property
    def n_slots(self) -> int:
        """Slots of the table."""
        return self.capacity

    @property
    def ring(self) -> Ring:
        """Of the shared table, and of scores."""
        return Z32

    @property
    def unit_bits(self) -> int:
        """Bits of U: gradients are whole numbers from -U to U."""
        return bits_for(self.capacity, FINE if self.noise == "none" else COARSE)

    @property
    def widening(self) -> int:
        """U units are 2 to this power: residuals may be twice half the bounds, if not noisy."""
        return int(self.loss == "squared" and self.noise == "none")

    @cached_property
    def units(self) -> Units:
        """Scale of a numeric target."""
        return units_for(self.domain, self.capacity, self.unit_bits)

    @property
    def quotient(self) -> Quotient:
        """Value of a leaf: mean of residuals over `widening`, or a Newton step."""
        most, bits = 1 << self.unit_bits, self.unit_bits
        if self.loss == "squared":
            return Quotient(self.capacity, bits, 0, 1, 0, VALUE_BITS)
        # Rounding may add one to p (1 - p), which is 1/4 at most.
        heaviest, reach = most // 4 + 1, _NEWTON_REACH[self.noise]
        return Quotient(self.capacity, bits, bits, heaviest, reach, VALUE_BITS)

    @property
    def least_weight(self) -> int:
        """Weight that a leaf has at least: the scale of its noise, so that noise is not divided."""
        if self.noise == "none":
            return 1
        return math.ceil(self.quotient.heaviest / self.weight_epsilon)

    @property
    def rate(self) -> int:
        """Learning rate with `RATE_BITS` bits."""
        return max(1, round(self.learning_rate * (1 << RATE_BITS)))

    @property
    def largest_score(self) -> int:
        """Bound on the magnitude of a row's score: the prior, and a full step of every tree."""
        prior = 1 if self.loss == "squared" else math.ceil(math.log(self.capacity + 1))
        reach = self.widening + self.quotient.reach
        step = Fraction(self.rate << reach, 1 << RATE_BITS)
        return prior + math.ceil(self.n_rounds * step) + 1

    @property
    def fraction(self) -> int:
        """Fraction bits of a row's score."""
        return min(_MOST_FRACTION, _SCORE_BITS - self.largest_score.bit_length())

    @cached_property
    def score(self) -> Criterion:
        """The criterion of splits: squared error of the gradients."""
        return criterion_named("squared_error", "sums")

    @property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        most = 1 << self.unit_bits
        return Public(self.capacity, bounds=(-most, most))

    @property
    def is_noisy_in_splits(self) -> bool:
        """Whether every split is a release of its own."""
        return self.noise == "splits+leaves" and not self.random_splits

    @property
    def split_mechanism(self) -> NoisyMax:
        """Noisy max over the candidates."""
        sensitivity = self.score.integer_sensitivity(self.public, 0)
        return NoisyMax(self.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone)

    def noisy_quotient(self, ledger: Ledger, scope: Scope) -> NoisyQuotient:
        """Return the noisy values of one tree's leaves, charged to a ledger."""
        return NoisyQuotient(
            self.quotient,
            self.sum_epsilon,
            self.weight_epsilon,
            ledger,
            scope=scope,
            least=self.least_weight,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {name: getattr(self, name) for name in _FIELDS} | {"domain": self.domain.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**data | {"domain": Domain.from_dict(data["domain"], source="the plan")})


_FIELDS = tuple(field.name for field in fields(BoostingPlan))


def plan_boosting(
    domain: Domain,
    *,
    epsilon: float = 1.0,
    noise: BoostingNoise = "splits+leaves",
    n_rounds: int = 20,
    depth: int = 3,
    learning_rate: float = 0.1,
    split_share: float = SPLIT_SHARE,
    sum_share: float = SUM_SHARE,
    capacity: int | None = None,
    random_splits: bool = False,
    public_seed: int = 0,
) -> BoostingPlan:
    """Plan hidden gradient boosting from public numbers.

    Parameters
    ----------
    domain : Domain
        With target classes for the logistic loss, with target bounds for the squared loss.
    epsilon : float
        Whole budget of all trees, add/remove neighbours; unused with ``noise="none"``.
    noise : {"none", "splits+leaves"}
    n_rounds, depth, learning_rate
        As in `BoostingPlan`.
    split_share : float
        Share of a tree's epsilon for its splits.
    sum_share : float
        Share of the leaves' epsilon for the sums of gradients; the rest is for their weights.
    capacity : int, optional
        Instead of the domain's.
    random_splits, public_seed
        As in `BoostingPlan`; all of epsilon is for the leaves then.

    Raises
    ------
    HedgerowError
        H116 without a target or with one class, H208 without a capacity, H201 for an epsilon that
        cannot be divided among the trees, H501 for other parameters that do not fit.
    """
    check_option("noise", noise, BoostingNoise)
    target = domain.target
    if target is None or target.n_classes == 1:
        raise Code.BAD_TARGET.error(found="a domain without a target of two classes or bounds")
    capacity = domain.capacity if capacity is None else capacity
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
    if not (0 < learning_rate <= 1) or n_rounds < 1:
        raise Code.BAD_PARAMETER.error(
            expected="0 < learning_rate <= 1 and at least one round",
            found=f"learning_rate={learning_rate}, n_rounds={n_rounds}",
        )
    layout = Layout(domain, "binary")
    layout.check_depth(depth)
    split = sums = weights = 0.0
    if noise == "splits+leaves":
        trees = n_rounds * (target.n_classes if (target.n_classes or 0) > 2 else 1)  # type: ignore[operator]
        leaf = tree_epsilon(epsilon, trees)
        if not random_splits:
            spending = divide(leaf, depth, split_share)
            split, leaf = spending.split, spending.leaf
        sums, weights = cut(leaf, sum_share)
    plan = BoostingPlan(
        domain,
        capacity,
        n_rounds,
        depth,
        float(learning_rate),
        noise,
        split,
        sums,
        weights,
        random_splits,
        public_seed,
    )
    if plan.fraction < plan.unit_bits:
        raise Code.BAD_PARAMETER.error(
            expected=f"scores below {1 << (_SCORE_BITS - plan.unit_bits):,}",
            found=f"{n_rounds} rounds with learning_rate={learning_rate}: "
            f"scores up to {plan.largest_score:,}",
            fix="choose fewer rounds or a smaller learning_rate",
        )
    return plan


def tree_epsilon(epsilon: float, trees: int) -> float:
    """Return the epsilon of one tree, so that all together have no more than epsilon."""
    check_whole_epsilon(epsilon)
    return rounded_down(Fraction(epsilon) / trees)
