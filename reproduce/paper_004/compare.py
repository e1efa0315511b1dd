"""How far one curve of paper 004's figures lies above another, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SURE = 0.95
"""Confidence with which a difference is called sure."""

Curves = dict[tuple[str, str, str], list[dict[str, Any]]]


class Apart(NamedTuple):
    """How far one curve lies above another: over all x, and at each.

    `mean`, `se`: of the mean over x, with the runs paired. `at`: list of (x, mean, se). `ahead`:
    points at which the first mean is larger.
    """

    mean: float
    se: float
    n: int
    at: list[tuple[float, float, float]]
    ahead: int

    @property
    def verdict(self) -> str:
        """Whether the first is above: "above", "below" or "no sure difference"."""
        if abs(self.mean) <= bound(self.n) * self.se:
            return "no sure difference"
        return "above" if self.mean > 0 else "below"

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} ± {100 * self.se:.2f} points"


def apart(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> Apart:
    """Compare the points of two curves; runs of one number have the same records."""
    by_x = {p["x"]: p for p in second}
    pairs = [(p, by_x[p["x"]]) for p in first if p["x"] in by_x]
    each = np.array([np.subtract(a["runs"], b["runs"]) for a, b in pairs])
    at = [
        (a["x"], float(difference.mean()), _se(difference))
        for (a, _), difference in zip(pairs, each, strict=True)
    ]
    ahead = sum(mean > 0 for _, mean, _ in at)
    return Apart(float(each.mean()), _se(each.mean(axis=0)), each.shape[1], at, ahead)


def bound(n: int, confidence: float = SURE) -> float:
    """Return how many standard errors of n runs chance alone may bring (Student's law)."""
    return float(stats.t.ppf(0.5 + confidence / 2, max(n - 1, 1)))


def _se(values: NDArray[Any]) -> float:
    return float(values.std(ddof=1) / values.size**0.5) if values.size > 1 else 0.0


def curves_of(figure: dict[str, Any]) -> Curves:
    """Return the points of figure 2 by data set, way to run and method."""
    return {
        (panel["data"], panel["how"], one["method"]): one["points"]
        for panel in figure["panels"]
        for one in panel["curves"]
    }
