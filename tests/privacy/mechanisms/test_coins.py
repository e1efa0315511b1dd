"""Constants are exact, digits are independent, and the stated distance bounds the true one."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms.coins import (
    DESIGN_LOG_DELTA,
    MAX_DIGITS,
    CoinTable,
    Geometric,
    expansion,
    shortest,
    upper,
)
from tests.privacy.mechanisms.coin_laws import masses_of


def exp_bounds(x: Fraction, terms: int = 80) -> tuple[Fraction, Fraction]:
    """Rational bounds on exp(x), 0 < x < 4, from the exponential series."""
    total, term = Fraction(0), Fraction(1)
    for k in range(1, terms + 1):
        total += term
        term = term * x / k
    return total, total + 2 * term


@pytest.mark.parametrize("x", [Fraction(1), Fraction(0.1), Fraction(1, 3), Fraction(3.75)])
@pytest.mark.parametrize("bits", [1, 8, 61, 128, 200])
def test_expansion_against_rational_bounds(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x)
    for family, lowest, highest in (
        ("digit", 1 / (1 + high), 1 / (1 + low)),
        ("power", 1 / high, 1 / low),
    ):
        floors = {math.floor(bound * 2**bits) for bound in (lowest, highest)}
        assert {expansion(family, x, bits)} == floors


@pytest.mark.parametrize("family", ["digit", "power"])
@pytest.mark.parametrize("x", [1e-300, 1e-17, 1e-6, 0.7, 40.0, 88.7, 1000.0, 1e300])
def test_longer_expansions_continue_shorter_ones(family: str, x: float) -> None:
    long = expansion(family, Fraction(x), 4096)
    for bits in (8, 128, 1024):
        assert expansion(family, Fraction(x), bits) == long >> (4096 - bits)


def test_tiny_probabilities_keep_all_their_digits() -> None:
    # exp(-1000) is about 2**-1442.7: nothing of it is in 128 bits, all of it in 1600.
    assert expansion("power", Fraction(1000), 128) == 0
    value = expansion("power", Fraction(1000), 1600)
    assert math.log(value) - 1600 * math.log(2) == pytest.approx(-1000, abs=1e-9)


def test_prefix_and_rounded() -> None:
    table = CoinTable("digit", Fraction(1), 3)
    prefix = table.prefix(16)
    assert prefix.shape == (3, 16)
    assert not prefix.flags.writeable
    for i in range(3):
        exact = 1 / (1 + math.exp(2**i))
        assert int.from_bytes(prefix[i].tobytes(), "big") / 2**128 == pytest.approx(exact)
        assert abs(table.rounded(20)[i] - exact * 2**20) <= 0.5
    assert (table.prefix(4) == prefix[:, :4]).all()
    # 1 / (1 + e) = 0.2689: a quarter in two bits, but one half in one bit rounds to 1/2.
    assert CoinTable("digit", Fraction(1), 1).rounded(2) == (1,)
    assert CoinTable("digit", Fraction(1), 1).rounded(1) == (1,)


@pytest.mark.parametrize("a", [0.01, 0.5, 1.0, 3.0, 50.0, 1e305])
@pytest.mark.parametrize("length", [1, 3, 6])
def test_digits_of_a_geometric_variable_are_independent(a: float, length: int) -> None:
    # The product of independent digits is the law of G given G < 2**length.
    masses = masses_of(Geometric(Fraction(a), length))
    k = np.arange(2**length)
    assert masses == pytest.approx(np.exp(-a * k) / np.exp(-a * k).sum(), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("a", [0.05, 0.4, 1.3, 5.0])
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("t", [1, 2, 5, 12, 40])
def test_distance_to_the_ideal_law_is_at_most_tau(a: float, length: int, t: int) -> None:
    variable = Geometric(Fraction(a), length)
    p = math.exp(-a)
    ideal = (1 - p) * p ** np.arange(2**length)
    tail = p**2**length
    for masses, bits in ((masses_of(variable, t), t), (masses_of(variable), None)):
        assert masses.sum() == pytest.approx(1)
        distance = (np.abs(masses - ideal).sum() + tail) / 2
        tau = math.exp(variable.log_tau(1, bits))
        assert distance <= tau + 1e-15
        if bits is None:
            assert distance == pytest.approx(tau, abs=1e-15)
            assert variable.log_tau(1000) == pytest.approx(math.log(1000 * tau))
        else:
            assert tau == pytest.approx(tail + length * 2.0 ** -(t + 1))


@pytest.mark.parametrize("a", [1e-15, 1e-6, 0.01, 1.0, 50.0, 1000.0, 1.7e308])
def test_shortest_is_long_enough_and_not_longer(a: float) -> None:
    weight = 20 * math.log(2) + a
    variable = shortest(Fraction(a), weight)
    assert variable.log_tail + weight < DESIGN_LOG_DELTA
    if variable.length > 1:
        assert Geometric(Fraction(a), variable.length - 1).log_tail + weight >= DESIGN_LOG_DELTA


def test_noise_beyond_64_bits_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        shortest(Fraction(1, 2**MAX_DIGITS), 15.0)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


def test_upper_never_rounds_down() -> None:
    assert upper(0.5) == upper(0.0) == 1.0
    assert upper(-1e6) > 0
    for value in (1e-300, 1e-20, 0.3):
        assert value < upper(math.log(value)) < value * (1 + 1e-8)
