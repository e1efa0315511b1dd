"""Public rules of DP-TopDown: default shares, how deep to grow, and which plans make sense."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from hedgerow.errors import Code
from hedgerow.options import check_option

if TYPE_CHECKING:
    from hedgerow.protocols.topdown.plan import TopDownPlan

Method = Literal["single-machine", "noisy-counts", "local-rnm", "secure-counts"]
Histograms = Literal["feature", "split"]
Accounting = Literal["strict", "paper"]

LEAF_SHARE = 0.2
"""Of 0.2, 0.35 and 0.5 (the paper's) the best on adult, bank and credit; splits need the rest."""
MIN_GAIN = 0.002
"""The paper has 0.01, with entropy."""
NODE_SHARES: dict[tuple[Method, bool], tuple[float, float, float]] = {
    ("single-machine", False): (0.1, 0.6, 0.3),
    ("secure-counts", False): (0.1, 0.6, 0.3),
    ("noisy-counts", False): (0.1, 0.9, 0.0),
    ("local-rnm", False): (0.1, 0.6, 0.3),
    # As published: half for the weight, and of the rest, with local choices, half for the counts.
    ("single-machine", True): (0.5, 0.5, 0.0),
    ("secure-counts", True): (0.5, 0.5, 0.0),
    ("noisy-counts", True): (0.5, 0.5, 0.0),
    ("local-rnm", True): (0.5, 0.25, 0.25),
}
"""Weight, choice, worth; the second key is whether accounting is the paper's."""
MOST_SPLITS = 1 << 16
DEEPEST = 24
"""Deepest split by rule."""
NODE_TO_NOISE = 3.0
"""A depth is worth its budget while a node of average size holds so many times its noise."""


def depth_for(plan: TopDownPlan, capacity: int) -> int:
    """Choose the depth by a public rule: the deepest at which records outnumber the noise.

    With equal shares a further depth costs all others, and nodes of depth d hold capacity/2^(d-1)
    records on average. Where shares halve, a further depth costs the others nothing, so that the
    limit is a node of all records.

    Parameters
    ----------
    plan : TopDownPlan
        Its `max_depth` is not used.
    capacity : int
    """
    if not plan.is_private:
        return min(plan.n_splits, DEEPEST)
    depth = 1
    while depth < min(plan.n_splits, DEEPEST):
        noise = _noise(replace(plan, max_depth=depth + 1), depth + 1)
        records = capacity if plan.budget == "decay" else capacity / 2**depth
        if records < NODE_TO_NOISE * noise:
            break
        depth += 1
    return depth


def _noise(plan: TopDownPlan, depth: int) -> float:
    """Return about how many records the noise of a choice at that depth is worth."""
    among = math.log(max(len(plan.candidates), 2))
    if plan.method == "noisy-counts":
        return plan.n_histograms / plan.at(depth).choice * math.sqrt(2 * plan.n_owners) * among
    step = plan.score.add_remove(plan.public)
    owners = plan.n_owners if plan.method == "local-rnm" else 1
    return step / plan.at(depth).choice * owners * among


def check_plan(plan: TopDownPlan) -> None:
    """Refuse numbers with which no tree can be grown."""
    for name, allowed in (
        ("method", Method),
        ("histograms", Histograms),
        ("accounting", Accounting),
        ("criterion", Literal["gini", "entropy", "max"]),
    ):
        check_option(name, getattr(plan, name), allowed)
    target = plan.domain.target
    if target is None or target.classes is None:
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    if not len(plan.candidates):
        raise Code.BAD_PARAMETER.error(
            expected="at least one attribute with two bins", found="no candidate split"
        )
    if plan.capacity is not None and (
        not isinstance(plan.capacity, int) or isinstance(plan.capacity, bool) or plan.capacity < 1
    ):
        _refuse(plan, "capacity", "None or a whole number of at least 1")
    if plan.capacity is None and plan.criterion == "entropy":
        raise Code.MISSING_CAPACITY.error(
            found="criterion='entropy' without a capacity",
            fix="declare capacity in the domain, or choose criterion='gini'",
        )
    if plan.epsilon is not None and not isinstance(plan.epsilon, float):
        raise Code.BAD_EPSILON.error(found=f"epsilon={plan.epsilon!r}")
    for name, most in (("n_splits", MOST_SPLITS), ("max_depth", MOST_SPLITS), ("n_owners", 1024)):
        value = getattr(plan, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            _refuse(plan, name, f"a whole number from 1 to {most:,}")
    if plan.lookahead is not None and (
        not isinstance(plan.lookahead, int)
        or isinstance(plan.lookahead, bool)
        or plan.lookahead < 1
    ):
        _refuse(plan, "lookahead", "None or a whole number of at least 1")
    if not 0 < plan.leaf_share < 1:
        _refuse(plan, "leaf_share", "a number strictly between 0 and 1")
    for name in ("min_gain", "error"):
        if not 0 <= getattr(plan, name) < math.inf:
            _refuse(plan, name, "a finite number of at least 0")
    if len(plan.node_shares) != 3 or not all(0 <= share <= 1 for share in plan.node_shares):
        _refuse(plan, "node_shares", "three numbers from 0 to 1")
    if plan.method == "secure-counts" and plan.criterion == "entropy":
        raise Code.BAD_PARAMETER.error(
            expected="criterion 'gini' or 'max' on secret counts", found="criterion='entropy'"
        )
    if plan.accounting == "paper" and plan.method == "secure-counts":
        raise Code.BAD_PARAMETER.error(
            expected="accounting='strict' for secret counts, which the paper does not have",
            found="accounting='paper'",
        )
    if plan.needs_curator and plan.n_owners != 1:
        raise Code.BAD_PARAMETER.error(
            expected="one owner of all records for method 'single-machine'",
            found=f"{plan.n_owners} owners",
            fix="choose 'noisy-counts', 'local-rnm' or 'secure-counts' for several owners",
        )
    if plan.is_private:
        # Noise that does not fit into 64 bits is refused here, before anybody is asked.
        plan.releases()


def _refuse(plan: TopDownPlan, name: str, expected: str) -> None:
    raise Code.BAD_PARAMETER.error(
        expected=f"{name} as {expected}", found=f"{name}={getattr(plan, name)!r}"
    )
