"""Discrete noise on shares: the laws of `hedgerow.privacy.mechanisms`, drawn where nobody looks.

A geometric variable is a number whose binary digits are independent biased coins; a coin compares
t secret uniform bits with a public constant (`noise.coin_circuit`). No logarithm, no
exponential, no fixed point: the law is known exactly, and `Precision.delta` states its distance
from the ideal one. The uniform bits are the XOR of what the parties contribute, so the law holds
as long as one contribution is uniform.

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
from hedgerow.secure.noise.coin_circuit import CoinLevel, compile_coins
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits

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

    1. Draw the planes of uniform bits that the circuit consumes.
    2. For every level: AND pairs of planes, all coins and draws at once; XOR locally.

    Coin i is 1 with probability ``constants[i] / 2**t``; the planes have shape (len(constants), n).

    Reveals: nothing. Cost: `cost_coins`; ceil(log2 t) rounds and about t ANDs per coin.
    """
    circuit = compile_coins(tuple(constants), t)
    planes = engine.random_bits((circuit.bits, n))
    for level in circuit.levels:
        pools = [planes.data]
        if level.left.size:
            pools.append((planes[level.left] & planes[level.right]).data)
        planes = planes.like(xor_planes(pools, level))
        if level.flips.size:
            planes.data[..., level.flips, :] = (~planes[level.flips]).data
    return planes


def xor_planes(pools: list[NDArray[np.uint64]], level: CoinLevel) -> NDArray[np.uint64]:
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


def cost_coins(engine: Engine, constants: Sequence[int], t: int, n: int) -> Cost:
    """State the cost of `coins`."""
    circuit = compile_coins(tuple(constants), t)
    return sum((engine.cost("and_", shape=(ands, n)) for ands in circuit.ands), NOTHING)


def geometric(engine: Engine, shape: tuple[int, ...], drawn: Precision, ring: Ring) -> Secret:
    """Draw geometric variables, P[G = k] = (1 - p) p^k for 0 <= k < 2**L.

    1. Flip L coins per variable, digit i with probability p^(2^i) / (1 + p^(2^i)).
    2. Turn them into ring elements and add 2^i times the i-th; in a smaller ring where that, with
       the extension that follows, sends fewer bytes.

    `ring` has at least L + 2 bits.

    Reveals: nothing.
    Cost: `cost_geometric`; that of `coins`, then `Engine.b2a` of L bits per variable and perhaps
    `Engine.extend`.
    """
    return _draw(engine, shape, drawn, ring, sides=1)


def two_sided_geometric(
    engine: Engine, shape: tuple[int, ...], drawn: Precision, ring: Ring
) -> Secret:
    """Draw differences of two geometric variables, P[X = k] = (1 - p)/(1 + p) p^|k|.

    Paper: ghosh2012universally.

    As `geometric`, with two variables per value of which only the difference is extended.

    Reveals: nothing. Cost: `cost_two_sided_geometric`.
    """
    return _draw(engine, shape, drawn, ring, sides=2)


def cost_geometric(engine: Engine, n: int, drawn: Precision, ring: Ring) -> Cost:
    """State the cost of n variables of `geometric`."""
    return _cost(engine, n, drawn, ring, sides=1)


def cost_two_sided_geometric(engine: Engine, n: int, drawn: Precision, ring: Ring) -> Cost:
    """State the cost of n variables of `two_sided_geometric`."""
    return _cost(engine, n, drawn, ring, sides=2)


def _draw(
    engine: Engine, shape: tuple[int, ...], drawn: Precision, ring: Ring, sides: int
) -> Secret:
    n, length = math.prod(shape), drawn.variable.length
    small, _ = _summing_ring(engine, n, drawn, ring, sides)
    digits = engine.b2a(coins(engine, drawn.constants, drawn.t, sides * n), small)
    weights = np.left_shift(np.uint64(1), np.arange(length, dtype=np.uint64))
    total = (digits * weights[:, None]).sum(axis=0)
    # A difference is lifted by 2^L, so that it is not negative when it is extended.
    lift = 1 << length if sides == 2 else 0
    value = total[:n] - total[n:] + lift if sides == 2 else total
    return ((value if small == ring else engine.extend(value, ring)) - lift).reshape(*shape)


def _cost(engine: Engine, n: int, drawn: Precision, ring: Ring, sides: int) -> Cost:
    flips = cost_coins(engine, drawn.constants, drawn.t, sides * n)
    return flips + _summing_ring(engine, n, drawn, ring, sides)[1]


def _summing_ring(
    engine: Engine, n: int, drawn: Precision, ring: Ring, sides: int
) -> tuple[Ring, Cost]:
    """Return the ring in which summing up digits sends the fewest bytes, and what it costs."""
    length = drawn.variable.length
    if length > ring.bits - 2:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"noise below 2**{ring.bits - 2} in a ring of {ring.bits} bits",
            found=f"noise up to 2**{length}",
            fix="extend the values to a larger ring first, or raise epsilon",
        )
    found = []
    for small in dict.fromkeys((ring, Z32, Z16)):
        if small.bits <= ring.bits and length <= small.bits - 2:
            cost = engine.cost("b2a", shape=(length, sides * n), ring=small)
            if small != ring:
                cost += engine.cost("extend", shape=(n,), ring=ring, source=small)
            found.append((small, cost))
    # The first of equals is the ring itself, which needs no extension.
    return min(found, key=lambda pair: pair[1].mean_bytes)
