"""Everything about a DP-TopDown tree that is fixed before a row is touched.

Paper: wang2020topdown, algorithm 1, section 3 (the function B(d)) and figure 1 (the share of the
leaves); dwork2014foundations, ghosh2012universally for the mechanisms.

All owners and the coordinator hold the same plan; its digest stands in every message, so nobody can
be talked into another epsilon.

What is released. A record is in one node of each depth, in one leaf and at one owner; which one
depends on its attributes and on earlier releases alone. So nodes of a depth, leaves and owners are
siblings, and depths and leaves add up. Which nodes are asked about follows from earlier releases:
growth may stop early, or look below a leaf that it does not split in the end, and is charged as if
it reached every depth up to `max_depth`. Everything that an owner sends is released as if to the
public: the coordinator sees all of it and is trusted by nobody, and the tree follows from it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoisyMax,
    Opening,
    Partition,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.protocols.as_published import DATA_SCALED
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.replicated.core import EVERYONE
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named

Method = Literal["single-machine", "noisy-counts", "local-rnm", "secure-counts"]
Histograms = Literal["feature", "split"]
Impurity = Literal["gini", "entropy", "max"]
Accounting = Literal["strict", "paper"]

AUDIENCE = "public"
NODE_NUMBERS = "choice, worth and weight of nodes"
LEAF_NUMBERS = "class counts of leaves"
OUT_OF_RANGE = "counts out of range"

GRID_BITS = 10
"""Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon."""
DEEPEST = 24
"""Deepest split by rule."""
NODE_TO_NOISE = 3.0
"""A depth is worth its budget while a node of average size holds so many times its noise."""
PLAN_VERSION = 1
_MOST_ROWS = (1 << 31) - 1
_EXACT = "splits and leaves"
_LEAF = "class counts of each leaf"


@dataclass(frozen=True)
class DepthBudget:
    """Epsilon of the nodes of one depth; 0 where the worth of a split is no release of its own."""

    weight: float
    choice: float
    value: float


def shares_of_depths(budget: str | Sequence[float], max_depth: int) -> tuple[Fraction, ...]:
    """Return B(1), ..., B(max_depth), which sum to 1: equal, halving, or as the numbers given."""
    if isinstance(budget, str):
        parts = [Fraction(1, 2**d if budget == "decay" else 1) for d in range(1, max_depth + 1)]
    else:
        parts = [Fraction(part) for part in budget]
    total = sum(parts)
    return tuple(part / total for part in parts)


def divide(
    epsilon: float,
    depths: Sequence[Fraction],
    leaf_share: float,
    node_shares: tuple[float, float, float],
) -> tuple[tuple[DepthBudget, ...], float]:
    """Cut epsilon into the parts of every depth, and that of the leaves.

    Parts are rounded down, so that their exact sum never exceeds epsilon. H201 or H212 for an
    epsilon that is none, or too small to be divided.
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


@dataclass(frozen=True, eq=False)
class TopDownPlan:
    """DP-TopDown in public numbers; made by `TopDownOptions.plan`, which says what they mean."""

    domain: Domain
    method: Method
    histograms: Histograms
    criterion: Impurity
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

    def releases(self, *, joint: bool = False) -> list[Release]:
        """Return the worst case of one owner or, `joint`, of all: no record is at two of them."""
        root = ROOT / part(Partition("owners", By.OWNERS), EACH) if joint else ROOT
        if not self.is_private:
            return [Release("exact", math.inf, 0.0, 1.0, root / step("tree"), AUDIENCE, _EXACT)]
        found: list[Release] = []
        for depth in range(1, self.max_depth + 1):
            nodes = root / step(f"depth {depth}") / part(Partition("nodes", By.ATTRIBUTES), EACH)
            found += self._releases_at(depth, nodes)
        leaves = root / step("leaves") / part(Partition("leaves", By.ATTRIBUTES), EACH)
        return [*found, self._count_release(self.label, self.n_classes, leaves, _LEAF)]

    def openings(self) -> list[Opening]:
        """Return what servers may open, for each question anew: nothing but with secret counts."""
        if self.method != "secure-counts":
            return []
        every = range(1, self.max_depth + 1)
        return [*self.node_openings(every), *self.leaf_openings()]

    def node_openings(self, depths: Iterable[int]) -> list[Opening]:
        """Return what a question of so many `owners` about so many `nodes` of depths may open."""
        reasons = [_EXACT]
        if self.is_private:
            kinds = ("split", "worth of the split", "number of records")
            reasons = [f"{kind} {_of_nodes(depth)}" for depth in depths for kind in kinds]
        follows = "0 for every owner that follows the protocol, whatever its records are"
        return [
            Opening(OUT_OF_RANGE, EVERYONE, ("owners",), independent=follows),
            Opening(NODE_NUMBERS, AUDIENCE, ("nodes", 3), derived=tuple(reasons)),
        ]

    def leaf_openings(self) -> list[Opening]:
        """Return what the question about so many leaves (`nodes`) may open."""
        reason = _LEAF if self.is_private else _EXACT
        return [Opening(LEAF_NUMBERS, AUDIENCE, ("nodes", self.n_classes), derived=(reason,))]

    def _releases_at(self, depth: int, nodes: Scope) -> list[Release]:
        at = _of_nodes(depth)
        weight = self._count_release(self.weigh(depth), 1, nodes, f"number of records {at}")
        if self.method == "noisy-counts":
            by_split, those = self.histograms == "split", self.candidates
            n_cells = self.n_classes * (2 * len(those) if by_split else those.total_bins)
            counts = self.counts(depth)
            return [weight, self._count_release(counts, n_cells, nodes, f"histograms {at}")]
        found = [weight, self._choice_release(depth, nodes, f"split {at}")]
        if self.method == "local-rnm":
            n_cells = 2 * self.n_owners * self.n_classes
            counts, reason = self.recounts(depth, self.n_owners), f"counts of the best splits {at}"
            found.append(self._count_release(counts, n_cells, nodes, reason))
        elif self.accounting == "strict":
            reason = f"worth of the split {at}"
            found.append(self._count_release(self.value(depth), 1, nodes, reason))
        return found

    def _choice_release(self, depth: int, nodes: Scope, reason: str) -> Release:
        m, epsilon = len(self.candidates), self.at(depth).choice
        if self.accounting == "paper":
            # The paper's noise is scaled by the number of records of the node, which is private.
            name = DATA_SCALED.name
            return Release(name, math.inf, 0.0, 1.0, nodes, AUDIENCE, reason, claimed=epsilon)
        return self._release(self.choose(depth), m, m, nodes, reason)

    def _count_release(
        self, mechanism: TwoSidedGeometric, m: int, scope: Scope, reason: str
    ) -> Release:
        return self._release(mechanism, m, 2 * m, scope, reason)

    def _release(
        self,
        mechanism: TwoSidedGeometric | NoisyMax,
        m: int,
        variables: int,
        scope: Scope,
        reason: str,
    ) -> Release:
        # Coins on shares have finitely many bits.
        on_shares = self.method == "secure-counts"
        return Release(
            mechanism=mechanism.name,
            epsilon=mechanism.epsilon,
            delta=precision(mechanism, m).delta if on_shares else mechanism.delta(m),
            sensitivity=mechanism.sensitivity,
            scope=scope,
            audience=AUDIENCE,
            reason=reason,
            variables=variables,
        )

    def affordable_depth(self, capacity: int) -> int:
        """Return the deepest depth at which records outnumber the noise, by a public rule.

        With equal shares a further depth costs all others, and nodes of depth d hold
        capacity/2^(d-1) records on average. Where shares halve it costs the others nothing, and the
        limit is a node of all records. `max_depth` is not used.
        """
        deepest = min(self.n_splits, DEEPEST)
        if not self.is_private:
            return deepest
        depth = 1
        while depth < deepest:
            noise = replace(self, max_depth=depth + 1)._noise_in_records(depth + 1)
            records = capacity if self.budget == "decay" else capacity / 2**depth
            if records < NODE_TO_NOISE * noise:
                break
            depth += 1
        return depth

    def _noise_in_records(self, depth: int) -> float:
        """Return about how many records the noise of a choice at that depth is worth."""
        among = math.log(max(len(self.candidates), 2))
        if self.method == "noisy-counts":
            return self.n_histograms / self.at(depth).choice * math.sqrt(2 * self.n_owners) * among
        sensitivity = self.score.add_remove(self.public)
        owners = self.n_owners if self.method == "local-rnm" else 1
        return sensitivity / self.at(depth).choice * owners * among

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the plan, 64 hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(b"hedgerow/topdown/v1" + text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, which `read_plan` reads."""
        found = {name: getattr(self, name) for name in PLAN_FIELDS}
        found["domain"] = self.domain.to_dict()
        for name in ("budget", "node_shares"):
            if isinstance(found[name], tuple):
                found[name] = list(found[name])
        return found | {"version": PLAN_VERSION}

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
        return {name: getattr(self, name) for name in PLAN_FIELDS}


PLAN_FIELDS = tuple(field.name for field in fields(TopDownPlan))


def _of_nodes(depth: int) -> str:
    return f"of each node at depth {depth}"


@lru_cache(maxsize=512)
def _geometric(epsilon: float, sensitivity: int) -> TwoSidedGeometric:
    return TwoSidedGeometric(epsilon, sensitivity)


@lru_cache(maxsize=512)
def _noisy_max(epsilon: float, sensitivity: int, monotone: bool) -> NoisyMax:
    return NoisyMax(epsilon, sensitivity, monotone=monotone)
