"""Mechanisms that are broken on purpose: the auditor is judged by whether it catches them.

Each claims the epsilon it is given and makes one mistake that has been published or shipped.
Nothing else in the package imports them.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import AuditTarget, Pair, Run, repeated
from hedgerow.privacy.accounting import Relation, tightest
from hedgerow.privacy.mechanisms import DiscreteGaussian, NoisyMax, TwoSidedGeometric
from hedgerow.privacy.planning import rho_for
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import ROOT
from hedgerow.privacy.source import NoiseSource

Ints = NDArray[np.int64]
_DELTA = 0.01  # of the Gaussian claim
_MARGINALS = 4
_GRID = 100  # of a mean


def halved_noise(epsilon: float, values: Ints, source: NoiseSource) -> Ints:
    """Add half of the noise: the factor between scale and epsilon was forgotten."""
    return TwoSidedGeometric(2 * epsilon)(values, source)


def noisy_max_with_value(epsilon: float, scores: Ints, source: NoiseSource) -> Ints:
    """Return the winner's noisy score too, for the price of the index: (..., c) to (..., 2).

    The index alone would cost epsilon. The value tells that no other noisy score was larger,
    which is evidence about every one of the c candidates: c * epsilon / 2 in all.
    """
    noisy = TwoSidedGeometric(epsilon / 2)(scores, source)
    index = noisy.argmax(axis=-1, keepdims=True)
    return np.concatenate([index, np.take_along_axis(noisy, index, axis=-1)], axis=-1)


def noise_scaled_by_count(epsilon: float, records: Ints, runs: int, source: NoiseSource) -> Ints:
    """Release the mean of records up to 1, with noise of scale 1 / (epsilon n), n of the data."""
    mean = round(_GRID * int(records.sum()) / records.size)
    scale = math.ceil(_GRID / records.size)
    return TwoSidedGeometric(epsilon, sensitivity=scale)(np.full(runs, mean), source)


def noise_scaled_by_largest(epsilon: float, records: Ints, runs: int, source: NoiseSource) -> Ints:
    """Release a sum with the largest value that occurs as its sensitivity, not a public bound."""
    noise = TwoSidedGeometric(epsilon, sensitivity=int(np.abs(records).max()))
    return noise(np.full(runs, records.sum()), source)


def monotone_by_mistake(epsilon: float, scores: Ints, source: NoiseSource) -> Ints:
    """Choose with the noise of monotone scores, by scores that rise and fall."""
    return NoisyMax(epsilon, monotone=True)(scores, source)


def constant_seed(epsilon: float, values: Ints, source: NoiseSource) -> Ints:
    """Add noise of the right law from a seed in the program text, the same in every release."""
    del source
    noise = TwoSidedGeometric(epsilon)
    return values + noise(np.zeros_like(values[0]), NoiseSource.insecure_seeded(0))


def forgotten_composition(epsilon: float, values: Ints, source: NoiseSource) -> Ints:
    """Add noise of epsilon to a count per attribute, as if a record were in only one of them."""
    return TwoSidedGeometric(epsilon)(values, source)


def gaussian_for_one_count(epsilon: float, values: Ints, source: NoiseSource) -> Ints:
    """Add noise to counts that a record moves by 1 each, as if it moved only one of them."""
    return DiscreteGaussian(rho_for(epsilon, _DELTA), 1)(values, source)


def exponential_with_cutoff(epsilon: float, scores: Ints, source: NoiseSource) -> Ints:
    """Choose among scores (runs, c) with exponents below -5 as no chance at all."""
    exponents = epsilon / 2 * (scores - scores.max(axis=-1, keepdims=True))
    heights = np.where(exponents < -5.0, 0.0, np.exp(exponents)).cumsum(axis=-1)
    thrown = _uniform(scores.shape[0], source)[:, None] * heights[:, -1:]
    return np.asarray((heights <= thrown).sum(axis=-1))


def floating_point_laplace(epsilon: float, values: Ints, source: NoiseSource) -> Ints:
    """Add Laplace noise in binary64: the last bits of the sum remember the value.

    Between 1/4 and 1/2 neighbouring numbers are 2^-54 apart, but 1 - 0.6 can only be a multiple
    of 2^-53. An odd last bit there excludes the value 1 (Paper: mironov2012significance.) From
    (runs,) to (runs, 2): exponent, zeros at the end.
    """
    size = -np.log(_uniform(values.size, source)) / epsilon
    sign = 1.0 - 2.0 * source.integers(2, values.size)
    significand, exponent = np.frexp(values + sign * size)
    whole = np.ldexp(significand, 53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64))
    return np.column_stack([exponent, zeros]).astype(np.int64)


def _uniform(size: int, source: NoiseSource) -> NDArray[np.float64]:
    """Draw multiples of 2^-53 in (0, 1]."""
    return ((source.words(size) >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def broken_mechanisms(epsilon: float = 1.0) -> list[AuditTarget]:
    """List all of the above, on inputs where the mistake shows."""
    last = math.floor(10 / epsilon)
    count: list[Pair] = [("0 and 1", 0, 1)]
    targets: dict[str, tuple[Run, list[Pair], float]] = {
        "halved-noise": (repeated(partial(halved_noise, epsilon)), count, 2 * epsilon),
        "noisy-max-with-value": (
            repeated(partial(noisy_max_with_value, epsilon)),
            [("eight scores of 0 and of 1", [0] * 8, [1] * 8)],
            8 * epsilon / 2,
        ),
        "noise-scaled-by-count": (
            partial(noise_scaled_by_count, epsilon),
            [
                ("one and two records", np.ones(1, np.int64), np.ones(2, np.int64)),
                ("nine and ten records", np.ones(9, np.int64), np.ones(10, np.int64)),
            ],
            math.inf,
        ),
        "noise-scaled-by-largest": (
            partial(noise_scaled_by_largest, epsilon),
            [("an outlier of 10", np.array([1, 1, 1]), np.array([1, 1, 1, 10]))],
            math.inf,
        ),
        "monotone-by-mistake": (
            repeated(partial(monotone_by_mistake, epsilon)),
            [("scores (0, 2) and (1, 1)", [0, 2], [1, 1])],
            2 * epsilon,
        ),
        "constant-seed": (repeated(partial(constant_seed, epsilon)), count, math.inf),
        "forgotten-composition": (
            repeated(partial(forgotten_composition, epsilon)),
            [("four counts of 0 and of 1", [0] * 4, [1] * 4)],
            4 * epsilon,
        ),
        "exponential-with-cutoff": (
            repeated(partial(exponential_with_cutoff, epsilon)),
            [(f"gaps of {last} and of {last + 1}", [last, 0], [last + 1, 0])],
            math.inf,
        ),
        "floating-point-laplace": (
            repeated(partial(floating_point_laplace, epsilon)),
            count,
            math.inf,
        ),
    }
    return [
        AuditTarget(f"broken/{name}", run, pairs, claimed=epsilon, proven=proven, sound=False)
        for name, (run, pairs, proven) in targets.items()
    ] + [
        _gaussian(epsilon),
        AuditTarget(
            "broken/replace-at-the-price-of-add",
            repeated(TwoSidedGeometric(epsilon)),
            [("a record moves to another bin", [1, 0], [0, 1])],
            claimed=epsilon,
            proven=2 * epsilon,
            sound=False,
            relation=Relation.REPLACE,
        ),
    ]


def _gaussian(epsilon: float) -> AuditTarget:
    true = Release(
        DiscreteGaussian.name,
        math.inf,
        0.0,
        2.0,
        ROOT,
        "public",
        "counts",
        rho=_MARGINALS * rho_for(epsilon, _DELTA),
    )
    return AuditTarget(
        "broken/gaussian-for-one-count",
        repeated(partial(gaussian_for_one_count, epsilon)),
        [("four counts of 0 and of 1", [0] * _MARGINALS, [1] * _MARGINALS)],
        claimed=epsilon,
        proven=tightest([true], _DELTA).epsilon,
        delta=_DELTA,
        sound=False,
    )
