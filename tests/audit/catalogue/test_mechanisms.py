import math

import numpy as np
import pytest

import hedgerow.privacy.mechanisms as mechanisms_package
from hedgerow.audit.catalogue.mechanisms import mechanisms
from hedgerow.audit.engine import AuditTarget, audit
from hedgerow.privacy.mechanisms import (
    Choice,
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
)
from hedgerow.privacy.source import NoiseSource

TARGETS = mechanisms()
BY_NAME = {target.name: target for target in TARGETS}
CHOICES = [
    (kind(epsilon, monotone=monotone), kind is not ExponentialMechanism)
    for kind in (NoisyMax, PermuteAndFlip, ExponentialMechanism)
    for epsilon in (0.1, 1.0, 3.0)
    for monotone in (False, True)
]


def named(target: AuditTarget) -> str:
    return target.name


@pytest.mark.parametrize("target", TARGETS, ids=named)
def test_sound_mechanisms_stay_below_their_epsilon(target: AuditTarget) -> None:
    result = audit(target, source=NoiseSource.insecure_seeded(2024))
    assert target.sound
    assert result.proven == result.claimed < result.ceiling
    assert result.attacked <= result.proven
    # The exponential mechanism is tight only in the limit of choices that never happen.
    # Neither is a Gaussian claim: its epsilon comes from a bound on moments, at a delta of 0.01.
    least = {0.1: 0.5, 1.0: 0.9, 3.0: 0.95}
    if target.name.startswith("exponential"):
        least = {0.1: 0.1, 1.0: 0.8, 3.0: 0.85}
    if target.name.startswith("discrete-gaussian"):
        least = {0.1: 0.1, 1.0: 0.65, 3.0: 0.7}
    assert result.attacked >= least[target.claimed] * target.claimed


def test_every_mechanism_of_the_package_is_a_target() -> None:
    names = {target.name for target in TARGETS}
    for kind in vars(mechanisms_package).values():
        if isinstance(kind, type) and isinstance(getattr(kind, "name", None), str):
            slug = kind.name.replace(" ", "-")
            for epsilon in ("0.1", "1", "3"):
                assert f"{slug}@{epsilon}" in names


@pytest.mark.parametrize(("mechanism", "tight"), CHOICES)
def test_pairs_of_scores_are_neighbours_and_nearly_tight(mechanism: Choice, tight: bool) -> None:
    suffix = "-monotone" if mechanism.monotone else ""
    name = f"{mechanism.name.replace(' ', '-')}{suffix}@{mechanism.epsilon:g}"
    losses = []
    for _, before, after in BY_NAME[name].pairs:
        moved = after - before
        assert np.abs(moved).max() <= mechanism.sensitivity
        if mechanism.monotone:
            assert (moved >= 0).all()
        logs = np.log(mechanism.law(before)) - np.log(mechanism.law(after))
        losses.append(np.abs(logs).max())
    assert max(losses) <= mechanism.epsilon * (1 + 1e-9)
    assert max(losses) >= mechanism.epsilon * (1 - 1e-9 if tight else 0.85)


def test_delta_is_that_of_finite_precision() -> None:
    assert 0 < BY_NAME["histogram@1"].delta == TwoSidedGeometric(1.0).delta(6) < 2**-60
    assert BY_NAME["permute-and-flip@1"].delta == 0.0
    assert BY_NAME["discrete-gaussian@1"].delta == 0.01
    others = [target for target in TARGETS if "gaussian" not in target.name]
    assert all(target.delta < 2**-60 and math.isfinite(target.claimed) for target in others)
