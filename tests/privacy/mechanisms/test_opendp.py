"""OpenDP's samplers and the mechanisms draw from the same laws.

OpenDP cannot be seeded, so the bounds leave less than one false alarm in 10^9 runs.
"""

from fractions import Fraction

import numpy as np
import pytest

from bench import opendp_samplers as opendp
from hedgerow.privacy.mechanisms import (
    DiscreteGaussian,
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
)
from hedgerow.privacy.source import NoiseSource

NEVER = 1e-10
ZEROS = np.zeros(100_000, dtype=np.int64)


def agreement(ours: np.ndarray, theirs: np.ndarray, chi_square_two) -> float:
    lowest = min(ours.min(), theirs.min())
    length = int(max(ours.max(), theirs.max()) - lowest) + 1
    counts = [np.bincount(drawn - lowest, minlength=length) for drawn in (ours, theirs)]
    seen = counts[0] + counts[1] > 0
    return chi_square_two(counts[0][seen], counts[1][seen])


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.3, 2)])
def test_two_sided_noise_agrees(epsilon: float, sensitivity: int, chi_square_two) -> None:
    theirs = opendp.two_sided(ZEROS, Fraction(epsilon) / sensitivity)
    ours = TwoSidedGeometric(epsilon, sensitivity)(
        np.zeros(10**6, dtype=np.int64), NoiseSource.insecure_seeded(1)
    )
    assert agreement(ours, theirs, chi_square_two) > NEVER


def test_gaussian_noise_agrees(chi_square_two) -> None:
    theirs = opendp.gaussian(ZEROS[:10_000], Fraction(16))
    ours = DiscreteGaussian(1 / 32)(np.zeros(10**6, dtype=np.int64), NoiseSource.insecure_seeded(1))
    assert agreement(ours, theirs, chi_square_two) > NEVER


@pytest.mark.parametrize(
    ("choice", "monotone"),
    [(NoisyMax, False), (PermuteAndFlip, True), (ExponentialMechanism, False)],
)
def test_choices_agree(choice, monotone: bool, chi_square_two) -> None:
    scores = np.broadcast_to(np.array([3, 1, 4, 0, 3]), (10**6, 5))
    few, mechanism = scores[:10_000], choice(1.0, 2, monotone)
    ours = mechanism(scores, NoiseSource.insecure_seeded(1))
    if choice is NoisyMax:
        noise = opendp.one_sided(few.size, mechanism.a).reshape(few.shape)
        theirs = (few + noise).argmax(axis=1)  # the first of equals: the lowest index
    else:
        theirs = opendp.choose(few, mechanism.a, replace=choice is ExponentialMechanism)
    assert agreement(ours, theirs, chi_square_two) > NEVER


def test_scale_is_never_rounded_down() -> None:
    for a in (Fraction(0.1), Fraction(1, 3), Fraction(3), Fraction(7), Fraction(1e-300)):
        scale = opendp.scale_of(a)
        assert Fraction(scale) >= 1 / a
        assert scale == pytest.approx(float(1 / a), rel=1e-15)


def test_opendp_promises_the_same_epsilon() -> None:
    # Its own privacy map, for the scale that is passed: at most epsilon, up to its rounding up.
    for epsilon in (0.1, 1.0, 3.0):
        noise = opendp.laplace(opendp.scale_of(Fraction(epsilon)))
        assert noise.map(1) == pytest.approx(epsilon, rel=1e-12)
        choose = opendp.noisy_max(opendp.scale_of(Fraction(epsilon) / 2), False)
        assert choose.map(1) == pytest.approx(epsilon, rel=1e-12)
