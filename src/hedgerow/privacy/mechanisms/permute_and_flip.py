"""Permute-and-flip (McKenna and Sheldon, NeurIPS 2020).

Paper: mckenna2020permute, algorithm 1.

Law: visit the candidates in uniformly random order; at each, flip a coin with probability
exp(-a (q* - q_r)), q* the largest score, and return the first candidate whose coin lands heads.
a = epsilon / (2 sensitivity), or epsilon / sensitivity if the scores are monotone.

Privacy: the law is that of report noisy max with exponential noise of rate a (Ding and
others, The permute-and-flip mechanism is identical to report-noisy-max with exponential noise,
arXiv:2105.07260), so the threshold argument of noisy max holds,
for monotone scores too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.choice import ByRejection
from hedgerow.privacy.release import register_mechanism


@dataclass(frozen=True)
class PermuteAndFlip(ByRejection):
    """Visit candidates in random order and stop at the first whose coin lands heads."""

    name: ClassVar[str] = "permute-and-flip"
    replace: ClassVar[bool] = False

    def _law(self, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Integrate over the winner's place in the order.

        Give each candidate a uniform arrival time: i wins at time x if its coin is heads and
        every other candidate has not arrived or is tails, so P_i = h_i times the integral over
        [0, 1] of the product of 1 - h_j x, j != i. That is a polynomial of degree c - 1, for which
        Gauss-Legendre quadrature with c/2 + 1 points is exact, and all its terms are positive.
        """
        heads = np.exp(-float(self.a) * gaps.astype(np.float64))
        points, weights = np.polynomial.legendre.leggauss(gaps.size // 2 + 1)
        tails = 1 - heads[:, None] * (points + 1) / 2
        out = np.empty(gaps.size)
        for i in range(gaps.size):
            others = np.prod(np.delete(tails, i, axis=0), axis=0)
            out[i] = heads[i] * (weights / 2) @ others
        return out


register_mechanism(
    PermuteAndFlip.name,
    argument="noisy max with exponential noise has the same law",
)
