"""Renyi curves of sampled releases, against exact divergences and against dp-accounting."""

import math
from itertools import pairwise

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.privacy.mechanisms import DiscreteGaussian
from hedgerow.privacy.renyi import (
    RHO_ORDERS,
    epsilon_at,
    sampled_curve,
    sampled_replace_curve,
)

RATES = st.floats(0.001, 0.95)


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    logs = order * np.log(p) + (1 - order) * np.log(q)
    top = logs.max()
    return float((top + np.log(np.exp(logs - top).sum())) / (order - 1))


def gaussians(sigma: float, moved: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws without and with a record, on a range that loses less than 1e-14 of the moments."""
    mechanism = DiscreteGaussian(1 / (2 * sigma**2))
    k = np.arange(-math.ceil(30 * sigma) - 3 * moved, math.ceil(30 * sigma) + 3 * moved + 1)
    return mechanism.law(k), mechanism.law(k - moved)


@given(
    st.floats(0.8, 5),
    st.sampled_from([1, 2]),
    RATES,
    st.one_of(st.floats(1.05, 12), st.integers(2, 12).map(float)),
)
@settings(max_examples=80)
def test_curves_bound_the_sampled_discrete_gaussian(
    sigma: float, moved: int, rate: float, order: float
) -> None:
    without, with_it = gaussians(sigma, moved)
    mixed = (1 - rate) * without + rate * with_it
    forth, back = divergence(mixed, without, order), divergence(without, mixed, order)
    assert back <= forth + 1e-12
    rho = moved**2 / (2 * sigma**2)
    curve = float(sampled_curve(rho, rate, np.array([order]), mirrored=True)[0])
    general = float(sampled_curve(rho, rate, np.array([order]), mirrored=False)[0])
    assert forth <= curve + 1e-12
    assert curve <= general <= order * rho * (1 + 1e-9)
    if order == round(order) and moved == 1 and sigma > 1:
        assert curve == pytest.approx(forth, rel=1e-6, abs=1e-12)
    # Replacing one record by its opposite: both moved, in two directions.
    other = np.roll(with_it, -2 * moved)
    replaced = divergence(mixed, (1 - rate) * without + rate * other, order)
    bound = float(sampled_replace_curve(rho, rate, np.array([order]), mirrored=True)[0])
    assert 2 * curve * (1 - 1e-9) <= bound
    assert replaced <= bound + 1e-9


@given(RATES, st.floats(0.05, 1.5), st.floats(0.05, 1.5), st.integers(2, 9), st.data())
@settings(max_examples=80)
def test_mirrored_releases_that_are_chosen_as_one_goes(
    rate: float, first: float, last: float, order: int, data: st.DataObject
) -> None:
    """Two responses on one sample, the second weaker or skipped by the first one's answer."""
    answers = np.array([1.0, math.exp(first)]) / (1 + math.exp(first))
    p0, p1 = [], []
    for answer in range(2):
        e = last * data.draw(st.floats(0, 1))
        low, high = 1 / (1 + math.exp(e)), 1 / (1 + math.exp(-e))
        p0 += [answers[answer] * low, answers[answer] * high]
        p1 += [answers[1 - answer] * high, answers[1 - answer] * low]
    without, with_it = np.array(p0), np.array(p1)
    rho = (first**2 + last**2) / 2
    mixed = (1 - rate) * without + rate * with_it
    bound = float(sampled_curve(rho, rate, np.array([float(order)]), mirrored=True)[0])
    assert divergence(mixed, without, order) <= bound + 1e-12
    assert divergence(without, mixed, order) <= bound + 1e-12


@given(
    RATES,
    st.lists(st.floats(0.02, 1), min_size=3, max_size=3),
    st.lists(st.floats(0.02, 1), min_size=3, max_size=3),
    st.floats(1.05, 20),
)
@settings(max_examples=100)
def test_any_law_is_covered_without_a_mirror(
    rate: float, one: list[float], two: list[float], order: float
) -> None:
    without, with_it = (np.array(law) / sum(law) for law in (one, two))
    # Their zCDP: the largest divergence over its order, on a grid of orders and in the limit.
    pairs = ((without, with_it), (with_it, without))
    orders = np.concatenate([1 + np.geomspace(1e-4, 200, 60), [order]])
    rho = max(divergence(p, q, a) / a for p, q in pairs for a in orders) * (1 + 1e-2)
    mixed = (1 - rate) * without + rate * with_it
    bound = float(sampled_curve(rho, rate, np.array([order]), mirrored=False)[0])
    assert divergence(mixed, without, order) <= bound + 1e-12
    assert divergence(without, mixed, order) <= bound + 1e-12


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds"), [(0.01, 1.0, 1000), (0.1, 4.0, 100), (0.001, 0.7, 10_000)]
)
def test_as_tight_as_dp_accounting(rate: float, sigma: float, rounds: int) -> None:
    """dp-accounting has the exact curve of the continuous Gaussian, at every order."""
    rho = 1 / (2 * sigma**2)
    curve = rounds * sampled_curve(rho, rate, RHO_ORDERS, mirrored=True)
    ours = epsilon_at(RHO_ORDERS, curve, 1e-6)
    peer = RdpAccountant()
    gaussian = dp_accounting.GaussianDpEvent(sigma)
    peer.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), rounds)
    theirs = peer.get_epsilon(1e-6)
    assert theirs * (1 - 1e-3) <= ours <= theirs * 1.02
    without_a_sample = epsilon_at(RHO_ORDERS, rounds * RHO_ORDERS * rho, 1e-6)
    assert ours < 0.2 * without_a_sample


def test_the_ends_of_the_range() -> None:
    whole = sampled_curve(0.3, 1.0, RHO_ORDERS, mirrored=True)
    np.testing.assert_allclose(whole, 0.3 * RHO_ORDERS, rtol=1e-9)
    np.testing.assert_allclose(
        sampled_replace_curve(0.3, 1.0, RHO_ORDERS, mirrored=True), 1.2 * RHO_ORDERS, rtol=1e-9
    )
    some = RHO_ORDERS[::7]
    for mirrored in (True, False):
        assert not sampled_curve(0.0, 0.5, some, mirrored=mirrored).any()
        for rho in (1e-300, 1e-12, 1e3, 1e300):
            for rate in (1e-9, 0.5, 1 - 1e-12):
                curve = sampled_curve(rho, rate, some, mirrored=mirrored)
                twice = sampled_replace_curve(rho, rate, some, mirrored=mirrored)
                assert np.isfinite(curve).all()
                assert (curve >= 0).all()
                assert (twice >= 2 * curve * (1 - 1e-9)).all()
    # Nearly everyone is in the sample: nearly as if all were.
    nearly = sampled_curve(0.1, 1 - 1e-9, np.array([2.0, 5.0]), mirrored=True)
    np.testing.assert_allclose(nearly, [0.2, 0.5], rtol=1e-6)


def test_a_curve_rises_with_rho_and_with_the_rate() -> None:
    orders = np.array([1.5, 2.0, 10.0, 200.0])
    for mirrored in (True, False):
        rising = [sampled_curve(rho, 0.1, orders, mirrored=mirrored) for rho in (0.01, 0.1, 1.0)]
        rates = [sampled_curve(0.1, rate, orders, mirrored=mirrored) for rate in (0.01, 0.1, 0.9)]
        for low, high in (*pairwise(rising), *pairwise(rates)):
            assert (low < high).all()
