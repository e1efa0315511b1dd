"""The curve of Gaussian noise: exact where it is exact, and never below the discrete truth."""

import math
from dataclasses import replace
from itertools import product

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.integrate import quad

from hedgerow.privacy import ROOT, By, Partition, Release, part
from hedgerow.privacy.accounting import Relation, covers, tightest
from hedgerow.privacy.gaussian import _log_ratio, curve_delta, curve_epsilon
from hedgerow.privacy.planning import noise_for_rate, rho_for


def gaussian(rho: float, squared: int, **changes: object) -> Release:
    given = {"rho": rho, **changes}
    root = math.nextafter(math.sqrt(squared), math.inf)
    return Release("discrete gaussian", math.inf, 0.0, root, ROOT, "public", "sums", **given)  # type: ignore[arg-type]


def discrete(variance: float, reach: int, shift: int = 0) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    law = np.exp(-((k - shift) ** 2) / (2 * variance))
    return law / np.exp(-(np.arange(-3 * reach, 3 * reach + 1) ** 2) / (2 * variance)).sum()


def exact_epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """Return the epsilon at which the hockey-stick divergence of two laws is delta."""
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        excess = np.maximum(p - math.exp(middle) * q, 0).sum()
        low, high = (middle, high) if excess > delta else (low, middle)
    return high


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.02, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.3])
def test_the_curve_is_the_one_of_dp_accounting(rho: float, delta: float) -> None:
    found = curve_epsilon(rho, delta)
    peer = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    assert found == pytest.approx(peer, rel=1e-6, abs=1e-6)
    assert curve_delta(math.sqrt(2 * rho), found) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("variance", "smooth"), [(0.3, 0.25), (0.7, 0.5), (2.0, 0.25), (2.0, 0.5), (40.0, 0.5)]
)
def test_discrete_noise_is_gaussian_noise_with_something_done_to_it(
    variance: float, smooth: float
) -> None:
    wide = np.arange(-40, 41)

    def drawn(z: int) -> float:
        def density(u: float) -> float:
            first = math.exp(-(u**2) / (2 * (variance - smooth)))
            return (
                first
                * math.exp(-((z - u) ** 2) / (2 * smooth))
                / np.exp(-((wide - u) ** 2) / (2 * smooth)).sum()
            )

        integral, _ = quad(density, -12, 12, epsabs=0, epsrel=1e-11, limit=400, points=[0, z])
        return integral / math.sqrt(2 * math.pi * (variance - smooth))

    law = discrete(variance, 40)
    ratios = [abs(math.log(law[40 + z] / drawn(z))) for z in (0, 1, 2)]
    assert max(ratios) <= _log_ratio(smooth)
    # The bound is no idle one: where little noise is Gaussian, its order is reached.
    assert variance > 2 * smooth or _log_ratio(smooth) < 40 * max(ratios)


@pytest.mark.parametrize("variance", [1.5, 4.0, 30.0, 400.0])
@pytest.mark.parametrize("move", [1, 3])
@pytest.mark.parametrize("delta", [1e-8, 1e-3])
def test_never_below_the_exact_figure_of_one_release(
    variance: float, move: int, delta: float
) -> None:
    rho = move**2 / (2 * variance)
    reach = int(40 * math.sqrt(variance)) + 10
    exact = exact_epsilon(discrete(variance, reach, move), discrete(variance, reach), delta)
    found = tightest([gaussian(rho, move**2)], delta).epsilon
    # One coarse value is a staircase: the truth may lie a step above the smooth curve.
    assert found >= exact - 1e-9
    assert found <= (exact + 2 * move / variance) * (1 + 4 / variance) + 1e-6


@pytest.mark.parametrize("moves", [(1, 1), (2, 1), (3, 4)])
def test_never_below_the_exact_figure_of_two_releases(moves: tuple[int, int]) -> None:
    for variance, delta in product((6.0, 50.0), (1e-6, 1e-2)):
        reach = int(12 * math.sqrt(variance)) + 5
        here, there = (
            np.multiply.outer(*(discrete(variance, reach, move * on) for move in moves))
            for on in (1, 0)
        )
        exact = exact_epsilon(here, there, delta)
        one = [gaussian(move**2 / (2 * variance), move**2) for move in moves]
        squared = sum(move**2 for move in moves)
        together = gaussian(squared / (2 * variance), squared)
        for releases in (one, [together]):
            found = tightest(releases, delta).epsilon
            assert exact - 1e-9 <= found <= (exact + 2 / variance) * (1 + 4 / variance)


def test_between_the_two_estimates_of_a_distribution_of_losses() -> None:
    sigma, move, rounds = 40.0, 6, 30
    release = gaussian(move**2 / (2 * sigma**2), move**2, times=rounds)
    below, above = (
        pld.from_discrete_gaussian_mechanism(
            sigma, sensitivity=move, pessimistic_estimate=side, value_discretization_interval=1e-4
        ).self_compose(rounds)
        for side in (False, True)
    )
    for delta in (1e-9, 1e-6, 1e-2):
        found = tightest([release], delta)
        assert found.method == "Gaussian curve"
        low, high = (one.get_epsilon_for_delta(delta) for one in (below, above))
        assert low * (1 - 1e-9) <= found.epsilon <= high * (1 + 1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "saved"),
    [(0.1, 1e-6, 0.085), (1.0, 1e-6, 0.072), (10.0, 1e-6, 0.06), (0.1, 1e-2, 0.33)],
)
def test_what_a_renyi_curve_gives_away(epsilon: float, delta: float, saved: float) -> None:
    rho = rho_for(epsilon, delta)
    found = tightest([gaussian(rho, 10**9)], delta).epsilon
    assert found == pytest.approx(epsilon * (1 - saved), rel=5e-3)
    smooth = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    assert smooth <= found <= smooth * (1 + 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "rate", "rounds"), [(0.1, 0.5, 100), (1, 0.1, 300), (8, 0.05, 300)]
)
def test_samples_next_to_an_optimistic_distribution_of_losses(
    epsilon: float, rate: float, rounds: int
) -> None:
    rho = noise_for_rate(epsilon, 1e-6, rate, rounds)
    release = gaussian(rho, 10**9, times=rounds, sample_rate=rate)
    found = tightest([gaussian(1e-9, 10**9), release], 1e-6)
    assert found.method == "Gaussian losses (PLD)"
    below = pld.from_gaussian_mechanism(
        1 / math.sqrt(2 * rho),
        pessimistic_estimate=False,
        value_discretization_interval=2e-5 * epsilon,
        sampling_prob=rate,
        use_connect_dots=False,
    ).self_compose(rounds)
    low = below.get_epsilon_for_delta(1e-6)
    assert low <= found.epsilon <= low * 1.01
    # Moments give away 7 to 9% of it.
    assert found.epsilon < 0.935 * epsilon


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_never_below_the_exact_figure_of_two_samples(delta: float) -> None:
    variance, rate, move = 30.0, 0.3, 2
    reach = int(14 * math.sqrt(variance))
    out, inside = discrete(variance, reach), discrete(variance, reach, move)
    mixed = (1 - rate) * out + rate * inside
    here, there = np.multiply.outer(mixed, mixed), np.multiply.outer(out, out)
    exact = max(exact_epsilon(here, there, delta), exact_epsilon(there, here, delta))
    release = gaussian(move**2 / (2 * variance), move**2, times=2, sample_rate=rate)
    found = tightest([release], delta)
    assert found.method == "Gaussian losses (PLD)"
    assert exact <= found.epsilon <= (exact + 2 * move / variance) * 1.1


def test_replacing_is_a_move_of_twice_the_length() -> None:
    twice = tightest([gaussian(0.01, 10**6)], 1e-6, Relation.REPLACE)
    once = tightest([gaussian(0.04, 4 * 10**6)], 1e-6)
    assert twice.method == once.method == "Gaussian curve"
    assert twice.epsilon == pytest.approx(once.epsilon, rel=1e-9)


def test_what_the_curve_does_not_count() -> None:
    one = gaussian(0.01, 10**6)
    halves = Partition("halves", By.COIN)
    left, right = (replace(one, scope=ROOT / part(halves, side)) for side in "ab")
    pure = Release("two-sided geometric", 0.1, 0.0, 1.0, ROOT, "public", "count")
    for releases in (
        [left, right],
        [one, pure],
        [one, replace(one, delta=1e-9)],
    ):
        assert tightest(releases, 1e-6).method == "RDP"
    sampled = replace(one, sample_rate=0.5)
    assert tightest([one, sampled], 1e-6, Relation.REPLACE).method == "RDP"
    assert tightest([one, sampled], 1e-13).method == "RDP"
    # Of one part alone it is a sequence.
    assert tightest([one, left], 1e-6) == tightest([one, one], 1e-6)
    # Too little noise to be anything like Gaussian.
    coarse = tightest([gaussian(40.0, 1)], 1e-6)
    assert coarse.method == "RDP"


def test_a_reservation_pays_for_values_that_move_as_far() -> None:
    reserved = gaussian(0.01, 100)
    assert covers(reserved, [gaussian(0.004, 100), gaussian(0.006, 100)])
    assert not covers(reserved, [gaussian(0.005, 1)])
    assert tightest([gaussian(0.005, 1)] * 2, 1e-6).epsilon > tightest([reserved], 1e-6).epsilon
