import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.secure.ring import Z16, Z32, Z64, Ring


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
def test_numbers_wrap_around(ring: Ring) -> None:
    half = 1 << (ring.bits - 1)
    assert ring.dtype == np.dtype(f"uint{ring.bits}")
    assert ring.bytes * 8 == ring.bits
    encoded = ring.encode([-1, -half, half - 1])
    assert encoded.tolist() == [2 * half - 1, half, half - 1]
    assert ring.signed(encoded).tolist() == [-1, -half, half - 1]
    assert ring.encode(np.array([1, 0], dtype=bool)).dtype == ring.dtype


def test_wide_integers_keep_their_lowest_bits() -> None:
    assert Z16.encode(np.array([2**16 + 3, -(2**20) - 1])).tolist() == [3, 2**16 - 1]


@pytest.mark.parametrize("values", [0.5, "one", None, [1.0], 2**70])
def test_only_integers_have_a_place(values: object) -> None:
    with pytest.raises(HedgerowError, match="integers"):
        Z32.encode(values)  # type: ignore[arg-type]


def test_other_widths_are_refused() -> None:
    with pytest.raises(HedgerowError, match="H501"):
        Ring(8)
