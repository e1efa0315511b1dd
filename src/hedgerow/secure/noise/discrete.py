"""Discrete noise on shares: the laws of `hedgerow.privacy.mechanisms`, drawn where nobody looks.

A geometric variable is a number whose binary digits are independent biased coins; a coin compares
t secret uniform bits with a public constant (`noise.coin_circuit`). No logarithm, no
exponential, no fixed point: the law is known exactly, and `Precision.delta` states its distance
from the ideal one. The uniform bits are the XOR of what the parties contribute, so the law holds
as long as one contribution is uniform.

Variables of several laws (nodes of several depths, each with its own epsilon; a choice, a value and
a count) are drawn in one pass: the coin circuits of all laws go up side by side, so that the rounds
are those of the deepest one, and every variable has the law that it has alone.

What is drawn here is not charged; `hedgerow.secure.noise.releases` charges the ledger, then draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import NoisyMax, TwoSidedGeometric
from hedgerow.privacy.mechanisms.coins import DESIGN_LOG_DELTA, Geometric, shortest, upper
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.coin_circuit import Circuit, CoinLevel, compile_coins
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

_LN2 = math.log(2)
LARGEST_EPSILON = 512.0
"""Of one release: beyond it there is no noise to speak of, and coins take ever more bits."""


@dataclass(frozen=True)
class Precision:
    """How finely the noise of one release is drawn; made by `precision`.

    There are `t` bits per coin of the geometric `variable`. For one release of `m` values, or a
    choice among `m` candidates, finite precision costs delta = (1 + e^epsilon) tau, tau = variables
    * (p^(2^L) + L 2^-(t+1)), rounded up; below 2**-60.
    """

    variable: Geometric
    t: int
    delta: float
    m: int

    @property
    def constants(self) -> tuple[int, ...]:
        """Probability of each coin, times 2**t."""
        return self.variable.coins.rounded(self.t)


def precision(mechanism: TwoSidedGeometric | NoisyMax, m: int) -> Precision:
    """Choose the fewest coins and bits for which delta is below 2**-60.

    Half of it is given to truncation, half to rounding. `m` counts values of one release, or
    candidates of one choice; where a release is made in each part of a partition, those of one
    part.
    """
    if m < 1:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected="at least one variable in a release", found=f"m={m}"
        )
    if mechanism.epsilon > LARGEST_EPSILON:
        # A coin takes more bits than epsilon is large.
        raise Code.BAD_EPSILON.error(
            expected=f"at most epsilon {LARGEST_EPSILON:g} for one release on shares",
            found=f"epsilon={mechanism.epsilon:g}",
            fix="choose a smaller epsilon, or train without noise",
        )
    variables = m * (2 if isinstance(mechanism, TwoSidedGeometric) else 1)
    log_factor = float(np.logaddexp(0.0, mechanism.epsilon))
    log_weight = log_factor + math.log(variables) + _LN2
    variable = shortest(mechanism.variable.a, log_weight)
    # weight * L * 2^-(t+1) < 2^-60
    t = math.floor((log_weight + math.log(variable.length) - DESIGN_LOG_DELTA) / _LN2)
    return Precision(variable, t, upper(log_factor + variable.log_tau(variables, t)), m)


def coins(engine: Engine, constants: Sequence[int], t: int, n: int) -> SecretBits:
    """Flip n coins for each of several public probabilities.

    Coin i is 1 with probability ``constants[i] / 2**t``; the planes have shape (len(constants), n).

    Reveals: nothing. Cost: `cost_coins`; ceil(log2 t) rounds and about t ANDs per coin.
    """
    return _flip(engine, [(compile_coins(tuple(constants), t), n)])[0]


def cost_coins(engine: Engine, constants: Sequence[int], t: int, n: int) -> Cost:
    """State the cost of `coins`."""
    return _cost_flip(engine, [(compile_coins(tuple(constants), t), n)])


def _flip(engine: Engine, circuits: Sequence[tuple[Circuit, int]]) -> list[SecretBits]:
    """Flip the coins of circuits, n of each: planes (coins, n).

    1. Draw the planes of uniform bits that the circuits consume.
    2. For every level of all circuits at once: AND pairs of planes; XOR locally.
    """
    planes = [engine.random_bits((circuit.bits, n)) for circuit, n in circuits]
    for depth in range(max(len(circuit.levels) for circuit, _ in circuits)):
        levels = {
            i: circuit.levels[depth]
            for i, (circuit, _) in enumerate(circuits)
            if depth < len(circuit.levels)
        }
        products = _products(engine, planes, levels)
        for i, level in levels.items():
            pools = [planes[i].data, *([products[i]] if i in products else [])]
            planes[i] = planes[i].like(_xor_planes(pools, level))
            if level.flips.size:
                planes[i].data[..., level.flips, :] = (~planes[i][level.flips]).data
    return planes


def _cost_flip(engine: Engine, circuits: Sequence[tuple[Circuit, int]]) -> Cost:
    total = NOTHING
    for depth in range(max(len(circuit.levels) for circuit, _ in circuits)):
        packed = sum(
            circuit.levels[depth].left.size * words(n)
            for circuit, n in circuits
            if depth < len(circuit.levels)
        )
        if packed:
            total += engine.cost("and_", shape=(packed * WORD,))
    return total


def _products(
    engine: Engine, planes: Sequence[SecretBits], levels: dict[int, CoinLevel]
) -> dict[int, NDArray[np.uint64]]:
    """AND the planes that levels of several circuits name in one round, word by word."""
    asked = {i: level for i, level in levels.items() if level.left.size}
    if len(asked) == 1:
        ((i, level),) = asked.items()
        return {i: (planes[i][level.left] & planes[i][level.right]).data}
    if not asked:
        return {}
    left = [_words(planes[i][level.left]) for i, level in asked.items()]
    right = [_words(planes[i][level.right]) for i, level in asked.items()]
    n = WORD * sum(part.shape[-1] for part in left)
    both = engine.and_(
        SecretBits(engine, n, np.concatenate(left, axis=-1)),
        SecretBits(engine, n, np.concatenate(right, axis=-1)),
    )
    ends = np.cumsum([part.shape[-1] for part in left])
    pieces = np.split(both.data, ends[:-1], axis=-1)
    return {
        i: piece.reshape(*piece.shape[:-1], level.left.size, -1)
        for (i, level), piece in zip(asked.items(), pieces, strict=True)
    }


def _words(bits: SecretBits) -> NDArray[np.uint64]:
    """Return planes as one run of words; what stands in their padding is never used."""
    lead = bits.data.shape[: bits.engine.share_axes]
    # Spelt out, because NumPy cannot tell a side of an array of no servers.
    return bits.data.reshape(*lead, math.prod(bits.data.shape[len(lead) :]))


def _xor_planes(pools: list[NDArray[np.uint64]], level: CoinLevel) -> NDArray[np.uint64]:
    """Sum up the planes that are kept after a level, before flips."""
    pool = [part[..., i, :] for part in pools for i in range(part.shape[-2])]
    lead, width = pools[0].shape[:-2], pools[0].shape[-1]
    kept = np.empty((*lead, len(level.terms), width), dtype=np.uint64)
    for plane, terms in enumerate(level.terms):
        out = kept[..., plane, :]
        out[...] = pool[terms[0]] if terms else 0
        for term in terms[1:]:
            out ^= pool[term]
    return kept


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
    def circuit(self) -> tuple[Circuit, int]:
        """Public circuit of the coins, and how many variables it serves."""
        return compile_coins(self.drawn.constants, self.drawn.t), self.variables


def draw_batch(engine: Engine, batch: Sequence[Draws], ring: Ring) -> list[Secret]:
    """Draw variables of several laws at once.

    1. Flip L coins per variable, digit i with probability p^(2^i) / (1 + p^(2^i)).
    2. All coins of all laws become ring elements together, in the ring in which that, with the
       extension that follows, sends least; digit i counts 2^i.
    3. One extension of all values, lifted by 2^L where they may be negative.

    Results are in the order of the batch; laws without a variable cost nothing. `ring` has at least
    L + 2 bits for every law.

    Reveals: nothing. Cost: `cost_draw_batch`; the rounds of the deepest circuit and 2 to 4 more.
    """
    some = [draws for draws in batch if draws.n]
    if not some:
        return [engine.public(np.zeros(0, dtype=np.uint8), ring) for _ in batch]
    small, _ = _summing_ring(engine, some, ring)
    coins_ = _flip(engine, [draws.circuit for draws in some])
    bits = coins_[0] if len(some) == 1 else _joined(engine, coins_, some)
    digits = engine.b2a(bits, small).reshape(sum(draws.bits for draws in some))
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
    flips = _cost_flip(engine, [draws.circuit for draws in some])
    return flips + _summing_ring(engine, some, ring)[1]


def geometric(engine: Engine, shape: tuple[int, ...], drawn: Precision, ring: Ring) -> Secret:
    """Draw geometric variables, P[G = k] = (1 - p) p^k for 0 <= k < 2**L, as `draw_batch` does."""
    return draw_batch(engine, [Draws(drawn, math.prod(shape))], ring)[0].reshape(*shape)


def two_sided_geometric(
    engine: Engine, shape: tuple[int, ...], drawn: Precision, ring: Ring
) -> Secret:
    """Draw differences of two geometric variables, P[X = k] = (1 - p)/(1 + p) p^|k|.

    Paper: ghosh2012universally. As `draw_batch`; only the difference is extended.
    """
    draws = Draws(drawn, math.prod(shape), two_sided=True)
    return draw_batch(engine, [draws], ring)[0].reshape(*shape)


def cost_geometric(engine: Engine, n: int, drawn: Precision, ring: Ring) -> Cost:
    """State the cost of n variables of `geometric`."""
    return cost_draw_batch(engine, [Draws(drawn, n)], ring)


def cost_two_sided_geometric(engine: Engine, n: int, drawn: Precision, ring: Ring) -> Cost:
    """State the cost of n variables of `two_sided_geometric`."""
    return cost_draw_batch(engine, [Draws(drawn, n, two_sided=True)], ring)


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
