"""What stands in a leaf: a label, noisy class counts, or both; from secret sums.

Paper: hiddentrees, algorithm 1, steps 8 to 11, algorithms 9, 10, 12 and 13.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoisyMax,
    Partition,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.protocols.growers.choices import fitting_ring, widen
from hedgerow.protocols.hidden.id3 import GrownTrees
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import equal
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.paper import exponential, laplace
from hedgerow.secure.noise.releases import Charge, Payer, add_geometric_noise, noisy_max
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Secret, concatenate
from hedgerow.secure.select import select

LEAF_COUNTS = "class counts of each leaf"
LEAF_LABELS = "label of each leaf"
LEAVES = Partition("leaves", By.ATTRIBUTES)
_FRACTION = 16


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves of trees; arrays are (trees, leaves, k).

    `labels`: one-hot class of every leaf, over any ring. `counts`: noisy class counts, signed,
    where they may be shown to the audience, with `fraction` bits behind the point.
    """

    labels: Secret
    counts: Secret | None = None
    fraction: int = 0


class LeafUpdate(Protocol):
    """Labels the leaves of grown trees."""

    def __call__(self, grown: GrownTrees, capacity: int) -> Leaves:
        """Label; `capacity` is a public bound on every count."""
        ...


class Majority:
    """The most frequent class, the lowest index of equals; an empty leaf asks its parent."""

    def __call__(self, grown: GrownTrees, capacity: int) -> Leaves:
        """Label. See `LeafUpdate`.

        1. Majority class and emptiness of all nodes of all levels, at once.
        2. Level by level, a node without rows takes its parent's label: one round each.
        """
        levels = [*grown.totals, grown.leaves]
        t = grown.leaves.shape[0]
        sizes = [level.shape[1] for level in levels]
        every = concatenate(levels, axis=1)
        bits = capacity.bit_length() + 1
        hot = argmax(every, bits=bits)
        empty = equal(every.sum(axis=-1), 0, bits=bits)
        at = np.concatenate([[0], np.cumsum(sizes)])
        label = hot[:, : sizes[0]]
        for level, parent in enumerate(grown.parents, 1):
            here = slice(int(at[level]), int(at[level + 1]))
            label = select(empty[:, here].reshape(t, -1, 1), label[:, parent], hot[:, here])
        return Leaves(label)


@dataclass(frozen=True)
class NoisyLeafCounts:
    """Two-sided geometric noise on the class counts; the label is the largest noisy count."""

    mechanism: TwoSidedGeometric
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = field(default=ROOT)

    def __call__(self, grown: GrownTrees, capacity: int) -> Leaves:
        """Label. See `LeafUpdate`."""
        t, leaves, k = grown.leaves.shape
        ring = self.ring(grown.leaves.ring, k, capacity)
        flat = widen(grown.leaves, ring, 0).reshape(-1, k)
        charge = leaf_charge(self.ledger, self.scope, self.audience, LEAF_COUNTS)
        noisy = add_geometric_noise(flat, self.mechanism, charge)
        return Leaves(argmax(noisy).reshape(t, leaves, k), noisy.reshape(t, leaves, k))

    def ring(self, least: Ring, k: int, capacity: int) -> Ring:
        """Return a ring in which a count with its noise, and differences of two, do not wrap."""
        drawn = precision(self.mechanism, k)
        return fitting_ring(least, 2 * (capacity + (1 << drawn.variable.length)))


@dataclass(frozen=True)
class NoisyLabels:
    """Noisy max over the class counts: half the noise of `NoisyLeafCounts`, and no counts to show.

    The mechanism is monotone: counts only grow with a record.
    """

    mechanism: NoisyMax
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = field(default=ROOT)

    def __call__(self, grown: GrownTrees, capacity: int) -> Leaves:
        """Label. See `LeafUpdate`."""
        t, leaves, k = grown.leaves.shape
        drawn = precision(self.mechanism, k)
        largest = 2 * capacity + (1 << drawn.variable.length) + 1
        flat = widen(grown.leaves, fitting_ring(grown.leaves.ring, largest), 0).reshape(-1, k)
        charge = leaf_charge(self.ledger, self.scope, self.audience, LEAF_LABELS)
        chosen = noisy_max(flat, self.mechanism, charge, bound=capacity)
        return Leaves(chosen.reshape(t, leaves, k))


@dataclass(frozen=True)
class PaperLeaves:
    """The paper's leaf updates: approximate Laplace noise or exponential mechanism, no epsilon.

    `epsilon`: the paper's, of one leaf. `exponential`: algorithm 13 instead of algorithm 12.
    """

    epsilon: float
    exponential: bool
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = field(default=ROOT)

    def __call__(self, grown: GrownTrees, capacity: int) -> Leaves:
        """Label. See `LeafUpdate`."""
        t, leaves, k = grown.leaves.shape
        flat = widen(grown.leaves, Z64, 0).reshape(-1, k)
        if self.exponential:
            charge = leaf_charge(self.ledger, self.scope, self.audience, LEAF_LABELS)
            labels = exponential(flat, self.epsilon, 1, charge, bound=capacity)
            return Leaves(labels.reshape(t, leaves, k))
        charge = leaf_charge(self.ledger, self.scope, self.audience, LEAF_COUNTS)
        noisy = laplace(flat, self.epsilon, 1, charge, fraction=_FRACTION).reshape(t, leaves, k)
        return Leaves(argmax(noisy), noisy, _FRACTION)


def leaf_charge(ledger: Payer, scope: Scope, audience: str, reason: str) -> Charge:
    """Return who pays for the leaves: one release in each."""
    return Charge(ledger, scope / step("leaves") / part(LEAVES, EACH), audience, reason)
