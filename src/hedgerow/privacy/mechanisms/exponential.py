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

from hedgerow.privacy.mechanisms import opendp_backend
from hedgerow.privacy.mechanisms.choice import Choice
from hedgerow.privacy.mechanisms.coin_streams import draw_by_rejection
from hedgerow.privacy.mechanisms.mechanism import check_count
from hedgerow.privacy.source import NoiseSource


@dataclass(frozen=True)
class ExponentialMechanism(Choice):
    """Choose a candidate with probability proportional to the exponential of its score.

    Parameters and calls as in `Choice`.
    """

    name: ClassVar[str] = "exponential mechanism"

    def delta(self, m: int) -> float:
        """0: the coins are exact and nothing is truncated."""
        check_count(m)
        return 0.0

    def _draw(
        self, scores: NDArray[np.int64], valid: NDArray[np.bool_], source: NoiseSource
    ) -> NDArray[np.int64]:
        return draw_by_rejection(scores, valid, self.a, source, replace=True)

    def _draw_one_opendp(self, scores: list[int]) -> int:
        return opendp_backend.choose(scores, self.a, replace=True)

    def _law(self, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
        weights = np.exp(-float(self.a) * gaps.astype(np.float64))
        return np.asarray(weights / weights.sum(), dtype=np.float64)
