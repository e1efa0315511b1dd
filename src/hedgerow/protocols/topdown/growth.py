"""Algorithm TopDown: best-first growth, as a sequence of questions.

Paper: wang2020topdown, algorithm 1.

The paper asks about the two children of one leaf at a time. Here one question looks below all
leaves that may still be split: each node is asked about once whichever way, so it costs no more, a
tree takes about as many questions as it has levels, and the splits made are those of best-first
order. `TreeShape`, what was looked at so far, is the same at everybody who takes part.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.trees.growing.reachable import undecided_candidates
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

Floats = NDArray[np.float64]


class TreeShape:
    """Nodes with their depths and what a record can still have in them.

    The root is node 0, of depth 1 and parent -1; the i-th of `splits` (node, candidate), from 0, in
    the order in which they were made, has the children 2i + 1 and 2i + 2.
    """

    def __init__(self, plan: TopDownPlan, splits: Sequence[tuple[int, int]] = ()) -> None:
        self.plan = plan
        self.depth = [1]
        self.parent = [-1]
        self.splits: list[tuple[int, int]] = []
        self._split_of: dict[int, int] = {}
        self._possible = [np.ones(plan.candidates.total_bins, dtype=np.bool_)]
        self.expand(splits)

    def copy(self) -> TreeShape:
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
        those = self.plan.candidates
        for node, candidate in expand:
            self._split_of[node] = len(self.splits)
            self.splits.append((node, candidate))
            left, others = those.left[candidate], those.owner != those.feature[candidate]
            for side in (left | others, ~left):
                self.depth.append(self.depth[node] + 1)
                self.parent.append(node)
                self._possible.append(self._possible[node] & side)

    def open_nodes(self, first: int) -> tuple[int, ...]:
        """Return the nodes from `first` on that are to be weighed and split."""
        within = range(first, self.n_nodes)
        return tuple(node for node in within if self.depth[node] <= self.plan.max_depth)

    def check_nodes(self, nodes: Sequence[int], first: int) -> None:
        """Raise H820 unless a question about splits names all new nodes, from `first` on."""
        if not nodes or tuple(nodes) != self.open_nodes(first):
            raise Code.BAD_ASK.error(
                expected="the new nodes, in their order", found=f"{len(nodes)} other nodes"
            )

    def check_leaves(self, nodes: Sequence[int]) -> None:
        """Raise H820 unless a record is in one of these nodes at most."""
        known = all(node < self.n_nodes for node in nodes)
        if not nodes or not known or not self._is_antichain(nodes):
            raise Code.BAD_ASK.error(
                expected="leaves of the tree, none below another", found="other nodes"
            )

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

    def _is_antichain(self, nodes: Sequence[int]) -> bool:
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


@dataclass(frozen=True)
class NodeQuestion:
    """What growth has to know next; it rests on the splits in `expand`, new since the last."""

    expand: tuple[tuple[int, int], ...]
    nodes: tuple[int, ...]
    leaves: bool = False


@dataclass(frozen=True)
class NodeEstimates:
    """What PrivateSplit found about the m nodes of a question, in their order.

    `worth` (m,) is the noisy decrease of the impurity per record, J; `counts` (m, classes) are
    noisy, of leaves.
    """

    weight: Floats
    choice: NDArray[np.int64]
    worth: Floats
    counts: Floats | None = None


class BestFirstGrowth:
    """Algorithm 1 without its data; `shape` has more splits than the tree, `made` best first."""

    def __init__(self, plan: TopDownPlan) -> None:
        self.plan = plan
        self.shape = TreeShape(plan)
        self.made: list[int] = []
        self._queue: list[tuple[float, int]] = []  # minus the priority, node
        self._choice: dict[int, int] = {}
        self._push: dict[int, tuple[float, bool]] = {}  # node: priority, worth splitting
        self._least = 0.0
        self._labels: Floats | None = None
        self._leaves: tuple[int, ...] = ()
        self._n_named = 0  # splits that a question has named
        self._asked: NodeQuestion | None = NodeQuestion((), (0,))

    def question(self) -> NodeQuestion | None:
        """Return what is to be asked now; None when the tree is ready."""
        return self._asked

    def hear(self, found: NodeEstimates) -> None:
        """Take what was found about the question, and go on."""
        assert self._asked is not None
        if self._asked.leaves:
            self._labels, self._asked = found.counts, None
            return
        if self._asked.nodes == (0,):
            # All records, as far as anybody knows.
            self._least = self.plan.error / self.plan.n_splits * max(float(found.weight[0]), 0.0)
        self._weigh(self._asked.nodes, found)
        if self._asked.nodes == (0,):
            self._offer(0, self._queue)
        self._advance()

    def _weigh(self, nodes: tuple[int, ...], found: NodeEstimates) -> None:
        """Find the priority of each node (line 13), and whether it is pushed (line 12)."""
        worth = np.minimum(found.worth, self._largest_worth)
        priority = np.maximum(found.weight, 0.0) * worth
        push = (found.weight >= self._least) & (worth > self.plan.min_gain)
        push &= self.shape.can_divide(nodes)
        self._choice.update(zip(nodes, found.choice.tolist(), strict=True))
        rows = zip(priority.tolist(), push.tolist(), strict=True)
        self._push.update(zip(nodes, rows, strict=True))

    @property
    def _largest_worth(self) -> float:
        """No split decreases the impurity of a record by more."""
        k = self.plan.n_classes
        return float(np.log2(k)) if self.plan.criterion == "entropy" else 1.0 - 1.0 / k

    def _offer(self, node: int, queue: list[tuple[float, int]]) -> None:
        priority, push = self._push.get(node, (0.0, False))
        if push:
            heapq.heappush(queue, (-priority, node))

    def _advance(self) -> None:
        """Split leaves (lines 6 and 7) as long as what is below them is known."""
        while self._queue and len(self.made) < self.plan.n_splits:
            children = self.shape.children(self._queue[0][1])
            if children is None:
                if nodes := self._look_below():
                    self._asked = NodeQuestion(self._new_splits(), nodes)
                    return
                # Nothing below the deepest level is asked about; the next question names these.
                continue
            _, node = heapq.heappop(self._queue)
            self.made.append(node)
            for child in children:
                self._offer(child, self._queue)
        self._leaves = self._ends()
        self._asked = NodeQuestion(self._new_splits(), self._leaves, leaves=True)

    def _new_splits(self) -> tuple[tuple[int, int], ...]:
        at, self._n_named = self._n_named, len(self.shape.splits)
        return tuple(self.shape.splits[at:])

    def _look_below(self) -> tuple[int, ...]:
        """Split leaves for a look; return which of the new nodes are to be asked about.

        They are those that best-first order would come to, if no more were found below them: it
        goes through what is known as `_advance` will, and past what is not.
        """
        left = self.plan.n_splits - len(self.made)
        most = left if self.plan.lookahead is None else self.plan.lookahead
        # If all other looks are in vain, each split to come needs one; the best leaf gets its now.
        most = min(most, self.shape.looks_left - (left - 1))
        queue, unknown = list(self._queue), list[int]()
        while queue and left and len(unknown) < most:
            node = heapq.heappop(queue)[1]
            left -= 1
            if (children := self.shape.children(node)) is None:
                unknown.append(node)
            for child in children or ():
                self._offer(child, queue)
        first = self.shape.n_nodes
        self.shape.expand([(node, self._choice[node]) for node in unknown])
        return self.shape.open_nodes(first)

    def _ends(self) -> tuple[int, ...]:
        if not self.made:
            return (0,)
        split = set(self.made)
        below = [child for node in self.made for child in self.shape.children(node) or ()]
        return tuple(sorted(child for child in below if child not in split))

    def tree(self) -> Tree:
        """Build the tree from what was released; inner nodes get the sums of their leaves."""
        assert self._labels is not None
        order = [0]
        split = set(self.made)
        first: list[int] = []
        at = 0
        while at < len(order):
            node = order[at]
            first.append(len(order) if node in split else -1)
            if node in split:
                order += self.shape.children(node) or ()
            at += 1
        n = len(order)
        value = np.zeros((n, self.plan.n_classes))
        row = {leaf: i for i, leaf in enumerate(self._leaves)}
        chosen = np.zeros(n, dtype=np.int64)
        for i, node in enumerate(order):
            if node in split:
                chosen[i] = self.shape.choice(node)
            else:
                value[i] = self._labels[row[node]]
        for i in range(n - 1, -1, -1):
            if first[i] >= 0:
                value[i] = value[first[i]] + value[first[i] + 1]
        inner = np.array(first) >= 0
        those = self.plan.candidates
        return Tree(
            self.plan.domain,
            kind=np.where(inner, those.kind[chosen], SplitKind.LEAF).astype(np.uint8),
            feature=np.where(inner, those.feature[chosen], -1).astype(np.int32),
            cut=np.where(inner, those.cut[chosen], -1).astype(np.int32),
            first_child=np.array(first, dtype=np.int32),
            value=value,
            weight=value.sum(axis=1),
        )
