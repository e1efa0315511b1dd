import math

import numpy as np
import pytest
from scipy import stats

from hedgerow.audit.bounds import (
    CONFIDENCE,
    ceiling,
    epsilon_lower,
    probability_lower,
    probability_upper,
)


def test_confidence_is_that_of_the_documents() -> None:
    assert CONFIDENCE == 0.9995


@pytest.mark.parametrize(("hits", "runs"), [(1, 10), (5, 10), (9, 10), (37, 1000), (99_000, 10**5)])
def test_bounds_are_quantiles_of_beta_laws(hits: int, runs: int) -> None:
    low, high = probability_lower(hits, runs), probability_upper(hits, runs)
    assert low == pytest.approx(stats.beta.ppf(0.0005, hits, runs - hits + 1), rel=1e-9)
    assert high == pytest.approx(stats.beta.ppf(0.9995, hits + 1, runs - hits), rel=1e-9)


@pytest.mark.parametrize(("hits", "runs"), [(1, 10), (5, 10), (37, 1000)])
def test_bounds_invert_the_binomial_tails(hits: int, runs: int) -> None:
    low, high = float(probability_lower(hits, runs)), float(probability_upper(hits, runs))
    assert stats.binom.sf(hits - 1, runs, low) == pytest.approx(0.0005, rel=1e-6)
    assert stats.binom.cdf(hits, runs, high) == pytest.approx(0.0005, rel=1e-6)


def test_textbook_interval() -> None:
    # 10 of 100 at 95% two-sided: (0.0490, 0.1762), as printed by every statistics package.
    assert probability_lower(10, 100, 0.975) == pytest.approx(0.04900469, abs=1e-7)
    assert probability_upper(10, 100, 0.975) == pytest.approx(0.17622260, abs=1e-7)


def test_no_hit_and_all_hits() -> None:
    assert probability_lower(0, 50) == 0.0
    assert probability_upper(50, 50) == 1.0
    assert probability_upper(0, 50) == pytest.approx(1 - 0.0005 ** (1 / 50))
    assert probability_lower(50, 50) == pytest.approx(0.0005 ** (1 / 50))


def test_epsilon_by_hand() -> None:
    low, high = stats.beta.ppf(0.0005, 700, 301), stats.beta.ppf(0.9995, 301, 700)
    assert epsilon_lower(700, 1000, 300, 1000) == pytest.approx(math.log(low / high))
    expected = math.log((low - 0.05) / high)
    assert epsilon_lower(700, 1000, 300, 1000, delta=0.05) == pytest.approx(expected)


def test_epsilon_is_never_negative() -> None:
    found = epsilon_lower([300, 0, 10], 1000, [700, 0, 10], 1000, delta=0.5)
    np.testing.assert_array_equal(found, 0.0)


def test_different_numbers_of_runs() -> None:
    assert epsilon_lower(700, 1000, 3000, 10_000) > epsilon_lower(700, 1000, 300, 1000)


@pytest.mark.parametrize("runs", [100, 1000, 100_000])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_ceiling_is_the_bound_of_a_perfect_event(runs: int, delta: float) -> None:
    assert ceiling(runs, delta) == pytest.approx(epsilon_lower(runs, runs, 0, runs, delta))


def test_ceiling_is_about_log_of_runs_over_7_6() -> None:
    for runs in (1000, 100_000):
        assert ceiling(runs) == pytest.approx(math.log(runs / 7.6), abs=0.01)
    assert ceiling(100_000) == pytest.approx(9.4846, abs=1e-4)


def test_ceiling_of_hardly_any_runs_is_zero() -> None:
    assert ceiling(1) == 0.0
    assert ceiling(100, delta=0.99) == 0.0


def test_too_few_for_the_confidence_means_a_lower_ceiling() -> None:
    assert ceiling(1000, confidence=0.99999) < ceiling(1000)


@pytest.mark.parametrize(
    ("p", "q", "runs"),
    [(0.5, 0.5, 400), (0.73, 0.27, 400), (0.05, 0.02, 2000), (0.01, 0.001, 2000), (1.0, 0.4, 100)],
)
def test_coverage_on_a_known_pair(p: float, q: float, runs: int) -> None:
    """The bound exceeds the true epsilon in fewer than 0.1% of 200,000 repeats."""
    rng = np.random.default_rng(7)
    found = epsilon_lower(
        rng.binomial(runs, p, 200_000), runs, rng.binomial(runs, q, 200_000), runs
    )
    assert np.mean(found <= math.log(p / q) + 1e-12) >= 0.999


def test_coverage_with_delta() -> None:
    rng = np.random.default_rng(8)
    found = epsilon_lower(
        rng.binomial(500, 0.4, 100_000), 500, rng.binomial(500, 0.1, 100_000), 500, delta=0.1
    )
    assert np.mean(found <= math.log(3)) >= 0.999


def test_the_bound_is_not_idle() -> None:
    rng = np.random.default_rng(9)
    found = epsilon_lower(
        rng.binomial(100_000, 0.731, 1000), 100_000, rng.binomial(100_000, 0.269, 1000), 100_000
    )
    assert np.median(found) > 0.95 * math.log(0.731 / 0.269)
