import math

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    ExponentialMechanism,
    Leakage,
    Ledger,
    NoiseSource,
    Partition,
    part,
)
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.noise.paper import (
    cost_exponential,
    cost_laplace,
    exponential,
    laplace,
)
from hedgerow.secure.noise.releases import Charge
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share, three_servers

DRAWS = 1_000_000
LEAVES = Partition("leaves", By.ATTRIBUTES)


def charge(ledger: Ledger | None = None, scope=ROOT) -> Charge:
    return Charge(ledger or Ledger(), scope, "analyst", "leaf labels")


def clear(seed: int) -> ClearEngine:
    return ClearEngine(Leakage([]), NoiseSource.insecure_seeded(seed))


def laplace_draws(seed: int, n: int, b: float, fraction: int = 16) -> np.ndarray:
    e = clear(seed)
    y = laplace(e.public(np.zeros(n, int), Z64), 1 / b, 1, charge(), fraction=fraction)
    return Z64.signed(y.data) / 2.0**fraction


def test_law_of_laplace(chi_square) -> None:
    b = 2.0
    noise = laplace_draws(1, DRAWS, b)
    edges = stats.laplace.ppf(np.linspace(0, 1, 41), scale=b)
    counts = np.histogram(noise, edges)[0]
    assert counts.sum() == DRAWS
    assert chi_square(counts, np.full(40, 1 / 40)) > 1e-4


def test_laplace_noise_is_bounded_so_no_epsilon_holds() -> None:
    fraction = 8
    noise = laplace_draws(2, 200_000, 1.0, fraction)
    reach = (fraction + 1) * math.log(2)
    assert reach - 1 < np.abs(noise).max() <= reach + 2.0**-fraction * 4
    # Few distinct values: a sum of other values is told apart with certainty.
    assert np.unique(noise).size < 2**12


def test_laplace_is_added_to_the_value(engine: Engine) -> None:
    values = np.array([[1000, -1000, 5]])
    got = laplace(share(engine, values, Z64), 50.0, 1, charge())
    assert np.abs(Z64.signed(reveal(got)) / 2**16 - values).max() < 12 / 50 + 0.01


def weights(scores: np.ndarray, epsilon: float, sensitivity: int) -> np.ndarray:
    exponent = (scores - scores.max()) * epsilon / (2 * sensitivity)
    r = np.where(exponent < -5, 0, np.exp(exponent))
    return r / r.sum()


def choices(e: Engine, scores: list[int], n: int) -> np.ndarray:
    """How often each candidate was chosen, in n choices at epsilon 0.8."""
    table = e.public(np.broadcast_to(scores, (n // 100, len(scores))), Z64)
    parts = [reveal(exponential(table, 0.8, 1, charge(), bound=50)) for _ in range(100)]
    return np.sum(parts, axis=(0, 1))


@pytest.mark.parametrize("scores", [[3, 5, 5, 0, 4], [0, 40, 38, 41, 7]])
def test_law_of_exponential(scores: list[int], chi_square) -> None:
    counts = choices(clear(3), scores, DRAWS)
    assert counts.sum() == DRAWS
    law = weights(np.array(scores), 0.8, 1)
    assert chi_square(counts, law) > 1e-4
    ideal = ExponentialMechanism(0.8).law(scores)
    assert np.abs(law - ideal).sum() < 2 * len(scores) * math.exp(-5)


def test_laws_on_three_servers(chi_square) -> None:
    e, scores = three_servers(), [3, 0, 5]
    law = weights(np.array(scores), 0.8, 1)
    assert chi_square(choices(e, scores, 100_000), law) > 1e-4
    zeros = e.public(np.zeros(100_000, int), Z64)
    noise = Z64.signed(reveal(laplace(zeros, 1.0, 1, charge()))) / 2**16
    counts = np.histogram(noise, stats.laplace.ppf(np.linspace(0, 1, 21)))[0]
    assert chi_square(counts, np.full(20, 1 / 20)) > 1e-4


def test_clipping_makes_a_candidate_impossible_so_no_epsilon_holds() -> None:
    e = clear(4)
    epsilon, n = 1.0, 200_000
    table = e.public(np.repeat([[10, 0], [11, 0]], n, axis=0), Z64)
    hot = exponential(table, epsilon, 1, charge(), bound=11).data
    assert hot[:n, 1].sum() > n * math.exp(-5) / 2
    assert hot[n:, 1].sum() == 0


@pytest.mark.parametrize("shape", [(3, 4), (1,), (2, 2, 5)])
def test_exponential_is_one_hot(engine: Engine, shape: tuple[int, ...]) -> None:
    scores = np.random.default_rng(0).integers(-20, 20, shape)
    hot = reveal(exponential(share(engine, scores, Z64), 1.0, 1, charge(), bound=20))
    assert hot.shape == shape
    assert (hot.sum(axis=-1) == 1).all()
    certain = reveal(exponential(share(engine, scores, Z64), 1000.0, 1, charge(), bound=20))
    assert (np.sum(scores * certain.astype(int), axis=-1) == scores.max(axis=-1)).all()


def test_ledger_records_infinity_and_the_claim() -> None:
    ledger, e = Ledger(), clear(5)
    laplace(e.public([1, 2], Z64), 0.5, 1, charge(ledger))
    exponential(e.public(np.zeros((3, 2), int), Z64), 0.25, 1, charge(ledger, ROOT), bound=1)
    first, second = ledger.releases
    assert (first.mechanism, first.epsilon, first.claimed) == ("fixed-point Laplace", math.inf, 0.5)
    assert (second.mechanism, second.epsilon) == ("fixed-point exponential", math.inf)
    assert (second.claimed, second.times) == (0.25, 3)
    assert ledger.total("analyst").epsilon == math.inf
    assert ledger.claimed_total("analyst") == pytest.approx(0.5 + 3 * 0.25)
    inside = charge(Ledger(), ROOT / part(LEAVES, EACH))
    exponential(e.public(np.zeros((3, 2), int), Z64), 0.25, 1, inside, bound=1)
    assert inside.ledger.claimed_total("analyst") == 0.25


@pytest.mark.parametrize("shape", [(5,), (2, 40)])
def test_costs_are_as_declared(engine: Engine, shape: tuple[int, ...]) -> None:
    x = share(engine, np.ones(shape, dtype=int), Z64)
    assert metered(engine, lambda: laplace(x, 1.0, 1, charge())) == cost_laplace(engine, shape)
    spent = metered(engine, lambda: exponential(x, 1.0, 1, charge(), bound=9))
    assert spent == cost_exponential(engine, shape, epsilon=1.0, sensitivity=1, bound=9)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: laplace(x, 1.0, 1, charge(), fraction=21),
        lambda x: laplace(x, 1e-9, 10**6, charge()),
        lambda x: exponential(x, 1.0, 1, charge(), bound=2**40),
        lambda x: exponential(x, 1.0, 1, charge(), bound=0),
    ],
)
def test_parameters_outside_their_range_are_refused(call) -> None:
    with pytest.raises(HedgerowError) as caught:
        call(clear(6).public([1, 2], Z64))
    assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        laplace(clear(6).public([1], Z32), 1.0, 1, charge())
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT
