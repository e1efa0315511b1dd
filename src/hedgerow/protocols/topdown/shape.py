"""The part of a DP-TopDown tree that was looked at so far, the same at everybody who takes part.

The root is node 0, and the i-th split that is made, from 0, has the children 2i + 1 and 2i + 2.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.trees.growing.reachable import undecided_candidates
from hedgerow.trees.layout import SplitKind


class Shape:
    """Nodes with their depths and what a record can still have in them.

    Parameters
    ----------
    plan : TopDownPlan

    Attributes
    ----------
    depth : list of int
        Of each node; the root has 1.
    parent : list of int
        Of each node; -1 for the root.
    splits : list of (node, candidate)
        In the order in which they were made.
    """

    def __init__(self, plan: TopDownPlan) -> None:
        self.plan = plan
        self.depth = [1]
        self.parent = [-1]
        self.splits: list[tuple[int, int]] = []
        self._split_of: dict[int, int] = {}
        self._possible = [np.ones(plan.candidates.total_bins, dtype=np.bool_)]

    def copy(self) -> Shape:
        """Return a copy that grows on its own."""
        other = copy.copy(self)
        other.depth, other.parent = self.depth.copy(), self.parent.copy()
        other.splits, other._split_of = self.splits.copy(), self._split_of.copy()
        other._possible = self._possible.copy()
        return other

    @property
    def n_nodes(self) -> int:
        """Nodes so far."""
        return len(self.depth)

    @property
    def looks_left(self) -> int:
        """Leaves below which one may still look: 4M - 1 in all, so most looks may be in vain."""
        return 4 * self.plan.n_splits - 1 - len(self.splits)

    def children(self, node: int) -> tuple[int, int] | None:
        """Return the children of a node, None if it has none."""
        number = self._split_of.get(node)
        return None if number is None else (2 * number + 1, 2 * number + 2)

    def choice(self, node: int) -> int:
        """Return the candidate by which a node was split."""
        return self.splits[self._split_of[node]][1]

    def check(self, expand: Sequence[tuple[int, int]]) -> None:
        """Raise H820 or H821 unless these nodes exist, can be split, and were not."""
        if len(expand) > self.looks_left:
            raise Code.BAD_ASK.error(
                expected=f"at most {self.looks_left + len(self.splits):,} splits to look at",
                found=f"{len(self.splits) + len(expand):,}",
            )
        new: set[int] = set()
        for node, candidate in expand:
            if not 0 <= node < self.n_nodes:
                raise Code.BAD_ASK.error(
                    expected=f"a node from 0 to {self.n_nodes - 1}", found=f"node {node}"
                )
            if node in self._split_of or node in new:
                raise Code.ASKED_TWICE.error(found=f"a second split of node {node}")
            if self.depth[node] > self.plan.max_depth:
                raise Code.BAD_ASK.error(
                    expected=f"splits down to depth {self.plan.max_depth}",
                    found=f"one of a node at depth {self.depth[node]}",
                )
            if not 0 <= candidate < len(self.plan.candidates):
                raise Code.BAD_ASK.error(
                    expected=f"a candidate below {len(self.plan.candidates)}",
                    found=f"candidate {candidate}",
                )
            new.add(node)

    def expand(self, expand: Sequence[tuple[int, int]]) -> None:
        """Make splits that `check` has let pass."""
        for node, candidate in expand:
            self._split_of[node] = len(self.splits)
            self.splits.append((node, candidate))
            first = self._first_side[candidate]
            for side in (first, self._second_side[candidate]):
                self.depth.append(self.depth[node] + 1)
                self.parent.append(node)
                self._possible.append(self._possible[node] & side)

    def asked(self, first: int) -> tuple[int, ...]:
        """Return the nodes from `first` on that are to be weighed and split."""
        within = range(first, self.n_nodes)
        return tuple(node for node in within if self.depth[node] <= self.plan.max_depth)

    def depths(self, nodes: Sequence[int]) -> NDArray[np.int64]:
        """Return the depths of some nodes, int64 (m,)."""
        return np.array([self.depth[node] for node in nodes], dtype=np.int64)

    def undecided(self, nodes: Sequence[int]) -> NDArray[np.bool_]:
        """Tell which candidates earlier splits have left open, bool (m, candidates)."""
        total = self.plan.candidates.total_bins
        possible = np.array([self._possible[node] for node in nodes]).reshape(-1, total)
        return undecided_candidates(possible, self.plan.candidates)

    def can_divide(self, nodes: Sequence[int]) -> NDArray[np.bool_]:
        """Tell which nodes some candidate can still divide, given the splits above, bool (m,)."""
        total = self.plan.candidates.total_bins
        possible = np.array([self._possible[node] for node in nodes]).reshape(-1, total)
        held = np.add.reduceat(possible, self.plan.candidates.offset[:-1], axis=1, dtype=np.int64)
        return np.asarray((held > 1).any(axis=1))

    def is_antichain(self, nodes: Sequence[int]) -> bool:
        """Whether the nodes are distinct and none lies below another."""
        chosen = set(nodes)
        if len(chosen) != len(nodes):
            return False
        # A node's number is above its parent's.
        below = np.zeros(self.n_nodes, dtype=np.bool_)
        for node in range(1, self.n_nodes):
            parent = self.parent[node]
            below[node] = below[parent] or parent in chosen
        return not any(below[node] for node in chosen)

    @cached_property
    def _first_side(self) -> NDArray[np.bool_]:
        those = self.plan.candidates
        feature = np.repeat(np.arange(those.n_features), those.n_bins)
        value = np.arange(those.total_bins) - those.offset[feature]
        threshold = (those.kind == SplitKind.THRESHOLD)[:, None]
        taken = np.where(threshold, value <= those.cut[:, None], value == those.cut[:, None])
        return np.asarray(taken | (feature != those.feature[:, None]))

    @cached_property
    def _second_side(self) -> NDArray[np.bool_]:
        those = self.plan.candidates
        feature = np.repeat(np.arange(those.n_features), those.n_bins)
        return np.asarray(~self._first_side | (feature != those.feature[:, None]))
