"""Every mechanism of the package as an audit target, on inputs where its loss is (nearly) tight.

A candidate that is behind by a gap wins with a probability that falls geometrically with the gap,
so the loss is largest where its own score rises while its rivals' fall. The exponential mechanism
reaches its epsilon only in the limit of unlikely choices; the attacker is offered several pairs and
takes the one that its runs resolve best.
"""

from __future__ import annotations

import numpy as np

from hedgerow.audit.engine import RUNS, AuditTarget, Pair, repeated
from hedgerow.privacy.mechanisms import (
    Choice,
    DiscreteGaussian,
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
)
from hedgerow.privacy.planning import rho_for

EPSILONS = (0.1, 1.0, 3.0)
HISTOGRAM_BINS = 6
CANDIDATES = 11
GAUSSIAN_COUNTS = 4
GAUSSIAN_DELTA = 0.01
"""Large, so that the runs resolve the loss that it forgives."""
RARE_RUNS = 400_000
"""The exponential mechanism's loss shows in choices that are rare."""


def mechanisms() -> list[AuditTarget]:
    """List the targets."""
    found = []
    for epsilon in EPSILONS:
        found += [
            _scalar(epsilon, 1),
            _histogram(epsilon),
            _gaussian(epsilon),
            *(
                _choice(kind(epsilon, monotone=monotone))
                for kind in (NoisyMax, PermuteAndFlip, ExponentialMechanism)
                for monotone in (False, True)
            ),
        ]
    # A sensitivity above 1 takes another branch through the scale of the noise.
    return [*found, _scalar(1.0, 3), _choice(NoisyMax(1.0, sensitivity=3))]


def _scalar(epsilon: float, sensitivity: int) -> AuditTarget:
    mechanism = TwoSidedGeometric(epsilon, sensitivity=sensitivity)
    pairs: list[Pair] = [(f"0 and {sensitivity}", 0, sensitivity)]
    return _target("two-sided-geometric", mechanism, pairs, 1)


def _histogram(epsilon: float) -> AuditTarget:
    """One record is in one bin: the noise of the others hides nothing and costs nothing."""
    mechanism = TwoSidedGeometric(epsilon)
    counts = np.arange(HISTOGRAM_BINS)
    pairs: list[Pair] = [("one record more in the last bin", counts, counts + (counts == 5))]
    return _target("histogram", mechanism, pairs, HISTOGRAM_BINS)


def _gaussian(epsilon: float) -> AuditTarget:
    """One record is in every count: the loss is spread evenly, and only their sum shows it."""
    rho = rho_for(epsilon, GAUSSIAN_DELTA)
    mechanism = DiscreteGaussian(rho, GAUSSIAN_COUNTS)
    counts = np.zeros(GAUSSIAN_COUNTS, dtype=np.int64)
    pairs: list[Pair] = [("one record more in every count", counts, counts + 1)]
    delta = GAUSSIAN_DELTA + mechanism.delta(GAUSSIAN_COUNTS)
    name = f"{mechanism.name.replace(' ', '-')}@{epsilon:g}"
    return AuditTarget(
        name, repeated(mechanism), pairs, claimed=epsilon, delta=delta, gaussian=True
    )


def _choice(mechanism: Choice) -> AuditTarget:
    """Pairs of scores: the first candidate is `gap` steps behind its rivals, then closer.

    Monotone scores all move in one direction, so it rises alone by one step; otherwise its rivals
    fall as well, and the gap shrinks by two.
    """
    step, closing = mechanism.sensitivity, 1 if mechanism.monotone else 2
    # In the unit of the noise, so that the far pair is as unlikely at every epsilon.
    far = 2 * closing * max(1, round(1 / mechanism.epsilon))
    pairs: list[Pair] = []
    for rivals, gap in ((1, closing), (1, far), (CANDIDATES - 1, closing)):
        before = step * np.array([0] + [gap] * rivals)
        after = before + step * np.array([1] + [1 - closing] * rivals)
        pairs.append((f"{rivals + 1} candidates, the first {gap * step} behind", before, after))
    name = mechanism.name.replace(" ", "-") + ("-monotone" if mechanism.monotone else "")
    return _target(name, mechanism, pairs, CANDIDATES)


def _target(
    name: str, mechanism: TwoSidedGeometric | Choice, pairs: list[Pair], variables: int
) -> AuditTarget:
    label = f"{name}@{mechanism.epsilon:g}"
    if mechanism.sensitivity > 1:
        label += f"/sensitivity={mechanism.sensitivity}"
    return AuditTarget(
        label,
        repeated(mechanism),
        pairs,
        claimed=mechanism.epsilon,
        delta=mechanism.delta(variables),
        runs=RARE_RUNS if isinstance(mechanism, ExponentialMechanism) else RUNS,
    )
