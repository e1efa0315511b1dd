"""What section 5 of paper 002 says a tree costs, and what its algorithms cost step by step.

Letters are the paper's: n transactions, k parties, c classes, r attributes of p values on average
(so that p r is the number of all values), q nodes with the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from reproduce.paper_002.data import n_classes_of


@dataclass(frozen=True)
class Section5:
    """The formulas, for the numbers of one tree; `values` is p r."""

    n: int
    k: int
    c: int
    values: int
    q: int

    @property
    def node(self) -> int:
        """C (1 + p r): set intersections of a node."""
        return self.c * (1 + self.values)

    @property
    def intersections(self) -> int:
        """C q (1 + p r): set intersections of the tree."""
        return self.q * self.node

    @property
    def one_intersection(self) -> int:
        """N k^2: encryptions of one set intersection, and elements that are sent, at most."""
        return self.n * self.k**2

    @property
    def encryptions(self) -> int:
        """C q n k^2 (1 + p r): encryptions of the tree, and elements that are sent."""
        return self.intersections * self.one_intersection

    def bytes(self, width: int) -> int:
        """C q n k^2 (1 + p r) bitsize, in bytes; `width` is that of an element."""
        return self.encryptions * width


class VisitedNode(NamedTuple):
    """A node as the algorithms come to it.

    `sizes` are those of each site's constraint set, `left` the columns that no split above has
    used, `column` the one that is split, -1 in a leaf.
    """

    sizes: tuple[int, ...]
    left: tuple[int, ...]
    column: int


def visited(table: Encoded, tree: Tree, groups: Sequence[Sequence[int]]) -> Iterator[VisitedNode]:
    """Walk the nodes of a finished tree in the order of PPID3, with all sites' constraint sets."""
    owner = {column: site for site, group in enumerate(groups) for column in group}

    def walk(
        node: int, sets: list[NDArray[np.bool_]], left: tuple[int, ...]
    ) -> Iterator[VisitedNode]:
        column = int(tree.feature[node])
        yield VisitedNode(tuple(int(one.sum()) for one in sets), left, column)
        if column < 0:
            return
        rest, site = tuple(one for one in left if one != column), owner[column]
        for value in range(int(table.domain.n_bins[column])):
            below = list(sets)
            below[site] = sets[site] & (table.bins[:, column] == value)
            yield from walk(int(tree.first_child[node]) + value, below, rest)

    whole = [np.ones(table.n_slots, dtype=np.bool_) for _ in groups]
    yield from walk(0, whole, tuple(range(table.n_features)))


@dataclass
class LiteralCost:
    """What the algorithms cost if every set intersection is a protocol of its own among all sites.

    `intersections` as section 5 counts them: c for a node, and c for every value of an attribute
    that is left. `calls` as algorithm 6 makes them: its first line counts the node again for each
    attribute. `all_left` as section 5 counts them, were no attribute ever used up. `by_split` are
    those of attributes that a node chose, `by_node` those of its classes: the rest are counts that
    no leaf gives. `dearest_node` are the most calls of a node. `encryptions` are of
    `intersections`.
    """

    intersections: int = 0
    calls: int = 0
    all_left: int = 0
    by_node: int = 0
    by_split: int = 0
    dearest_node: int = 0
    encryptions: int = 0


def literal_cost(
    table: Encoded, tree: Tree, groups: Sequence[Sequence[int]], class_at: int | None
) -> LiteralCost:
    """Count them from the table and its finished tree."""
    c, k = n_classes_of(table), len(groups)
    widths = [int(p) for p in table.domain.n_bins]
    owner = {column: site for site, group in enumerate(groups) for column in group}
    found = LiteralCost()
    for node in visited(table, tree, groups):
        values = sum(widths[column] for column in node.left)
        split = node.column >= 0
        calls = c + (c * (len(node.left) + values) if split else 0)
        found.intersections += c + (c * values if split else 0)
        found.calls += calls
        found.all_left += c + (c * sum(widths) if split else 0)
        found.by_node += c
        found.by_split += c * widths[node.column] if split else 0
        found.dearest_node = max(found.dearest_node, calls)
        found.encryptions += k * _elements(node.sizes, c, class_at)
        for column in node.left if split else ():
            found.encryptions += k * _elements(
                node.sizes, c, class_at, widths[column], owner[column]
            )
    return found


def _elements(
    sizes: Sequence[int], c: int, class_at: int | None, values: int = 1, at: int = -1
) -> int:
    """Add up the sets of all calls for each class, and each value of an attribute of one site.

    A site whose set is held to a class, or to a value, brings all of it in as many parts, and one
    whose set is not brings the same again for each.
    """
    return sum(
        size * (1 if class_at in (None, site) else c) * (1 if site == at else values)
        for site, size in enumerate(sizes)
    )
