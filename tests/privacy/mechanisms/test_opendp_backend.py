"""OpenDP's samplers and the coins draw from the same laws.

OpenDP cannot be seeded, so the bounds leave less than one false alarm in 10^9 runs.
"""

from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import GLOBAL_FEATURES

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import (
    LIMIT,
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
    opendp_backend,
)
from hedgerow.privacy.source import NoiseSource

NEVER = 1e-10


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.3, 2)])
def test_two_sided_noise_agrees(epsilon: float, sensitivity: int, chi_square_two) -> None:
    theirs = TwoSidedGeometric(epsilon, sensitivity, sampler="opendp")(
        np.zeros(100_000, dtype=np.int64), NoiseSource.system()
    )
    ours = TwoSidedGeometric(epsilon, sensitivity)(
        np.zeros(10**6, dtype=np.int64), NoiseSource.insecure_seeded(1)
    )
    reach = int(max(np.abs(theirs).max(), np.abs(ours).max()))
    counts = [np.bincount(x + reach, minlength=2 * reach + 1) for x in (ours, theirs)]
    assert chi_square_two(*counts) > NEVER


@pytest.mark.parametrize(
    ("choice", "monotone"),
    [(NoisyMax, False), (PermuteAndFlip, True), (ExponentialMechanism, False)],
)
def test_choices_agree(choice, monotone: bool, chi_square_two) -> None:
    scores, mask = np.array([3, 1, 9, 0, 3]), np.array([True, True, False, True, True])
    rows, masks = (np.broadcast_to(x, (10**6, 5)) for x in (scores, mask))
    theirs = choice(1.0, 2, monotone, sampler="opendp")(
        rows[:10_000], NoiseSource.system(), valid=masks[:10_000]
    )
    ours = choice(1.0, 2, monotone)(rows, NoiseSource.insecure_seeded(1), valid=masks)
    counts = [np.bincount(x, minlength=5) for x in (ours, theirs)]
    assert counts[1][2] == 0
    assert chi_square_two(*counts) > NEVER


def test_delta_is_zero() -> None:
    for mechanism in (TwoSidedGeometric, NoisyMax, PermuteAndFlip, ExponentialMechanism):
        assert mechanism(1.0, sampler="opendp").delta(100) == 0.0


def test_shapes_and_extremes() -> None:
    source = NoiseSource.system()
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    noise = TwoSidedGeometric(1000.0, sampler="opendp")
    assert noise(ends, source).tolist() == [-LIMIT, LIMIT]
    assert noise(np.zeros((0, 3), dtype=np.int64), source).shape == (0, 3)
    assert noise(np.full((2, 3), 7), source).tolist() == [[7, 7, 7], [7, 7, 7]]
    for choice in (NoisyMax, PermuteAndFlip, ExponentialMechanism):
        mechanism = choice(1000.0, sampler="opendp")
        assert mechanism([[5, 9], [9, 5]], source).tolist() == [1, 0]
        assert mechanism(ends, source) == 1


def test_seeded_sources_are_refused() -> None:
    for mechanism in (TwoSidedGeometric, NoisyMax, PermuteAndFlip, ExponentialMechanism):
        with pytest.raises(HedgerowError) as caught:
            mechanism(1.0, sampler="opendp")([1, 2], NoiseSource.insecure_seeded(1))
        assert caught.value.code is Code.SEEDED_NOISE


def test_scale_is_never_rounded_down() -> None:
    for a in (Fraction(0.1), Fraction(1, 3), Fraction(3), Fraction(7), Fraction(1e-300)):
        scale = opendp_backend.scale_of(a)
        assert Fraction(scale) >= 1 / a
        assert scale == pytest.approx(float(1 / a), rel=1e-15)
    with pytest.raises(HedgerowError) as caught:
        opendp_backend.scale_of(Fraction(5e-324))
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


def test_opendp_promises_the_same_epsilon() -> None:
    # Its own privacy map, for the scale that is passed: at most epsilon, up to its rounding up.
    for epsilon in (0.1, 1.0, 3.0):
        noise = opendp_backend._laplace(opendp_backend.scale_of(Fraction(epsilon)))
        assert noise.map(1) == pytest.approx(epsilon, rel=1e-12)
        choose = opendp_backend._noisy_max(opendp_backend.scale_of(Fraction(epsilon) / 2), False)
        assert choose.map(1) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("before", [False, True])
def test_features_are_left_as_they_were(before: bool) -> None:
    saved = set(GLOBAL_FEATURES)
    try:
        (GLOBAL_FEATURES.add if before else GLOBAL_FEATURES.discard)("contrib")
        opendp_backend._laplace.cache_clear()
        TwoSidedGeometric(1.0, sampler="opendp")([1], NoiseSource.system())
        assert ("contrib" in GLOBAL_FEATURES) is before
    finally:
        GLOBAL_FEATURES.clear()
        GLOBAL_FEATURES.update(saved)
