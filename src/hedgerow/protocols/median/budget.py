"""How a forest of private medians spends its epsilon: depth and shares from public numbers only.

Paper: consul2021diprime, section 4: of one tree's epsilon the share rho (`split_share` here) goes
to the splits, level by level, and the rest to the leaves. The rules that the paper leaves open
were chosen by measurement; ``docs/explanation/median-forest.md`` shows what came out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.growers.units import rounded_down

DepthBudget = Literal["uniform", "rising", "falling"]

RATIOS: dict[str, float] = {"uniform": 1.0, "rising": math.sqrt(2), "falling": math.sqrt(0.5)}
"""Budget of a level over that of the level above. Nodes halve from level to level."""

LEAST_RECORDS = 25.0
"""Records that a leaf holds on average, in the paper's rule of depth."""
RECORDS_TO_NOISE = 6.0
"""Records of an average leaf over the scale of its noise, 1 / epsilon of the leaves."""
DEEPEST = 12
MOST_CANDIDATES = 16
CANDIDATE_RECORDS = 144.0
"""K candidates are worth their budget from K^2 times so many records times epsilon on."""
SUM_SHARE = 2 / 3
"""Of a regression leaf's epsilon for the sum: the count divides a number that is below 1."""


@dataclass(frozen=True)
class MedianSpending:
    """Epsilon of one tree, cut into releases.

    Parameters
    ----------
    medians : tuple of float
        Per level: epsilon of each private median. A node draws `times` of them.
    choices : tuple of float
        Per level: epsilon of the choice among them; empty where there is none.
    times : int
        Medians of a node.
    counts : float
        Of a leaf's count or class counts.
    sums : float
        Of a leaf's sum; 0 for classification.
    """

    medians: tuple[float, ...]
    choices: tuple[float, ...]
    times: int
    counts: float
    sums: float


def tree_epsilon(epsilon: float, n_trees: int, partition: bool) -> float:
    """Return the epsilon of one tree: all of it where a record is in one tree alone."""
    check_whole_epsilon(epsilon)
    return epsilon if partition else rounded_down(Fraction(epsilon) / n_trees)


def divide_tree(
    epsilon: float,
    depth: int,
    *,
    split_share: float,
    times: int,
    chooses: bool,
    regression: bool,
    depth_budget: DepthBudget = "uniform",
    strict: bool = True,
) -> MedianSpending:
    """Cut one tree's epsilon into releases whose exact sum is no larger.

    Parameters
    ----------
    epsilon : float
        Of one tree.
    depth : int
        Levels of splits.
    split_share : float
        rho; 0 where splits cost nothing.
    times : int
        Medians that one node draws.
    chooses : bool
        Whether one of them is then chosen; half of a level's budget is for that.
    regression : bool
        Whether a leaf releases a sum beside its count.
    depth_budget : {"uniform", "rising", "falling"}
    strict : bool
        False: every median gets what all of them should share, as the paper has it. Their sum
        is then larger than epsilon.

    Raises
    ------
    HedgerowError
        H201 for an epsilon too small to be cut into so many parts.
    """
    ratio = RATIOS[depth_budget]
    weights = [ratio**level for level in range(depth)]
    levels = [epsilon * split_share * weight / sum(weights) for weight in weights]
    if split_share == 0:
        medians: tuple[float, ...] = ()
        choices: tuple[float, ...] = ()
    else:
        together = [level / 2 if chooses else level for level in levels]
        medians = tuple(part / times if strict else part for part in together)
        choices = tuple(together) if chooses else ()
    drawn = times if strict else 1
    # The ledger multiplies floats, which may round up.
    spent = sum((max(Fraction(p) * drawn, Fraction(p * drawn)) for p in medians), Fraction(0))
    spent += sum((Fraction(part) for part in choices), Fraction(0))
    leaf = rounded_down(Fraction(epsilon) - spent)
    sums = leaf * SUM_SHARE if regression and strict else 0.0
    counts = rounded_down(Fraction(leaf) - Fraction(sums))
    if min([*medians, *choices, counts]) <= 0:
        raise Code.BAD_EPSILON.error(
            found=f"epsilon={epsilon!r} of a tree, too small to be cut into its parts"
        )
    return MedianSpending(medians, choices, times, counts, sums)


def candidates_for(capacity: int, epsilon: float, n_attributes: int) -> int:
    """Choose K by a public rule: the more noise, the fewer medians share a node's budget.

    Parameters
    ----------
    capacity : int
        Public upper bound on the number of records.
    epsilon : float
        Of the forest.
    n_attributes : int
    """
    worth = math.isqrt(int(capacity * epsilon / CANDIDATE_RECORDS))
    return min(n_attributes, MOST_CANDIDATES, max(1, worth))


def depth_for(records: float, epsilon: float, split_share: float) -> int:
    """Choose the depth by a public rule.

    The paper takes the deepest tree whose leaves hold 25 records on average. Where noise is
    larger than that, leaves have to be, too: they hold at least `RECORDS_TO_NOISE` times the
    scale of a leaf's noise.

    Parameters
    ----------
    records : float
        That one tree may hold, a public bound.
    epsilon : float
        Of one tree.
    split_share : float
        Share of it for the splits.
    """
    leaf = max(LEAST_RECORDS, RECORDS_TO_NOISE / ((1 - split_share) * epsilon))
    return int(min(DEEPEST, max(1, math.floor(math.log2(max(records / leaf, 2.0))))))
