"""Discrete Gaussian noise: law, exactness where words run short, zCDP, refusals."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import LIMIT, DiscreteGaussian, Mechanism, gaussian_tables
from hedgerow.privacy.mechanisms.discrete_gaussian import _coin
from hedgerow.privacy.source import NoiseSource


def of_sigma(sigma: float, **options: object) -> DiscreteGaussian:
    return DiscreteGaussian(1 / (2 * sigma**2), **options)  # type: ignore[arg-type]


def drawn(mechanism: DiscreteGaussian, n: int, seed: int) -> np.ndarray:
    return mechanism(np.zeros(n, dtype=np.int64), NoiseSource.insecure_seeded(seed))


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0, 3.3, 30.0, 400.0])
def test_noise_has_its_law(sigma: float, chi_square) -> None:
    mechanism = of_sigma(sigma)
    noise = drawn(mechanism, 10**6, 1)
    reach = math.ceil(9 * sigma) + 1
    assert np.abs(noise).max() <= reach
    law = mechanism.law(np.arange(-reach, reach + 1))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    counts = np.bincount(noise + reach, minlength=2 * reach + 1)
    assert chi_square(counts, law / law.sum()) > 1e-4


@pytest.mark.parametrize("sigma", [600.0, 5_000.0, 1e6, 3e9])
def test_wide_noise_has_its_law(sigma: float, chi_square) -> None:
    # Cells of many values: sums of masses, or where these are too many, by the integral, whose
    # error (Euler-Maclaurin) is far below what the draws resolve.
    mechanism = of_sigma(sigma)
    assert mechanism._low_digits > 0
    noise = drawn(mechanism, 10**6, 2)
    edges = np.unique(np.round(np.linspace(-4, 4, 65) * sigma)).astype(np.int64)
    if sigma < 1e4:
        k = np.arange(-math.ceil(10 * sigma), math.ceil(10 * sigma))
        law = np.bincount(np.searchsorted(edges, k, side="right"), mechanism.law(k))
    else:
        upto = [math.erf((edge - 0.5) / (sigma * math.sqrt(2))) / 2 + 0.5 for edge in edges]
        law = np.diff([0.0, *upto, 1.0])
    counts = np.bincount(np.searchsorted(edges, noise, side="right"), minlength=edges.size + 1)
    assert chi_square(counts, law / law.sum()) > 1e-4
    # The low digits are as even as the law says: next to uniform.
    low = np.bincount(noise & 7, minlength=8)
    assert chi_square(low, np.full(8, 1 / 8)) > 1e-4


@pytest.mark.parametrize(("sigma", "bits"), [(0.6, 2), (2.0, 4), (700.0, 12)])
def test_words_that_do_not_decide_leave_the_law_alone(
    sigma: float, bits: int, chi_square, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a few bits in a table most draws need more of them, as one in 2**50 does otherwise."""
    monkeypatch.setattr(gaussian_tables, "WORD_BITS", bits)
    mechanism = of_sigma(sigma)
    n, undecided, resolve = 20_000, 0, DiscreteGaussian._resolve

    def counted(*given: object) -> int | None:
        nonlocal undecided
        undecided += 1
        return resolve(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(DiscreteGaussian, "_resolve", counted)
    noise = drawn(mechanism, n, 3)
    assert undecided > n // 20
    reach = math.ceil(9 * sigma)
    law = mechanism.law(np.arange(-reach, reach + 1))
    counts = np.bincount(noise + reach, minlength=2 * reach + 1)
    assert chi_square(counts, law / law.sum()) > 1e-4


def test_coins_are_compared_as_far_as_it_takes() -> None:
    exponent = Fraction(1, 3)
    with mpmath.workdps(80):
        whole = int(mpmath.floor(mpmath.exp(-mpmath.mpf(1) / 3) * 2**128))
    first, second = whole >> 64, whole & (2**64 - 1)
    assert _coin(exponent, first - 1, lambda: 0)
    assert not _coin(exponent, first + 1, lambda: 0)
    assert _coin(exponent, first, lambda: second - 1)
    assert not _coin(exponent, first, lambda: second + 1)
    assert _coin(Fraction(0), 2**64 - 1, lambda: 0)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.2, 2.3, 50.0, 1e6])
def test_law_is_exact(sigma: float) -> None:
    mechanism = of_sigma(sigma)
    x = mechanism._x
    with mpmath.workdps(50):
        rate = mpmath.mpf(x.numerator) / x.denominator
        # Poisson's formula for the wide ones: the theta function of the dual rate.
        total = (
            mpmath.jtheta(3, 0, mpmath.exp(-rate))
            if sigma < 20
            else mpmath.sqrt(mpmath.pi / rate) * (1 + 2 * mpmath.exp(-(mpmath.pi**2) / rate))
        )
        for k in (0, 1, -1, 3, round(3 * sigma)):
            wanted = float(mpmath.exp(-rate * k * k) / total)
            assert mechanism.law(k) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.5, 6.0])
@pytest.mark.parametrize("moved", [(1,), (3,), (1, 2)])
def test_divergences_are_at_most_linear(sigma: float, moved: tuple[int, ...]) -> None:
    squared = sum(c * c for c in moved)
    rho = squared / (2 * sigma**2)
    mechanism = DiscreteGaussian(rho, squared)
    assert mechanism.sigma2 == pytest.approx(sigma**2)
    for order in (1.01, 1.5, 2.0, 7.3, 40.0):
        total = 0.0
        for c in moved:
            middle = round((1 - order) * c)
            k = np.arange(middle - 200, middle + 201, dtype=np.float64)
            x = 1 / (2 * sigma**2)
            logs = -x * (order * k * k + (1 - order) * (k - c) ** 2) - math.log(mechanism._total)
            top = logs.max()
            total += (top + math.log(np.exp(logs - top).sum())) / (order - 1)
        assert total <= order * rho * (1 + 1e-9) + 1e-12
        if order == 2.0 and len(moved) == 1:
            assert total == pytest.approx(order * rho, rel=1e-9)  # reached at whole shifts


def test_shape_order_and_types_are_kept() -> None:
    mechanism, source = DiscreteGaussian(1000.0), NoiseSource.system()
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    for given in (values, np.asfortranarray(values), values[:, ::2], values[:0], values.tolist()):
        out = mechanism(given, source)
        assert out.dtype == np.int64
        assert (out == np.asarray(given)).all()
        assert out.shape == np.shape(given)
    assert mechanism(5, source).shape == ()
    assert isinstance(mechanism, Mechanism)
    assert (mechanism.epsilon, mechanism.rho, mechanism.delta(7)) == (math.inf, 1000.0, 0.0)
    assert DiscreteGaussian(1.0, 9).sensitivity == pytest.approx(3, abs=1e-12)
    assert (values.ravel() == np.arange(24)).all()


def test_system_draws_differ_and_seeded_ones_repeat() -> None:
    mechanism, values = of_sigma(900.0), np.zeros(50, dtype=np.int64)
    system = NoiseSource.system()
    assert (mechanism(values, system) != mechanism(values, system)).any()
    first, second = (mechanism(values, NoiseSource.insecure_seeded(3)) for _ in range(2))
    assert (first == second).all()
    # Threads draw from streams of their own, so that large releases repeat as well.
    assert (drawn(mechanism, 300_000, 4) == drawn(mechanism, 300_000, 4)).all()


def test_extreme_values_are_clamped_and_never_wrap() -> None:
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert DiscreteGaussian(1000.0)(ends, NoiseSource.system()).tolist() == [-LIMIT, LIMIT]
    noisy = of_sigma(8e9)(np.repeat(ends, 1000), NoiseSource.insecure_seeded(1))
    assert (noisy[:1000] < 0).all()
    assert (noisy[1000:] > 0).all()


@pytest.mark.parametrize("rho", [0, -1.0, math.inf, math.nan, True, "1", None])
def test_rho_must_be_positive_and_finite(rho: object) -> None:
    with pytest.raises(HedgerowError) as caught:
        DiscreteGaussian(rho)  # type: ignore[arg-type]
    assert caught.value.code is Code.BAD_EPSILON


@pytest.mark.parametrize("squared", [0, -1, 1.0, True, math.inf])
def test_sensitivity_must_be_a_positive_integer(squared: object) -> None:
    with pytest.raises(HedgerowError) as caught:
        DiscreteGaussian(1.0, squared)  # type: ignore[arg-type]
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


@pytest.mark.parametrize("rho", [1e-21, 1e-300, 5e-324])
def test_noise_that_does_not_fit_is_refused_at_once(rho: float) -> None:
    with pytest.raises(HedgerowError) as caught:
        DiscreteGaussian(rho, 10**6)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


@pytest.mark.parametrize("values", [[0.5], [True], ["a"], [math.nan]])
def test_values_must_be_integers(values: list) -> None:
    with pytest.raises(HedgerowError) as caught:
        DiscreteGaussian(1.0)(values, NoiseSource.system())
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


def test_delta_needs_a_variable() -> None:
    with pytest.raises(HedgerowError) as caught:
        DiscreteGaussian(1.0).delta(0)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT
