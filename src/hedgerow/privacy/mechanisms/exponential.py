"""The exponential mechanism (McSherry and Talwar, FOCS 2007).

Paper: mcsherry2007mechanism.

Law: P[i] proportional to exp(a q_i), a = epsilon / (2 sensitivity), or epsilon / sensitivity if the
scores are monotone. Drawn by rejection: propose a candidate uniformly, keep it with probability
exp(-a (q* - q_i)), q* the largest score, else propose again. Since the best candidate is always
kept, c proposals are enough on average.

Privacy: exp(a q_i) changes by at most exp(a sensitivity) and so does the sum that divides it; if
all scores move in the same direction the two changes cannot add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.choice import ByRejection
from hedgerow.privacy.release import register_mechanism


@dataclass(frozen=True)
class ExponentialMechanism(ByRejection):
    """Choose a candidate with probability proportional to the exponential of its score."""

    name: ClassVar[str] = "exponential mechanism"
    replace: ClassVar[bool] = True

    def _law(self, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
        weights = np.exp(-float(self.a) * gaps.astype(np.float64))
        return np.asarray(weights / weights.sum(), dtype=np.float64)


def bounded_range_rho(epsilon: float) -> float:
    """Return epsilon^2 / 8: zCDP of a mechanism whose privacy loss spans at most epsilon.

    The exponential mechanism is such a one, with monotone scores too; noisy max with geometric
    noise and permute-and-flip are not. Paper: cesar2021bounding.
    """
    return epsilon * epsilon / 8


register_mechanism(
    ExponentialMechanism.name,
    argument="weights and their sum each move by a factor within epsilon: bounded range",
    rho=bounded_range_rho,
    tau_delta=True,
)
