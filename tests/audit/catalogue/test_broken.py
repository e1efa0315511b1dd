import math

import numpy as np
import pytest

from hedgerow.audit.catalogue.broken import (
    broken_mechanisms,
    constant_seed,
    exponential_with_cutoff,
    floating_point_laplace,
    halved_noise,
    noise_scaled_by_count,
    noisy_max_with_value,
)
from hedgerow.audit.engine import AuditTarget, audit
from hedgerow.audit.registry import targets
from hedgerow.audit.report import exit_code, verdict
from hedgerow.privacy.accounting import Relation
from hedgerow.privacy.source import NoiseSource


def seeded() -> NoiseSource:
    return NoiseSource.insecure_seeded(77)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("position", range(len(broken_mechanisms())))
def test_every_broken_mechanism_is_caught(position: int, epsilon: float) -> None:
    target = broken_mechanisms(epsilon)[position]
    result = audit(target, source=seeded(), tests=50)
    assert result.claimed == epsilon
    assert result.attacked > 1.2 * epsilon
    assert result.attacked <= result.proven
    assert verdict(result) == "caught"
    assert exit_code([result]) == 0


def test_all_are_registered_as_broken() -> None:
    found = {target.name for target in targets(sound=False)}
    assert found >= {target.name for target in broken_mechanisms()}
    assert all(target.name.startswith("broken/") for target in broken_mechanisms())


def test_too_few_runs_miss_and_say_so() -> None:
    halved: AuditTarget = broken_mechanisms(0.1)[0]
    result = audit(halved, 200, seeded())
    assert verdict(result) == "missed"
    assert exit_code([result]) == 1


def test_the_claim_that_would_be_true_is_not_refuted() -> None:
    """Halved noise is sound at twice the epsilon: the auditor says so."""
    target = broken_mechanisms()[0]
    result = audit(AuditTarget("honest", target.run, target.pairs, claimed=2.0), source=seeded())
    assert 1.8 < result.attacked <= 2.0
    assert verdict(result) == "not refuted"


def test_halved_noise_has_the_spread_of_twice_the_epsilon() -> None:
    drawn = halved_noise(1.0, np.zeros(100_000, np.int64), seeded())
    p = math.exp(-2.0)
    assert np.mean(drawn == 0) == pytest.approx((1 - p) / (1 + p), abs=0.01)


def test_noisy_max_with_value_returns_both() -> None:
    drawn = noisy_max_with_value(50.0, np.array([[0, 9, 3], [5, 1, 1]]), seeded())
    np.testing.assert_array_equal(drawn, [[1, 9], [0, 5]])


def test_scale_from_the_count_shrinks_with_it() -> None:
    few, many = (
        noise_scaled_by_count(1.0, np.ones(n, np.int64), 20_000, seeded()).std() for n in (1, 10)
    )
    assert few == pytest.approx(10 * many, rel=0.05)


def test_constant_seed_repeats_itself() -> None:
    drawn = constant_seed(1.0, np.zeros((50, 3), np.int64), NoiseSource.system())
    assert np.unique(drawn, axis=0).shape[0] == 1


def test_cutoff_takes_away_every_chance() -> None:
    scores = np.tile([11, 0], (100_000, 1))
    assert exponential_with_cutoff(1.0, scores, seeded()).max() == 0
    chance = 1 / (1 + math.exp(5.0))
    kept = exponential_with_cutoff(1.0, scores - [1, 0], seeded()).mean()
    assert kept == pytest.approx(chance, abs=0.001)


def test_last_bits_of_a_floating_point_sum() -> None:
    exponent, zeros = floating_point_laplace(1.0, np.ones(50_000, np.int64), seeded()).T
    assert (zeros[exponent == -1] >= 1).all()
    exponent, zeros = floating_point_laplace(1.0, np.zeros(50_000, np.int64), seeded()).T
    assert np.mean(zeros[exponent == -1] == 0) == pytest.approx(0.5, abs=0.02)


def test_one_is_about_replacing_records() -> None:
    assert broken_mechanisms()[-1].relation is Relation.REPLACE
