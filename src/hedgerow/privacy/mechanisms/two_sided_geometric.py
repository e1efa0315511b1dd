"""The two-sided geometric mechanism (discrete Laplace) for counts and integer sums.

Papers: ghosh2012universally, dwork2006calibrating.

Law: value + G1 - G2 with G1, G2 geometric, p = exp(-epsilon / sensitivity), that is
P[noise = k] = (1 - p)/(1 + p) p^|k|.

Privacy: if one record moves the values by at most `sensitivity` in total (L1), the probability of
any output changes by at most p^-sensitivity = exp(epsilon).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.privacy.mechanisms.coin_kernels import two_sided
from hedgerow.privacy.mechanisms.coin_streams import BLOCK, feed_block, in_lanes
from hedgerow.privacy.mechanisms.coins import DESIGN_VARIABLES, Geometric, shortest, upper
from hedgerow.privacy.mechanisms.mechanism import (
    check_count,
    check_epsilon,
    check_integers,
    check_sensitivity,
)
from hedgerow.privacy.release import register_mechanism
from hedgerow.privacy.source import NoiseSource


@dataclass(frozen=True)
class TwoSidedGeometric:
    """Add two-sided geometric noise to integers that one record moves by `sensitivity` in L1."""

    epsilon: float
    sensitivity: int = 1
    name: ClassVar[str] = "two-sided geometric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", check_sensitivity(self.sensitivity))
        _ = self.variable  # refuses noise that does not fit into 64 bits

    @cached_property
    def variable(self) -> Geometric:
        """The geometric variable that is drawn twice per value."""
        log_weight = math.log(2 * DESIGN_VARIABLES) + _log_one_plus_exp(self.epsilon)
        return shortest(Fraction(self.epsilon) / self.sensitivity, log_weight)

    @property
    def variance(self) -> float:
        """Variance of the noise: 2 p / (1 - p)^2 with p = exp(-a)."""
        half = float(self.variable.a) / 2
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0

    def delta(self, m: int, t: int | None = None) -> float:
        """Price of finite precision for one release of m values.

        delta = (1 + e^epsilon) tau with tau as in `Geometric.log_tau`: two variables per value.
        (With every event S: P'[S] <= P[S] + tau <= e^epsilon Q[S] + tau <= e^epsilon (Q'[S] + tau)
        + tau, where P', Q' are the laws as drawn on neighbouring inputs and P, Q the ideal ones.)

        Rounded up; below 2**-60 for m <= 2**20 with exact coins; rounded ones have `t` bits.
        """
        check_count(m)
        return upper(_log_one_plus_exp(self.epsilon) + self.variable.log_tau(2 * m, t))

    def __call__(self, values: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """Add noise to each value, clamped to magnitude 2**61 so that the sum fits into 64 bits."""
        array = check_integers(values, "values")
        flat = np.ascontiguousarray(array).reshape(-1)
        table = self.variable.coins
        out = np.empty(flat.size, dtype=np.int64)

        def work(start: int, stop: int, stream: NoiseSource) -> None:
            for at in range(start, stop, BLOCK):
                part = slice(at, min(at + BLOCK, stop))
                kernel = partial(two_sided, flat[part], out[part])
                feed_block(stream, table, 2 * (part.stop - part.start), kernel)

        in_lanes(flat.size, 2 * table.count, source, work)
        return out.reshape(array.shape)

    def law(self, values: ArrayLike) -> NDArray[np.float64]:
        """Probability that the noise equals each of the given integers, same shape."""
        k = np.abs(np.asarray(values, dtype=np.float64))
        a = float(self.variable.a)
        return np.asarray(math.tanh(a / 2) * np.exp(-a * k), dtype=np.float64)


register_mechanism(
    TwoSidedGeometric.name,
    argument="a shift by the sensitivity changes no probability by more than e^epsilon",
)


def _log_one_plus_exp(epsilon: float) -> float:
    return float(np.logaddexp(0.0, epsilon))
