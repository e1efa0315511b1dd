"""Local arithmetic of a server's two shares, against NumPy."""

import numpy as np
import pytest

from hedgerow.secure.replicated import kernels
from tests.secure.test_kernels import DTYPES, words


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_shares(dtype: str) -> None:
    x0, x1, y0, y1, a, b = words(1, 6, 1000, dtype=dtype)
    out = np.empty_like(x0)
    kernels.multiply(dtype)(x0, x1, y0, y1, a, b, out)
    assert np.array_equal(out, x0 * y0 + x0 * y1 + x1 * y0 + a - b)
    kernels.conjoin(dtype)(x0, x1, y0, y1, a, b, out)
    assert np.array_equal(out, (x0 & y0) ^ (x0 & y1) ^ (x1 & y0) ^ a ^ b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plus", [0, 1])
def test_flips(dtype: str, plus: int) -> None:
    c, d = words(1, 1000, dtype=dtype), (words(2, 1000) % 2).astype(np.uint8)
    out = np.empty_like(c)
    kernels.flip(dtype)(c, d, plus, out)
    bit = d.astype(dtype)
    assert np.array_equal(out, c * (1 - 2 * bit) + plus * bit)
