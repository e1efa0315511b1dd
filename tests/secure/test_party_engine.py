"""Conversions at the edges, on all engines of several parties: every 16-bit number and shift."""

import numpy as np
import pytest

from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import peers, reveal, share, share_bits, three_servers


@pytest.fixture(scope="module", params=["three servers", 2, 3, 4, 10])
def engine(request: pytest.FixtureRequest) -> Engine:
    return three_servers() if request.param == "three servers" else peers(request.param)


@pytest.mark.parametrize("to", [Z32, Z64], ids=lambda ring: str(ring.bits))
def test_every_number_below_half_is_extended_exactly(engine: Engine, to: Ring) -> None:
    a = np.arange(2**15)
    assert np.array_equal(reveal(engine.extend(share(engine, a, Z16), to)), a)


def test_the_largest_number_of_32_bits_is_extended(engine: Engine) -> None:
    a = np.tile(np.array([0, 1, 2**31 - 1]), 100)
    assert np.array_equal(reveal(engine.extend(share(engine, a, Z32), Z64)), a)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
def test_truncation_never_fails_at_any_shift(engine: Engine, ring: Ring) -> None:
    quarter = 2 ** (ring.bits - 2)
    edges = np.array([-quarter, -quarter + 1, -1, 0, 1, quarter - 2, quarter - 1])
    drawn = np.random.default_rng(0).integers(-quarter, quarter, 200)
    a = np.concatenate([np.tile(edges, 30), drawn])
    x = share(engine, a, ring)
    errors = np.concatenate(
        [
            ring.signed(reveal(engine.truncate(x, shift))) - (a >> shift)
            for shift in range(ring.bits - 1)
        ]
    )
    assert set(np.unique(errors)) == {-1, 0}


def test_bits_in_the_padding_do_no_harm(engine: Engine) -> None:
    bits = np.array([[True, False, True]])
    x = ~share_bits(engine, ~bits)
    assert np.array_equal(reveal(engine.b2a(x, Z16)), bits)
