"""Geometric noise of several laws, drawn in one pass.

Drawing laws one after the other (nodes of several depths, each with its own epsilon; a choice, a
value and a count) costs the rounds of each. Here the coin circuits of all laws go up side by side:
the rounds are those of the deepest one, and every variable has the law that it has alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.coin_circuit import Circuit, compile_coins
from hedgerow.secure.noise.discrete import Precision, xor_planes
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.secure.secret import (
    WORD,
    Engine,
    Secret,
    SecretBits,
    concatenate,
    pack,
    unpack,
    words,
)


@dataclass(frozen=True)
class Draws:
    """Variables of one law: differences of two geometric ones, or geometric ones themselves."""

    drawn: Precision
    n: int
    two_sided: bool = False

    @property
    def variables(self) -> int:
        """Geometric variables that are drawn."""
        return self.n * (2 if self.two_sided else 1)

    @property
    def bits(self) -> int:
        """Coins of all variables."""
        return self.variables * self.drawn.variable.length

    @property
    def lift(self) -> int:
        """What is added to make every value non-negative."""
        return 1 << self.drawn.variable.length if self.two_sided else 0

    @property
    def circuit(self) -> Circuit:
        """Public circuit of the coins."""
        return compile_coins(self.drawn.constants, self.drawn.t)


def draw_batch(engine: Engine, batch: Sequence[Draws], ring: Ring) -> list[Secret]:
    """Draw variables of several laws at once.

    1. Uniform planes for every law, local.
    2. Level by level of all circuits at once: one AND of whatever stands at that level.
    3. All coins of all laws become ring elements together, in the ring in which that sends least;
       digit i counts 2^i.
    4. One extension of all values, lifted by 2^L where they may be negative.

    Results are in the order of the batch; laws without a variable cost nothing. `ring` has at least
    L + 2 bits for every law.

    Reveals: nothing. Cost: `cost_draw_batch`; the rounds of the deepest circuit and 2 to 4 more.
    """
    some = [draws for draws in batch if draws.n]
    if not some:
        return [engine.public(np.zeros(0, dtype=np.uint8), ring) for _ in batch]
    small, _ = _summing_ring(engine, some, ring)
    digits = engine.b2a(_joined(engine, _coins(engine, some), some), small)
    ends = np.cumsum([draws.bits for draws in some])
    values = [
        _summed(digits[end - draws.bits : end], draws)
        for draws, end in zip(some, ends, strict=True)
    ]
    lift = np.repeat([d.lift for d in some], [d.n for d in some]).astype(np.int64)
    every = engine.extend(concatenate(values) + lift, ring) - lift
    stops = np.cumsum([draws.n for draws in batch])
    return [every[stop - draws.n : stop] for draws, stop in zip(batch, stops, strict=True)]


def cost_draw_batch(engine: Engine, batch: Sequence[Draws], ring: Ring) -> Cost:
    """State the cost of `draw_batch`."""
    some = [draws for draws in batch if draws.n]
    if not some:
        return NOTHING
    total = NOTHING
    circuits = [draws.circuit for draws in some]
    for depth in range(max(len(circuit.levels) for circuit in circuits)):
        packed = sum(
            circuit.levels[depth].left.size * words(draws.variables)
            for circuit, draws in zip(circuits, some, strict=True)
            if depth < len(circuit.levels)
        )
        if packed:
            total += engine.cost("and_", shape=(packed * WORD,))
    return total + _summing_ring(engine, some, ring)[1]


def _coins(engine: Engine, batch: Sequence[Draws]) -> list[SecretBits]:
    """Flip the coins of every law, planes (L, variables)."""
    circuits = [draws.circuit for draws in batch]
    planes = [
        engine.random_bits((circuit.bits, draws.variables))
        for circuit, draws in zip(circuits, batch, strict=True)
    ]
    for depth in range(max(len(circuit.levels) for circuit in circuits)):
        here = [i for i, circuit in enumerate(circuits) if depth < len(circuit.levels)]
        levels = {i: circuits[i].levels[depth] for i in here}
        products = _conjoined(engine, planes, {i: (lv.left, lv.right) for i, lv in levels.items()})
        for i, level in levels.items():
            pools = [planes[i].data, *([products[i]] if i in products else [])]
            planes[i] = planes[i].like(xor_planes(pools, level))
            if level.flips.size:
                planes[i].data[..., level.flips, :] = (~planes[i][level.flips]).data
    return planes


def _conjoined(
    engine: Engine,
    planes: Sequence[SecretBits],
    pairs: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> dict[int, NDArray[np.uint64]]:
    """AND the named planes of several laws in one round, word by word."""
    asked = {i: pair for i, pair in pairs.items() if pair[0].size}
    if not asked:
        return {}
    left = [_words(planes[i][pair[0]]) for i, pair in asked.items()]
    right = [_words(planes[i][pair[1]]) for i, pair in asked.items()]
    n = WORD * sum(part.shape[-1] for part in left)
    both = engine.and_(
        SecretBits(engine, n, np.concatenate(left, axis=-1)),
        SecretBits(engine, n, np.concatenate(right, axis=-1)),
    )
    ends = np.cumsum([part.shape[-1] for part in left])
    pieces = np.split(both.data, ends[:-1], axis=-1)
    return {
        i: piece.reshape(*piece.shape[:-1], pair[0].size, -1)
        for (i, pair), piece in zip(asked.items(), pieces, strict=True)
    }


def _words(bits: SecretBits) -> NDArray[np.uint64]:
    """Return planes as one run of words; what stands in their padding is never used."""
    lead = bits.data.shape[: bits.engine.share_axes]
    # Spelt out, because NumPy cannot tell a side of an array of no servers.
    return bits.data.reshape(*lead, math.prod(bits.data.shape[len(lead) :]))


def _joined(engine: Engine, planes: Sequence[SecretBits], batch: Sequence[Draws]) -> SecretBits:
    """Return all coins behind one another, without padding between them; local."""
    bits = [
        unpack(part.data, part.n).reshape(*part.data.shape[: engine.share_axes], draws.bits)
        for part, draws in zip(planes, batch, strict=True)
    ]
    every = np.concatenate(bits, axis=-1)
    return SecretBits(engine, every.shape[-1], pack(every))


def _summed(digits: Secret, draws: Draws) -> Secret:
    """Return the values that digits (L * variables,) make, one by one lowest first."""
    length = draws.drawn.variable.length
    weights = np.left_shift(np.uint64(1), np.arange(length, dtype=np.uint64))
    total = (digits.reshape(length, draws.variables) * weights[:, None]).sum(axis=0)
    return total[: draws.n] - total[draws.n :] if draws.two_sided else total


def _summing_ring(engine: Engine, batch: Sequence[Draws], ring: Ring) -> tuple[Ring, Cost]:
    """Return the ring in which summing up digits sends the fewest bytes, and what it costs."""
    length = max(draws.drawn.variable.length for draws in batch)
    if length > ring.bits - 2:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"noise below 2**{ring.bits - 2} in a ring of {ring.bits} bits",
            found=f"noise up to 2**{length}",
            fix="extend the values to a larger ring first, or raise epsilon",
        )
    coins, values = sum(d.bits for d in batch), sum(d.n for d in batch)
    found = []
    for small in dict.fromkeys((ring, Z32, Z16)):
        if small.bits <= ring.bits and length <= small.bits - 2:
            cost = engine.cost("b2a", shape=(coins,), ring=small)
            if small != ring:
                cost += engine.cost("extend", shape=(values,), ring=ring, source=small)
            found.append((small, cost))
    # The first of equals is the ring itself, which needs no extension.
    return min(found, key=lambda pair: pair[1].mean_bytes)
