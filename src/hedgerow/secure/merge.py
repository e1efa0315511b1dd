"""Oblivious merge of sorted runs: neighbours in the order of secret keys, without a sort.

Batcher's odd-even merge: a public network of comparators, each of which leaves the smaller of two
rows at the lower place. Which rows were swapped is secret; whoever keeps those bits can send
anything else the same way, or back. Two runs of n rows take ceil(log2 n) + 1 stages.

Paper: batcher1968sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.circuits import less
from hedgerow.secure.compare import cost_carry_into_top
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.secret import Engine, SecretBits, turned

Places = NDArray[np.int64]
Comparators = tuple[Places, Places]
"""Lower and upper places of the rows that a stage compares."""


@dataclass(frozen=True, eq=False)
class Merged:
    """Rows (n, bits) in the order of their keys, and which comparators have swapped, by stage."""

    rows: SecretBits
    swapped: list[tuple[Comparators, SecretBits]]

    def undo(self, rows: SecretBits) -> SecretBits:
        """Send rows (n, ...) from their places after the merge to those before.

        Reveals: nothing. Cost: `cost_undo`.
        """
        for comparators, swapped in reversed(self.swapped):
            rows = _exchanged(rows, comparators, swapped)
        return rows


def merge(rows: SecretBits, runs: Sequence[int]) -> Merged:
    """Merge runs of rows that lie one behind the other, each sorted, by their bits as numbers.

    1. In every stage of `network`: whether the upper row of a comparator is less than the lower.
    2. Then they change places.

    Bit j of a row (n, bits) is bit j of its key. Rows of runs that are not sorted come out in some
    order.

    Reveals: nothing. Cost: `cost_merge`; per comparator about three bits for every bit of the key.
    """
    swapped = []
    for lower, upper in network(runs):
        bit = less(turned(rows[upper]), turned(rows[lower]))[None]
        rows = _exchanged(rows, (lower, upper), bit)
        swapped.append(((lower, upper), bit))
    return Merged(rows, swapped)


def network(runs: Sequence[int]) -> list[Comparators]:
    """Return the comparators that merge runs of so many rows, stage by stage.

    Neighbouring runs are merged in pairs, all pairs at once, until one is left.
    """
    stages: list[Comparators] = []
    sizes = list(runs)
    while len(sizes) > 1:
        firsts = np.concatenate([[0], np.cumsum(sizes)])
        pairs = range(0, len(sizes) - 1, 2)
        each = [_merge_two(sizes[i], sizes[i + 1], int(firsts[i])) for i in pairs]
        for stage in zip_longest(*each):
            some = [comparators for comparators in stage if comparators is not None]
            lower, upper = (np.concatenate(side) for side in zip(*some, strict=True))
            stages.append((lower, upper))
        sizes = [sum(sizes[i : i + 2]) for i in range(0, len(sizes), 2)]
    return stages


def cost_merge(engine: Engine, runs: Sequence[int], bits: int) -> Cost:
    """State the cost of `merge` of rows of so many bits."""
    total = NOTHING
    for lower, _ in network(runs):
        total += cost_carry_into_top(engine, bits + 1, len(lower))
        total += engine.cost("and_", shape=(bits, len(lower)))
    return total


def cost_undo(engine: Engine, runs: Sequence[int], bits: int) -> Cost:
    """State the cost of `Merged.undo` for rows of so many bits."""
    costs = (engine.cost("and_", shape=(bits, len(lower))) for lower, _ in network(runs))
    return sum(costs, NOTHING)


def _merge_two(a: int, b: int, first: int) -> list[Comparators]:
    """Return the comparators of two runs, the first of them at place `first`.

    The network is one for twice p rows, p a power of two. The a rows stand at the end of its first
    half, behind rows that are less than any, and the b rows at the beginning of its second half, in
    front of rows that are greater than any. Those never move, so their comparators are left out.
    """
    p = 1 << (max(a, b) - 1).bit_length()
    every = np.arange(2 * p)
    stages = []
    reach = p
    while reach:
        # In the first stage the lower half is compared with the upper, in others odd with even.
        side = 0 if reach == p else 1
        lower = every[every // reach % 2 == side]
        lower = lower[(lower >= p - a) & (lower + reach < p + b)]
        if lower.size:
            stages.append((lower - (p - a) + first, lower - (p - a) + first + reach))
        reach >>= 1
    return stages


def _exchanged(rows: SecretBits, comparators: Comparators, swap: SecretBits) -> SecretBits:
    """Let the two rows of each comparator change places where its bit (1, m) is set; one AND."""
    lower, upper = comparators
    change = turned(turned(rows[lower] ^ rows[upper]) & swap).data
    data = rows.data.copy()
    data[..., lower, :] ^= change
    data[..., upper, :] ^= change
    return rows.like(data)
