"""Real scores on a public grid of integers, with the sensitivity that they have there.

Mechanisms have an exact law on integers only. A score q becomes floor(q / step). Dividing by a
power of two is exact in floating point and so is the floor, so that two scores at most s apart
end at most ceil(s / step) grid points apart, and scores that rise together still do.

If the score itself was computed with an error of up to h, two scores can end
B = ceil((s + 2h) / step) apart, and a score that should have risen can fall by
A = ceil(2h / step). The threshold of a winner is the difference of two scores, so with monotone
scores it moves by at most A + B (and never more than 2B, since A <= B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import LIMIT


class Movement(NamedTuple):
    """What a mechanism that chooses is to be made with: ``NoisyMax(epsilon, *movement)``."""

    sensitivity: int
    monotone: bool


@dataclass(frozen=True)
class Grid:
    """A public grid.

    Parameters
    ----------
    step : float
        A positive power of two.
    error : float
        Bound on the arithmetic error of one score, 0 if scores are exact.
    """

    step: float
    error: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step) and self.step > 0 and math.frexp(self.step)[0] == 0.5):
            raise Code.BAD_MECHANISM_INPUT.error(
                expected="a grid step that is a power of two, such as 2**-10",
                found=f"step={self.step!r}",
                fix="use the next lower power of two; Grid.finer(step) finds it",
            )
        _check_bound("error", self.error, 0.0)

    @classmethod
    def finer(cls, step: float, error: float = 0.0) -> Grid:
        """Make the grid whose step is the largest power of two that is at most `step`."""
        _check_bound("step", step, math.ulp(0.0))
        return cls(math.ldexp(0.5, math.frexp(step)[1]), error)

    def to_integers(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Put scores on the grid, rounding down.

        Parameters
        ----------
        scores : array_like of float64, any shape
            Clamped to the grid's range of 2**61 steps on either side; NaN is refused.

        Returns
        -------
        ndarray of int64, the same shape
        """
        real = np.asarray(scores, dtype=np.float64)
        if np.isnan(real).any():
            raise Code.BAD_MECHANISM_INPUT.error(
                expected="scores that are numbers",
                found=f"{int(np.isnan(real).sum())} NaN",
                fix="mark candidates that cannot be scored as not valid",
            )
        with np.errstate(over="ignore"):  # infinity is clamped
            steps = np.floor(real / self.step)
        # A tiny negative score divided by a large step underflows to -0.
        steps = np.where((real < 0) & (steps == 0), -1.0, steps)
        return np.clip(steps, -float(LIMIT), float(LIMIT)).astype(np.int64)

    def to_reals(self, points: ArrayLike) -> NDArray[np.float64]:
        """Lower ends of grid cells as float64, the same shape."""
        return np.asarray(points, dtype=np.float64) * self.step

    def sensitivity(self, s: float | Fraction) -> int:
        """How far one record moves a score on the grid: ceil((s + 2h) / step), at least 1.

        Parameters
        ----------
        s : float or Fraction
            Upper bound on how far one record moves the real score.
        """
        _check_bound("sensitivity", s, 0.0)
        return max(1, math.ceil((Fraction(s) + 2 * Fraction(self.error)) / Fraction(self.step)))

    def for_choice(self, s: float | Fraction, *, monotone: bool) -> Movement:
        """Sensitivity and monotone flag with which to choose among scores on this grid.

        Parameters
        ----------
        s : float or Fraction
            Upper bound on how far one record moves the real score.
        monotone : bool
            Whether one more record moves no two real scores in opposite directions.
        """
        up = self.sensitivity(s)
        if not monotone:
            return Movement(up, False)
        down = math.ceil(2 * Fraction(self.error) / Fraction(self.step))
        return Movement(up + down, True)


def _check_bound(what: str, value: float | Fraction, least: float) -> None:
    if not math.isfinite(value) or value < least:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"a finite {what} of at least {least}",
            found=f"{what}={value!r}",
            fix="pass an upper bound that is public",
        )
