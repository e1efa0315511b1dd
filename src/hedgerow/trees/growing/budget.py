"""How a private tree spends its epsilon: depth, criterion and shares from public numbers only.

The rules were chosen by measurement on public data: ``python -m bench rules`` repeats it and
``docs/explanation/private-tree.md`` shows what came out. None of them looks at a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon

# Of the whole epsilon; of 0.5, 0.7 and 0.9 it was the best in 11 of 18 measured settings.
SPLIT_SHARE = 0.7
# A level is worth its budget while an average node holds this many times the noise of its choice.
NODE_TO_NOISE = 3.0
# Records times epsilon per class from which the finer score (gini) beats the quieter one (max).
GINI_FROM = 1000.0
DEEPEST = 12


@dataclass(frozen=True)
class Spending:
    """Epsilon of one private tree, cut into releases.

    A record meets one node per level, each with a choice at `split`, and is in one leaf.
    """

    depth: int
    split: float
    leaf: float


def criterion_for(epsilon: float, capacity: int, n_classes: int) -> Literal["max", "gini"]:
    """Choose the score by a public rule: `gini` once its larger sensitivity makes little noise."""
    return "gini" if capacity * epsilon / n_classes >= GINI_FROM else "max"


def depth_for(
    epsilon: float, capacity: int, n_candidates: int, sensitivity: float, arity: float = 2.0
) -> int:
    """Choose the depth by a public rule.

    The noise of noisy max over c candidates grows as sensitivity / epsilon_split * ln c, and
    epsilon_split shrinks with the depth, while an average node of the last level of splits holds
    capacity / arity^(depth-1) records. The deepest tree whose last choice still has `NODE_TO_NOISE`
    times more records than noise is taken, at least depth 1. `arity`: children of one node, the
    mean for w-ary splits.
    """
    depth = 1
    while depth < DEEPEST:
        split = SPLIT_SHARE * epsilon / (depth + 1)
        noise = sensitivity / split * math.log(max(n_candidates, 2))
        if capacity / arity**depth < NODE_TO_NOISE * noise:
            break
        depth += 1
    return depth


def divide(epsilon: float, depth: int, split_share: float = SPLIT_SHARE) -> Spending:
    """Cut epsilon into `depth` equal split budgets and the rest for the leaves.

    The parts are rounded down, so that their exact sum never exceeds epsilon. Raises H201 if
    epsilon is not positive and finite, or so small that a part of it would be 0.
    """
    check_whole_epsilon(epsilon)
    split = epsilon * split_share / depth
    rest = Fraction(epsilon) - depth * Fraction(split)
    leaf = float(rest)
    if Fraction(leaf) > rest:
        leaf = math.nextafter(leaf, 0.0)
    if not (split > 0 and leaf > 0):
        raise Code.BAD_EPSILON.error(
            found=f"epsilon={epsilon!r}, too small to be divided into {depth + 1} parts"
        )
    return Spending(depth, split, leaf)
