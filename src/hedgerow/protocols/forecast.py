"""How large the noise of a plan will be beside what it hides, before anything is spent.

From capacity, bins, depth and epsilon alone. All figures are in records: a noise of 30 records
changes a count as 30 people more or less would. Where the noise is the larger one, a model is
mostly noise, and its epsilon is better kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from hedgerow.privacy import TwoSidedGeometric
from hedgerow.protocols.boosting.plan import BoostPlan
from hedgerow.protocols.contract import Plan
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.regression_plan import SCORE_SENSITIVITY, RegressionPlan
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.votes.budget import vote_scale
from hedgerow.trees.growing.criteria import Criterion, Public
from hedgerow.trees.growing.private import PrivatePlan

SPREAD = {"numbers": 1 / 3, "classes": 1 / 2}
"""Standard deviation of what is summed, of the most that a record can add. A number is taken to
have its bounds three standard deviations to both sides: how narrow a target really is, no public
number tells. A gradient of classes that nothing is known about is a half."""

SPLIT_GAIN = 2 / math.pi
"""Of the variance of a bell-shaped quantity: what its best split in two takes away."""

NARROW = "a target is taken to spread over a sixth of its bounds; a narrower one drowns sooner"

_SPLIT, _LEAF = "choice of a split, last level", "records in it"
_SIGNAL = "of signal in it"


class Expected(NamedTuple):
    """One kind of release: standard deviation of its noise, and size of what it is added to.

    Of a choice, the largest noise among its candidates. The size is that of a table as large as its
    capacity and divided evenly; `beside` says what it counts.
    """

    what: str
    noise: float
    size: float
    beside: str

    @property
    def drowns(self) -> bool:
        """Whether the noise is the larger one."""
        return self.noise > self.size

    def __str__(self) -> str:
        mark = "  <- DROWNED" if self.drowns else ""
        figures = f"noise of {_shown(self.noise)} beside {_shown(self.size)}"
        return f"{self.what}: {figures} {self.beside}{mark}"


@dataclass(frozen=True)
class NoiseForecast:
    """The noise of a plan beside what it hides; public numbers alone.

    `expected` is empty where there is no noise, or no capacity to compare it with; `note` says what
    was assumed beyond the plan, or is missing here.
    """

    expected: tuple[Expected, ...]
    note: str = ""

    @property
    def drowns(self) -> bool:
        """Whether some noise is larger than what it hides."""
        return any(one.drowns for one in self.expected)

    def __str__(self) -> str:
        lines = [f"  {one}" for one in self.expected]
        lines += [f"  ({self.note})"] if self.note else []
        return "\n".join(
            ["expected noise, in records of a table of the declared capacity:", *lines]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rows = [one._asdict() | {"drowns": one.drowns} for one in self.expected]
        return {"drowns": self.drowns, "expected": rows, "note": self.note}

    @property
    def warning(self) -> str:
        """What to say where it drowns."""
        worst = max(self.expected, key=lambda one: one.noise / max(one.size, 1e-300))
        return (
            f"the noise will drown this model: {worst.what}: noise of about {_shown(worst.noise)} "
            f"records beside {_shown(worst.size)} {worst.beside}, if the table is as large as its "
            f"capacity{f' ({self.note})' if self.note else ''}. Choose a larger epsilon, fewer "
            "releases (levels, rounds, attributes), or keep the budget; nothing was charged yet"
        )


def forecast(plan: Any) -> NoiseForecast:
    """Return how large the noise of a plan will be; nothing for a plan without noise.

    Nothing, either, for one without a domain: who knows its own columns alone cannot tell.
    """
    if not hasattr(plan, "domain"):
        return NoiseForecast((), "")
    for kind, expected in _FORECASTS.items():
        if isinstance(plan, kind):
            found = tuple(expected(plan))
            target = plan.domain.target
            numeric = target is not None and target.bounds is not None
            return NoiseForecast(found, NARROW if found and numeric else "")
    return of_counts(plan)


def of_counts(plan: Plan) -> NoiseForecast:
    """Forecast noisy counts of a plan that has no rule of its own; the note names what else it has.

    Each release is taken to divide all records evenly between its counts.
    """
    records = getattr(plan, "capacity", plan.domain.capacity)
    found, others = [], []
    for release in plan.releases():
        if release.mechanism != TwoSidedGeometric.name or not release.variables or records is None:
            others += [release.reason] if math.isfinite(release.epsilon) else []
            continue
        noise = TwoSidedGeometric(release.epsilon, int(release.sensitivity))
        size = records / (release.variables / 2)
        found.append(Expected(release.reason, math.sqrt(noise.variance), size, _LEAF))
    note = f"no forecast of {', '.join(dict.fromkeys(others))}" if others else ""
    return NoiseForecast(tuple(found), note)


def of_private_tree(plan: PrivatePlan) -> list[Expected]:
    """Forecast the splits of the last level, by noisy max, and the class counts of the leaves."""
    records = plan.domain.capacity
    if records is None:
        return []
    arity = math.exp(sum(map(math.log, plan.candidates.n_children)) / len(plan.candidates))
    depth = plan.spending.depth
    return [
        _choice(
            plan.score,
            plan.public,
            plan.choose.epsilon,
            len(plan.candidates),
            records,
            arity ** (depth - 1),
        ),
        _counts(plan.spending.leaf, records / arity**depth),
    ]


def of_hidden_trees(plan: HiddenPlan) -> list[Expected]:
    """Forecast splits and leaves of each tree, or the votes of trees without noise."""
    if plan.noise == "votes":
        scale, lead = vote_scale(plan.query_epsilon), plan.n_trees / 2
        return [Expected("votes for a class", scale, lead, "votes, half of all")]
    if plan.noise == "none":
        return []
    layout, found = plan.layout, []
    children = layout.candidates.n_children
    arity = math.exp(sum(map(math.log, children)) / len(children))
    records = plan.tree_rows * (plan.rate if plan.sampling == "poisson" else 1.0)
    if plan.is_noisy_in_splits:
        many, nodes = len(layout.candidates), arity ** (plan.depth - 1)
        found.append(_choice(plan.score, plan.public, plan.split_epsilon, many, records, nodes))
    found.append(_counts(plan.leaf_epsilon, records / arity**plan.depth, plan.n_trees))
    return found


def of_hidden_regression(plan: RegressionPlan) -> list[Expected]:
    """Forecast the first split, by squared error, and sum and count of each leaf."""
    return _of_sums(plan, plan.sum_epsilon, plan.count_epsilon, spread=SPREAD["numbers"], rounds=1)


def of_hidden_boosting(plan: BoostingPlan) -> list[Expected]:
    """Forecast as for a regression of the gradients; the noise of leaves evens out over rounds."""
    spread = SPREAD["classes" if plan.n_classes else "numbers"]
    return _of_sums(
        plan, plan.sum_epsilon, plan.weight_epsilon, spread=spread, rounds=plan.n_rounds
    )


def of_median_forest(plan: MedianPlan) -> list[Expected]:
    """Forecast counts, or sums, of the leaves; a median that noise has moved cuts all the same."""
    if plan.spending is None:
        return []
    records = plan.capacity / (plan.n_trees if plan.partition else 1) / 2**plan.depth
    found = [_counts(plan.spending.counts, records, plan.n_trees)]
    if plan.spending.sums:
        found.append(_sums(plan.spending.sums, records * SPREAD["numbers"], plan.n_trees))
    return found


def of_private_boosting(plan: BoostPlan) -> list[Expected]:
    """Forecast the sums of gradients over all rounds."""
    if plan.domain.capacity is None:
        return []
    spread = SPREAD["numbers" if plan.n_classes is None else "classes"]
    signal = plan.domain.capacity / plan.leaves * spread
    return [Expected("sums of a leaf, all rounds together", plan.noise, signal, _SIGNAL)]


def of_topdown(plan: TopDownPlan) -> list[Expected]:
    """Forecast the first split and the class counts below it: further ones are grown if worth it.

    Owners who answer with noisy counts each add their own noise; those who name their best split
    choose it by their own records.
    """
    if not plan.is_private or plan.capacity is None:
        return []
    drawn = plan.n_owners if plan.method in ("noisy-counts", "local-rnm") else 1
    records = float(plan.capacity)
    if plan.method in ("noisy-counts", "secure-counts"):
        noise = math.sqrt(drawn * plan.counts(1).variance)
        first = Expected("histogram of the first node", noise, records, "records in it")
    else:
        own = records / drawn
        first = _choice(plan.score, plan.public, plan.at(1).choice, len(plan.candidates), own, 1)
        first = first._replace(what="choice of the first split")
    label = math.sqrt(drawn * plan.label.variance)
    return [first, Expected("counts of a leaf, if there are two", label, records / 2, _LEAF)]


def of_peer_trees(plan: PivotPlan) -> list[Expected]:
    """Forecast counts that make leaves, splits and leaves of each tree among peers."""
    if not plan.is_private:
        return []
    found, nodes = [], 2 ** (plan.depth - 1)
    if plan.stop_epsilon:
        noise = math.sqrt(plan.stop_mechanism.variance)
        found.append(Expected("count that makes a leaf", noise, plan.capacity / nodes, _LEAF))
    if not plan.classes:
        sums = (plan.sum_epsilon, plan.count_epsilon)
        return found + _of_sums(plan, *sums, spread=SPREAD["numbers"], rounds=plan.n_trees)
    score, many = plan.score, plan.n_candidates
    args = (plan.split_epsilon, many, plan.capacity, nodes)
    found.append(_choice(score.criterion, score.public, *args))
    return [*found, _counts(plan.leaf_epsilon, plan.capacity / (2 * nodes), plan.n_trees)]


_FORECASTS: dict[type[Any], Callable[[Any], list[Expected]]] = {
    PrivatePlan: of_private_tree,
    HiddenPlan: of_hidden_trees,
    RegressionPlan: of_hidden_regression,
    BoostingPlan: of_hidden_boosting,
    MedianPlan: of_median_forest,
    BoostPlan: of_private_boosting,
    TopDownPlan: of_topdown,
    PivotPlan: of_peer_trees,
}


def _choice(
    score: Criterion,
    public: Public,
    epsilon: float,
    candidates: int,
    records: float,
    nodes: float,
) -> Expected:
    """Forecast a choice by class counts at a level where so many nodes share the records."""
    noise = score.add_remove(public) / epsilon * math.log(max(candidates, 2))
    return Expected(_SPLIT, noise, records / nodes, "records in the node")


def _of_sums(
    plan: RegressionPlan | BoostingPlan | PivotPlan,
    sums: float,
    counts: float,
    *,
    spread: float,
    rounds: int,
) -> list[Expected]:
    """Forecast trees of sums: the first split, and sums and counts (or weights) of the leaves.

    Where noise chooses even the first split, it cuts anywhere, and leaves may be left with next to
    no records.
    """
    found = []
    if plan.split_epsilon:
        many = max(len(plan.layout.candidates), 2)
        noise = SCORE_SENSITIVITY / plan.split_epsilon * math.log(many)
        gain = plan.capacity * SPLIT_GAIN * spread**2
        found.append(Expected("choice of the first split", noise, gain, "that a good one gains"))
    records = plan.capacity / 2**plan.depth
    if sums:
        found.append(_sums(sums, records * spread, rounds))
    if counts:
        found.append(_counts(counts, records, rounds))
    return found


def _counts(epsilon: float, records: float, times: int = 1) -> Expected:
    return _leaf("counts of a leaf", epsilon, records, times, _LEAF)


def _sums(epsilon: float, signal: float, times: int = 1) -> Expected:
    """Forecast sums, in units of the largest one that a record can add."""
    return _leaf("sum of a leaf", epsilon, signal, times, _SIGNAL)


def _leaf(what: str, epsilon: float, size: float, times: int, beside: str) -> Expected:
    """Forecast a release of every leaf; independent noises of several trees even out."""
    sd = math.sqrt(TwoSidedGeometric(epsilon).variance / times)
    return Expected(what, sd, size, beside)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
