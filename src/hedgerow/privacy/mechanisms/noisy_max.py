"""Report noisy max with one-sided geometric noise, for splits, labels and medians.

Paper: dwork2014foundations, section 3.3 (there with Laplace noise).

Law: argmax_i (q_i + G_i), lowest index among equals, G_i geometric with p = exp(-a),
a = epsilon / (2 sensitivity), or epsilon / sensitivity if the scores are monotone.

Privacy: with all other noise fixed, candidate i wins if and only if G_i reaches a threshold, the
largest competitor minus q_i. Between neighbours that threshold moves by at most 2 sensitivity
(both terms move), by at most sensitivity if all scores move in the same direction, and
P[G >= t + s] >= p^s P[G >= t]. The index alone is released; the noisy value would cost again.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.choice import Choice
from hedgerow.privacy.mechanisms.coin_kernels import noisy_argmax
from hedgerow.privacy.mechanisms.coin_streams import BLOCK, feed_block, in_lanes
from hedgerow.privacy.mechanisms.coins import DESIGN_VARIABLES, Geometric, shortest, upper
from hedgerow.privacy.mechanisms.mechanism import check_count
from hedgerow.privacy.release import register_mechanism
from hedgerow.privacy.source import NoiseSource


@dataclass(frozen=True)
class NoisyMax(Choice):
    """Choose the candidate whose score plus geometric noise is largest."""

    name: ClassVar[str] = "noisy max"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.variable  # refuses noise that does not fit into 64 bits

    @cached_property
    def variable(self) -> Geometric:
        """The geometric variable that is drawn once per candidate."""
        return shortest(self.a, math.log(DESIGN_VARIABLES) + float(np.logaddexp(0, self.epsilon)))

    def delta(self, m: int, t: int | None = None) -> float:
        """Price of finite precision for one choice among m candidates.

        With exact coins truncation alone remains: delta = m (e^epsilon - 1) p^N / (1 - p^N) with
        N = 2^L. (P[G >= t] = (p^t - p^N) / (1 - p^N) as drawn, so P[G >= t] - e^epsilon
        P[G >= t + s], s the movement of the threshold, is at most (e^epsilon - 1) p^N / (1 - p^N),
        also where t + s passes N; sum over the candidates of an event.) With coins of t bits the
        general form holds: (1 + e^epsilon) tau with tau as in `Geometric.log_tau`.

        Rounded up; below 2**-60 for m <= 2**20 with exact coins.
        """
        check_count(m)
        if t is not None:
            return upper(float(np.logaddexp(0, self.epsilon)) + self.variable.log_tau(m, t))
        log_expm1 = self.epsilon + math.log(-math.expm1(-self.epsilon))
        tail = self.variable.log_tail
        return upper(math.log(m) + log_expm1 + tail - math.log1p(-math.exp(tail)))

    def _draw(
        self, scores: NDArray[np.int64], valid: NDArray[np.bool_], source: NoiseSource
    ) -> NDArray[np.int64]:
        n, c = scores.shape
        table = self.variable.coins
        out = np.empty(n, dtype=np.int64)
        rows = max(1, BLOCK // c)

        def work(start: int, stop: int, stream: NoiseSource) -> None:
            for at in range(start, stop, rows):
                part = slice(at, min(at + rows, stop))
                mask = valid[part] if valid.size else valid
                kernel = partial(noisy_argmax, scores[part], mask, out[part])
                feed_block(stream, table, (part.stop - part.start) * c, kernel)

        in_lanes(n, c * table.count, source, work)
        return out

    def _law(self, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum over the winning value, the largest score plus v, in closed form.

        Candidate i wins at v with probability (1 - p) p^(gap_i) y times the product over its
        competitors of 1 - u_j y, where y = p^v and u_j = p^(gap_j) for j < i (which must stay
        below) and p^(gap_j + 1) for j > i (which may draw level). Expand the product in powers of
        y; y^(k+1) summed over v is 1 / (1 - p^(k+1)). The signs alternate, so the sums run with
        enough decimal digits to lose some.
        """
        c = gaps.size
        with decimal.localcontext() as context:
            context.prec = 60 + c + math.ceil(2 * abs(math.log10(self.a)))
            context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
            a = decimal.Decimal(self.a.numerator) / self.a.denominator
            p = (-a).exp()
            lower = [(-a * int(gap)).exp() for gap in gaps]
            sums = [1 / (1 - (-a * (k + 1)).exp()) for k in range(c)]
            zero = decimal.Decimal(0)
            out = np.empty(c)
            for i in range(c):
                product = [decimal.Decimal(1)]
                for j in range(c):
                    if j != i:
                        u = lower[j] if j < i else lower[j] * p
                        kept, shifted = [*product, zero], [zero, *product]
                        product = [x - u * y for x, y in zip(kept, shifted, strict=True)]
                total = sum(x * y for x, y in zip(product, sums, strict=True))
                out[i] = float((1 - p) * lower[i] * total)
        return out


register_mechanism(
    NoisyMax.name,
    argument="the winner's threshold moves by at most what the noise covers at e^epsilon",
)
