"""How DP-TopDown divides its epsilon over depths, splits and leaves, from public numbers only.

Paper: wang2020topdown, section 3 (the function B(d)) and figure 1 (the share of the leaves).

A record is in one node of each depth and in one leaf. So the parts of all depths up to the deepest
that growth may reach, and that of the leaves, add up: this worst case is what is charged, however
early the tree stops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon

BUDGETS = ("uniform", "decay")


@dataclass(frozen=True)
class DepthBudget:
    """Epsilon of the nodes of one depth.

    Attributes
    ----------
    weight : float
        Of the number of records.
    choice : float
        Of the split.
    value : float
        Of what the split is worth, where that is a release of its own; else 0.
    """

    weight: float
    choice: float
    value: float


def shares_of_depths(budget: str | Sequence[float], max_depth: int) -> tuple[Fraction, ...]:
    """Return B(1), ..., B(max_depth), which sum to 1.

    Parameters
    ----------
    budget : {"uniform", "decay"} or sequence of float
        1/max_depth each; proportional to 2^-d; or proportional to the numbers given, one for each
        depth.
    max_depth : int

    Raises
    ------
    HedgerowError
        H501 for anything else.
    """
    if isinstance(budget, str):
        if budget not in BUDGETS:
            raise _bad(budget)
        parts = [Fraction(1, 2**d if budget == "decay" else 1) for d in range(1, max_depth + 1)]
    else:
        numbers = [float(part) for part in budget]
        if len(numbers) != max_depth or not all(math.isfinite(p) and p > 0 for p in numbers):
            raise _bad(budget, max_depth)
        parts = [Fraction(part) for part in numbers]
    total = sum(parts)
    return tuple(part / total for part in parts)


def divide(
    epsilon: float,
    depths: Sequence[Fraction],
    leaf_share: float,
    node_shares: tuple[float, float, float],
) -> tuple[tuple[DepthBudget, ...], float]:
    """Cut epsilon into the parts of every depth, and that of the leaves.

    Parts are rounded down, so that their exact sum never exceeds epsilon.

    Parameters
    ----------
    epsilon : float
    depths : sequence of Fraction
        From `shares_of_depths`.
    leaf_share : float
        Share of the leaves.
    node_shares : three floats
        Of weight, choice and value in a node; they sum to 1.

    Raises
    ------
    HedgerowError
        H201 for an epsilon that is not positive and finite, or too small to be divided.
    """
    check_whole_epsilon(epsilon)
    whole, leaves = Fraction(epsilon), Fraction(leaf_share)
    of_node = [Fraction(share) for share in node_shares]
    total = sum(of_node)
    nodes = tuple(
        DepthBudget(*(_down(whole * (1 - leaves) * depth * share / total) for share in of_node))
        for depth in depths
    )
    leaf = _down(whole * leaves)
    smallest = min(leaf, *(min(each.weight, each.choice) for each in nodes))
    if smallest <= 0:
        raise Code.BAD_EPSILON.error(
            found=f"epsilon={epsilon!r}, too small for {len(depths)} depths and the leaves"
        )
    return nodes, leaf


def _down(part: Fraction) -> float:
    found = float(part)
    return math.nextafter(found, 0.0) if Fraction(found) > part else found


def _bad(budget: object, max_depth: int | None = None) -> Exception:
    depths = "each depth" if max_depth is None else f"each of {max_depth} depths"
    return Code.BAD_PARAMETER.error(
        expected=f"budget 'uniform', 'decay' or one positive number for {depths}",
        found=f"budget={budget!r}",
    )
