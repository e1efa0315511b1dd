"""Rows of all peers side by side without anybody knowing which they have in common: `join_rows`.

The private join of `protocols.sharing.join`, on the shares of the peers. Every peer brings as many
slots as the domain has room for, empty ones among them. Nobody knows a row's place afterwards, its
owners neither: bins are shared as one-hot vectors (`JoinedColumns`), and seeds do not apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.pivot.columns import PeerRows, goes_left
from hedgerow.protocols.sharing import join as joins
from hedgerow.protocols.sharing.queries import one_hot_bits
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.ring import Z32, Ring
from hedgerow.secure.secret import Secret, SecretBits, concatenate, stack
from hedgerow.tables import Domain
from hedgerow.tables.ids import TAG_BYTES, id_tags
from hedgerow.trees.growing.nodes import NodeSplits

JOINED = "joined rows"
"""The stage that has the shares of the joined table."""
_TAGS = b"hedgerow/peers' tags/1"
"""Tags are shared and never opened: their key need not be secret."""


class JoinedTable:
    """Which planes of bits each peer brings: its attributes, highest bits first, then the target.

    `owners` has the peer of each attribute; a number is 32 bits.
    """

    def __init__(
        self, domain: Domain, owners: Sequence[int], target_at: int, classes: int | None, slots: int
    ) -> None:
        self.sizes, self.owners, self.slots = domain.n_bins.tolist(), list(owners), slots
        self.target_at, self.classes = target_at, classes
        self.bits = max(1, (max(self.sizes) - 1).bit_length())
        self.target_bits = max(1, (classes - 1).bit_length()) if classes else Z32.bits

    def planes_of(self, peer: int) -> int:
        """Return how many planes a peer brings, presence included."""
        target = self.target_bits if peer == self.target_at else 0
        return int(1 + self.owners.count(peer) * self.bits + target)

    def write(
        self,
        peer: int,
        ids: NDArray[Any],
        bins: Mapping[int, Any],
        target: Any,
        source: NoiseSource,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return tags and planes of a peer's rows, padded, in the order of the tags; H112."""
        n = len(ids)
        if n > self.slots:
            raise Code.CAPACITY_EXCEEDED.error(
                expected=f"at most {self.slots:,} rows of a peer, the capacity of the domain",
                # How many there are is for nobody else to know.
                found="more",
            )
        empty = source.bytes(TAG_BYTES * (self.slots - n)).reshape(-1, TAG_BYTES)
        tags = np.concatenate([id_tags(_TAGS, ids), empty])
        planes = np.zeros((self.planes_of(peer), self.slots), dtype=np.bool_)
        planes[0, :n] = True
        at = 1
        mine = [(bins[j], self.bits) for j, owner in enumerate(self.owners) if owner == peer]
        if peer == self.target_at:
            mine.append((target, self.target_bits))
        for values, bits in mine:
            shifts = np.arange(bits - 1, -1, -1)[:, None]
            planes[at : at + bits, :n] = np.asarray(values).astype(np.int64) >> shifts & 1
            at += bits
        order = np.lexsort(tags.T[::-1])
        return np.unpackbits(tags[order], axis=1).T != 0, planes[:, order]

    def read(self, joined: SecretBits, ring: Ring) -> tuple[Secret, Secret]:
        """Return what is summed up of rows, (k, n), and their one-hot bins, (n, B), as shares."""
        engine, here = joined.engine, joined[:1]
        first = np.cumsum([1, *(self.planes_of(peer) - 1 for peer in range(max(self.owners) + 2))])
        starts, used = [], dict.fromkeys(range(len(first)), 0)
        for owner in self.owners:
            starts.append(int(first[owner]) + used[owner])
            used[owner] += self.bits
        planes = stack([joined[[s + t for s in starts]] for t in range(self.bits)])
        hot = one_hot_bits(planes, self.sizes)
        wide = 1 << self.bits
        kept = [j * wide + v for j, size in enumerate(self.sizes) for v in range(size)]
        onehot = engine.b2a(hot[kept], ring).transpose()
        at = int(first[self.target_at]) + used[self.target_at]
        target = joined[at : at + self.target_bits]
        if self.classes:
            marked = one_hot_bits(target[:, None], [self.classes])[: self.classes]
            return engine.b2a(marked & here, ring), onehot
        weights = (np.uint64(1) << np.arange(Z32.bits - 1, -1, -1).astype(np.uint64))[:, None]
        bits = engine.b2a(concatenate([here, target & here]), ring)
        number = (bits[1:] * weights.astype(ring.dtype)).sum(axis=0, keepdims=True)
        return concatenate([bits[:1], number]), onehot


def join_rows(
    engine: AdditiveEngine, table: JoinedTable, written: Mapping[int, Any], keep: Checkpoints
) -> SecretBits:
    """Join the rows of all peers: presence and planes (planes, slots), in an order nobody knows.

    `written` is what the peer that lives here brings (`JoinedTable.write`), by its number. A run
    that goes on takes up the table that was joined before.

    Reveals: nothing but uniformly random permutations. Cost: `joins.cost_join`.
    """
    known = keep.load(JOINED)
    if known is not None:
        return SecretBits(engine, table.slots, known["planes"])
    slots = table.slots
    tags, planes = [], []
    for peer in range(engine.n_parties):
        own = written.get(peer, (None, None))
        tags.append(engine.input_bits(own[0], peer, (joins.TAG_PLANES, slots)))
        planes.append(engine.input_bits(own[1], peer, (table.planes_of(peer), slots)))
    joined = joins.join(tags, planes, slots)
    keep.save(JOINED, {"planes": joined.data})
    return joined


class JoinedColumns(PeerRows):
    """Rows as masks, attributes as shared one-hot vectors (n, B).

    Histograms are products of shares with shares, and so is the way down: the paper's baseline
    SPDZ-DT, and what rows need of which nobody knows whose they are.
    """

    def __init__(
        self, layout: Layout, owners: Sequence[int], columns: Secret, onehot: Secret
    ) -> None:
        super().__init__(layout, columns, owners)
        self._onehot = onehot
        self._masks = columns

    @property
    def n_nodes(self) -> int:
        """Nodes of this level."""
        return int(self._masks.shape[0])

    def go_down(self, split: NodeSplits, *, last: bool = False) -> None:
        """Go down by public splits. See `PeerRows.go_down`."""
        del last
        offset = self.layout.candidates.offset
        sides = np.zeros((split.nodes.size, self._onehot.shape[1]), dtype=np.uint8)
        for s, j in enumerate(split.feature):
            bins = np.arange(offset[j + 1] - offset[j])
            sides[s, offset[j] : offset[j + 1]] = goes_left(bins, split, s)
        self._divide(split.nodes, (self._onehot @ sides.T).transpose())

    def descend_among(
        self, nodes: NDArray[np.int64], choice: Secret, attributes: Sequence[Sequence[int]]
    ) -> None:
        """Go down by secret choices. See `PeerRows.descend_among`."""
        del attributes
        selected = choice @ self.layout.left
        self._divide(nodes, selected @ self._onehot.transpose())

    def _divide(self, nodes: NDArray[np.int64], left: Secret) -> None:
        """Keep the children of some nodes: rows (s, n) whose number is 1 go left, else 0."""
        parents = self._masks[nodes]
        inside = parents * left.reshape(nodes.size, 1, self.n_rows)
        self._masks = stack([inside, parents - inside], axis=1).reshape(-1, *parents.shape[1:])
        self._keep_above(nodes)

    def _counted(self, nodes: NDArray[np.int64]) -> Secret:
        masks = self._masks[nodes]
        s, k, n = masks.shape
        return (masks.reshape(s * k, n) @ self._onehot).reshape(s, k, -1)
