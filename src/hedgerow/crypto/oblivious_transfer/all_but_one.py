"""All but one of B seeds for each of n records: correlated GGM trees over rows of a batch.

Papers: guo2023halftree, boyle2019silent.

Record j has a tree with B leaves and its transfers one per level. The two nodes below the root are
the sender's first row and that row ^ Delta; a node x with number h has the left child H(x, h) and
the right child x ^ H(x, h). So the nodes of every level sum to Delta, the left ones alone to a K_0
and the right ones to K_1 = K_0 ^ Delta: exactly what a row of the batch transfers, with one word
K_0 ^ q of correction.

1. The receiver with index v chooses, level by level from the top, the side that v does not take.
2. Its first row is the node beside its path. For every further level it learns K of that side, and
   takes from it the nodes that it knows: what remains is the node beside its path.
3. Seeds are the hashes of leaves. The receiver lacks that of leaf v alone: it knows the leaf up to
   Delta, which is where correlation robustness of H ends what it can know.

The tweak of each hash is the record and the number h of the node as in a heap. With B no power of
two, leaves from B on are left out. Trees follow from what is kept, the sender's row of 16 bytes per
record and the receiver's 16 bytes per level, and are grown block by block.

Reveals: nothing to the sender; to the receiver all seeds but one. A sender that deviates can make
seeds of its choice differ between the two sides, which a protocol of semi-honest parties leaves
open. Cost: one round, 16 (depth - 1) bytes per record, besides the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.crypto.oblivious_transfer.hashing import Words
from hedgerow.crypto.oblivious_transfer.messages import checked
from hedgerow.crypto.oblivious_transfer.rows import ReceivedRows, SentRows
from hedgerow.crypto.oblivious_transfer.transfers import checked_index, depth, take_levels

# Nodes that are grown at a time.
_CHUNK = 1 << 15


def path_bits(index: ArrayLike, of: int) -> NDArray[np.uint8]:
    """Return the choices of step 1 for indices (n,) below `of`: (depth(of) n,), level by level."""
    return _sides(checked_index(index, of), of).astype(np.uint8).reshape(-1)


class _Trees(ABC):
    """n trees with `of` leaves each, of which `kept` is enough to grow them."""

    def __init__(self, rows: SentRows | ReceivedRows, of: int, kept: Words) -> None:
        self.of, self._kept = of, kept
        self._hash, self._counter, self._first = rows.hash, rows.counter, rows.first

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} of {self.of}>"

    def seeds(self, records: slice = slice(None)) -> Words:
        """Return the seeds of some records, shape (k, of, 2); the sender's are all there."""
        start, stop, _ = records.indices(len(self))
        out = np.empty((max(0, stop - start), self.of, 2), dtype=np.uint64)
        for part in self._parts(start, stop):
            *_, leaves = self._levels(part)
            seeds = self._hashed(part, leaves[:, : self.of], leaves.shape[1])
            out[part.start - start : part.stop - start] = self._hidden(part, seeds)
        return out

    def stream(self, seeds: Words, address: int, block: int) -> Words:
        """Return a block of each of some seeds; see `TweakableHash.stream`."""
        return self._hash.stream(seeds, address, block)

    def _parts(self, start: int, stop: int) -> Iterator[slice]:
        step = max(1, _CHUNK >> depth(self.of))
        return (slice(at, min(at + step, stop)) for at in range(start, stop, step))

    def _hashed(self, part: slice, nodes: Words, number: int) -> Words:
        """Hash nodes (k, m, 2), which have the numbers `number`, `number` + 1, ..."""
        numbers = np.arange(number, number + nodes.shape[1])
        return self._hash(nodes, self._counter, self._first + part.start, numbers)

    def _children(self, part: slice, nodes: Words) -> Words:
        """Return the children of all m nodes of a level, shape (k, m, 2, 2)."""
        left = self._hashed(part, nodes, nodes.shape[1])
        return np.stack([left, nodes ^ left], axis=2)

    @abstractmethod
    def _levels(self, part: slice) -> Iterator[Words]:
        """Grow trees: the nodes of each level, from two on, shape (k, 2^level, 2)."""

    def _hidden(self, part: slice, seeds: Words) -> Words:
        return seeds


class SenderTrees(_Trees):
    """The sender's side: all seeds."""

    def __init__(self, rows: SentRows, of: int, kept: Words) -> None:
        super().__init__(rows, of, kept)
        self._delta = rows.delta

    @classmethod
    def send(cls, rows: SentRows, of: int) -> tuple[SenderTrees, Words]:
        """Return the trees and the message, uint64, for rows of `path_bits`."""
        q = take_levels(rows, len(rows) // depth(of), of)
        trees = cls(rows, of, q[0].copy())
        message = np.empty_like(q[1:])
        for part in trees._parts(0, len(trees)):
            for level, nodes in enumerate(trees._levels(part)):
                if level:
                    left = np.bitwise_xor.reduce(nodes[:, ::2], axis=1)
                    message[level - 1, part] = left ^ q[level, part]
        return trees, message.reshape(-1)

    def _levels(self, part: slice) -> Iterator[Words]:
        root = self._kept[part]
        nodes = np.stack([root, root ^ self._delta], axis=1)
        yield nodes
        for _ in range(1, depth(self.of)):
            nodes = self._children(part, nodes).reshape(len(root), -1, 2)
            yield nodes


class ReceiverTrees(_Trees):
    """The receiver's side: all seeds but that of each record's index, which reads as zeros."""

    def __init__(self, rows: ReceivedRows, of: int, kept: Words, index: NDArray[np.int64]) -> None:
        super().__init__(rows, of, kept)
        self._index = index

    @classmethod
    def receive(
        cls, rows: ReceivedRows, index: ArrayLike, of: int, message: Words
    ) -> ReceiverTrees:
        """Return the trees; rows are those of ``path_bits(index, of)``."""
        chosen = checked_index(index, of)
        size = 2 * (depth(of) - 1) * chosen.size
        words = checked(message, size, np.uint64, "corrections of trees")
        keys = take_levels(rows, chosen.size, of)
        keys = np.concatenate([keys[:1], keys[1:] ^ words.reshape(-1, chosen.size, 2)])
        return cls(rows, of, np.ascontiguousarray(keys.swapaxes(0, 1)), chosen)

    def _levels(self, part: slice) -> Iterator[Words]:
        keys, index = self._kept[part], self._index[part]
        each, levels = np.arange(len(index)), depth(self.of)
        sides = _sides(index, self.of)
        nodes = np.zeros((len(index), 2, 2), dtype=np.uint64)
        nodes[each, sides[0]] = keys[:, 0]
        yield nodes
        for level in range(1, levels):
            hole, side = index >> (levels - level), sides[level]
            children = self._children(part, nodes)
            children[each, hole] = 0
            known = np.bitwise_xor.reduce(children, axis=1)[each, side]
            children[each, hole, side] = keys[:, level] ^ known
            nodes = children.reshape(len(index), -1, 2)
            yield nodes

    def _hidden(self, part: slice, seeds: Words) -> Words:
        seeds[np.arange(len(seeds)), self._index[part]] = 0
        return seeds


def _sides(index: NDArray[np.int64], of: int) -> NDArray[np.int64]:
    """Return the side beside the path to each index, for each level from the top: (depth, n)."""
    downwards = np.arange(depth(of))[::-1, None]
    return 1 - (index >> downwards & 1)
