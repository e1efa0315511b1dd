"""Mechanisms that are broken on purpose: the auditor is judged by whether it catches them.

Each claims the epsilon it is given and makes one mistake that has been published or shipped.
Nothing else in the package imports them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class HalvedNoise:
    """Counts with half of the noise: the factor between scale and epsilon was forgotten."""

    epsilon: float

    def __call__(self, values: Ints, source: NoiseSource) -> Ints:
        """Add noise to values of any shape."""
        return TwoSidedGeometric(2 * self.epsilon)(values, source)


@dataclass(frozen=True)
class NoisyMaxWithValue:
    """Noisy max that returns the winner's noisy score too, for the price of the index.

    The index alone would cost epsilon. The value tells that no other noisy score was larger,
    which is evidence about every one of the c candidates: c * epsilon / 2 in all.
    """

    epsilon: float

    def __call__(self, scores: Ints, source: NoiseSource) -> Ints:
        """Choose among scores (..., c); returns (..., 2): index and noisy score."""
        noisy = TwoSidedGeometric(self.epsilon / 2)(scores, source)
        index = noisy.argmax(axis=-1, keepdims=True)
        return np.concatenate([index, np.take_along_axis(noisy, index, axis=-1)], axis=-1)


@dataclass(frozen=True)
class NoiseScaledByCount:
    """Mean of bounded values with noise of scale bound / (epsilon n), n read from the data."""

    epsilon: float
    bound: int = 1
    grid: int = 100

    def __call__(self, records: Ints, runs: int, source: NoiseSource) -> Ints:
        """Release the mean of records (n,), in units of 1 / grid, `runs` times."""
        mean = round(self.grid * int(records.sum()) / records.size)
        scale = math.ceil(self.grid * self.bound / records.size)
        return TwoSidedGeometric(self.epsilon, sensitivity=scale)(np.full(runs, mean), source)


@dataclass(frozen=True)
class NoiseScaledByLargest:
    """Sum with the largest value that occurs as its sensitivity, instead of a public bound."""

    epsilon: float

    def __call__(self, records: Ints, runs: int, source: NoiseSource) -> Ints:
        """Release the sum of records (n,) `runs` times."""
        largest = int(np.abs(records).max())
        noise = TwoSidedGeometric(self.epsilon, sensitivity=largest)
        return noise(np.full(runs, records.sum()), source)


@dataclass(frozen=True)
class MonotoneByMistake:
    """Noisy max with the noise of monotone scores, on scores that rise and fall."""

    epsilon: float

    def __call__(self, scores: Ints, source: NoiseSource) -> Ints:
        """Choose among scores (..., c)."""
        return NoisyMax(self.epsilon, monotone=True)(scores, source)


@dataclass(frozen=True)
class ConstantSeed:
    """Counts with noise of the right law from a seed in the program text."""

    epsilon: float

    def __call__(self, values: Ints, source: NoiseSource) -> Ints:
        """Add noise to values (runs, ...): each release starts the same stream again."""
        del source
        noise = TwoSidedGeometric(self.epsilon)
        again = noise(np.zeros_like(values[0]), NoiseSource.insecure_seeded(0))
        return values + again


@dataclass(frozen=True)
class ForgottenComposition:
    """One count per attribute at epsilon each, as if a record were in only one of them."""

    epsilon: float

    def __call__(self, values: Ints, source: NoiseSource) -> Ints:
        """Add noise to values (..., attributes)."""
        return TwoSidedGeometric(self.epsilon)(values, source)


@dataclass(frozen=True)
class GaussianForOneCount:
    """Gaussian noise for counts that a record moves by 1 each, as if it moved only one of them."""

    epsilon: float

    def __call__(self, values: Ints, source: NoiseSource) -> Ints:
        """Add noise to values (..., counts)."""
        return DiscreteGaussian(rho_for(self.epsilon, _DELTA), 1)(values, source)


@dataclass(frozen=True)
class ExponentialWithCutoff:
    """Exponential mechanism whose exponents below -5 count as no chance at all."""

    epsilon: float

    def __call__(self, scores: Ints, source: NoiseSource) -> Ints:
        """Choose among scores (runs, c)."""
        exponents = self.epsilon / 2 * (scores - scores.max(axis=-1, keepdims=True))
        heights = np.where(exponents < -5.0, 0.0, np.exp(exponents)).cumsum(axis=-1)
        thrown = _uniform(scores.shape[0], source)[:, None] * heights[:, -1:]
        return np.asarray((heights <= thrown).sum(axis=-1))


@dataclass(frozen=True)
class FloatingPointLaplace:
    """Laplace noise in binary64: the last bits of the sum remember the value.

    Between 1/4 and 1/2 neighbouring numbers are 2^-54 apart, but 1 - 0.6 can only be a multiple
    of 2^-53. An odd last bit there excludes the value 1 (Paper: mironov2012significance.)
    """

    epsilon: float

    def __call__(self, values: Ints, source: NoiseSource) -> Ints:
        """Add noise to values (runs,); returns (runs, 2): exponent, zeros at the end."""
        size = -np.log(_uniform(values.size, source)) / self.epsilon
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
        "halved-noise": (repeated(HalvedNoise(epsilon)), count, 2 * epsilon),
        "noisy-max-with-value": (
            repeated(NoisyMaxWithValue(epsilon)),
            [("eight scores of 0 and of 1", [0] * 8, [1] * 8)],
            8 * epsilon / 2,
        ),
        "noise-scaled-by-count": (
            NoiseScaledByCount(epsilon),
            [
                ("one and two records", np.ones(1, np.int64), np.ones(2, np.int64)),
                ("nine and ten records", np.ones(9, np.int64), np.ones(10, np.int64)),
            ],
            math.inf,
        ),
        "noise-scaled-by-largest": (
            NoiseScaledByLargest(epsilon),
            [("an outlier of 10", np.array([1, 1, 1]), np.array([1, 1, 1, 10]))],
            math.inf,
        ),
        "monotone-by-mistake": (
            repeated(MonotoneByMistake(epsilon)),
            [("scores (0, 2) and (1, 1)", [0, 2], [1, 1])],
            2 * epsilon,
        ),
        "constant-seed": (repeated(ConstantSeed(epsilon)), count, math.inf),
        "forgotten-composition": (
            repeated(ForgottenComposition(epsilon)),
            [("four counts of 0 and of 1", [0] * 4, [1] * 4)],
            4 * epsilon,
        ),
        "exponential-with-cutoff": (
            repeated(ExponentialWithCutoff(epsilon)),
            [(f"gaps of {last} and of {last + 1}", [last, 0], [last + 1, 0])],
            math.inf,
        ),
        "floating-point-laplace": (repeated(FloatingPointLaplace(epsilon)), count, math.inf),
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
        repeated(GaussianForOneCount(epsilon)),
        [("four counts of 0 and of 1", [0] * _MARGINALS, [1] * _MARGINALS)],
        claimed=epsilon,
        proven=tightest([true], _DELTA).epsilon,
        delta=_DELTA,
        sound=False,
    )
