"""`PeerColumns`: rows of a growing tree whose attributes lie at peers, each with its own.

Paper: wu2020pivot, algorithm 2. A mask is the column of a class (or presence, or the target) where
a row is in the node, else 0; it is shared among all peers. Bins are known to their owners and not
shared at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.growers.frontier import Choice, OpenFrontier
from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.bit_products import (
    Stage,
    cost_times_bits,
    every_peer,
    times_bits,
)
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.secret import Secret, stack
from hedgerow.trees.growing.nodes import NodeSplits
from hedgerow.trees.layout import SplitKind

Array = NDArray[Any]


class PeerRows(OpenFrontier):
    """Rows of which every peer knows its own attributes; how masks are kept is left open.

    Attribute j is at peer `owners[j]`; `columns` (trees, k, n) are shares of what is summed up.
    """

    def __init__(self, layout: Layout, columns: Secret, owners: Sequence[int]) -> None:
        self.layout, self.ring = layout, columns.ring
        self.n_trees, _, self.n_rows = columns.shape
        self.owners = tuple(owners)
        self._engine = columns.engine
        self._above: Secret | None = None
        self._here: Secret | None = None

    @property
    def engine(self) -> AdditiveEngine:
        """Keeper of the shares."""
        assert isinstance(self._engine, AdditiveEngine)
        return self._engine

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Nodes of this level."""

    def sums(self) -> Secret:
        """Return sums per node of all trees, column and bin, (nodes, k, B); `cost_histogram`."""
        if self._here is None:
            hist = self._counted(np.arange(0, self.n_nodes, 1 if self._above is None else 2))
            if self._above is not None:
                hist = stack([hist, self._above - hist], axis=1).reshape(-1, *hist.shape[1:])
            self._here = hist
        return self._here

    def histogram(self) -> Secret:
        """Return `sums` of complete trees, (trees, nodes, k, B). See `Frontier.histogram`."""
        found = self.sums()
        return found.reshape(self.n_trees, -1, *found.shape[1:])

    def descend(self, choice: Choice, *, last: bool = False) -> None:
        """Go down one level by choices among all attributes. See `Frontier.descend`."""
        nodes, flat = np.arange(self.n_nodes), choice.reshape(self.n_nodes, -1)
        if isinstance(flat, Secret):
            self.descend_among(nodes, flat, [list(range(len(self.owners)))] * nodes.size)
        else:
            self.go_down(node_splits(self.layout, nodes, flat.argmax(axis=1)), last=last)

    @abstractmethod
    def go_down(self, split: NodeSplits, *, last: bool = False) -> None:
        """Go down one level by public splits of some nodes; the others are leaves.

        Reveals: nothing.
        """

    @abstractmethod
    def descend_among(
        self, nodes: NDArray[np.int64], choice: Secret, attributes: Sequence[Sequence[int]]
    ) -> None:
        """Go down by secret one-hot choices (s, C) of some nodes; the others are leaves.

        The choice of a node is among public `attributes`.

        Reveals: nothing.
        """

    @abstractmethod
    def _counted(self, nodes: NDArray[np.int64]) -> Secret:
        """Return sums (nodes, k, B) of some nodes."""

    def _keep_above(self, nodes: NDArray[np.int64]) -> None:
        """Keep the histograms of the nodes that were split."""
        self._above = None if self._here is None else self._here[nodes]
        self._here = None


class PeerColumns(PeerRows):
    """Rows as masks, attributes as punctured seeds.

    Per level: one message for the histograms of left children and of nodes without a sibling (the
    others are the parent's less those), then a bit product for every node, record and column.
    """

    def __init__(self, layout: Layout, columns: Secret, seeds: PuncturedBins) -> None:
        super().__init__(layout, columns, seeds.owners)
        self._seeds = seeds
        self._masks = columns

    @property
    def n_nodes(self) -> int:
        """Nodes of this level."""
        return int(self._masks.shape[0])

    def cost_histogram(self, nodes: int, k: int, *, siblings: bool) -> Cost:
        """State the cost of `histogram` of so many nodes; `siblings`: below a histogram."""
        return self._seeds.cost_sums((nodes // 2 if siblings else nodes) * k, self.ring)

    def go_down(self, split: NodeSplits, *, last: bool = False) -> None:
        """Go down by public splits. See `PeerRows.go_down`.

        Each owner knows which of the rows its splits send left: their bits multiply the masks.

        Cost: `cost_go_down`.
        """
        del last
        here = self.engine.core.shares((split.nodes.size, self.n_rows), np.uint8, zero=True)
        owners = np.array([self.owners[f] for f in split.feature])
        # Rows of one owner's nodes lie together, so that all owners multiply at once.
        order = np.argsort(owners, kind="stable")
        for place, node in enumerate(order):
            at = self.engine.core.at(int(owners[node]))
            if at is not None:
                bins = self._seeds.bins(int(split.feature[node]))
                here[at, place] = goes_left(bins, split, int(node))
        ends = np.searchsorted(owners[order], np.arange(self.engine.n_parties + 1)) * self.n_rows
        stage = {
            int(owner): slice(int(ends[owner]), int(ends[owner + 1])) for owner in np.unique(owners)
        }
        self._divide(split.nodes[order], here, [stage])
        back = np.argsort(order)
        both = self._masks.reshape(order.size, 2, *self._masks.shape[1:])[back]
        self._masks = both.reshape(2 * order.size, *self._masks.shape[1:])
        if self._above is not None:
            self._above = self._above[back]

    def cost_go_down(self, owners: Sequence[int], k: int) -> Cost:
        """State the cost of `go_down` by splits of these owners, sorted."""
        edges = np.searchsorted(owners, np.arange(self.engine.n_parties + 1)) * self.n_rows
        stage = {
            owner: slice(int(edges[owner]), int(edges[owner + 1])) for owner in sorted(set(owners))
        }
        n = len(owners) * self.n_rows
        return cost_times_bits(self.engine.n_parties, n, k, self.ring, [stage])

    def descend_among(
        self, nodes: NDArray[np.int64], choice: Secret, attributes: Sequence[Sequence[int]]
    ) -> None:
        """Go down by secret choices. See `PeerRows.descend_among`.

        Whether a row goes left is looked up by each owner in a table of secret bits, and stays
        shared; then as in `go_down`.

        Cost: `cost_descend_among`.
        """
        tables = left_tables(choice, self.layout, attributes)
        bits = route_bits(self._seeds, tables, attributes)
        n = nodes.size * self.n_rows
        self._divide(nodes, bits, every_peer(self.engine.n_parties, n))

    def cost_descend_among(self, attributes: Sequence[Sequence[int]], k: int) -> Cost:
        """State the cost of `descend_among`."""
        m, n = self.engine.n_parties, len(attributes) * self.n_rows
        counts: dict[int, int] = {}
        for those in attributes:
            for j in those:
                counts[j] = counts.get(j, 0) + 1
        stages = every_peer(m, n)
        looked = self._seeds.cost_look_up(counts)
        return looked + (cost_times_bits(m, n, k, self.ring, stages) if n else NOTHING)

    def _divide(self, nodes: NDArray[np.int64], bits: Array, stages: Sequence[Stage]) -> None:
        """Keep the children of some nodes: rows whose bit is set go left."""
        parents = self._masks[nodes]
        (s, k, n), here = parents.shape, len(bits)
        rows = np.ascontiguousarray(parents.transpose(0, 2, 1).data).reshape(here, s * n, k)
        flat = bits.reshape(here, s * n)
        left = times_bits(transfers(self.engine), flat, rows, self.ring, stages)
        turned = np.ascontiguousarray(np.swapaxes(left.reshape(here, s, n, k), 2, 3))
        inside = parents.like(turned)
        self._masks = stack([inside, parents - inside], axis=1).reshape(2 * s, k, n)
        self._keep_above(nodes)

    def _counted(self, nodes: NDArray[np.int64]) -> Secret:
        masks = self._masks[nodes]
        s, k, n = masks.shape
        flat = np.ascontiguousarray(masks.data.reshape(self._seeds.here, s * k, n))
        return masks.like(self._seeds.sums(flat, self.ring)).reshape(s, k, -1)


def node_splits(layout: Layout, nodes: NDArray[np.int64], index: NDArray[np.int64]) -> NodeSplits:
    """Return public splits of some nodes by their candidates."""
    those = layout.candidates
    return NodeSplits(
        nodes=nodes,
        feature=those.feature[index],
        kind=those.kind[index],
        cut=those.cut[index],
        first=2 * np.arange(index.size + 1, dtype=np.int64),
        counts=np.zeros((2 * index.size, 1), dtype=np.int64),
        gap=np.full((index.size, 2), -1, dtype=np.int64),
    )


def goes_left(bins: NDArray[np.int64], split: NodeSplits, node: int) -> NDArray[np.bool_]:
    """Return which bins the public split of a node sends left."""
    cut, threshold = split.cut[node], split.kind[node] == SplitKind.THRESHOLD
    left: NDArray[np.bool_] = bins <= cut if threshold else bins == cut
    return left


def transfers(engine: AdditiveEngine) -> Transfers:
    """Return where an engine's transfers are made."""
    assert isinstance(engine.provider, Transfers)
    return engine.provider


def left_tables(
    choice: Secret, layout: Layout, attributes: Sequence[Sequence[int]]
) -> dict[int, Array]:
    """Share, as bits, which bins of each attribute a secret choice (s, C) sends left.

    Of nodes that may choose an attribute: XORs, uint8 (peers here, nodes, bins). The lowest bits
    of shares of 0 and 1 are shares of the bit.
    """
    selected = (choice @ layout.left).data
    lowest = (selected & selected.dtype.type(1)).astype(np.uint8)
    found = {}
    for j in sorted({j for those in attributes for j in those}):
        nodes = [s for s, those in enumerate(attributes) if j in those]
        start = int(layout.candidates.offset[j])
        found[j] = lowest[:, nodes, start : int(layout.candidates.offset[j + 1])]
    return found


def route_bits(
    seeds: PuncturedBins, tables: dict[int, Array], attributes: Sequence[Sequence[int]]
) -> Array:
    """Look up which rows go left: shares of bits, uint8 (peers here, nodes, n)."""
    found = seeds.look_up(tables)
    bits = np.zeros((seeds.here, len(attributes), seeds.n), np.uint8)
    for j, entries in found.items():
        nodes = [s for s, those in enumerate(attributes) if j in those]
        bits[:, nodes] ^= entries
    return bits
