"""Noise inside trees among peers: where a node stops, how it is split, what its leaf says.

Paper: wu2020pivot, section 8.2, whose three noisy steps these are.

"splits+leaves" draws the exact discrete noise of all trees here (`growers`), on the shares of the
peers. A record is in one node of each level of a tree and in one leaf, which follows from its own
attributes and from what was released above: in a level the dearest node counts, levels and leaves
add up, and so do trees, which have the same rows.

"as published" takes the paper's steps, for comparison, and has no finite epsilon: Laplace noise in
fixed point (`secure.noise.paper`), and a split tau with probability exp(gain - zeta) divided by the
sum of these over all splits. There zeta, the one place where epsilon would enter, cancels: the
choice is the same whatever epsilon is, and a gain, which is below 1, hardly changes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow.privacy import ROOT, Release, Scope
from hedgerow.protocols.growers.choices import (
    Noisy,
    Valid,
    cost_widen,
    fitting_ring,
    level_charge,
    widen,
)
from hedgerow.protocols.growers.leaves import NoisyLabels, PaperLeaves
from hedgerow.protocols.growers.means import lift_sums
from hedgerow.protocols.hidden.id3 import GrownTrees, narrowed
from hedgerow.protocols.pivot.plan import SHOWN_TO, PivotPlan, placed, stop_charge
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.fixed.quotient import floor_divide
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.paper import (
    CLIP,
    EXPONENTIAL,
    approximate_release,
    choose_by_weight,
    laplace,
)
from hedgerow.secure.noise.releases import (
    Payer,
    add_geometric_noise,
    cost_add_geometric_noise,
    cost_noisy_max,
)
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Engine, Secret

_LAPLACE_BITS = 16


@dataclass(frozen=True)
class EachTree:
    """Pays for what the trees draw together: each tree in its own scope."""

    ledger: Payer
    scopes: Sequence[Scope]

    def charge(self, *releases: Release) -> None:
        """Charge what one tree releases, for all of them."""
        self.ledger.charge(*placed(releases, self.scopes))

    def mark_not_private(self, reason: str) -> None:
        """Record it once."""
        self.ledger.mark_not_private(reason)


@dataclass(frozen=True)
class GrowthNoise(ABC):
    """Noisy steps of all trees at once; what they draw is charged before, tree by tree."""

    plan: PivotPlan
    paid: Payer = field(repr=False)

    @abstractmethod
    def choose(self, level: int, scores: Secret, counts: Secret, valid: Valid) -> Secret:
        """Choose the splits of nodes by scores (nodes, c), given their rows (nodes,): one-hot."""

    def stop(self, level: int, counts: Secret) -> Secret:
        """Return which nodes have too few rows by a noisy count: 0 and 1, (nodes,)."""
        if not self.plan.stop_epsilon:
            return counts * 0
        return narrowed(self._too_few(level, counts), counts.ring)

    @abstractmethod
    def leaves(self, sums: Secret) -> Secret:
        """Return classes, one-hot (leaves, k), or means (leaves,), of sums (leaves, k)."""

    def cost_level(self, engine: Engine, nodes: int) -> Cost:
        """State the cost of `choose` and `stop`; what it leaves out is made on demand."""
        del engine, nodes
        return NOTHING

    @abstractmethod
    def _too_few(self, level: int, counts: Secret) -> Secret:
        """Compare noisy counts with what a node needs to be split."""

    @property
    def _least(self) -> int:
        return self.plan.fewest(self.plan.least_split)


class DiscreteNoise(GrowthNoise):
    """The exact discrete noise of all trees: two-sided geometric, and noisy max."""

    def choose(self, level: int, scores: Secret, counts: Secret, valid: Valid) -> Secret:
        """Choose by noisy max (`Noisy`). See `GrowthNoise.choose`."""
        del counts
        return self._choice(level, scores, self.plan.score.bound, valid)

    def leaves(self, sums: Secret) -> Secret:
        """Draw labels by noisy max, or a noisy sum over a noisy count."""
        plan = self.plan
        if plan.classes:
            update = NoisyLabels(plan.label_mechanism, self.paid, SHOWN_TO)
            return update(GrownTrees([], [], sums[None], []), plan.capacity).labels[0]
        lifted = lift_sums(sums, plan.capacity * plan.units.most)
        return plan.noisy_quotient(self.paid)(lifted[:, 1], lifted[:, 0])

    def cost_level(self, engine: Engine, nodes: int) -> Cost:
        """See `GrowthNoise.cost_level`: all of it."""
        plan, score = self.plan, self.plan.score
        shape, source = (nodes, plan.n_candidates), score.ring(plan.ring)
        ring = self._choice.ring(source, plan.n_candidates, score.bound)
        total = cost_widen(engine, shape, source, ring, score.bound)
        total += cost_noisy_max(engine, shape, plan.split_mechanism, bound=score.bound, ring=ring)
        if not plan.stop_epsilon:
            return total
        wide, charge = self._ring, stop_charge(self.paid, 0)
        total += cost_widen(engine, (nodes,), plan.ring, wide, 0)
        total += cost_add_geometric_noise(engine, (nodes, 1), plan.stop_mechanism, charge, wide)
        return total + cost_less_than(engine, nodes, wide, self._bits)

    def _too_few(self, level: int, counts: Secret) -> Secret:
        charge = stop_charge(self.paid, level)
        column = widen(counts, self._ring, 0).reshape(-1, 1)
        noisy = add_geometric_noise(column, self.plan.stop_mechanism, charge)
        return less_than(noisy[:, 0], self._least, bits=self._bits)

    @property
    def _choice(self) -> Noisy:
        return Noisy(self.plan.split_mechanism, self.paid, SHOWN_TO)

    @property
    def _reach(self) -> int:
        """Largest magnitude of a noisy count."""
        drawn = precision(self.plan.stop_mechanism, 1)
        return self.plan.capacity + (1 << drawn.variable.length)

    @property
    def _ring(self) -> Ring:
        return fitting_ring(self.plan.ring, 2 * self._reach)

    @property
    def _bits(self) -> int:
        return (self._reach + self._least).bit_length() + 1


class PublishedNoise(GrowthNoise):
    """The paper's noise, for comparison: no finite epsilon, and a choice without any."""

    def choose(self, level: int, scores: Secret, counts: Secret, valid: Valid) -> Secret:
        """Choose a split with probability exp(gain) / sum.

        1. gain + Gini of the node = (score + records) / records, the same for all but the first
           term: a number from 0 to 1 on the grid 2^-shift.
        2. Exponential mechanism with exponents that are these (`choose_by_weight`).

        See `GrowthNoise.choose`.
        """
        plan, engine = self.plan, scores.engine
        charge = level_charge(self.paid, ROOT, SHOWN_TO, level)
        charge.pay(engine, approximate_release(EXPONENTIAL, plan.split_epsilon, 1, charge, 1))
        one = 1 << plan.shift
        n = engine.extend(counts, Z64).reshape(-1, 1).broadcast_to(scores.shape)
        bits = max(2, plan.capacity.bit_length())
        gains = floor_divide(scores + n * one, n, bits=bits, quotient_bits=max(1, plan.shift))
        bound = one
        if valid is not None:
            # Below all others by more than the clip reaches.
            allowed = np.asarray(valid).astype(np.int64)
            bound = (1 - CLIP) * one
            gains = gains * allowed - (1 - allowed) * (-CLIP * one)
        return choose_by_weight(gains, 2.0, one, bound=bound)

    def leaves(self, sums: Secret) -> Secret:
        """Take the largest of the counts with Laplace noise."""
        plan = self.plan
        update = PaperLeaves(plan.leaf_epsilon, False, self.paid, SHOWN_TO)
        return update(GrownTrees([], [], sums[None], []), plan.capacity).labels[0]

    def _too_few(self, level: int, counts: Secret) -> Secret:
        charge = stop_charge(self.paid, level)
        column = widen(counts, Z64, 0).reshape(-1, 1)
        noisy = laplace(column, self.plan.stop_epsilon, 1, charge, fraction=_LAPLACE_BITS)
        return less_than(noisy[:, 0], self._least << _LAPLACE_BITS)


def noise_of(plan: PivotPlan, paid: Payer) -> GrowthNoise | None:
    """Return the noise of a plan, if it has any; `paid` has what the plan releases."""
    if not plan.is_noisy:
        return None
    kind = DiscreteNoise if plan.is_private else PublishedNoise
    return kind(plan, EachTree(paid, plan.scopes))
