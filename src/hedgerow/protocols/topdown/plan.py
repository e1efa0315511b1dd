"""Everything about a DP-TopDown tree that is fixed before a row is touched.

Paper: wang2020topdown, algorithm 1.

All owners and the coordinator hold the same plan; its digest stands in every message, so nobody can
be talked into another epsilon. What is charged is the worst case over the plan: the nodes of every
depth up to `max_depth`, and the leaves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, Self

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.privacy import NoisyMax, Release, TwoSidedGeometric
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.protocols.topdown.budget import DepthBudget, divide, shares_of_depths
from hedgerow.protocols.topdown.releases import releases_of
from hedgerow.protocols.topdown.rules import (
    LEAF_SHARE,
    MIN_GAIN,
    NODE_SHARES,
    Accounting,
    Histograms,
    Method,
    check_plan,
    depth_for,
)
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

GRID_BITS = 10
"""Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon."""
_MOST_ROWS = (1 << 31) - 1
_VERSION = 1


@dataclass(frozen=True, eq=False)
class TopDownPlan:
    """DP-TopDown in public numbers; made by `plan_topdown`, which says what they mean."""

    domain: Domain
    method: Method
    histograms: Histograms
    criterion: str
    epsilon: float | None
    n_splits: int
    max_depth: int
    budget: str | tuple[float, ...]
    leaf_share: float
    node_shares: tuple[float, float, float]
    min_gain: float
    error: float
    lookahead: int | None
    accounting: Accounting
    capacity: int | None
    n_owners: int

    @cached_property
    def candidates(self) -> Candidates:
        """The splitting functions H."""
        return Candidates.from_domain(self.domain, "binary")

    @property
    def n_classes(self) -> int:
        """Classes of the target."""
        assert self.domain.target is not None
        return len(self.domain.target.classes or ())

    @cached_property
    def score(self) -> Criterion:
        """The criterion, with its sensitivities."""
        return criterion_named(self.criterion, "classes")

    @cached_property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        return Public(self.capacity or _MOST_ROWS, self.n_classes)

    @property
    def shift(self) -> int:
        """Grid of the scores, in bits."""
        return 0 if self.criterion == "max" else GRID_BITS

    @property
    def is_private(self) -> bool:
        """Whether there is noise."""
        return self.epsilon is not None

    @property
    def needs_curator(self) -> bool:
        """Whether one party holds all records."""
        return self.method == "single-machine"

    @cached_property
    def _spending(self) -> tuple[tuple[DepthBudget, ...], float]:
        assert self.epsilon is not None
        depths = shares_of_depths(self.budget, self.max_depth)
        return divide(self.epsilon, depths, self.leaf_share, self.node_shares)

    def at(self, depth: int) -> DepthBudget:
        """Epsilon of the nodes of a depth; the root has depth 1."""
        return self._spending[0][depth - 1]

    @property
    def n_histograms(self) -> int:
        """Histograms that a record is counted in, for noisy counts of a node."""
        those = self.candidates
        return len(those) if self.histograms == "split" else int((those.per_feature > 0).sum())

    def weigh(self, depth: int) -> TwoSidedGeometric:
        """Mechanism of the number of records of a node."""
        return _geometric(self.at(depth).weight, 1)

    def choose(self, depth: int) -> NoisyMax:
        """Mechanism of a split by its exact scores."""
        found = self.score.integer_sensitivity(self.public, self.shift)
        return _noisy_max(self.at(depth).choice, found.add_remove, found.monotone)

    def value(self, depth: int) -> TwoSidedGeometric:
        """Mechanism of what a split is worth: n times the decrease of the impurity.

        It is the score of the split less that of the node. Both fall by 0 to s with one more
        record (or both rise), so their difference moves by at most s.
        """
        found = self.score.integer_sensitivity(self.public, self.shift)
        return _geometric(self.at(depth).value, found.add_remove)

    def counts(self, depth: int) -> TwoSidedGeometric:
        """Mechanism of all histograms of a node: a record is in one cell of each."""
        return _geometric(self.at(depth).choice, self.n_histograms)

    def recounts(self, depth: int, n_histograms: int) -> TwoSidedGeometric:
        """Mechanism of the histograms of the locally best splits."""
        return _geometric(self.at(depth).value, n_histograms)

    @cached_property
    def label(self) -> TwoSidedGeometric:
        """Mechanism of the class counts of a leaf."""
        return _geometric(self._spending[1], 1)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the plan, 64 hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(b"hedgerow/topdown/v1" + text.encode()).hexdigest()

    def releases(self, *, joint: bool = False) -> list[Release]:
        """Return the worst case: what one owner charges, or all owners in one ledger.

        Parameters
        ----------
        joint : bool
            For several owners, of whom none has a record of another.
        """
        return releases_of(self, joint)

    def __str__(self) -> str:
        return plan_text(self._heading, self.releases())

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        return f"<TopDownPlan: {self._heading}; {cost_text(plan_total(self.releases()))}>"

    @property
    def _heading(self) -> str:
        return (
            f"classification, best-first by {self.method}, at most {self.n_splits:,} splits and "
            f"depth {self.max_depth}, {self.criterion} among {len(self.candidates):,} candidates"
        )

    def __getstate__(self) -> dict[str, Any]:
        # What follows from the numbers is not part of them, and cannot all be copied.
        return {name: getattr(self, name) for name in _FIELDS}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        found = {name: getattr(self, name) for name in _FIELDS}
        found["domain"] = self.domain.to_dict()
        for name in ("budget", "node_shares"):
            if isinstance(found[name], tuple):
                found[name] = list(found[name])
        return found | {"version": _VERSION}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote; anything else raises H501."""
        if not isinstance(data, dict) or set(data) != {*_FIELDS, "version"}:
            raise Code.BAD_PARAMETER.error(expected="a plan as it was written", found="other data")
        if data["version"] != _VERSION:
            raise Code.BAD_PARAMETER.error(
                expected=f"a plan of version {_VERSION}", found=f"version {data['version']!r}"
            )
        found = {name: data[name] for name in _FIELDS}
        found["domain"] = Domain.from_dict(data["domain"], source="the plan")
        for name in ("budget", "node_shares"):
            if isinstance(found[name], list):
                found[name] = tuple(found[name])
        plan = cls(**found)
        check_plan(plan)
        return plan


_FIELDS = tuple(field.name for field in fields(TopDownPlan))


def plan_topdown(
    domain: Domain,
    *,
    epsilon: float | None = 1.0,
    method: Method = "single-machine",
    histograms: Histograms = "feature",
    criterion: str = "gini",
    n_splits: int = 512,
    max_depth: int | None = None,
    budget: str | Sequence[float] = "uniform",
    leaf_share: float = LEAF_SHARE,
    node_shares: Sequence[float] | None = None,
    min_gain: float = MIN_GAIN,
    error: float = 0.1,
    lookahead: int | None = None,
    accounting: Accounting = "strict",
    capacity: int | None = None,
    n_owners: int = 1,
) -> TopDownPlan:
    """Plan DP-TopDown from public numbers.

    Parameters
    ----------
    domain : Domain
        Public description of the tables of all owners.
    epsilon : float or None
        Whole budget (the paper's alpha), add/remove neighbours; None grows without noise.
    method : {"single-machine", "noisy-counts", "local-rnm", "secure-counts"}
        The implementation of PrivateSplit.
    histograms : {"feature", "split"}
        Noisy counts of one histogram per attribute, or, as in the paper, of one per split.
    criterion : {"gini", "entropy", "max"}
        Score of a split, weighted by records; "entropy" needs a capacity.
    n_splits : int
        M, the largest number of splits.
    max_depth : int, optional
        Depth of the deepest node that may be split; the root has depth 1. By default a public
        rule, which needs a capacity.
    budget : {"uniform", "decay"} or sequence of float
        B(d): equal shares, halved with each depth, or in the proportions given.
    leaf_share : float
        Share of epsilon for the leaves (the paper's LPF).
    node_shares : three floats, optional
        How a node's budget is divided: number of records; choice of the split (histograms, for
        noisy counts); worth of the split (counts of the best ones, for "local-rnm").
    min_gain : float
        A leaf whose noisy decrease of the impurity per record is not above this is not split.
    error : float
        A leaf with less than error / n_splits of all records, by its noisy weight, is not split.
    lookahead : int, optional
        Leaves that are looked below in one round; by default all that may still be split. It
        changes the number of rounds and neither the cost nor, without noise, the tree.
    accounting : {"strict", "paper"}
        "paper" draws as published; what that costs is in the ledger, beside what is claimed.
    capacity : int, optional
        Public upper bound on the number of records of all owners; the domain's by default.
    n_owners : int
        Owners at most.

    Raises
    ------
    HedgerowError
        H116 without target classes, H208 without a capacity where one is needed, H501 for numbers
        with which no tree can be grown, H201 for an epsilon too small to be divided.
    """
    check_option("method", method, Method)
    capacity = domain.capacity if capacity is None else capacity
    if max_depth is None and not isinstance(budget, str):
        max_depth = len(budget)
    shares = NODE_SHARES[method, accounting == "paper"] if node_shares is None else node_shares
    made = TopDownPlan(
        domain=domain,
        method=method,
        histograms=histograms,
        criterion=criterion,
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else epsilon,
        n_splits=n_splits,
        max_depth=1 if max_depth is None else max_depth,
        budget=budget if isinstance(budget, str) else tuple(float(share) for share in budget),
        leaf_share=leaf_share,
        node_shares=tuple(float(share) for share in shares),  # type: ignore[arg-type]
        min_gain=min_gain,
        error=error,
        lookahead=lookahead,
        accounting=accounting,
        capacity=capacity,
        n_owners=n_owners,
    )
    check_plan(made)
    if max_depth is not None:
        return made
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(
            found="no capacity, and no max_depth",
            fix="declare capacity in the domain, or set max_depth",
        )
    return replace(made, max_depth=depth_for(made, capacity))


@lru_cache(maxsize=512)
def _geometric(epsilon: float, sensitivity: int) -> TwoSidedGeometric:
    return TwoSidedGeometric(epsilon, sensitivity)


@lru_cache(maxsize=512)
def _noisy_max(epsilon: float, sensitivity: int, monotone: bool) -> NoisyMax:
    return NoisyMax(epsilon, sensitivity, monotone=monotone)
