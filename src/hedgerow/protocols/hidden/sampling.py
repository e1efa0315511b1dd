"""Trees on sampled records: every tree sees each record by a coin that nobody knows.

Papers: hiddentrees, balle2018amplification, theorem 8.

Privacy: a tree that is (epsilon, delta)-DP on the records it sees is
(ln(1 + g (e^epsilon - 1)), g delta)-DP on all of them, add/remove neighbours, if each record is
among them with probability g by a coin of its own that the audience does not know. Claim D.1 of the
first says g epsilon, which is less than that for every g below 1. The bound is on everything that a
tree releases together, so each tree is one release, and trees add up.

A coin compares `RATE_BITS` uniform bits with a public constant; its probability is a multiple of
2**-RATE_BITS, at most the rate that was asked for, and the bound is taken at that probability: here
finite precision costs nothing.
"""

from __future__ import annotations

import math

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, Release, register_mechanism, step
from hedgerow.secure.noise.discrete import coins
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

RATE_BITS = 24
MECHANISM = "Poisson-sampled tree"
SAMPLED = "trees on sampled records"

_UP = 1 + 1e-12

register_mechanism(
    MECHANISM,
    argument="a record is in a tree by a secret coin of probability g: epsilon counts as "
    "ln(1 + g (e^epsilon - 1)), delta as g delta",
)


def coin_constant(rate: float) -> int:
    """Return the coin's probability times 2**RATE_BITS: the rate, rounded down."""
    constant = math.floor(rate * (1 << RATE_BITS)) if 0 < rate <= 1 else 0
    if constant < 1:
        raise Code.BAD_PARAMETER.error(
            expected=f"a sampling rate from 2**-{RATE_BITS} to 1",
            found=f"rate={rate}",
            fix="choose the probability with which a record is in a tree, such as 1 / n_trees",
        )
    return constant


def amplified(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """Return (epsilon, delta) of a release that sees each record with probability `rate`.

    Rounded up; the rate is that of the coin, rounded down.
    """
    g = coin_constant(rate) / (1 << RATE_BITS)
    if math.isinf(epsilon) or g == 1:
        return epsilon, delta
    if epsilon > 30:  # e^epsilon may overflow, and loses the 1 anyway
        bound = epsilon + math.log(g + (1 - g) * math.exp(-epsilon))
    else:
        bound = math.log1p(g * math.expm1(epsilon))
    return min(epsilon, bound * _UP), g * delta * _UP


def tree_epsilon_for(epsilon: float, n_trees: int, rate: float) -> float:
    """Return the epsilon of one tree for which all of them together cost `epsilon`.

    Rounded down: ln(1 + (e^(epsilon / trees) - 1) / g).
    """
    g = coin_constant(rate) / (1 << RATE_BITS)
    each = epsilon / n_trees
    if each > 30:
        found = each + math.log((1 - math.exp(-each) * (1 - g)) / g)
    else:
        found = math.log1p(math.expm1(each) / g)
    return found / (_UP * _UP * _UP)


def sampled_release(
    epsilon: float, delta: float, rate: float, n_trees: int, claimed: float | None = None
) -> Release:
    """Return what trees cost of which each is (epsilon, delta)-DP on the records that it sees."""
    outer, outer_delta = amplified(epsilon, delta, rate)
    return Release(
        mechanism=MECHANISM,
        epsilon=outer,
        delta=outer_delta,
        sensitivity=1.0,
        scope=ROOT / step("trees"),
        audience="analyst",
        reason=SAMPLED,
        claimed=claimed,
        times=n_trees,
    )


def sample_rows(engine: Engine, n_trees: int, n_slots: int, rate: float, ring: Ring) -> Secret:
    """Flip a coin for every tree and slot: 0 and 1 of a ring, (trees, slots).

    One biased coin each (`hedgerow.secure.noise.discrete.coins`), taken to the ring.

    Reveals: nothing.
    Cost: ceil(log2 RATE_BITS) rounds and RATE_BITS ANDs per coin at most, and one `Engine.b2a`.
    """
    flipped = coins(engine, [coin_constant(rate)], RATE_BITS, n_trees * n_slots)
    return engine.b2a(flipped, ring).reshape(n_trees, n_slots)
