"""Rows in the order of nodes and bins, once per attribute, known to nobody.

The order of an attribute holds every row and, for every node of the level, one *mark* per bin of
the attribute. Nodes follow one another; inside a node rows stand by bin, each bin followed by its
mark. So a sum over all that stands before a mark is a sum over whole bins, although nobody knows
where the mark stands.

An entry has two places: a public one, its *number* (rows of attribute 0, of attribute 1, ..., then
all marks), and its secret place in the orders, which lie one behind the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Permutation, Secret, concatenate
from hedgerow.secure.sort import open_places, position_ring

Index = NDArray[np.int64]
_FIX = "share rows that are one-hot for every attribute, and choices that are one-hot"


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of all orders of one level, 0 at the root: public.

    A node has a position p among the nodes of its level, from which rows are sent to p (left) or to
    ``p + 2**level`` (right), as a stable partition of the whole order does. The path of a node,
    read as bits from the root down, is its number in the tree; read upwards it is its position.
    """

    n: int
    n_bins: NDArray[np.int32]
    level: int

    @property
    def nodes(self) -> int:
        """Nodes of the level."""
        return 1 << self.level

    @cached_property
    def offset(self) -> Index:
        """Columns of attribute a in a histogram begin at ``offset[a]``, int64 (m + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_bins, dtype=np.int64)])

    @property
    def rows(self) -> int:
        """Entries that are rows."""
        return self.n * self.n_bins.size

    @property
    def marks(self) -> int:
        """Entries that are marks; they are numbered as they stand: by attribute, position, bin."""
        return self.nodes * int(self.offset[-1])

    @property
    def size(self) -> int:
        """Entries of all orders."""
        return self.rows + self.marks

    @property
    def ring(self) -> Ring:
        """The smallest ring that holds all places."""
        return position_ring(self.size)

    @cached_property
    def owner(self) -> Index:
        """Attribute of each mark, int64 (marks,)."""
        return np.repeat(np.arange(self.n_bins.size), self.nodes * self.n_bins.astype(np.int64))

    @cached_property
    def _within(self) -> Index:
        """Number of each mark among those of its attribute, int64 (marks,)."""
        return np.arange(self.marks) - self.nodes * self.offset[self.owner]

    @cached_property
    def cells(self) -> Index:
        """Cell of a histogram (nodes in tree order, columns) for each mark, int64 (marks,)."""
        bins = self.n_bins[self.owner]
        position, bin_ = self._within // bins, self._within % bins
        node = sum(((position >> j) & 1) << (self.level - 1 - j) for j in range(self.level))
        cell: Index = node * self.offset[-1] + self.offset[self.owner] + bin_
        return cell

    @cached_property
    def children(self) -> Index:
        """Where the marks of the next level come from, int64 (2 marks,).

        Positions in a stack of what the left children get and what the right ones get,
        (2, marks).
        """
        first, count = self.nodes * self.offset[:-1], self.nodes * self.n_bins.astype(np.int64)
        halves = zip(first, count, strict=True)
        return np.concatenate(
            [np.arange(at, at + size) + side * self.marks for at, size in halves for side in (0, 1)]
        )

    def next(self) -> Entries:
        """Return the entries of the level below."""
        return Entries(self.n, self.n_bins, self.level + 1)


@dataclass(frozen=True, eq=False)
class OrderView:
    """The orders of one level, seen through a permutation that nobody knows.

    `places` (size,): place in the orders of each permuted entry, a uniformly random permutation;
    `order`: its inverse.
    """

    permutation: Permutation
    places: Index
    order: Index

    @classmethod
    def of(cls, destinations: Secret, name: str) -> Self:
        """Shuffle destinations, the secret place of each entry by number, afresh and open them.

        Reveals: to every party, a uniformly random permutation of 0 to size - 1. Cost: `cost_of`.
        """
        engine = destinations.engine
        permutation = engine.permutation(len(destinations))
        shuffled = engine.shuffle(destinations, permutation)
        return cls(permutation, *open_places(shuffled, name, _FIX))

    def running(self, x: Secret) -> Secret:
        """Return the sum of all that stands up to each entry in the orders, itself included.

        1. Entries, (size, ...) by number, are shuffled and moved by the opened places: they stand
           in their orders.
        2. Prefix sums, local; they run on from one order into the next.
        3. The sums are moved back and unshuffled.

        Reveals: nothing. Cost: `cost_running`.
        """
        engine = x.engine
        ordered = engine.shuffle(x, self.permutation)[self.order]
        return engine.unshuffle(ordered.cumsum(0)[self.places], self.permutation)


def by_bin(onehot: Secret) -> tuple[Secret, Secret, Secret]:
    """Put one-hot rows (n, bins) in the order of their bins, stably; zero rows are in bin 0.

    1. r_bi: rows in bins before b, and rows in bin b up to i: prefix sums of h, the one-hot rows.
    2. Row i has the place sum over b of h_bi r_bi, less 1: one element on the wire, as in any
       scalar product.

    Returns place and bin of each row, (n,), and the rows in each bin and those before it, (bins,).

    Reveals: nothing. Cost: `cost_by_bin`.
    """
    n, n_bins = onehot.shape
    upper = onehot[:, 1:]
    hot = upper.like(np.ascontiguousarray(upper.transpose().data))
    running, lowest = hot.cumsum(1), (1 - hot.sum(0)).cumsum()
    end = concatenate([lowest[-1:], running[:, -1]]).cumsum()
    # The entries of a row add up to 1, so the product of bin 0 comes for nothing.
    steps = (running + end[:-1].reshape(-1, 1) - lowest).transpose()
    place = (upper[:, None, :] @ steps[:, :, None]).reshape(n) + lowest - 1
    return place, upper @ np.arange(1, n_bins), end


def to_ring(x: Secret, ring: Ring) -> Secret:
    """Return numbers that are not negative over another ring, larger or smaller."""
    smaller = ring.bits < x.ring.bits
    return x.engine.reduce(x, ring) if smaller else x.engine.extend(x, ring)


def cost_of(engine: Engine, size: int, ring: Ring) -> Cost:
    """State the cost of `OrderView.of` for so many entries, with places in a ring."""
    return (
        engine.cost("permutation", shape=(size,))
        + engine.cost("shuffle", shape=(size,), ring=ring)
        + engine.cost("open", shape=(size,), ring=ring, to=engine.everyone)
    )


def cost_running(engine: Engine, shape: tuple[int, ...], ring: Ring) -> Cost:
    """State the cost of `OrderView.running` for entries of a shape over a ring."""
    return engine.cost("shuffle", shape=shape, ring=ring) + engine.cost(
        "unshuffle", shape=shape, ring=ring
    )


def cost_by_bin(engine: Engine, n: int, n_bins: int, ring: Ring) -> Cost:
    """State the cost of `by_bin` for n rows over a ring."""
    return engine.cost("matmul", shape=(n, 1, 1), ring=ring, inner=n_bins - 1)


def cost_to_ring(engine: Engine, size: int, source: Ring, ring: Ring) -> Cost:
    """State the cost of `to_ring` for so many numbers."""
    if ring.bits <= source.bits:
        return NOTHING
    return engine.cost("extend", shape=(size,), ring=ring, source=source)
