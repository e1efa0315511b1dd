"""`Masks`: one secret 0/1 mask per node and column, so that counts are matrix products.

Paper: hiddentrees, algorithm 1, steps 5 to 7 and 17 to 21, for all nodes of a level at once.

A mask is the column of a class (or presence, or the target) where a row is in the node, else 0.
Work and memory grow with the number of nodes; deep trees are for `growers.grouped`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.growers.frontier import Choice, LeafFrontier, LeafRows, OpenFrontier
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.secret import Engine, Secret, stack
from hedgerow.trees.growing.nodes import NodeSplits


class Masks(LeafFrontier):
    """Rows as masks.

    Per level, with P products of (k * nodes, n) and (n, B) matrices:
    binary: histograms of left children alone (the right ones are the parent's less those), then one
    product (n, B) @ (B, nodes) for the side of every row and one multiplication of masks.
    w-ary: one product for histograms; K = T' k (n m elements), v = K . D (n w elements), and one
    multiplication of masks. Before the last histogram, where there are more masks than columns, v
    is multiplied into the table and no masks are made.

    Columns (trees, n, k) are those of trees that see all rows, each with columns of its own.
    `sampled` says which rows each tree sees; without it tree j has the slots j, j + t, j + 2 t,
    ..., so that every tree sees rows of all owners: n has to be a multiple of t. A record's slot is
    its own, so trees are on disjoint records. `member` as in `Grouped`; ones by default.
    """

    def __init__(
        self,
        table: SecretTable,
        *,
        n_trees: int = 1,
        sampled: Secret | None = None,
        member: NDArray[np.uint8] | None = None,
    ) -> None:
        self.layout, self.ring, self.n_trees = table.layout, table.ring, n_trees
        n, k = table.columns.shape[-2:]
        if table.columns.ndim == 3:
            self.n_trees, self.n_rows = table.columns.shape[0], n
            self._onehot = table.onehot.reshape(1, n, -1)
            self._masks = _packed(table.columns.transpose(0, 2, 1)).reshape(-1, 1, k, n)
        elif sampled is not None:
            columns = table.columns.transpose()
            self.n_rows = n
            self._onehot = table.onehot.reshape(1, n, -1)
            self._masks = (columns.reshape(1, 1, k, n)) * sampled.reshape(n_trees, 1, 1, n)
        else:
            if n % n_trees:
                raise Code.BAD_PARAMETER.error(
                    expected="a number of slots that the number of trees divides",
                    found=f"{n:,} slots and {n_trees} trees",
                )
            self.n_rows = n // n_trees
            self._onehot = _packed(_dealt(table.onehot, n_trees))
            self._masks = _packed(_dealt(table.columns, n_trees).transpose(0, 2, 1)[:, None])
        self._member = np.ones(k, dtype=np.uint8) if member is None else member
        # Histograms of this level, and of the one above.
        self._here: Secret | None = None
        self._above: Secret | None = None
        self._sides: Secret | None = None

    @property
    def engine(self) -> Engine:
        """Keeper of the shares."""
        return self._onehot.engine

    @property
    def member(self) -> Secret:
        """Whether a row is in a node, shape (trees, nodes, n)."""
        return (self._masks * self._member[:, None]).sum(axis=2)

    def histogram(self) -> Secret:
        """Return sums per node, column and bin, shape (trees, nodes, k, B): one product."""
        if self._here is None:
            self._here = self._counted()
        return self._here

    def _counted(self) -> Secret:
        if self._sides is not None:
            return self._histogram_of_sides(self._sides)
        above = self._above if self.layout.branching == "binary" else None
        t, nodes, k, n = self._masks.shape
        masks = self._masks if above is None else self._masks[:, ::2]
        found = _product(masks.reshape(t, -1, n), self._onehot)
        hist = found.reshape(t, -1, k, found.shape[-1])
        if above is None:
            return hist
        return stack([hist, above - hist], axis=2).reshape(t, nodes, k, -1)

    def descend(self, choice: Choice, *, last: bool = False) -> None:
        """Go down one level. See `Frontier.descend`."""
        self._above, self._here = self._here, None
        if self.layout.branching == "binary":
            left = self._masks * self._left(choice)
            t, nodes, k, n = left.shape
            both = stack([left, self._masks - left], axis=2)
            self._masks = both.reshape(t, 2 * nodes, k, n)
            return
        v = self._values(choice)
        t, nodes, k, n = self._masks.shape
        if last and nodes * k > self.layout.n_columns:
            self._sides = v
            return
        grown = self._masks.reshape(t, nodes, 1, k, n) * v.reshape(t, 1, -1, 1, n)
        self._masks = grown.reshape(t, -1, k, n)

    def leaves(self, choice: Choice) -> MaskedLeaves:
        """Return the rows in their leaves. See `LeafFrontier.leaves`."""
        member = self.member
        left = member * self._left(choice)[:, :, 0]
        t, nodes, n = left.shape
        return MaskedLeaves(stack([left, member - left], axis=2).reshape(t, 2 * nodes, n))

    def _left(self, choice: Choice) -> Secret:
        """Return which rows the split of each node sends left, shape (trees, nodes, 1, n)."""
        selected = choice @ self.layout.left
        side = self._onehot @ selected.transpose(0, 2, 1)
        t, n, nodes = side.shape
        return side.transpose(0, 2, 1).reshape(t, nodes, 1, n)

    def _values(self, choice: Choice) -> Secret:
        """Return the value of each row in its node's attribute, one-hot, (trees, w, n)."""
        t, n, m = self.n_trees, self.n_rows, self.layout.n_features
        chosen = self.member.transpose(0, 2, 1) @ choice
        table = self._onehot.reshape(self._onehot.shape[0], n, m, self.layout.width)
        values = chosen.reshape(t, n, 1, m) @ table
        return _packed(values.reshape(t, n, -1).transpose(0, 2, 1))

    def _histogram_of_sides(self, v: Secret) -> Secret:
        """Count the children of all nodes with the values multiplied into the table."""
        t, nodes, k, n = self._masks.shape
        w, columns = self.layout.width, self.layout.n_columns
        table = v.transpose(0, 2, 1).reshape(t, n, w, 1) * self._onehot.reshape(-1, n, 1, columns)
        found = _product(self._masks.reshape(t, nodes * k, n), table.reshape(t, n, w * columns))
        hist = found.reshape(t, nodes, k, w, columns).transpose(0, 1, 3, 2, 4)
        return hist.reshape(t, nodes * w, k, columns)


@dataclass(frozen=True, eq=False)
class MaskedLeaves(LeafRows):
    """Rows in their leaves as masks (trees, leaves, n)."""

    masks: Secret

    def sums(self, weight: Secret) -> Secret:
        """Return the weight of each leaf: one product. See `LeafRows.sums`."""
        return (self.masks @ weight[:, :, None])[:, :, 0]

    def spread(self, values: Secret | NDArray[np.int64]) -> Secret:
        """Return the value of each row's leaf: one product. See `LeafRows.spread`."""
        found: Secret = values[:, None, :] @ self.masks  # type: ignore[assignment]
        return found[:, 0]


class OpenMasks(Masks, OpenFrontier):
    """Masks of nodes whose splits are public: only branches that exist are kept."""

    _existing: NDArray[np.int64] | None = None

    def go_down(self, split: NodeSplits, *, last: bool) -> None:
        """Go down one level by public splits: one multiplication of masks.

        Before the last histogram, where there are more masks than columns, values are multiplied
        into the table as in `Masks`; branches that do not exist are then left out afterwards.
        """
        candidate = self.layout.candidates.first[split.feature] + split.cut
        hot = as_one_hot(candidate, len(self.layout.candidates))[None]
        children, k = split.owner.size, self._masks.shape[2]
        if self.layout.branching == "binary":
            self.descend(hot)
        elif last and children * k > self.layout.n_columns * self.layout.width:
            self._existing = existing_branches(split, self.layout)
            self._above, self._here = None, None
            self._sides = self._values(hot)
        else:
            self._above, self._here = None, None
            child = np.arange(children) - split.first[split.owner]
            columns = self.layout.first_column[split.feature[split.owner]] + child
            value = self._onehot[:, :, columns].transpose(0, 2, 1)
            t, _, n = value.shape
            self._masks = self._masks[:, split.owner] * value.reshape(t, children, 1, n)

    def histogram(self) -> Secret:
        """Return sums per node that exists, column and bin. See `Frontier.histogram`."""
        hist = super().histogram()
        return hist if self._existing is None else hist[:, self._existing]


def existing_branches(split: NodeSplits, layout: Layout) -> NDArray[np.int64]:
    """Return which of the padded branches of a level exist."""
    child = np.arange(split.owner.size) - split.first[split.owner]
    found: NDArray[np.int64] = split.owner * layout.arity + child
    return found


def _product(masks: Secret, table: Secret) -> Secret:
    return masks @ table


def _dealt(rows: Secret, n_trees: int) -> Secret:
    """Deal rows (n, ...) to trees in turn, (trees, n / trees, ...)."""
    n, width = rows.shape
    return rows.reshape(n // n_trees, n_trees, width).transpose(1, 0, 2)


def _packed(x: Secret) -> Secret:
    """Return the same secret with its elements in order in memory."""
    return x.like(np.ascontiguousarray(x.data))
