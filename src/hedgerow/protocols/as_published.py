"""Noise as some papers publish it, for the comparison with them: it has no finite epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import NoiseSource
from hedgerow.privacy.release import register_mechanism

DATA_SCALED = register_mechanism(
    "laplace scaled by a private count",
    argument="the scale of the noise falls with a number of records, which is private: no finite "
    "epsilon",
    guarantee=False,
)


def laplace(n: int, source: NoiseSource) -> NDArray[np.float64]:
    """Draw n numbers of Laplace's law with scale 1, in floating point."""
    words: NDArray[Any] = source.words(2 * n).reshape(2, -1)
    uniform = ((words[0] >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    sign = np.where(words[1] & np.uint64(1), 1.0, -1.0)
    return np.asarray(-np.log(uniform) * sign, dtype=np.float64)
