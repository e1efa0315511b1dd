import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Leakage, NoiseSource, NoisyMax, TwoSidedGeometric
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.noise.batch import Draws, cost_draw_batch, draw_batch
from hedgerow.secure.noise.discrete import cost_geometric, cost_two_sided_geometric, precision
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import clear, metered, reveal, three_servers
from tests.secure.noise.test_discrete import masses, two_sided_masses

DRAWS = 200_000
LAWS = [
    (precision(NoisyMax(2.0), 10), False),
    (precision(NoisyMax(0.05, 7), 3), False),
    (precision(TwoSidedGeometric(0.7), 1), True),
]


def batch_of(*sizes: int) -> list[Draws]:
    return [Draws(drawn, n, two) for (drawn, two), n in zip(LAWS, sizes, strict=True)]


def test_every_law_is_the_one_it_has_alone(chi_square) -> None:
    engine = ClearEngine(Leakage([]), NoiseSource.insecure_seeded(5))
    batch = batch_of(DRAWS, DRAWS, DRAWS)
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
    first, second = draw_batch(engine, [Draws(drawn, DRAWS), Draws(drawn, DRAWS)], Z32)
    law = masses(drawn)[:4]
    law = np.append(law, 1 - law.sum())
    pairs = np.minimum(reveal(first), 4) * 5 + np.minimum(reveal(second), 4)
    counts = np.bincount(pairs.astype(np.int64), minlength=25)
    assert chi_square(counts, np.outer(law, law).ravel()) > 1e-4


@pytest.mark.parametrize("ring", [Z32, Z64])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (130, 0, 64), (0, 5, 0), (0, 0, 0), (700, 3, 90)])
def test_costs_are_as_declared(engine: Engine, ring: Ring, sizes: tuple[int, ...]) -> None:
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


def test_noise_that_does_not_fit_is_refused() -> None:
    wide = Draws(precision(NoisyMax(0.001), 10), 4)
    with pytest.raises(HedgerowError) as error:
        draw_batch(clear(), [wide], Z16)
    assert error.value.code is Code.BAD_MECHANISM_INPUT
