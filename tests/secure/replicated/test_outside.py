"""Parts dealt and halves joined outside the network."""

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import (
    bits_of_parts,
    deal,
    join_halves,
    open_halves,
    secret_of_parts,
)
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import pack
from tests.secure.engines import NOTHING_OPENS, reveal

RINGS = pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))


def engine_that_opens(shape: tuple[int, ...]) -> ReplicatedEngine:
    opening = Opening("answer", "analyst", shape, independent="a test looks")
    return ReplicatedEngine(Simulator(3), Leakage([opening]), insecure_seed=b"outside")


def numbers(ring, *shape: int) -> np.ndarray:
    drawn = np.random.default_rng(0).integers(0, 2**63, shape, dtype=np.uint64)
    return (drawn * 3).astype(ring.dtype)


@RINGS
def test_dealt_numbers_are_a_secret(ring) -> None:
    engine = ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"outside")
    value = numbers(ring, 4, 3)
    x = secret_of_parts(engine, dict(enumerate(deal(value))), value.shape, ring)
    np.testing.assert_array_equal(reveal(x), value)
    np.testing.assert_array_equal(reveal(x * x), value * value)


def test_dealt_bits_are_secret_bits() -> None:
    engine = ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"outside")
    bits = np.random.default_rng(1).integers(0, 2, (3, 70)).astype(bool)
    x = bits_of_parts(engine, dict(enumerate(deal(pack(bits), xor=True))), bits.shape)
    np.testing.assert_array_equal(reveal(x), bits)


def test_each_server_gets_two_of_three_shares() -> None:
    zero, one, two = deal(numbers(Z32, 5))
    assert set(zero.seeds) == {0, 1}
    assert zero.correction is None
    assert set(one.seeds) == {1}
    assert set(two.seeds) == {0}
    assert one.seeds[1] == zero.seeds[1]
    assert two.seeds[0] == zero.seeds[0]
    assert one.correction is two.correction
    assert "seeds" not in repr(zero)


@RINGS
def test_halves_join_to_the_value_and_are_uniform_alone(ring) -> None:
    value = np.zeros(40_000, dtype=ring.dtype)
    engine = engine_that_opens(value.shape)
    x = secret_of_parts(engine, dict(enumerate(deal(value))), value.shape, ring)
    found = open_halves(engine, x, "answer", "analyst")
    assert sorted(found) == [0, 1]
    np.testing.assert_array_equal(join_halves(found[0], found[1]), value)
    for half in found.values():
        counts = np.bincount(half.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_halves_are_checked_against_the_declaration() -> None:
    engine = engine_that_opens((2,))
    x = secret_of_parts(engine, dict(enumerate(deal(numbers(Z32, 3)))), (3,), Z32)
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine, x, "answer", "analyst")
    assert caught.value.code is Code.WRONG_OPENING_SHAPE
    y = secret_of_parts(engine, dict(enumerate(deal(numbers(Z32, 2)))), (2,), Z32)
    open_halves(engine, y, "answer", "analyst")
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine, y, "answer", "analyst")
    assert caught.value.code is Code.TOO_MANY_OPENINGS
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine_that_opens((2,)), y, "answer", "analyst")
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT


def test_parts_that_do_not_fit() -> None:
    engine = engine_that_opens((2,))
    parts = dict(enumerate(deal(numbers(Z32, 3))))
    for changed, shape, ring in (
        ({0: parts[0], 1: parts[1]}, (3,), Z32),
        ({0: parts[0], 1: parts[0], 2: parts[2]}, (3,), Z32),
        (parts, (4,), Z32),
        (parts, (3,), Z64),
    ):
        with pytest.raises(HedgerowError) as caught:
            secret_of_parts(engine, changed, shape, ring)
        assert caught.value.code is Code.WRONG_SHAPE
    with pytest.raises(HedgerowError) as caught:
        join_halves(numbers(Z32, 3), numbers(Z32, 4))
    assert caught.value.code is Code.WRONG_SHAPE
