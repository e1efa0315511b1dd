"""Leaf values that are quotients of secret sums: means and Newton steps, exact or noisy."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.privacy import ROOT, Scope, TwoSidedGeometric, step
from hedgerow.protocols.growers.leaves import leaf_charge
from hedgerow.secure.compare import cost_equal, cost_less_than, equal, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.divide import cost_divide, divide
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.releases import Charge, Payer, add_geometric_noise
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.secure.select import cost_select, select

LEAF_SUMS = "sum of each leaf"
LEAF_WEIGHTS = "weight of each leaf"


@dataclass(frozen=True)
class Quotient:
    """What stands in a leaf: (sum / U) / (weight / W), clipped to 2**reach in magnitude; public.

    The sum is in units of 1/U, U = 2**unit_bits; no record adds more than U to it. The weight is a
    number of records (W = 1) or a sum of second derivatives in units of 1/W, W = 2**weight_bits, to
    which a record adds `heaviest` at most. The result has `fraction` bits.
    """

    capacity: int
    unit_bits: int
    weight_bits: int
    heaviest: int
    reach: int
    fraction: int

    def __call__(
        self, sums: Secret, weights: Secret, *, least: int = 1, reach: tuple[int, int] = (0, 0)
    ) -> Secret:
        """Divide signed numbers over Z_2^64.

        1. w = max(weight, least); with the numerator and w in one unit, x = w * 2^(U's bits less
           W's).
        2. Clip the numerator to 2^reach x in magnitude.
        3. `divide`.

        Weights below `least`, 1 or more, count as it, also those that noise made negative. `reach`:
        how far noise may carry a sum and a weight beyond what records add up to.

        Reveals: nothing. Cost: `cost`; two comparisons, one after the other, and a division.
        """
        narrow, bits, width = self._widths(least, reach)
        light = less_than(weights, least, bits=narrow)
        x = select(light, least, weights) * (1 << (self.unit_bits - self.weight_bits))
        limit = x * (1 << self.reach)
        beyond = less_than(stack([limit - sums, limit + sums]), 0, bits=bits)
        ends = stack([limit - sums, -limit - sums])
        clipped = sums + (beyond * ends).sum(axis=0)
        return divide(clipped, x, bits=width, fraction=self.fraction, quotient_bits=self.reach)

    def cost(self, engine: Engine, n: int) -> Cost:
        """State the cost of n exact quotients."""
        light, bits, width = self._widths(1, (0, 0))
        return (
            cost_less_than(engine, n, Z64, light)
            + cost_select(engine, (n,), Z64)
            + cost_less_than(engine, 2 * n, Z64, bits)
            + engine.cost("mul", shape=(2, n), ring=Z64)
            + cost_divide(
                engine, (n,), bits=width, fraction=self.fraction, quotient_bits=self.reach
            )
        )

    def _widths(self, least: int, reach: tuple[int, int]) -> tuple[int, int, int]:
        """Return the bits of both comparisons, and of what is divided by."""
        top = self.capacity * (1 << self.unit_bits) + reach[0]
        bottom = max(least, self.capacity * self.heaviest + reach[1])
        largest = bottom << (self.unit_bits - self.weight_bits)
        light = (bottom + least).bit_length() + 1
        bits = (top + (largest << self.reach)).bit_length() + 1
        return light, bits, max(2, largest.bit_length())


def lift_sums(sums: Secret, bound: int) -> Secret:
    """Return signed sums of magnitude up to `bound` over Z_2^64."""
    return sums.engine.extend(sums + bound, Z64) - bound


def exact_values(
    counts: Secret, sums: Secret, weights: Secret, quotient: Quotient, depth: int
) -> Secret:
    """Return the value of every leaf of binary trees; an empty one has that of the node above it.

    1. Sums of inner nodes are those of their children, local.
    2. Quotients and emptiness of all nodes at once.
    3. Level by level, a node without rows takes its parent's value: one round each.

    All arrays are over Z_2^64, shape (trees, leaves).

    Reveals: nothing. Cost: `cost_exact_values`.
    """
    t = counts.shape[0]
    levels = [stack([counts, sums, weights])]
    for _ in range(depth):
        levels.append(levels[-1].reshape(3, t, -1, 2).sum(axis=-1))
    every = concatenate(levels[::-1], axis=2)
    empty = equal(every[0], 0, bits=quotient.capacity.bit_length())
    own = quotient(every[1], every[2])
    value = own[:, :1]
    for level in range(1, depth + 1):
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        above = value.reshape(t, -1, 1).broadcast_to((t, 2 ** (level - 1), 2)).reshape(t, -1)
        value = select(empty[:, here], above, own[:, here])
    return value


def cost_exact_values(engine: Engine, trees: int, quotient: Quotient, depth: int) -> Cost:
    """State the cost of `exact_values`: a zero test, quotients, and a choice at every level."""
    nodes = trees * (2 ** (depth + 1) - 1)
    total = cost_equal(engine, nodes, Z64, quotient.capacity.bit_length())
    total += quotient.cost(engine, nodes)
    for level in range(1, depth + 1):
        total += cost_select(engine, (trees, 2**level), Z64)
    return total


@dataclass(frozen=True)
class NoisyQuotient:
    """A noisy sum over a noisy weight: two releases in each leaf, charged before noise is drawn."""

    quotient: Quotient
    sum_epsilon: float
    weight_epsilon: float
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = ROOT
    least: int = 1

    def __call__(self, sums: Secret, weights: Secret) -> Secret:
        """Return the leaf values of one tree, (leaves,) over Z_2^64 as sums and weights are.

        1. Charge and draw: two-sided geometric noise on sum and weight. A record is in one leaf and
           moves its sum by U and its weight by `heaviest` at most.
        2. `Quotient` of the noisy numbers alone.

        Reveals: nothing; the values are computed from the two releases.
        Cost: `add_geometric_noise` twice and `Quotient`.
        """
        noisy, reach = [], []
        for values, (mechanism, charge) in zip((sums, weights), self.charges(), strict=True):
            column = add_geometric_noise(values.reshape(-1, 1), mechanism, charge)
            noisy.append(column.reshape(-1))
            reach.append(1 << precision(mechanism, 1).variable.length)
        return self.quotient(*noisy, least=self.least, reach=(reach[0], reach[1]))

    def charges(self) -> list[tuple[TwoSidedGeometric, Charge]]:
        """Return the noise of the sums and who pays for it, and those of the weights."""
        mechanisms = {LEAF_SUMS: self.sum_mechanism, LEAF_WEIGHTS: self.weight_mechanism}
        return [
            (mechanism, leaf_charge(self.ledger, self.scope / step(name), self.audience, name))
            for name, mechanism in mechanisms.items()
        ]

    @property
    def sum_mechanism(self) -> TwoSidedGeometric:
        """Noise of the sums."""
        return TwoSidedGeometric(self.sum_epsilon, 1 << self.quotient.unit_bits)

    @property
    def weight_mechanism(self) -> TwoSidedGeometric:
        """Noise of the weights."""
        return TwoSidedGeometric(self.weight_epsilon, self.quotient.heaviest)
