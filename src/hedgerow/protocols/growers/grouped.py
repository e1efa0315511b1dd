"""`Grouped`: rows in the order of nodes, so that rows cost the same however many nodes there are.

Paper: hamada2021efficient. For binned attributes and binary splits. What grows with the nodes of a
level is their histograms: one entry per node and bin beside one per row and attribute.

`growers.orders` has the data structure: per attribute an order of rows and marks. It is
kept as the secret place of every entry; rows themselves never move. For a level:

1. The places are shuffled by a fresh permutation and opened (`OrderView.of`).
2. In the order of attribute a, the rows that the split of a node sends left are the rows of some
   bins, which marks enclose. Every mark carries the difference between the bin behind it and its
   own in ``choice @ left``, so that prefix sums are 1 on the rows that a split on a sends left,
   else 0. Their sum over the attributes is the side of each row: no comparison is needed.
3. Prefix sums of (side * columns) at the marks, and differences of neighbours: the histograms of
   all left children. Those of the right ones are the parents' less these.
4. The same sums count, at every entry, the rows before it that go left. They give the places in
   the next level, a stable partition of all orders, with one multiplication per row and attribute.
   The marks are doubled.

Deviations. Places are kept instead of rows, which saves moving them and one of two openings. Rows
take their side from the orders, not by comparison with a threshold. A level's histograms are found
in the orders of the level above, so the last orders have half as many marks, and a tree of depth d
needs d - 1 of them. Marks are doubled where they are needed instead of being there from the start.
One permutation shuffles the orders of all attributes, which saves rounds.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.protocols.growers.frontier import Choice, Frontier
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.orders import (
    Entries,
    OrderView,
    by_bin,
    cost_by_bin,
    cost_of,
    cost_running,
    cost_to_ring,
    to_ring,
)
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.cost import Cost
from hedgerow.secure.ring import Z16, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack

PLACES = "shuffled places in the orders"
"""Name of the openings, followed by the level."""


class Grouped(Frontier):
    """Rows in the order of nodes; one tree, binary splits.

    Rows of empty slots, which are zero, go down too and are counted nowhere. `member` (k,) has
    weights with which the columns of a row add up to its presence, 0 or 1: ones for classes, (1, 0)
    for presence and target. By default nothing is assumed about columns (they may be weighted), and
    rows are counted in a column of their own, which every level moves too.

    Reveals: to every party, one uniformly random permutation of a public set for every level but
    the last (`openings`). It is one where rows and choices are one-hot and presence is 0 or 1, as
    they are whatever bits owners upload (`sharing.uploaded`); with other rows, as numbers could be,
    H702 follows an opening that is none.
    Cost: `cost`. With M = m n + nodes B entries of p bytes (places) and u columns of e bytes, a
    level sends a mean of (7 p + 16 + 8 u e) M / 3 + p m n + e u n bytes per server in 18 rounds,
    and somewhat more, in up to 4 more rounds, where numbers move to a larger ring. The first orders
    take a round for every attribute.
    """

    def __init__(
        self,
        table: SecretTable,
        depth: int,
        *,
        member: ArrayLike | None = None,
        name: str = PLACES,
    ) -> None:
        n, k = table.columns.shape
        _check(table.layout, n, table.ring, depth)
        self.layout, self.ring, self.n_trees, self.n_rows = table.layout, table.ring, 1, n
        self._depth, self._name = depth, name
        self._columns, self._member = table.columns, np.asarray(member)
        if member is None:
            ones = table.engine.public(np.ones((n, 1), dtype=np.uint8), table.ring)
            self._columns = concatenate([table.columns, ones], axis=1)
            self._member = np.arange(k + 1) == k
        # The columns that are added up; behind them may be the one that only counts rows.
        self._k = k
        self._histogram = (table.columns.transpose() @ table.onehot).reshape(1, k, -1)
        self._entries = Entries(n, self.layout.candidates.n_bins, 0)
        self._places = _places_ring(self._entries, depth)
        if depth > 1:
            self._start(table.onehot)

    @property
    def engine(self) -> Engine:
        """Keeper of the shares."""
        return self._columns.engine

    def histogram(self) -> Secret:
        """Return sums per node, column and bin, shape (1, nodes, k, B): known already."""
        return self._histogram[None]

    def descend(self, choice: Choice, *, last: bool = False) -> None:
        """Go down one level. See `Frontier.descend`; a choice without a 1 sends all rows right."""
        entries = self._entries
        if entries.level + 1 >= self._depth:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {self._depth - 1} descents in a tree of depth {self._depth}",
                found="one more",
                fix="take the sums in the leaves from the last histograms and choices",
            )
        if choice.shape != (1, entries.nodes, len(self.layout.candidates)):
            raise Code.WRONG_SHAPE.error(
                expected=f"choices (1, {entries.nodes}, {len(self.layout.candidates)})",
                found=f"shape {choice.shape}",
            )
        if last:
            self._depth = entries.level + 2
        view = OrderView.of(self._destinations(), opening_name(self._name, entries.level))
        side = to_ring(self._sides(view, choice), self.ring)
        left = side.reshape(-1, 1) * self._columns
        sums = self._left_sums(view, left)
        self._count(sums[entries.rows :])
        if entries.level + 2 < self._depth:
            self._partition(sums, left)
        self._entries = entries.next()

    def _start(self, onehot: Secret) -> None:
        """Put rows in the order of bins, and a mark behind each bin; see `by_bin`."""
        n, rows = self.n_rows, self._entries.rows
        small = min(self.ring, self._places, key=lambda ring: ring.bits)
        parts = [
            by_bin(to_ring(onehot[:, first:end], small))
            for first, end in pairwise(self._entries.offset)
        ]
        flat = to_ring(
            concatenate([x for kind in zip(*parts, strict=True) for x in kind]), self._places
        )
        # Before each row: rows. Up to each mark: rows. Of each row: its bins, the node's position.
        self._before, self._bins = (x.reshape(-1, n) for x in (flat[:rows], flat[rows : 2 * rows]))
        self._upto = flat[2 * rows :]
        self._position = self.engine.public(np.zeros(n, dtype=np.uint8), self._places)

    def _destinations(self) -> Secret:
        """Return the place of each entry: those of orders, nodes and marks before it, and rows."""
        entries, n = self._entries, self.n_rows
        bins, attribute = entries.n_bins[:, None], np.arange(self.layout.n_features)
        starts = attribute * n + entries.nodes * entries.offset[:-1]
        rows = self._before + self._bins + self._position * bins + starts[:, None]
        marks = self._upto + (np.arange(entries.marks) + entries.owner * n)
        return concatenate([rows.reshape(-1), marks])

    def _sides(self, view: OrderView, choice: Choice) -> Secret:
        """Return 1 for each row that its node's split sends left, else 0, shape (n,)."""
        entries, m = self._entries, self.layout.n_features
        if isinstance(choice, Secret):
            selected = to_ring(choice[0], Z16) @ self.layout.left
        else:
            public = np.asarray(choice[0], dtype=np.int64) @ self.layout.left
            selected = self.engine.public(public, Z16)
        bins = selected.reshape(-1)[entries.cells]
        rows = self.engine.public(np.zeros(entries.rows, dtype=np.uint8), Z16)
        # Behind the last mark nothing follows, so it may carry anything of the right shape.
        changes = concatenate([rows, bins[1:] - bins[:-1], bins[:1]])
        found = view.running(changes)[: entries.rows].reshape(m, -1).sum(0)
        return found + bins[:1] * m

    def _left_sums(self, view: OrderView, left: Secret) -> Secret:
        """Return the sums of rows that go left, up to each entry and over orders before it."""
        entries, (n, k) = self._entries, left.shape
        rows = left.broadcast_to((self.layout.n_features, n, k)).reshape(entries.rows, k)
        marks = self.engine.public(np.zeros((entries.marks, k), dtype=np.uint8), self.ring)
        return view.running(concatenate([rows, marks]))

    def _count(self, sums: Secret) -> None:
        """Make the children's histograms of the sums at marks (marks, columns)."""
        entries = self._entries
        bins = concatenate([sums[:1], sums[1:] - sums[:-1]])[:, : self._k]
        by_cell = bins[np.argsort(entries.cells)]
        left = by_cell.reshape(entries.nodes, -1, self._k).transpose(0, 2, 1)
        both = stack([left, self._histogram - left], axis=1)
        self._histogram = both.reshape(2 * entries.nodes, self._k, -1)

    def _partition(self, sums: Secret, left: Secret) -> None:
        """Move rows to their children and double the marks.

        With z the rows up to an entry that go left, r the rows before it, t all that go left and s
        the side of a row, there are s (z - 1) + (1 - s) (t + r - z) rows before it hereafter.
        """
        entries, rows, n = self._entries, self._entries.rows, self.n_rows
        upto, side = ((x * self._member).sum(1) for x in (sums, left))
        # Sums run on from order to order, and only what stays below n may be lifted.
        attribute = np.concatenate([np.repeat(np.arange(self.layout.n_features), n), entries.owner])
        upto = upto - side.sum(keepdims=True) * attribute
        flat = to_ring(concatenate([upto, side]), self._places)
        z, marks, side = flat[:rows].reshape(-1, n), flat[rows : entries.size], flat[entries.size :]
        total = side.sum(keepdims=True)
        right = self._before - z + total
        self._before = right + side * (z - 1 - right)
        self._upto = stack([marks, self._upto - marks + total]).reshape(-1)[entries.children]
        self._position = self._position + (1 - side) * entries.nodes


def opening_name(name: str, level: int) -> str:
    """Return under which name the places of a level are opened."""
    return f"{name}, level {level}"


def openings(
    layout: Layout, n: int, depth: int, to: str, *, times: int = 1, name: str = PLACES
) -> list[Opening]:
    """Declare what trees of n rows open, to all parties (`Engine.everyone`)."""
    return [
        Opening(
            opening_name(name, level),
            to,
            (Entries(n, layout.candidates.n_bins, level).size,),
            independent="a uniformly random permutation of all places, drawn afresh each time",
            times=times,
        )
        for level in range(depth - 1)
    ]


def cost_start(engine: Engine, layout: Layout, n: int, k: int, ring: Ring, depth: int) -> Cost:
    """State the cost of making a `Grouped`: histograms of the root, first orders."""
    m, columns = layout.n_features, layout.n_columns
    total = engine.cost("matmul", shape=(k, columns), ring=ring, inner=n)
    if depth == 1:
        return total
    places = _places_ring(Entries(n, layout.candidates.n_bins, 0), depth)
    small = min(ring, places, key=lambda ring: ring.bits)
    for n_bins in layout.candidates.n_bins:
        total += cost_by_bin(engine, n, int(n_bins), small)
    return total + cost_to_ring(engine, 2 * m * n + columns, small, places)


def cost_descend(
    engine: Engine,
    layout: Layout,
    n: int,
    k: int,
    ring: Ring,
    depth: int,
    level: int,
    *,
    member: bool = False,
) -> Cost:
    """State the cost of one `Grouped.descend` from a level, of which `depth - 2` is the last.

    `member`: whether weights were given with which columns add up to presence.
    """
    entries = Entries(n, layout.candidates.n_bins, level)
    places, size, moved = _places_ring(entries, depth), entries.size, k + (not member)
    total = (
        cost_of(engine, size, places)
        + cost_running(engine, (size,), Z16)
        + cost_to_ring(engine, n, Z16, ring)
        + engine.cost("mul", shape=(n, moved), ring=ring)
        + cost_running(engine, (size, moved), ring)
    )
    if level + 2 < depth:
        total += cost_to_ring(engine, size + n, ring, places)
        total += engine.cost("mul", shape=(layout.n_features, n), ring=places)
    return total


def cost(
    engine: Engine,
    layout: Layout,
    n: int,
    k: int,
    ring: Ring,
    depth: int,
    *,
    member: bool = False,
) -> Cost:
    """State the cost of a whole tree, without its choices. See `cost_descend`."""
    total = cost_start(engine, layout, n, k, ring, depth)
    for level in range(depth - 1):
        total += cost_descend(engine, layout, n, k, ring, depth, level, member=member)
    return total


def _places_ring(entries: Entries, depth: int) -> Ring:
    return Entries(entries.n, entries.n_bins, max(depth - 2, 0)).ring


def _check(layout: Layout, n: int, ring: Ring, depth: int) -> None:
    layout.check_depth(depth)
    if layout.branching != "binary":
        raise Code.BAD_PARAMETER.error(
            expected="branching='binary' for rows in the order of nodes",
            found=f"branching={layout.branching!r}",
        )
    if n < 1 or n >= 1 << (ring.bits - 1):
        raise Code.BAD_PARAMETER.error(
            expected=f"from 1 to {(1 << (ring.bits - 1)) - 1:,} rows over Z_2^{ring.bits}",
            found=f"{n:,}",
        )
