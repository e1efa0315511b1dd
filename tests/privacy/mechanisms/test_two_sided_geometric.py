"""Two-sided geometric noise: law, privacy, price of finite precision, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import LIMIT, Mechanism, TwoSidedGeometric
from hedgerow.privacy.mechanisms.coins import Geometric
from hedgerow.privacy.source import NoiseSource
from tests.privacy.mechanisms.coin_laws import masses_of


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"), [(0.01, 1), (0.1, 1), (1.0, 1), (1.0, 7), (3.0, 2), (12.0, 1)]
)
def test_noise_has_its_law(epsilon: float, sensitivity: int, chi_square) -> None:
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    noise = mechanism(np.zeros(10**6, dtype=np.int64), NoiseSource.insecure_seeded(1))
    reach = math.ceil(25 * sensitivity / epsilon) + 1
    assert np.abs(noise).max() <= reach
    counts = np.bincount(noise + reach, minlength=2 * reach + 1)
    law = mechanism.law(np.arange(-reach, reach + 1))
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert chi_square(counts, law / law.sum()) > 1e-4


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1e-6, 1), (1e-3, 10**9), (50.0, 10**6)])
def test_wide_noise_has_its_law(epsilon: float, sensitivity: int, chi_square) -> None:
    # Too many values to count one by one: 64 cells between quantiles, from the closed form.
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    a = epsilon / sensitivity
    noise = mechanism(np.zeros(10**6, dtype=np.int64), NoiseSource.insecure_seeded(2))
    upper_half = np.unique(np.floor(-np.log(np.arange(32, 0, -1) / 32 * 0.9) / a).astype(np.int64))
    edges = np.concatenate([-upper_half[::-1], upper_half])
    # P[noise >= k] = p^k / (1 + p) for k >= 1, mirrored below.
    beyond = np.exp(-a * np.abs(edges)) / (1 + math.exp(-a))
    above = np.where(edges > 0, beyond, 1 - beyond * math.exp(-a))
    law = -np.diff(np.concatenate([[1.0], above, [0.0]]))
    counts = np.bincount(np.searchsorted(edges, noise, side="right"), minlength=edges.size + 1)
    assert chi_square(counts, law) > 1e-4


@pytest.mark.parametrize("epsilon", [1000.0, 1e9, 1e308])
def test_huge_epsilon_adds_no_noise(epsilon: float) -> None:
    mechanism = TwoSidedGeometric(epsilon)
    values = np.arange(-500, 500)
    assert (mechanism(values, NoiseSource.insecure_seeded(1)) == values).all()
    assert mechanism.law(0) == 1.0
    assert 0 < mechanism.delta(2**20) < 2**-60


def test_shape_order_and_types_are_kept() -> None:
    mechanism = TwoSidedGeometric(1000)
    source = NoiseSource.system()
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    for given in (values, np.asfortranarray(values), values[:, ::2], values[:0], values.tolist()):
        out = mechanism(given, source)
        assert out.dtype == np.int64
        assert (out == np.asarray(given)).all()
        assert out.shape == np.shape(given)
    assert mechanism(5, source).shape == ()
    assert mechanism.epsilon == 1000.0
    assert isinstance(mechanism, Mechanism)


def test_input_is_not_changed() -> None:
    values = np.zeros(100, dtype=np.int64)
    TwoSidedGeometric(0.1)(values, NoiseSource.system())
    assert not values.any()


def test_system_draws_differ_and_seeded_ones_repeat() -> None:
    mechanism, values = TwoSidedGeometric(0.01), np.zeros(50, dtype=np.int64)
    system = NoiseSource.system()
    assert (mechanism(values, system) != mechanism(values, system)).any()
    first, second = (mechanism(values, NoiseSource.insecure_seeded(3)) for _ in range(2))
    assert (first == second).all()


def test_extreme_values_are_clamped_and_never_wrap() -> None:
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert TwoSidedGeometric(1000)(ends, NoiseSource.system()).tolist() == [-LIMIT, LIMIT]
    most = np.array([np.iinfo(np.uint64).max], dtype=np.uint64)
    assert TwoSidedGeometric(1000)(most, NoiseSource.system()).tolist() == [LIMIT]
    widest = TwoSidedGeometric(1e-14)
    noisy = widest(np.repeat(ends, 1000), NoiseSource.insecure_seeded(1))
    assert (noisy[:1000] < 0).all()
    assert (noisy[1000:] > 0).all()


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.3, 1), (1.0, 3), (4.0, 2)])
def test_law_respects_epsilon(epsilon: float, sensitivity: int) -> None:
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    k = np.arange(-60, 61)
    worst = 0.0
    for shift in range(-sensitivity, sensitivity + 1):
        ratios = mechanism.law(k) / mechanism.law(k - shift)
        worst = max(worst, float(np.log(ratios).max()))
    assert worst == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("sensitivity", [1, 1000])
def test_delta_is_below_its_bound(epsilon: float, sensitivity: int) -> None:
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    assert 0 < mechanism.delta(1) <= mechanism.delta(2**20) < 2**-60


def test_delta_counts_two_variables_per_value() -> None:
    mechanism = TwoSidedGeometric(1.0)
    tail = math.exp(-(2.0**mechanism.variable.length))
    assert mechanism.delta(10) == pytest.approx((1 + math.e) * 20 * tail)
    rounding = mechanism.variable.length * 2.0**-41
    assert mechanism.delta(10, t=40) == pytest.approx((1 + math.e) * 20 * (tail + rounding))
    assert mechanism.delta(10, t=1) == 1.0


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.5, 1), (1.0, 2), (3.0, 1)])
@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize("t", [None, 6, 16])
def test_delta_bounds_the_exact_one(
    epsilon: float, sensitivity: int, length: int, t: int | None
) -> None:
    # Few digits of few bits: the law as drawn can be written down and compared with itself.
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    variable = Geometric(Fraction(epsilon) / sensitivity, length)
    vars(mechanism)["variable"] = variable
    masses = masses_of(variable, t)
    law = np.pad(np.convolve(masses, masses[::-1]), sensitivity)
    exact = max(
        np.maximum(law - math.exp(epsilon) * np.roll(law, shift), 0).sum()
        for shift in range(-sensitivity, sensitivity + 1)
    )
    assert 0 < exact <= mechanism.delta(1, t) + 1e-15


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, -0.0, True, "1", None])
def test_epsilon_must_be_positive_and_finite(epsilon: object) -> None:
    with pytest.raises(HedgerowError) as caught:
        TwoSidedGeometric(epsilon)  # type: ignore[arg-type]
    assert caught.value.code is Code.BAD_EPSILON


@pytest.mark.parametrize("sensitivity", [0, -1, 1.0, True, math.inf])
def test_sensitivity_must_be_a_positive_integer(sensitivity: object) -> None:
    with pytest.raises(HedgerowError) as caught:
        TwoSidedGeometric(1.0, sensitivity)  # type: ignore[arg-type]
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


def test_noise_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(HedgerowError) as caught:
        TwoSidedGeometric(1e-18)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


@pytest.mark.parametrize("values", [[0.5], [True], ["a"], [math.nan]])
def test_values_must_be_integers(values: list) -> None:
    with pytest.raises(HedgerowError) as caught:
        TwoSidedGeometric(1.0)(values, NoiseSource.system())
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


def test_delta_needs_a_variable() -> None:
    with pytest.raises(HedgerowError) as caught:
        TwoSidedGeometric(1.0).delta(0)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT
