"""A clear engine whose truncations err as much as they may."""

import numpy as np

from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Secret


class ErringEngine(ClearEngine):
    """Truncation ends lower by 1: never, always or at random; its range is checked.

    Parameters
    ----------
    how : {"never", "always", "at random"}
    """

    def __init__(self, how: str) -> None:
        super().__init__(Leakage([]), NoiseSource.insecure_seeded(5))
        self.how = how

    def truncate(self, x: Secret, shift: int) -> Secret:
        assert (np.abs(Z64.signed(x.data)) < 2**62).all()
        exact = super().truncate(x, shift)
        random = self.source.integers(2, exact.shape)
        off = {"never": random * 0, "always": random * 0 + 1, "at random": random}[self.how]
        return exact - off


ERRORS = ["never", "always", "at random"]


def spread(bits: int, n: int) -> np.ndarray:
    """Numbers from 1 to 2**bits - 1: all of them if few, else spread over the magnitudes."""
    if bits <= 16:
        return np.arange(1, 2**bits)
    some = (2 ** np.random.default_rng(bits).uniform(0, bits, n)).astype(np.int64)
    powers = 2 ** np.arange(bits)
    edges = np.concatenate([powers, powers[1:] - 1, powers + 1, [2**bits - 1]])
    return np.clip(np.concatenate([some, edges]), 1, 2**bits - 1)
