import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Leakage, NoiseSource, NoisyMax, Opening, TwoSidedGeometric
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.noise.discrete import (
    Draws,
    Precision,
    coins,
    cost_coins,
    cost_draw_batch,
    cost_geometric,
    cost_two_sided_geometric,
    draw_batch,
    geometric,
    precision,
    two_sided_geometric,
)
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, SecretBits, words
from tests.privacy.mechanisms.coin_laws import masses_of
from tests.secure.engines import metered, reveal, three_servers

DRAWS = 1_000_000
RINGS = [Z16, Z32, Z64]


def clear(seed: int, shape: tuple[int, ...], kind: type[ClearEngine] = ClearEngine) -> ClearEngine:
    noise = Opening("noise", "analyst", shape, independent="noise alone", times=9)
    return kind(Leakage([noise]), NoiseSource.insecure_seeded(seed))


class ThreeParties(ClearEngine):
    """Uniform bits are the XOR of three contributions; the last party always gives zeros."""

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        full = (*shape[:-1], words(shape[-1]))
        first, second = (self.source.words(math.prod(full)).reshape(full) for _ in range(2))
        third = np.zeros(full, dtype=np.uint64)
        return SecretBits(self, shape[-1], first ^ second ^ third)


def masses(drawn: Precision) -> np.ndarray:
    return masses_of(drawn.variable, drawn.t)


def two_sided_masses(drawn: Precision) -> np.ndarray:
    """Probabilities of -(2^L - 1), ..., 2^L - 1."""
    one = masses(drawn)
    return np.convolve(one, one[::-1])


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("epsilon", [0.25, 2.0])
def test_law_of_geometric(ring: Ring, epsilon: float, chi_square) -> None:
    drawn = precision(NoisyMax(epsilon), 10)
    e = clear(1, (DRAWS,))
    values = e.open(geometric(e, (DRAWS,), drawn, ring), "noise", "analyst")
    law = masses(drawn)
    counts = np.bincount(values.astype(np.int64), minlength=law.size)
    assert counts.size == law.size
    assert chi_square(counts, law) > 1e-4
    ideal = (1 - math.exp(-epsilon / 2)) * np.exp(-epsilon / 2 * np.arange(law.size))
    assert np.abs(law - ideal).sum() < 1e-12


@pytest.mark.parametrize("kind", [ClearEngine, ThreeParties])
def test_law_of_two_sided_geometric(kind: type[ClearEngine], chi_square) -> None:
    mechanism = TwoSidedGeometric(0.7)
    drawn = precision(mechanism, DRAWS)
    e = clear(2, (1000, 1000), kind)
    noise = two_sided_geometric(e, (1000, 1000), drawn, Z32)
    values = Z32.signed(e.open(noise, "noise", "analyst")).reshape(-1).astype(np.int64)
    law = two_sided_masses(drawn)
    reach = law.size // 2
    assert chi_square(np.bincount(values + reach, minlength=law.size), law) > 1e-4
    assert np.allclose(law, mechanism.law(np.arange(-reach, reach + 1)), atol=1e-15)


def test_independent_draws_within_a_call(chi_square) -> None:
    drawn = precision(NoisyMax(1.0), 10)
    e = clear(3, (DRAWS,))
    values = e.open(geometric(e, (DRAWS,), drawn, Z64), "noise", "analyst").astype(np.int64)
    law = masses(drawn)[:4]
    law = np.append(law, 1 - law.sum())
    pairs = np.minimum(values[::2], 4) * 5 + np.minimum(values[1::2], 4)
    assert chi_square(np.bincount(pairs, minlength=25), np.outer(law, law).ravel()) > 1e-4


def test_coins_are_planes_of_their_own(chi_square) -> None:
    e = clear(4, (3, 1001))
    heads = e.open(coins(e, (0, 8, 5), 3, 1001), "noise", "analyst")
    assert not heads[0].any()
    assert heads[1].all()
    assert chi_square([heads[2].sum(), (~heads[2]).sum()], [5 / 8, 3 / 8]) > 1e-4


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("n", [1, 64, 130])
def test_costs_are_as_declared(engine: Engine, ring: Ring, n: int) -> None:
    drawn = precision(TwoSidedGeometric(0.5), n)
    constants = drawn.constants
    assert metered(engine, lambda: coins(engine, constants, drawn.t, n)) == cost_coins(
        engine, constants, drawn.t, n
    )
    assert metered(engine, lambda: geometric(engine, (n,), drawn, ring)) == cost_geometric(
        engine, n, drawn, ring
    )
    assert metered(
        engine, lambda: two_sided_geometric(engine, (n,), drawn, ring)
    ) == cost_two_sided_geometric(engine, n, drawn, ring)


def test_rounds_and_bytes_of_a_draw_stay_small() -> None:
    cost = cost_geometric(three_servers(), 100_000, precision(NoisyMax(1.0), 100_000), Z64)
    assert cost.rounds == 11
    assert cost.mean_bytes < 110 * 100_000


@given(
    st.floats(1e-4, 30),
    st.integers(1, 1000),
    st.integers(1, 2**30),
    st.sampled_from([TwoSidedGeometric, NoisyMax]),
)
def test_delta_is_below_the_design_and_not_wasteful(epsilon, sensitivity, m, kind) -> None:
    mechanism = kind(epsilon, sensitivity)
    drawn = precision(mechanism, m)
    assert 0 < drawn.delta < 2**-60
    variables = m * (2 if kind is TwoSidedGeometric else 1)
    tau = variables * (
        math.exp(drawn.variable.log_tail) + drawn.variable.length * 2.0 ** -(drawn.t + 1)
    )
    assert drawn.delta == pytest.approx((1 + math.exp(epsilon)) * tau, rel=1e-6)
    # One coin or one bit less would not do.
    weight = (1 + math.exp(epsilon)) * variables
    assert weight * drawn.variable.length * 2.0**-drawn.t >= 2**-61
    assert drawn.variable.log_tail / 2 + math.log(weight) >= -61 * math.log(2) or (
        drawn.variable.length == 1
    )


def test_delta_agrees_with_the_mechanism() -> None:
    mechanism = TwoSidedGeometric(1.0)
    drawn = precision(mechanism, 2**20)
    same_length = drawn.variable.length == mechanism.variable.length
    assert same_length
    assert drawn.delta == mechanism.delta(2**20, t=drawn.t)


def test_noise_that_does_not_fit_is_refused() -> None:
    e = clear(5, (1,))
    with pytest.raises(HedgerowError) as caught:
        geometric(e, (1,), precision(NoisyMax(1e-4), 1), Z16)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT
    with pytest.raises(HedgerowError) as caught:
        precision(NoisyMax(1.0), 0)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT


MANY = 200_000
LAWS = [
    (precision(NoisyMax(2.0), 10), False),
    (precision(NoisyMax(0.05, 7), 3), False),
    (precision(TwoSidedGeometric(0.7), 1), True),
]


def batch_of(*sizes: int) -> list[Draws]:
    return [Draws(drawn, n, two) for (drawn, two), n in zip(LAWS, sizes, strict=True)]


def test_every_law_is_the_one_it_has_alone(chi_square) -> None:
    engine = ClearEngine(Leakage([]), NoiseSource.insecure_seeded(5))
    batch = batch_of(MANY, MANY, MANY)
    for draws, noise in zip(batch, draw_batch(engine, batch, Z64), strict=True):
        values = Z64.signed(reveal(noise)).astype(np.int64)
        if draws.two_sided:
            law = two_sided_masses(draws.drawn)
            values = values + law.size // 2
        else:
            law = masses(draws.drawn)
        assert values.min() >= 0
        counts = np.bincount(values, minlength=law.size)
        assert counts.size == law.size
        assert chi_square(counts, law) > 1e-4


def test_draws_of_different_laws_are_independent(chi_square) -> None:
    engine = ClearEngine(Leakage([]), NoiseSource.insecure_seeded(6))
    drawn, _ = LAWS[0]
    first, second = draw_batch(engine, [Draws(drawn, MANY), Draws(drawn, MANY)], Z32)
    law = masses(drawn)[:4]
    law = np.append(law, 1 - law.sum())
    pairs = np.minimum(reveal(first), 4) * 5 + np.minimum(reveal(second), 4)
    counts = np.bincount(pairs.astype(np.int64), minlength=25)
    assert chi_square(counts, np.outer(law, law).ravel()) > 1e-4


@pytest.mark.parametrize("ring", [Z32, Z64])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (130, 0, 64), (0, 5, 0), (0, 0, 0), (700, 3, 90)])
def test_costs_of_a_batch(engine: Engine, ring: Ring, sizes: tuple[int, ...]) -> None:
    batch = batch_of(*sizes)
    found: list[object] = []
    cost = metered(engine, lambda: found.extend(draw_batch(engine, batch, ring)))
    assert cost == cost_draw_batch(engine, batch, ring)
    assert [noise.shape for noise in found] == [(n,) for n in sizes]
    assert {noise.ring for noise in found} == {ring}


def test_a_batch_takes_the_rounds_of_its_deepest_law() -> None:
    engine, batch = three_servers(), batch_of(900, 400, 64)
    alone = [
        (cost_two_sided_geometric if d.two_sided else cost_geometric)(engine, d.n, d.drawn, Z64)
        for d in batch
    ]
    together = cost_draw_batch(engine, batch, Z64)
    assert together.rounds == max(cost.rounds for cost in alone)
    # One ring for all digits, the largest that one of them asks for.
    assert together.mean_bytes < 1.1 * sum(cost.mean_bytes for cost in alone)


def test_servers_draw_in_range_and_never_the_same() -> None:
    engine = three_servers()
    one, two = (draw_batch(engine, batch_of(300, 300, 300), Z64) for _ in range(2))
    for draws, noise, again in zip(batch_of(300, 300, 300), one, two, strict=True):
        values = Z64.signed(reveal(noise))
        reach = 1 << draws.drawn.variable.length
        assert (np.abs(values) < reach).all()
        assert draws.two_sided == (values < 0).any()
        assert (values != Z64.signed(reveal(again))).any()


def test_a_batch_that_does_not_fit_is_refused() -> None:
    wide = Draws(precision(NoisyMax(0.001), 10), 4)
    with pytest.raises(HedgerowError) as error:
        draw_batch(ClearEngine(Leakage([])), [wide], Z16)
    assert error.value.code is Code.BAD_MECHANISM_INPUT
