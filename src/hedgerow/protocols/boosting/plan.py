"""What is fixed about private boosting before a row is touched: rounds, leaves and budget.

Releases, all to the public, fixed in advance and charged together:

1. The marginals. One record adds 1 to one cell of each of d histograms, so that the sum of squares
   moves by d. With a numeric target it adds `COUNT_UNITS` to one cell of each and at most `HALF`
   to another.
2. Per round the sums of gradients in the leaves. A record is in one leaf and its gradient is a
   vector of whole numbers, of a length of at most `limit`
   (`counts.boost_kernels.add_gradients`): the sum of squares moves by at most limit^2.

What else a model is made of follows from these and from public randomness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, DiscreteGaussian, Opening, Release, step
from hedgerow.privacy.mechanisms.discrete_gaussian import l2_sensitivity
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.protocols.growers.units import Units, batch_of
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.boosting import Gradients
from hedgerow.trees.counts.forest import Batch

MARGINALS = "marginals of all attributes"
ROUNDS = "gradient sums of a round's leaves"

UNIT = 1 << 16
"""Units of a gradient of 1."""

TARGET_BITS = 12
HALF = 1 << TARGET_BITS
"""Units of half the range of a numeric target."""

COUNT_UNITS = HALF // 2
"""Weight of a count beside a sum in the marginals of a numeric target: they only serve shapes."""

_CLIP = 0.8
# A residual seldom is as long as half the range of the target.
_CLIP_NUMBER = 0.4


@dataclass(frozen=True)
class BoostPlan:
    """A private boosted model's public parameters; made by `BoostOptions.plan`.

    A round cuts its attribute into `leaves` parts; the share `pair_share` of the rounds, the last
    ones, cut two attributes into three parts each. `marginals_rho` and `round_rho` are the zCDP of
    the marginals and of each round, and `sample_rate` is that of each round's Poisson sample.
    """

    domain: Domain
    delta: float
    rounds: int
    leaves: int
    pair_share: float
    rate: float
    marginals_rho: float
    round_rho: float
    sample_rate: float
    public_seed: int

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None for a numeric target."""
        classes = None if self.domain.target is None else self.domain.target.classes
        return None if classes is None else len(classes)

    @cached_property
    def gradients(self) -> Gradients:
        """Gradients as whole numbers."""
        if self.n_classes is None:
            return Gradients("squared", 1, HALF, int(_CLIP_NUMBER * UNIT), UNIT)
        if self.n_classes == 2:
            return Gradients("logistic", 1, HALF, int(_CLIP * UNIT), UNIT)
        return Gradients("softmax", self.n_classes, HALF, int(_CLIP * UNIT), UNIT)

    @cached_property
    def marginals(self) -> DiscreteGaussian:
        """Mechanism of the marginals."""
        return DiscreteGaussian(self.marginals_rho, self.marginals_moved)

    @property
    def marginals_moved(self) -> int:
        """How far one record moves the marginals: the sum of squares."""
        one = 1 if self.n_classes is not None else COUNT_UNITS**2 + HALF**2
        return one * len(self.domain.attributes)

    @cached_property
    def sums(self) -> DiscreteGaussian:
        """Mechanism of each round's sums."""
        return DiscreteGaussian(self.round_rho, self.gradients.limit**2)

    @property
    def noise(self) -> float:
        """Noise of the sums, in records of gradient 1, if all rounds were one."""
        sigma = math.sqrt(self.sums.sigma2 / self.rounds) / self.gradients.unit
        return sigma / self.sample_rate

    def __str__(self) -> str:
        return plan_text(self._heading, self.releases(), self.delta)

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        total = plan_total(self.releases(), self.delta)
        return f"<BoostPlan: {self._heading}; {cost_text(total)}>"

    @property
    def _heading(self) -> str:
        task = "regression" if self.n_classes is None else "classification"
        pairs = f", {self.pair_share:.0%} of them on two attributes" if self.pair_share else ""
        return (
            f"{task}, {self.rounds:,} rounds{pairs}, {self.leaves} leaves, "
            f"learning rate {self.rate:g}"
        )

    def releases(self) -> list[Release]:
        """All that will be released."""
        widths = 2 if self.n_classes is None else self.n_classes
        cells = int(self.domain.n_bins.sum()) * widths
        leaves = max(self.leaves, 9 if self.pair_share else 0)
        return [
            Release(
                mechanism=DiscreteGaussian.name,
                epsilon=math.inf,
                delta=0.0,
                sensitivity=l2_sensitivity(self.marginals_moved),
                scope=ROOT / step("marginals"),
                audience="public",
                reason=MARGINALS,
                variables=cells,
                rho=self.marginals_rho,
            ),
            Release(
                mechanism=DiscreteGaussian.name,
                epsilon=math.inf,
                delta=0.0,
                sensitivity=l2_sensitivity(self.gradients.limit**2),
                scope=ROOT / step("rounds"),
                audience="public",
                reason=ROUNDS,
                times=self.rounds,
                variables=leaves * self.gradients.n_scores,
                rho=self.round_rho,
                sample_rate=self.sample_rate,
            ),
        ]

    def openings(self) -> Sequence[Opening]:
        """Nothing: rows and gradients lie with one curator."""
        return ()

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Return encoded rows as they are counted."""
        units = self.units if self.n_classes is None else None
        return batch_of(encoded, self.domain, units, number)

    @property
    def units(self) -> Units:
        """Units of a numeric target."""
        if self.domain.target is None or self.domain.target.bounds is None:
            raise Code.BAD_TARGET.error(found="a target without bounds")
        low, high = self.domain.target.bounds
        return Units(float(low), float(high), TARGET_BITS)
