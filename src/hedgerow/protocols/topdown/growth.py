"""Best-first growth of DP-TopDown, as a sequence of questions.

Paper: wang2020topdown, algorithm 1.

The paper asks about the two children of one leaf at a time. Here one question looks below all
leaves that may still be split: each node is asked about once whichever way, so it costs no more, a
tree of M splits takes about as many questions as it has levels, and the splits that are made in the
end are those that best-first order makes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """What growth has to know next.

    Attributes
    ----------
    expand : tuple of (node, candidate)
        Splits since the last question, which the nodes rest on.
    nodes : tuple of int
        Nodes to be weighed and split, or leaves to be labelled.
    leaves : bool
        Which of the two.
    """

    expand: tuple[tuple[int, int], ...]
    nodes: tuple[int, ...]
    leaves: bool = False


@dataclass(frozen=True)
class Found:
    """What PrivateSplit found about the nodes of a question, in their order.

    Attributes
    ----------
    weight : float64 (m,)
        Noisy number of records.
    choice : int64 (m,)
        Candidate.
    worth : float64 (m,)
        Noisy decrease of the impurity per record, J.
    counts : float64 (m, classes), optional
        Noisy class counts, of leaves.
    """

    weight: Floats
    choice: NDArray[np.int64]
    worth: Floats
    counts: Floats | None = None


class Growth:
    """Algorithm 1 without its data: asks, hears, and makes the tree.

    Parameters
    ----------
    plan : TopDownPlan

    Attributes
    ----------
    shape : Shape
        What was looked at; the splits in it are more than those of the tree.
    made : list of int
        Nodes that were split, best first.
    """

    def __init__(self, plan: TopDownPlan) -> None:
        self.plan = plan
        self.shape = Shape(plan)
        self.made: list[int] = []
        self._queue: list[tuple[float, int]] = []  # minus the priority, node
        self._choice: dict[int, int] = {}
        self._push: dict[int, tuple[float, bool]] = {}  # node: priority, worth splitting
        self._least = 0.0
        self._labels: Floats | None = None
        self._leaves: tuple[int, ...] = ()
        self._told = 0  # splits that a question has named
        self._asked: Question | None = Question((), (0,))

    def question(self) -> Question | None:
        """Return what is to be asked now; None when the tree is ready."""
        return self._asked

    def hear(self, found: Found) -> None:
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

    def _weigh(self, nodes: tuple[int, ...], found: Found) -> None:
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
                    self._asked = Question(self._untold(), nodes)
                    return
                # Nothing below the deepest level is asked about; the next question names these.
                continue
            _, node = heapq.heappop(self._queue)
            self.made.append(node)
            for child in children:
                self._offer(child, self._queue)
        self._leaves = self._ends()
        self._asked = Question(self._untold(), self._leaves, leaves=True)

    def _untold(self) -> tuple[tuple[int, int], ...]:
        """Return the splits that no question has named yet."""
        at, self._told = self._told, len(self.shape.splits)
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
        return self.shape.asked(first)

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
