"""Exact optimal composition of pure-epsilon releases, as a privacy loss distribution.

Paper: kairouz2015composition, theorem 3.3. Every epsilon-DP mechanism is a post-processing of
randomised response with that epsilon, so an adaptive sequence of mechanisms with fixed epsilons is
never worse than the same sequence of independent randomised responses, and that bound is reached.
The loss of one response is +epsilon with probability e^epsilon / (1 + e^epsilon), else -epsilon.

Sums of losses live on a grid: epsilons are rounded *up* to multiples of one step, which keeps the
bound. All terms are positive and are added one by one, without a Fourier transform, so
probabilities keep their relative accuracy down to the smallest delta; the rounding of the
logarithms of binomials and the tails left out are far below `_MARGIN`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_MARGIN = 1e-6  # relative safety on delta
_NUDGE = 1 + 1e-12  # makes a step that is meant to divide an epsilon do so after rounding
_FINE = 2**16  # grid cells up to the largest loss, where no coarser step divides all epsilons
_MAX_CELLS = 2**22
_NEXT_TO_NOTHING = 1e-300  # a grid for less would have a step of 0
_MAX_WORK = 2e8  # additions; beyond it the other accountants are the better tool


def optimal_epsilon(counts: Mapping[float, int], delta: float) -> float:
    """Return an epsilon that holds at `delta`, in (0, 1), for a sequence of pure releases.

    `counts` has how many releases there are of each finite epsilon. At most the sum of the epsilons
    and never below the truth; infinity where the sequence is too long for an exact computation.
    """
    sequence = {epsilon: count for epsilon, count in counts.items() if epsilon > 0 and count > 0}
    if not sequence:
        return 0.0
    total = math.fsum(epsilon * count for epsilon, count in sequence.items())
    if total < _NEXT_TO_NOTHING:
        return total
    step, groups = _grid(sequence, total)
    cells = 2 * sum(n * count for n, count in groups) + 1
    # The largest group comes in closed form, the others are convolved into it.
    groups.sort(key=lambda group: group[1], reverse=True)
    if cells > _MAX_CELLS or cells * sum(count + 1 for _, count in groups[1:]) > _MAX_WORK:
        return math.inf
    law = np.ones(1)
    for n, count in groups:
        law = _add_group(law, n, count, *_positives(n * step, count, delta))
    # Most cells of a long sequence have nothing.
    reached = np.flatnonzero(law)
    losses = (reached - len(law) // 2) * np.float64(step)
    return min(total, _invert(losses, law[reached], delta / (1 + _MARGIN)))


def _grid(sequence: Mapping[float, int], total: float) -> tuple[float, list[tuple[int, int]]]:
    """Choose a step; return it with (epsilon in steps, rounded up; count) for every epsilon."""
    smallest = min(sequence)
    for divisor in range(1, 65):
        step = smallest / divisor * _NUDGE
        # Not as a quotient, which overflows where the smallest epsilon is next to nothing.
        if len(sequence) > 1 and total > 4 * _FINE * step:
            break
        groups = _round_up(sequence, step)
        if math.fsum(n * step * count for n, count in groups) <= total * (1 + 1e-9):
            return step, groups
    step = total / _FINE
    return step, _round_up(sequence, step)


def _round_up(sequence: Mapping[float, int], step: float) -> list[tuple[int, int]]:
    return [(math.ceil(epsilon / step), count) for epsilon, count in sequence.items()]


def _positives(
    epsilon: float, count: int, delta: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the law of the number of positive losses among `count`, without far tails."""
    # Loaded here: SciPy takes longer than all else that a verb of the command line needs.
    from scipy.special import gammaln

    # By Hoeffding, none that is kept is further from the mean than this.
    mean, far = count / (1 + math.exp(-epsilon)), math.sqrt(count / 2 * (60 - math.log(delta))) + 1
    k = np.arange(max(0, math.floor(mean - far)), min(count, math.ceil(mean + far)) + 1)
    log_p = (
        gammaln(count + 1)
        - gammaln(k + 1)
        - gammaln(count - k + 1)
        - k * np.logaddexp(0, -epsilon)
        - (count - k) * np.logaddexp(0, epsilon)
    )
    # What is left out weighs less than (count + 1) e^-60 delta.
    kept = log_p > math.log(delta) - 60
    return k[kept], np.exp(log_p[kept])


def _add_group(
    law: NDArray[np.float64],
    n: int,
    count: int,
    positives: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Add the losses of a group, (2 k - count) n steps with the weight of k, to a centred law."""
    result = np.zeros(len(law) + 2 * count * n)
    if len(law) == 1:
        result[2 * n * positives] = weights * law
        return result
    for k, weight in zip(positives.tolist(), weights.tolist(), strict=True):
        start = 2 * k * n
        result[start : start + len(law)] += weight * law
    return result


def _invert(losses: NDArray[np.float64], law: NDArray[np.float64], delta: float) -> float:
    """Return an epsilon whose hockey-stick divergence is at most delta, by bisection."""

    def divergence(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        return float(np.dot(-np.expm1(epsilon - losses[first:]), law[first:]))

    low, high = 0.0, float(losses[-1])
    if divergence(low) <= delta:
        return low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= delta else (middle, high)
    return high
