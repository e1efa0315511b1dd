"""Products of shares with what one peer knows: a value of few, the same for many products.

Peer i, the *owner* of an attribute, knows the bin v of every record, one of B. Once for each record
and each other peer p, an all-but-one transfer gives p a seed s_b for every bin, and i all of them
but s_v. With r_b = F(s_b, address) at an address that is used once:

- *Sums.* Of its share x of a number of the record, p sends d = x - sum_b r_b, one element whatever
  B is. Its share of [v = b] x is r_b; the owner's is -r_b for b != v, and d + sum_{b != v} r_b for
  b = v. Added up over records these are shares of a histogram.
- *Look-ups.* Of its shares l_b of the bits of a table of B entries, p sends d_b = l_b ^ t_b with
  t = xor_c r_c, where r_c now has a bit for every entry. Its share of l_v is xor_b r_b[b], the
  owner's is d_v ^ xor_{c != v} r_c[v] ^ xor_{b != v} r_b[b].

What is sent hides under r_v, which the owner does not know. A second use of an address would show
it a difference of what p holds, so addresses are steps of the engine, which only grow (H750); who
knew s_v would know everything, and p itself would know v if the owner gave away which seed it
lacks. Trees of seeds belong to the session, and are made anew after a resume.

Paper: guo2023halftree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import (
    ReceiverTrees,
    SenderTrees,
    depth,
    message_bytes,
    path_bits,
)
from hedgerow.crypto.oblivious_transfer.hashing import Words
from hedgerow.errors import Code
from hedgerow.secure.additive import kernels
from hedgerow.secure.additive.shuffle import Pair
from hedgerow.secure.additive.transfers import AT_ONCE, Transfers
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.steps import Parcel, Step

Array = NDArray[Any]
MOST_BINS: Final = 256
PLANT, SUMS, LOOK_UP = "punctured seeds", "sums by bins", "look-ups"
"""Names of the steps, on meters."""
KEPT: Final = 1 << 29
"""Bytes of seeds that a process keeps; the rest is grown again whenever it is needed."""
_SENT: Final = 1 << 26
# Seeds that are expanded at a time stay in the processor's cache, with what comes of them.
_CHUNK: Final = 1 << 12
_BLOCK_BITS: Final = 128


class PuncturedBins:
    """Bins of n records, each attribute at one peer, as factors of products with shares.

    Attribute j has `n_bins[j]` bins and belongs to peer `owners[j]`; the `bins` (n,) of those whose
    owner lives here are given. H501 for more bins than `MOST_BINS`, or a bin that there is not.

    Cost: `cost_plant`, at once.
    """

    def __init__(
        self,
        provider: Transfers,
        owners: Sequence[int],
        n_bins: Sequence[int],
        bins: Mapping[int, Array],
        n: int,
    ) -> None:
        self._provider, self._core = provider, provider.core
        self.owners, self.n_bins, self.n = tuple(owners), tuple(map(int, n_bins)), n
        if not all(1 <= most <= MOST_BINS for most in self.n_bins):
            raise Code.BAD_PARAMETER.error(
                expected=f"1 to {MOST_BINS} bins of every attribute",
                found=f"{max(self.n_bins):,}",
                fix="merge bins of that attribute",
            )
        self.offsets = np.concatenate([[0], np.cumsum(self.n_bins)]).astype(np.int64)
        self._bins = {
            j: check_bins(j, bins.get(j), n, most)
            for j, most in enumerate(self.n_bins)
            if self._is_here(j)
        }
        self._sent: dict[tuple[Pair, int], SenderTrees] = {}
        self._received: dict[tuple[Pair, int], ReceiverTrees] = {}
        self._seeds: dict[tuple[Pair, int], Words] = {}
        self._address = -1
        if n:
            self._plant()

    @property
    def here(self) -> int:
        """How many peers live here."""
        return len(self._core.here)

    def bins(self, attribute: int) -> NDArray[np.int64]:
        """Return the bins of an attribute whose owner lives here."""
        return self._bins[attribute]

    # What is planted

    def cost_plant(self) -> Cost:
        """State the cost of planting all trees, as preprocessing; without base transfers."""
        total, m = NOTHING, self._core.n
        for batch in self._batches() if self.n else ():
            sent = [0] * m
            for owner, attributes in batch.items():
                rows = sum(map(self._rows, attributes))
                words = 2 * sum(map(self._words, attributes))
                for other in range(m):
                    if other != owner:
                        sent[owner] += message_bytes(rows)
                        sent[other] += 8 * words
            rounds = 1 + any(self._words(j) for those in batch.values() for j in those)
            total += Cost(preprocessing=tuple(sent), preprocessing_rounds=rounds)
        return total

    def _plant(self) -> None:
        self._provider.begin()
        core = self._core
        for batch in self._batches():
            step = core.step(PLANT, f"attributes {batch}")
            sizes = {pair: sum(map(self._rows, batch[pair[1]])) for pair in self._pairs(batch)}
            choices = {
                owner: np.concatenate([path_bits(self._bins[j], self.n_bins[j]) for j in those])
                for owner, those in batch.items()
                if core.at(owner) is not None
            }
            sent, received = self._provider.extend(step, sizes, choices)
            parcels = {}
            for pair in sizes:
                message = None
                if pair in sent:
                    message = self._send_trees(pair, batch[pair[1]], sent[pair])
                size = 2 * sum(map(self._words, batch[pair[1]]))
                parcels[pair] = step.send(*pair, (size,), np.uint64, message)
            step.exchange()
            for pair, rows in received.items():
                self._receive_trees(pair, batch[pair[1]], rows, _content(parcels[pair]))

    def _send_trees(self, pair: Pair, attributes: list[int], rows: Any) -> Array:
        messages = []
        for j, part in zip(attributes, rows.split([*map(self._rows, attributes)]), strict=True):
            self._sent[pair, j], message = SenderTrees.send(part, self.n_bins[j])
            messages.append(message)
        return np.concatenate(messages)

    def _receive_trees(self, pair: Pair, attributes: list[int], rows: Any, message: Array) -> None:
        at = 0
        for j, part in zip(attributes, rows.split([*map(self._rows, attributes)]), strict=True):
            words = message[at : at + 2 * self._words(j)]
            at += words.size
            self._received[pair, j] = ReceiverTrees.receive(
                part, self._bins[j], self.n_bins[j], words
            )

    def _batches(self) -> Iterator[dict[int, list[int]]]:
        """Deal attributes out to batches of so many transfers for each owner."""
        left = {owner: self._attributes(owner) for owner in sorted(set(self.owners))}
        while any(left.values()):
            batch: dict[int, list[int]] = {}
            for owner, attributes in left.items():
                rows = 0
                while attributes and (not rows or rows + self._rows(attributes[0]) <= AT_ONCE):
                    rows += self._rows(attributes[0])
                    batch.setdefault(owner, []).append(attributes.pop(0))
            yield batch

    def _rows(self, attribute: int) -> int:
        return depth(self.n_bins[attribute]) * self.n

    def _words(self, attribute: int) -> int:
        return (depth(self.n_bins[attribute]) - 1) * self.n

    # Sums

    def sums(self, x: Array, ring: Ring) -> Array:
        """Sum up numbers by bins: of shares (peers here, c, n), shares (peers here, c, all bins).

        Reveals: nothing. Cost: `cost_sums`.
        """
        core, c = self._core, x.shape[1]
        out = core.shares((c, int(self.offsets[-1])), ring.dtype, zero=True)
        turned = np.ascontiguousarray(np.swapaxes(x, 1, 2))
        for j, owner in enumerate(self.owners):
            at = core.at(owner)
            if self.n_bins[j] == 1:
                out[:, :, self._span(j)] += x.sum(axis=2, dtype=ring.dtype)[..., None]
            elif at is not None:
                kernels.scatter(turned[at], self._bins[j], self._room(out, at, j))
        for records in self._ranges(c, ring):
            self._sum_range(turned, records, out, ring)
        return out

    def cost_sums(self, c: int, ring: Ring) -> Cost:
        """State the cost of `sums` of c numbers of each record."""
        m, sent = self._core.n, [0] * self._core.n
        for owner in set(self.owners):
            for other in range(m):
                if other != owner:
                    each = len(self._attributes(owner)) * c * self.n * ring.bytes
                    sent[other] += each
        return Cost(len([*self._ranges(c, ring)]), tuple(sent)) if c else NOTHING

    def _sum_range(self, x: Array, records: slice, out: Array, ring: Ring) -> None:
        core, c, k = self._core, x.shape[2], records.stop - records.start
        step = self._step(SUMS, f"{c} columns of records {records.start} to {records.stop}")
        parcels = {}
        for pair in self._pairs(self.owners):
            attributes, at, message = self._attributes(pair[1]), core.at(pair[0]), None
            if at is not None:
                message = np.empty((len(attributes), k, c), ring.dtype)
                for place, j in enumerate(attributes):
                    hist = self._room(out, at, j)
                    for part, seeds, trees in self._chunks(self._sent, pair, j, records):
                        inside = slice(part.start - records.start, part.stop - records.start)
                        np.copyto(message[place, inside], x[at, part])
                        for first, r in self._elements(trees, seeds, step, c, ring):
                            kernels.send_sums(r, message[place, inside], hist, first)
            shape = (len(attributes), k, c)
            parcels[pair] = step.send(*pair, shape, ring.dtype, message)
        step.exchange()
        for pair, parcel in parcels.items():
            if parcel.content is None:
                continue
            at = core.at(pair[1])
            assert at is not None
            for place, j in enumerate(self._attributes(pair[1])):
                hist = self._room(out, at, j)
                for part, seeds, trees in self._chunks(self._received, pair, j, records):
                    inside = slice(part.start - records.start, part.stop - records.start)
                    d = np.ascontiguousarray(parcel.content[place, inside])
                    for first, r in self._elements(trees, seeds, step, c, ring):
                        kernels.receive_sums(r, d, self._bins[j][part], hist, first)

    def _room(self, out: Array, at: int, attribute: int) -> Array:
        """Return where the sums of one peer for an attribute belong, (c, B)."""
        room: Array = out[at][:, self._span(attribute)]
        return room

    def _elements(
        self, trees: Any, seeds: Words, step: Step, c: int, ring: Ring
    ) -> Iterator[tuple[int, Array]]:
        """Expand seeds (k, B, 2) to c elements, few at a time: which is first, and (k, B, few)."""
        each = _BLOCK_BITS // ring.bits
        for block, first in enumerate(range(0, c, each)):
            words = trees.stream(seeds, step.number, block)
            yield first, words.view(ring.dtype)

    def _ranges(self, c: int, ring: Ring) -> Iterator[slice]:
        """Cut the records so that no message is too large for memory."""
        widest = max((len(self._attributes(owner)) for owner in set(self.owners)), default=0)
        if not c or not widest:
            return
        most = max(1, _SENT // (widest * c * ring.bytes))
        for start in range(0, self.n, most):
            yield slice(start, min(start + most, self.n))

    # Look-ups

    def look_up(self, tables: Mapping[int, Array]) -> dict[int, Array]:
        """Look every record's bin up in tables of secret bits: shares of the entries.

        `tables` has for some attributes, the same at all peers, shares of bits as uint8, (peers
        here, q, B): XORs, q tables. Returns for each of them (peers here, q, n).

        Reveals: nothing. Cost: `cost_look_up`.
        """
        core = self._core
        found = {
            j: core.shares((t.shape[1], self.n), np.uint8, zero=True) for j, t in tables.items()
        }
        needed = [j for j, t in tables.items() if t.shape[1]]
        for j in needed:
            if self.n_bins[j] == 1:
                found[j] ^= tables[j]
            elif (at := core.at(self.owners[j])) is not None:
                found[j][at] ^= tables[j][at][:, self._bins[j]]
        those = [j for j in needed if self.n_bins[j] > 1]
        if not those or not self.n:
            return found
        step = self._step(LOOK_UP, f"tables {[(j, tables[j].shape[1]) for j in those]}")
        parcels: dict[tuple[Pair, int], Parcel] = {}
        for j in those:
            for pair in self._pairs([self.owners[j]]):
                at, message = core.at(pair[0]), None
                if at is not None:
                    message = self._send_look_up(pair, j, tables[j][at], found[j][at], step)
                shape = (self.n, _bytes(tables[j].shape[1] * self.n_bins[j]))
                parcels[pair, j] = step.send(*pair, shape, np.uint8, message)
        step.exchange()
        for (pair, j), parcel in parcels.items():
            if parcel.content is not None:
                at = core.at(pair[1])
                assert at is not None
                self._receive_look_up(pair, j, parcel.content, found[j][at], step)
        return found

    def cost_look_up(self, tables: Mapping[int, int]) -> Cost:
        """State the cost of `look_up` in so many tables of each attribute."""
        sent = [0] * self._core.n
        for j, q in tables.items():
            if self.n_bins[j] > 1:
                for pair in self._pairs([self.owners[j]]):
                    sent[pair[0]] += self.n * _bytes(q * self.n_bins[j])
        return Cost(1, tuple(sent)) if any(sent) else NOTHING

    def _send_look_up(self, pair: Pair, j: int, table: Array, found: Array, step: Step) -> Array:
        q, b = table.shape
        packed = np.packbits(table.reshape(-1), bitorder="little")
        out = np.empty((self.n, packed.size), np.uint8)
        for part, seeds, trees in self._chunks(self._sent, pair, j, slice(0, self.n)):
            for block, first in enumerate(range(0, q * b, _BLOCK_BITS)):
                r = trees.stream(seeds, step.number, block).view(np.uint8)
                kernels.send_look_up(r, packed, out[part], found[:, part], first)
        return out

    def _receive_look_up(
        self, pair: Pair, j: int, message: Array, found: Array, step: Step
    ) -> None:
        size = found.shape[0] * self.n_bins[j]
        for part, seeds, trees in self._chunks(self._received, pair, j, slice(0, self.n)):
            for block, first in enumerate(range(0, size, _BLOCK_BITS)):
                r = trees.stream(seeds, step.number, block).view(np.uint8)
                kernels.receive_look_up(
                    r, message[part], self._bins[j][part], found[:, part], first
                )

    # Both

    def _step(self, name: str, purpose: str) -> Step:
        step = self._core.step(name, purpose)
        if step.number <= self._address:
            raise Code.ADDRESS_USED_TWICE.error(
                expected=f"an address above {self._address} for what seeds are expanded at",
                found=f"address {step.number}",
            )
        self._address = step.number
        return step

    def _chunks(
        self, trees: Mapping[tuple[Pair, int], Any], pair: Pair, j: int, records: slice
    ) -> Iterator[tuple[slice, Words, Any]]:
        """Return the seeds of some records, few at a time, with the trees that they come from."""
        grown, step = trees[pair, j], max(1, _CHUNK // self.n_bins[j])
        kept = self._seeds.get((pair, j))
        if kept is None and self._fits(j):
            kept = self._seeds[pair, j] = grown.seeds()
        for start in range(records.start, records.stop, step):
            part = slice(start, min(start + step, records.stop))
            yield part, grown.seeds(part) if kept is None else kept[part], grown

    def _fits(self, j: int) -> bool:
        kept = sum(words.nbytes for words in self._seeds.values())
        return kept + 16 * self.n_bins[j] * self.n <= KEPT

    def _pairs(self, owners: Any) -> Iterator[Pair]:
        """Return all pairs of a peer and one of some owners that it is not."""
        return (pair for pair in permutations(range(self._core.n), 2) if pair[1] in owners)

    def _attributes(self, owner: int) -> list[int]:
        """Return the attributes of a peer that have more than one bin."""
        return [j for j, own in enumerate(self.owners) if own == owner and self.n_bins[j] > 1]

    def _span(self, attribute: int) -> slice:
        return slice(int(self.offsets[attribute]), int(self.offsets[attribute + 1]))

    def _is_here(self, attribute: int) -> bool:
        return self._core.at(self.owners[attribute]) is not None


def check_bins(attribute: int, bins: Array | None, n: int, most: int) -> NDArray[np.int64]:
    """Return the bins of n records of an attribute, of which there are `most`.

    H108 if there are not so many, H501 for one that there is not.
    """
    found = np.asarray(bins)
    if found.shape != (n,) or found.dtype.kind not in "iu":
        raise Code.WRONG_SHAPE.error(
            expected=f"bins of {n:,} records of attribute {attribute} at its owner",
            found=f"shape {found.shape} of {found.dtype.name}",
        )
    values = found.astype(np.int64)
    if n and (values.min() < 0 or values.max() >= most):
        raise Code.BAD_PARAMETER.error(
            expected=f"bins from 0 to {most - 1} in attribute {attribute}",
            found=f"bins from {values.min()} to {values.max()}",
        )
    return values


def _content(parcel: Parcel) -> Array:
    assert parcel.content is not None
    return parcel.content


def _bytes(bits: int) -> int:
    return -(-bits // 8)
