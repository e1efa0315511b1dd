"""`BoostingPlan`: what is fixed, and public, about hidden gradient boosting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, Ledger, Release, Scope, step
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.contract import guarantees
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient
from hedgerow.protocols.growers.units import COARSE, Units, bits_for, rounded_down, units_for
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

BoostingNoise = Literal["none", "splits+leaves"]
Loss = Literal["squared", "logistic", "softmax"]

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
class BoostingPlan(TreePlan):
    """Hidden gradient boosting in public numbers; made by `BoostingOptions.plan`.

    The target of the domain has classes (logistic loss) or bounds (squared loss). Of each score
    there are `n_rounds` trees. Epsilons are of each level of one tree, and of sum and weight of its
    leaves; 0 where there is no noise. `public_seed` is that of the coins of `random_splits`, which
    cost nothing.
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

    branching: ClassVar[Branching] = "binary"  # type: ignore[misc]
    grower: ClassVar[Literal["masks"]] = "masks"  # type: ignore[misc]
    knots: ClassVar[int] = 4
    """Fineness of the logistic function; see `sigmoid`."""

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
    def levels(self) -> int:
        """Levels of all rounds."""
        return self.n_rounds * self.depth

    def nodes(self, done: int) -> int:
        """Return the same at all levels: rounds take as long as each other."""
        del done
        return self.n_scores * self.layout.n_nodes(self.depth)

    @property
    def target_units(self) -> Units | None:
        """Scale of a numeric target."""
        return self.units if self.loss == "squared" else None

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
    def score_bits(self) -> int:
        """Bits of a row's score and of its fraction, for which there is room."""
        return _SCORE_BITS

    @property
    def fraction(self) -> int:
        """Fraction bits of a row's score."""
        return min(_MOST_FRACTION, self.score_bits - self.largest_score.bit_length())

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

    def noisy_quotient(self, ledger: Payer, scope: Scope) -> NoisyQuotient:
        """Return the noisy values of one tree's leaves, which a payer is asked for."""
        return NoisyQuotient(
            self.quotient,
            self.sum_epsilon,
            self.weight_epsilon,
            ledger,
            self.audience,
            scope,
            least=self.least_weight,
        )

    def releases(self) -> Sequence[Release]:
        """Return what training charges: what has no noise, or all trees, round by round.

        In a round noisy splits of all its trees come level by level, then their leaves.
        """
        if self.noise == "none":
            exact = (LABELS,) if self.random_splits else (STRUCTURE, LABELS)
            return tuple(exact_release(reason, self.audience) for reason in exact)
        rounds = (
            [tree_scope(round_scope(turn), tree) for tree in range(self.n_scores)]
            for turn in range(self.n_rounds)
        )
        return tuple(release for trees in rounds for release in self._releases_in(trees))

    def costs(self) -> dict[str, Guarantee]:
        """Return the totals of one tree times their number: all release the same, which adds up.

        Sums of floats are correctly rounded, so of equal numbers they are products, bit by bit.
        """
        if self.noise == "none":
            return super().costs()
        ledger = Ledger(domain=self.domain)
        for release in self._releases_in([tree_scope(ROOT, 0)]):
            ledger.charge(release)
        found = {}
        for audience, tree in guarantees(ledger).items():
            epsilon, delta = (x * self.n_trees for x in (tree.epsilon, tree.delta))
            found[audience] = replace(tree, epsilon=epsilon, delta=min(1.0, delta))
        return found

    def answers_derive_from(self) -> tuple[str, ...]:
        """Return the reasons of one tree's releases, for every round."""
        if self.noise == "none":
            return super().answers_derive_from()
        tree = tuple(release.reason for release in self._releases_in([ROOT]))
        return tree * self.n_rounds

    def check_scores(self) -> None:
        """Refuse, with H501, rounds after which scores have no room for a gradient's units."""
        if self.fraction < self.unit_bits:
            raise Code.BAD_PARAMETER.error(
                expected=f"scores below {1 << (self.score_bits - self.unit_bits):,}",
                found=f"{self.n_rounds} rounds with learning_rate={self.learning_rate}: "
                f"scores up to {self.largest_score:,}",
                fix="choose fewer rounds or a smaller learning_rate",
            )

    def _releases_in(self, trees: Sequence[Scope]) -> Iterator[Release]:
        split = self.split_mechanism if self.is_noisy_in_splits else None
        leaves = [self.noisy_quotient(NOBODY, scope) for scope in trees]
        return number_releases(split, leaves, len(self.layout.candidates), self.depth)


def round_scope(turn: int) -> Scope:
    """Return the scope of one round: rounds see the same records, so their costs add up."""
    return ROOT / step(f"round {turn}")


def tree_scope(scope: Scope, tree: int) -> Scope:
    """Return the scope of one tree of a round."""
    return scope / step(f"tree {tree}")


def tree_epsilon(epsilon: float, trees: int) -> float:
    """Return the epsilon of one tree, so that all together have no more than epsilon."""
    check_whole_epsilon(epsilon)
    return rounded_down(Fraction(epsilon) / trees)
