"""The private grower: splits by noisy max, leaf counts by the two-sided geometric mechanism.

Papers: dwork2014foundations, ghosh2012universally.

1. Depth, criterion and the parts of epsilon come from public numbers (`growing.budget`).
2. All releases are charged before the first is drawn. A record is in one node of each level and
   in one leaf, and which one depends on its attributes and earlier releases alone: the nodes of a
   level are siblings, the levels and the leaves add up.
3. Level by level, every node is split, also an empty one: the shape of the tree is public.
   Exact integer scores of all candidates, one noisy max per node, among the splits that are not
   decided by those above.
4. Class counts of the leaves plus noise. Inner nodes get the sums of their leaves, which costs
   nothing.

Reveals: the tree with its noisy counts, to the public; depth * split + leaf in total.
Cost: in the clear, no messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    Ledger,
    NoiseSource,
    NoisyMax,
    Opening,
    Partition,
    Release,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.planning import cost_text, plan_text, plan_total
from hedgerow.tables import Domain, Encoded, check_capacity
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.budget import SPLIT_SHARE, Spending, criterion_for, depth_for, divide
from hedgerow.trees.growing.candidates import Branching, Candidates
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.growing.reachable import below, undecided_candidates
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

# Real scores stand on a grid of 2^-10 records: far below the noise of any useful epsilon.
GRID_BITS = 10
MOST_LEAVES = 1 << 20
# Rows are numbered in 32 bits, so this holds where no capacity is declared and none is needed.
_MOST_ROWS = (1 << 31) - 1


class DrawnTree(NamedTuple):
    """What was released: splits level by level, and the noisy counts (leaves, classes)."""

    levels: list[NodeSplits]
    leaf_counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PrivatePlan:
    """Everything about a private tree that is fixed before a row is touched; see `plan_private`."""

    domain: Domain
    branching: Branching
    score: Criterion
    public: Public
    spending: Spending

    @cached_property
    def candidates(self) -> Candidates:
        """Splits to choose from."""
        return Candidates.from_domain(self.domain, self.branching)

    @cached_property
    def choose(self) -> NoisyMax:
        """Mechanism of the splits."""
        sensitivity = self.score.integer_sensitivity(self.public, self._shift)
        return NoisyMax(self.spending.split, sensitivity.add_remove, monotone=sensitivity.monotone)

    @cached_property
    def count(self) -> TwoSidedGeometric:
        """Mechanism of the leaf counts; one record is in one leaf and one class."""
        return TwoSidedGeometric(self.spending.leaf)

    @property
    def _shift(self) -> int:
        return 0 if self.score.name == "max" else GRID_BITS

    def __str__(self) -> str:
        return plan_text(self._heading, self.releases())

    def __repr__(self) -> str:
        # Not the domain, which may have hundreds of attributes.
        return f"<PrivatePlan: {self._heading}; {cost_text(plan_total(self.releases()))}>"

    @property
    def _heading(self) -> str:
        return (
            f"classification, 1 tree, depth {self.spending.depth}, {self.branching} splits by "
            f"{self.score.name} among {len(self.candidates):,} candidates"
        )

    def releases(self) -> list[Release]:
        """One release per level and one for the leaves; each node or leaf is a part."""
        m, classes = len(self.candidates), self.public.n_classes or 0
        splits = [
            Release(
                mechanism=self.choose.name,
                epsilon=self.choose.epsilon,
                delta=self.choose.delta(m),
                sensitivity=self.choose.sensitivity,
                scope=ROOT / step(f"level {level}") / part(Partition("nodes", By.ATTRIBUTES), EACH),
                audience="public",
                reason=f"split of each node at level {level}",
                variables=m,
            )
            for level in range(self.spending.depth)
        ]
        leaves = Release(
            mechanism=self.count.name,
            epsilon=self.count.epsilon,
            delta=self.count.delta(classes),
            sensitivity=self.count.sensitivity,
            scope=ROOT / step("leaves") / part(Partition("leaves", By.ATTRIBUTES), EACH),
            audience="public",
            reason="class counts of each leaf",
            variables=classes,
        )
        return [*splits, leaves]

    def openings(self) -> Sequence[Opening]:
        """Nothing: rows and counts lie with one curator."""
        return ()

    def draw(self, encoded: Encoded, source: NoiseSource, copies: int = 1) -> DrawnTree:
        """Draw the releases, which must have been charged.

        `copies` are independent trees on the same rows, grown side by side, for the auditor: the
        nodes of a level are in their order.
        """
        encoded.check_domain(self.domain)
        rows = Rows(encoded, self.candidates)
        nodes = rows.roots(copies)
        possible = np.ones((copies, self.candidates.total_bins), dtype=np.bool_)
        levels: list[NodeSplits] = []
        for level in range(self.spending.depth):
            split = rows.tally(nodes, self._choices(rows, nodes, possible, source))
            levels.append(split)
            # The rows of the last level need not move: the leaves are counted already.
            if level + 1 < self.spending.depth:
                first = rows.move(split)
                possible = below(possible, split, self.candidates)
                nodes = first[0] + np.arange(int(split.first[-1]), dtype=np.int64)
        return DrawnTree(levels, self.count(levels[-1].counts, source))

    def _choices(
        self,
        rows: Rows,
        nodes: NDArray[np.int64],
        possible: NDArray[np.bool_],
        source: NoiseSource,
    ) -> NDArray[np.int64]:
        choices = np.empty(nodes.size, dtype=np.int64)
        for block in rows.blocks(nodes):
            scores = rows.integer_scores(nodes[block], self.score, self.public, self._shift)
            # Splits that earlier ones have decided already compete for nothing; which they are
            # follows from earlier releases alone.
            valid = undecided_candidates(possible[block], self.candidates)
            choices[block] = self.choose(scores, source, valid=valid)
        return choices


def plan_private(
    domain: Domain,
    *,
    epsilon: float,
    depth: int | None = None,
    criterion: str | None = None,
    branching: Branching = "binary",
    split_share: float = SPLIT_SHARE,
    capacity: int | None = None,
) -> PrivatePlan:
    """Plan a private tree from public numbers.

    Epsilon is the whole budget, for add/remove neighbours. Depth and criterion, ``"max"``,
    ``"gini"`` or ``"entropy"``, follow a public rule where they are None; the rule of the depth and
    entropy need `capacity`. With ``"wary"`` branching an attribute is used once on a path. Raises
    H116 without target classes, H208 without a capacity where one is needed, H501 for a tree that
    cannot be grown.
    """
    if domain.target is None or domain.target.classes is None:
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    n_classes = len(domain.target.classes)
    candidates = Candidates.from_domain(domain, branching)
    if len(candidates) == 0:
        raise Code.BAD_PARAMETER.error(
            expected="at least one attribute with two bins", found="no candidate split"
        )
    if criterion is None:
        criterion = criterion_for(epsilon, _known_capacity(capacity, "criterion"), n_classes)
    score = criterion_named(criterion, "classes")
    public = Public(capacity if criterion == "entropy" else capacity or _MOST_ROWS, n_classes)
    if depth is None:
        records = _known_capacity(capacity, "max_depth")
        arity = float(np.exp(np.log(candidates.n_children).mean()))
        depth = depth_for(epsilon, records, len(candidates), score.add_remove(public), arity)
        depth = min(depth, _deepest(candidates, branching))
    _check_depth(depth, candidates, branching)
    return PrivatePlan(domain, branching, score, public, divide(epsilon, depth, split_share))


def grow_private(
    encoded: Encoded, plan: PrivatePlan, *, ledger: Ledger, source: NoiseSource
) -> Tree:
    """Charge a plan, before anything is drawn, and grow the private tree.

    Seeded noise marks the ledger as not private. Raises H112 for more records than the capacity,
    H117 for a table of another domain, H202 for a domain read from the data unless the ledger is
    marked as not private; nothing is charged.
    """
    if not plan.domain.is_public and not ledger.not_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {plan.domain.provenance!r}")
    if plan.public.capacity is not None:
        check_capacity(int(encoded.present.sum()), plan.public.capacity)
    encoded.check_domain(plan.domain)
    if not source.private:
        ledger.mark_not_private("the noise was seeded")
    ledger.charge(*plan.releases())
    return assemble(plan.domain, plan.draw(encoded, source))


def _known_capacity(capacity: int | None, parameter: str) -> int:
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(
            found=f"no capacity, and a {parameter} that follows from it",
            fix=f"declare capacity in the domain, or set {parameter}",
        )
    return capacity


def _deepest(candidates: Candidates, branching: Branching) -> int:
    return candidates.n_features if branching == "wary" else 2**31


def _check_depth(depth: int, candidates: Candidates, branching: Branching) -> None:
    if depth > _deepest(candidates, branching):
        raise Code.BAD_PARAMETER.error(
            expected=f"max_depth at most {candidates.n_features}: each attribute is used once",
            found=f"max_depth={depth}",
            fix="choose a smaller max_depth or branching='binary'",
        )
    widest = np.sort(candidates.n_children[candidates.first[:-1].clip(max=len(candidates) - 1)])
    arities = widest[::-1][:depth] if branching == "wary" else np.full(min(depth, 64), 2)
    if np.log2(arities, dtype=np.float64).sum() > np.log2(MOST_LEAVES):
        raise Code.BAD_PARAMETER.error(
            expected=f"at most {MOST_LEAVES:,} leaves",
            found=f"max_depth={depth} with up to {int(widest[-1])} branches per node",
            fix="choose a smaller max_depth, fewer bins or branching='binary'",
        )


def assemble(domain: Domain, drawn: DrawnTree) -> Tree:
    """Put the levels one after the other; inner nodes get the sums of their children."""
    levels, leaf_counts = drawn
    inner = sum(split.nodes.size for split in levels)
    n = inner + len(leaf_counts)
    arrays: dict[str, NDArray[Any]] = {
        "kind": np.full(n, SplitKind.LEAF, dtype=np.uint8),
        "feature": np.full(n, -1, dtype=np.int32),
        "cut": np.full(n, -1, dtype=np.int32),
        "first_child": np.full(n, -1, dtype=np.int32),
    }
    value = np.zeros((n, leaf_counts.shape[1]))
    value[inner:] = leaf_counts
    at = 0
    for split in levels:
        here = slice(at, at + split.nodes.size)
        at = here.stop
        arrays["kind"][here] = split.kind
        arrays["feature"][here] = split.feature
        arrays["cut"][here] = split.cut
        arrays["first_child"][here] = at + split.first[:-1]
    for split in reversed(levels):
        at -= split.nodes.size
        below = at + split.nodes.size
        np.add.at(value, at + split.owner, value[below : below + int(split.first[-1])])
    return Tree(domain, **arrays, value=value, weight=value.sum(axis=1))
