"""`MedianPlan`: everything about a forest of private medians that is fixed before a row is seen.

Paper: consul2021diprime, section 4: of one tree's epsilon the share rho (`split_share` here) goes
to the splits, level by level, and the rest to the leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    ExponentialMechanism,
    NoisyMax,
    Opening,
    Partition,
    PermuteAndFlip,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.mechanisms import Choice
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.protocols.growers.units import COARSE, Units, batch_of, rounded_down, units_for
from hedgerow.protocols.median.ranges import Attributes, widest_choice
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.forest import Batch, ForestShape
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

Variant = Literal["base", "exp", "flip", "max", "random"]
Accounting = Literal["strict", "paper"]
DepthBudget = Literal["uniform", "rising", "falling"]

MEDIANS = "median of each candidate attribute"
CHOICES = "attribute of each node"
COUNTS = "counts of each leaf"
SUMS = "sum of each leaf"
MEANS = "mean of each leaf"

RATIOS: dict[str, float] = {"uniform": 1.0, "rising": math.sqrt(2), "falling": math.sqrt(0.5)}
"""Budget of a level over that of the level above. Nodes halve from level to level."""
SUM_SHARE = 2 / 3
"""Of a regression leaf's epsilon for the sum: the count divides a number that is below 1."""
# Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon.
GRID_BITS = 10

_MECHANISMS: dict[str, type[Choice]] = {
    "base": ExponentialMechanism,
    "exp": ExponentialMechanism,
    "flip": PermuteAndFlip,
    "max": NoisyMax,
}


@dataclass(frozen=True)
class MedianSpending:
    """Epsilon of one tree, cut into releases.

    Per level, that of each private median, of which a node draws `times`, and that of the choice
    among them, if there is one; of a leaf, that of its count or class counts, and that of its sum,
    0 for classification.
    """

    medians: tuple[float, ...]
    choices: tuple[float, ...]
    times: int
    counts: float
    sums: float


@dataclass(frozen=True, eq=False)
class MedianPlan:
    """A forest of private medians in public numbers; made by `MedianOptions.plan`.

    `candidates` is K, the attributes of which a node draws a median; with `partition` a record is
    in one tree, by its own coin, and else in all; `spending` is that of one tree, None without
    noise.
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
    shrinkage: bool
    public_seed: int

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.domain.target is not None and self.domain.target.classes is not None

    @property
    def score(self) -> Criterion:
        """The criterion, with its sensitivities."""
        return criterion_named(
            *(("gini", "classes") if self.is_classifier else ("squared_error", "sums"))
        )

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
        return GRID_BITS if self.is_classifier else 0

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
        """Make a batch of an encoded table, a numeric target in whole units; H117, H116."""
        return batch_of(encoded, self.domain, self.units, number)

    @cached_property
    def _widest(self) -> int:
        """Candidates of a median at most."""
        return widest_choice(self.attributes)

    def __str__(self) -> str:
        return plan_text(self._heading, self.releases())

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        return f"<MedianPlan: {self._heading}; {cost_text(plan_total(self.releases()))}>"

    @property
    def _heading(self) -> str:
        task = "classification" if self.is_classifier else "regression"
        records = "each record in one of them" if self.partition else "all records in each"
        trees = "1 tree" if self.n_trees == 1 else f"{self.n_trees} trees ({records})"
        return (
            f"{task}, {trees}, depth {self.depth}, {self.variant} with "
            f"K = {self.candidates}, {self.accounting} accounting"
        )

    def openings(self) -> Sequence[Opening]:
        """Nothing: rows and counts lie with one curator."""
        return ()

    def releases(self) -> list[Release]:
        """List every release: trees that share no record are parts, others are steps.

        Within a tree the levels are steps, and the nodes of a level parts.
        """
        if self.partition:
            trees = [ROOT / part(Partition("trees", By.COIN), EACH)]
        else:
            trees = [ROOT / step(f"tree {t}") for t in range(self.n_trees)]
        return [release for tree in trees for release in self._of_one_tree(tree)]

    def _of_one_tree(self, tree: Scope) -> list[Release]:
        nodes, leaves = (Partition(name, By.ATTRIBUTES) for name in ("nodes", "leaves"))
        if self.spending is None:
            scope = tree / step("tree") / part(nodes, EACH)
            return [Release("exact", math.inf, 0.0, 1.0, scope, "public", "splits and leaves")]
        found = []
        for level in range(len(self.spending.medians)):
            scope = tree / step(f"level {level}") / part(nodes, EACH)
            times = self.spending.times
            # As published: the medians of a node are claimed to cost what one of them costs.
            claimed = self.spending.medians[level] / times if self.accounting == "paper" else None
            found.append(
                _release(
                    self.median_at(level),
                    scope,
                    MEDIANS,
                    self._widest,
                    times=times,
                    claimed=claimed,
                )
            )
            if self.chooses:
                found.append(_release(self.choice_at(level), scope, CHOICES, self.candidates))
        scope = tree / step("leaves") / part(leaves, EACH)
        if self.is_classifier:
            return [*found, _release(self.count, scope, COUNTS, self.shape.n_channels)]
        if self.accounting == "paper":
            epsilon = self.spending.counts
            name = DATA_SCALED.name
            return [
                *found,
                Release(name, math.inf, 0.0, 1.0, scope, "public", MEANS, claimed=epsilon),
            ]
        return [
            *found,
            _release(self.count, scope, COUNTS, 1),
            _release(self.sum, scope, SUMS, 1),
        ]


@lru_cache(maxsize=512)
def _delta(mechanism: Choice | TwoSidedGeometric, variables: int) -> float:
    return mechanism.delta(variables)


def _release(
    mechanism: Choice | TwoSidedGeometric,
    scope: Scope,
    reason: str,
    variables: int,
    *,
    times: int = 1,
    claimed: float | None = None,
) -> Release:
    return Release(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=_delta(mechanism, variables),
        sensitivity=mechanism.sensitivity,
        scope=scope,
        audience="public",
        reason=reason,
        claimed=claimed,
        times=times,
        variables=variables,
    )


def divide_tree(
    epsilon: float,
    depth: int,
    *,
    split_share: float,
    times: int,
    chooses: bool,
    regression: bool,
    depth_budget: DepthBudget = "uniform",
    strict: bool = True,
) -> MedianSpending:
    """Cut one tree's epsilon into releases whose exact sum is no larger.

    `split_share` is rho, 0 where splits cost nothing. A node draws `times` medians; where one of
    them is then chosen, half of a level's budget is for that. Unless `strict`, every median gets
    what all of them should share, as the paper has it: their sum is then larger than epsilon.

    H201 for an epsilon too small to be cut into so many parts.
    """
    ratio = RATIOS[depth_budget]
    weights = [ratio**level for level in range(depth)]
    levels = [epsilon * split_share * weight / sum(weights) for weight in weights]
    if split_share == 0:
        medians: tuple[float, ...] = ()
        choices: tuple[float, ...] = ()
    else:
        together = [level / 2 if chooses else level for level in levels]
        medians = tuple(part / times if strict else part for part in together)
        choices = tuple(together) if chooses else ()
    drawn = times if strict else 1
    # The ledger multiplies floats, which may round up.
    spent = sum((max(Fraction(p) * drawn, Fraction(p * drawn)) for p in medians), Fraction(0))
    spent += sum((Fraction(part) for part in choices), Fraction(0))
    leaf = rounded_down(Fraction(epsilon) - spent)
    sums = leaf * SUM_SHARE if regression and strict else 0.0
    counts = rounded_down(Fraction(leaf) - Fraction(sums))
    if min([*medians, *choices, counts]) <= 0:
        raise Code.BAD_EPSILON.error(
            found=f"epsilon={epsilon!r} of a tree, too small to be cut into its parts"
        )
    return MedianSpending(medians, choices, times, counts, sums)
