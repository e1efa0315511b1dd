import numpy as np
import pytest

from hedgerow.privacy import Ledger
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient, exact_values, lift_sums
from hedgerow.secure.ring import Z32, Z64
from tests.secure.engines import ENGINES, reveal, share

MEAN = Quotient(capacity=1000, unit_bits=10, weight_bits=0, heaviest=1, reach=0, fraction=24)
NEWTON = Quotient(capacity=1000, unit_bits=10, weight_bits=10, heaviest=257, reach=3, fraction=20)
SOME = ["clear", "three servers"]


def seen(x, fraction: int) -> np.ndarray:
    return Z64.signed(reveal(x)) / 2.0**fraction


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("quotient", [MEAN, NEWTON])
def test_quotients_are_clipped_and_light_weights_count_as_the_least(
    name: str, quotient: Quotient
) -> None:
    rng = np.random.default_rng(0)
    engine = ENGINES[name]()
    weight = rng.integers(-50, 900 * quotient.heaviest, 400)
    top = rng.integers(-1000 << 10, 1000 << 10, 400)
    weight[:4], top[:4] = (0, 0, 1, -3), (0, 5, 0, 7)
    for least in (1, 40):
        found = quotient(
            share(engine, top, Z64), share(engine, weight, Z64), least=least, reach=(10, 50)
        )
        scale = 2.0 ** (quotient.weight_bits - quotient.unit_bits)
        exact = np.clip(
            top * scale / np.maximum(weight, least), -(2.0**quotient.reach), 2.0**quotient.reach
        )
        error = 2.0 ** (quotient.reach - 25) + 2.0 ** (1 - quotient.fraction)
        assert np.abs(seen(found, quotient.fraction) - exact).max() <= error


@pytest.mark.parametrize("name", SOME)
def test_signed_sums_are_lifted(name: str) -> None:
    values = np.array([-1000 << 10, -1, 0, 1, 1000 << 10])
    wide = lift_sums(share(ENGINES[name](), values, Z32), 1000 << 10)
    assert np.array_equal(Z64.signed(reveal(wide)), values)


@pytest.mark.parametrize("name", SOME)
def test_empty_leaves_take_the_value_above(name: str) -> None:
    engine = ENGINES[name]()
    counts = np.array([[4, 0, 0, 0, 2, 1, 3, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
    sums = np.array([[2048, 0, 0, 0, -1024, 512, 3072, 0], [0] * 8])
    c, s = share(engine, counts, Z64), share(engine, sums, Z64)
    found = seen(exact_values(c, s, c, MEAN, 3), 24)
    expected = [[0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 1.0, 1.0], [0] * 8]
    assert np.abs(found - expected).max() < 2.0**-22


def test_noise_is_charged_in_every_leaf_and_bounded_by_the_clip() -> None:
    engine, ledger = ENGINES["clear"](), Ledger()
    noisy = NoisyQuotient(MEAN, 0.3, 0.2, ledger)
    sums, counts = (share(engine, np.full(2000, v), Z64) for v in (512 * 400, 400))
    found = seen(noisy(sums, counts), 24)
    assert np.abs(found).max() <= 1 + 2.0**-20
    assert np.mean(found) == pytest.approx(0.5, abs=0.01)
    # Noise of the sum, 1/0.3 in units of U, and of the count, 1/0.2, over 400 records.
    spread = np.sqrt(2 / 0.3**2 + 0.5**2 * 2 / 0.2**2) / 400
    assert np.std(found) == pytest.approx(spread, rel=0.2)
    assert [release.epsilon for release in ledger.releases] == [0.3, 0.2]
    assert [release.sensitivity for release in ledger.releases] == [1024, 1]
    assert ledger.releases[0].scope != ledger.releases[1].scope
