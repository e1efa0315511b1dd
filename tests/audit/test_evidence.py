"""What an attacker who knows the mechanism computes: likelihood ratios, epsilon of Gaussians."""

import math

import numpy as np
import pytest

from hedgerow.audit import AuditTarget, audit
from hedgerow.audit.bounds import epsilon_estimate, mu_lower
from hedgerow.audit.evidence import UNITS, of_choice, of_counts, outcome
from hedgerow.privacy import NoiseSource
from hedgerow.privacy.gaussian import curve_epsilon
from hedgerow.privacy.mechanisms import NoisyMax, TwoSidedGeometric


def test_counts_have_the_ratio_of_their_laws() -> None:
    mechanism = TwoSidedGeometric(0.7, sensitivity=2)
    seen = np.arange(-5, 9)
    ratio = np.log(mechanism.law(seen - 3) / mechanism.law(seen - 1))
    assert of_counts(mechanism, seen, 1, 3) == pytest.approx(ratio)
    # Never more than epsilon for a move by the sensitivity, and exactly that outside of it.
    assert np.abs(ratio).max() == pytest.approx(0.7)


def test_choices_have_the_ratio_of_their_laws() -> None:
    mechanism = NoisyMax(0.9, monotone=True)
    first, second = np.array([3, 4, 0]), np.array([4, 4, 0])
    valid = np.array([True, True, False])
    ratio = of_choice(mechanism, np.array([0, 1, 1]), first, second, valid)
    # Behind by one and then level: candidate 0 becomes likelier by all of epsilon.
    assert ratio[0] == pytest.approx(0.9)
    assert ratio[1] == ratio[2] < 0
    assert outcome(ratio)[0] == round(0.9 * UNITS)


def test_an_estimate_is_between_nothing_and_what_runs_can_show() -> None:
    assert epsilon_estimate(500, 500, 1_000) == 0.0
    assert epsilon_estimate(731, 269, 1_000) == pytest.approx(1.0, abs=0.01)
    assert epsilon_estimate(1_000, 0, 1_000) == pytest.approx(math.log(2 * 1_000.5))
    # Events of a Gaussian at distance 1: the middle tells as much as a tail.
    for hits, others in ((69_146, 30_854), (50_000, 15_866), (15_866, 2_275)):
        found = epsilon_estimate(hits, others, 100_000, 1e-3, gaussian=True)
        assert found == pytest.approx(curve_epsilon(0.5, 1e-3), rel=0.01)
        assert 0.9 < float(mu_lower(hits, 100_000, others, 100_000)) < 1.0


def test_many_small_losses_add_up_to_a_tight_estimate() -> None:
    """Five counts at epsilon 0.2: no one of them tells much, their likelihood ratio nearly all."""
    mechanism, ones = TwoSidedGeometric(0.2), np.ones(5, dtype=np.int64)

    def run(value: int, runs: int, source: NoiseSource) -> np.ndarray:
        seen = mechanism(np.tile(value * ones, (runs, 1)), source)
        return outcome(of_counts(mechanism, seen, 0, 1).sum(axis=1))

    result = audit(
        AuditTarget("five counts", run, [("0 and 1", 0, 1)], 1.0),
        source=NoiseSource.insecure_seeded(5),
    )
    assert 0.7 < result.attacked < result.estimate < 1.05
