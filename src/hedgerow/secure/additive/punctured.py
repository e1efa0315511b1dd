"""Products of shares with what one peer knows: a value of few, the same for many products.

Peer i, the *owner* of an attribute, knows the bin v of every record, one of B. Once for each record
and each other peer p, an all-but-one transfer gives p a seed s_b for every bin, and i all of them
but s_v. With r_b = F(s_b, address) at an address that is used once:

- *Sums.* Of its share x of a number of the record, p sends d = x - sum_b r_b, one element whatever
  B is. Its share of [v = b] x is r_b; the owner's is -r_b for b != v, and d + sum_{b != v} r_b for
  b = v. Added up over records these are shares of a histogram.
- *Weighted sums.* The same shares of [v = b] x, times public numbers w_b and added up over bins,
  are shares of w_v x: one number of each record, times a number that all records share.
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

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from math import prod
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
Kernel = Callable[[int, int, slice, Array, Array, int], None]
MOST_BINS: Final = 256
PLANT, SUMS, WEIGHTED, LOOK_UP = "punctured seeds", "sums by bins", "weighted sums", "look-ups"
"""Names of the steps, on meters."""
KEPT: Final = 1 << 29
"""Bytes of seeds that a process keeps; the rest is grown again whenever it is needed."""
FEW: Final = 1 << 26
"""Bytes of those that are kept until other records are asked for."""
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
        self._few: dict[tuple[int, int], Words] = {}
        self._few_bytes, self._latest = 0, slice(0, 0)
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

    # Sums, by bins and by records

    def sums(self, x: Array, ring: Ring, records: slice | None = None) -> Array:
        """Sum up numbers by bins: of shares (peers here, c, k), shares (peers here, c, all bins).

        The k `records` are consecutive, all n by default.

        Reveals: nothing. Cost: `cost_sums`.
        """
        core, c, some = self._core, x.shape[1], records or slice(0, self.n)
        out = core.shares((c, int(self.offsets[-1])), ring.dtype, zero=True)
        turned = np.ascontiguousarray(np.swapaxes(x, 1, 2))
        for j, owner in enumerate(self.owners):
            at = core.at(owner)
            if self.n_bins[j] == 1:
                out[:, :, self._span(j)] += x.sum(axis=2, dtype=ring.dtype)[..., None]
            elif at is not None:
                kernels.scatter(turned[at], self._bins[j][some], self._room(out, at, j))

        def send(at: int, j: int, _: slice, r: Array, d: Array, first: int) -> None:
            kernels.send_sums(r, d, self._room(out, at, j), first)

        def receive(at: int, j: int, part: slice, r: Array, d: Array, first: int) -> None:
            kernels.receive_sums(r, d, self._bins[j][part], self._room(out, at, j), first)

        widths: dict[int, int] = dict.fromkeys(self._wide(), int(c))
        for part in self._ranges(widths, ring, some):
            rows = turned[:, part.start - some.start : part.stop - some.start]
            self._multiply(SUMS, part, dict.fromkeys(widths, rows), ring, send, receive)
        return out

    def cost_sums(self, c: int, ring: Ring, n: int | None = None) -> Cost:
        """State the cost of `sums` of c numbers of each of n records."""
        return self._cost_multiply(dict.fromkeys(self._wide(), c), ring, n)

    def weighted(
        self,
        x: Mapping[int, Array],
        weights: Mapping[int, Array],
        ring: Ring,
        records: slice | None = None,
    ) -> Array:
        """Sum up, for every record, numbers weighted by what its bins stand for.

        Of shares x[j] (peers here, q, c) of some attributes, the same at all peers, and public
        weights (q, B), elements of the ring, shares (peers here, c, k) of the sum over j and q of
        weights[j][q, v] x[j][q], v being the record's bin. The k `records` are consecutive.

        Reveals: nothing. Cost: `cost_weighted`.
        """
        core, some = self._core, records or slice(0, self.n)
        k, c = some.stop - some.start, next(iter(x.values())).shape[2]
        out = core.shares((k, c), ring.dtype, zero=True)
        for j, own in x.items():
            at = core.at(self.owners[j])
            if self.n_bins[j] == 1:
                out += np.einsum("q,pqc->pc", weights[j][:, 0], own)[:, None]
            elif at is not None:
                out[at] += weights[j].T[self._bins[j][some]] @ own[at]

        def room(at: int, part: slice) -> Array:
            rows: Array = out[at, part.start - some.start : part.stop - some.start]
            return rows

        def send(at: int, j: int, part: slice, r: Array, d: Array, first: int) -> None:
            kernels.send_weighted(r, d, weights[j], room(at, part), first)

        def receive(at: int, j: int, part: slice, r: Array, d: Array, first: int) -> None:
            bins = self._bins[j][part]
            kernels.receive_weighted(r, d, weights[j], bins, room(at, part), first)

        wide = {
            j: x[j].reshape(len(core.here), 1, prod(x[j].shape[1:])) for j in self._wide() if j in x
        }
        for part in self._ranges({j: int(own.shape[2]) for j, own in wide.items()}, ring, some):
            self._multiply(WEIGHTED, part, wide, ring, send, receive)
        return np.swapaxes(out, 1, 2)

    def cost_weighted(self, widths: Mapping[int, int], ring: Ring, n: int | None = None) -> Cost:
        """State the cost of `weighted` for n records, with q c numbers of each attribute."""
        return self._cost_multiply({j: widths[j] for j in self._wide() if j in widths}, ring, n)

    def _multiply(
        self,
        name: str,
        records: slice,
        x: Mapping[int, Array],
        ring: Ring,
        send: Kernel,
        receive: Kernel,
    ) -> None:
        """Exchange what makes products of shares x[j] (peers here, records or 1, width) with bins.

        Both sides hand to a kernel: the peer's place, the attribute, records, what their seeds
        expand to (k, B, few), d (k, width), and the number of the first of these few.
        """
        core, k = self._core, records.stop - records.start
        widths = {j: own.shape[2] for j, own in x.items()}
        step = self._step(name, f"{widths} of records {records.start} to {records.stop}")
        grown = sum(self.n_bins[j] * width for j, width in widths.items()) * k * ring.bytes
        core.network.note_work("seed bytes", 2 * (core.n - 1) * grown)
        parcels = {}
        for pair in self._pairs(self.owners):
            attributes, at, message = self._attributes(pair[1], x), core.at(pair[0]), None
            each = [widths[j] for j in attributes]
            shape = (len(each), k, each[0]) if len({*each}) == 1 else (k * sum(each),)
            if at is not None:
                message = np.empty(shape, ring.dtype)
                for j, d in self._blocks(message, attributes, widths, k):
                    np.copyto(d, x[j][at])
                    self._expand(self._sent, pair, j, records, d, step, ring, at, send)
            parcels[pair] = step.send(*pair, shape, ring.dtype, message)
        step.exchange()
        for pair, parcel in parcels.items():
            if parcel.content is not None:
                at = core.at(pair[1])
                assert at is not None
                # What arrived is added to, in place.
                content = np.array(parcel.content)
                for j, d in self._blocks(content, self._attributes(pair[1], x), widths, k):
                    self._expand(self._received, pair, j, records, d, step, ring, at, receive)

    def _expand(
        self,
        trees: Mapping[tuple[Pair, int], Any],
        pair: Pair,
        j: int,
        records: slice,
        d: Array,
        step: Step,
        ring: Ring,
        at: int,
        kernel: Kernel,
    ) -> None:
        """Hand the elements of all seeds of some records to a kernel, few at a time."""
        each, c = _BLOCK_BITS // ring.bits, d.shape[1]
        for part, seeds, grown in self._chunks(trees, pair, j, records):
            inside = d[part.start - records.start : part.stop - records.start]
            for block, first in enumerate(range(0, c, each)):
                r = grown.stream(seeds, step.number, block).view(ring.dtype)
                kernel(at, j, part, r, inside, first)

    @staticmethod
    def _blocks(
        message: Array, attributes: Sequence[int], widths: Mapping[int, int], k: int
    ) -> Iterator[tuple[int, Array]]:
        """Cut a message into what belongs to each attribute, (k, width)."""
        ends = np.cumsum([0, *(k * widths[j] for j in attributes)]).tolist()
        for j, (start, stop) in zip(attributes, pairwise(ends), strict=True):
            yield j, message.reshape(-1)[start:stop].reshape(k, widths[j])

    def _cost_multiply(self, widths: Mapping[int, int], ring: Ring, n: int | None) -> Cost:
        m, sent, records = self._core.n, [0] * self._core.n, slice(0, self.n if n is None else n)
        for j, width in widths.items():
            for other in range(m):
                if other != self.owners[j]:
                    sent[other] += width * records.stop * ring.bytes
        rounds = len([*self._ranges(widths, ring, records)])
        return Cost(rounds, tuple(sent)) if rounds else NOTHING

    def _room(self, out: Array, at: int, attribute: int) -> Array:
        """Return where the sums of one peer for an attribute belong, (c, B)."""
        room: Array = out[at][:, self._span(attribute)]
        return room

    def _ranges(self, widths: Mapping[int, int], ring: Ring, records: slice) -> Iterator[slice]:
        """Cut records so that no message is too large for memory."""
        each = [
            sum(widths[j] for j in self._attributes(owner, widths)) for owner in set(self.owners)
        ]
        if not any(each):
            return
        most = max(1, _SENT // (max(each) * ring.bytes))
        for start in range(records.start, records.stop, most):
            yield slice(start, min(start + most, records.stop))

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
        grown = self.n * sum(_bytes(tables[j].shape[1] * self.n_bins[j]) for j in those)
        core.network.note_work("seed bytes", 2 * (core.n - 1) * grown)
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
            yield part, self._grown(grown, part, records) if kept is None else kept[part], grown

    def _grown(self, trees: Any, part: slice, records: slice) -> Words:
        """Grow the seeds of a part of some records, and keep them until others are asked for.

        A batch is asked for twice: its weighted sums, then the sums of what comes of them.
        """
        if records != self._latest:
            self._latest, self._few, self._few_bytes = records, {}, 0
        key = (id(trees), part.start)
        seeds: Words | None = self._few.get(key)
        if seeds is None:
            seeds = trees.seeds(part)
            if self._few_bytes + seeds.nbytes <= FEW:
                self._few[key] = seeds
                self._few_bytes += seeds.nbytes
        return seeds

    def _fits(self, j: int) -> bool:
        kept = sum(words.nbytes for words in self._seeds.values())
        return kept + 16 * self.n_bins[j] * self.n <= KEPT

    def _pairs(self, owners: Any) -> Iterator[Pair]:
        """Return all pairs of a peer and one of some owners that it is not."""
        return (pair for pair in permutations(range(self._core.n), 2) if pair[1] in owners)

    def _wide(self) -> list[int]:
        """Return the attributes that have more than one bin: of one, everybody knows it."""
        return [j for j, bins in enumerate(self.n_bins) if bins > 1]

    def _attributes(self, owner: int, among: Container[int] | None = None) -> list[int]:
        """Return the attributes of a peer, those `among` some, that have more than one bin."""
        found = [j for j in self._wide() if self.owners[j] == owner]
        return found if among is None else [j for j in found if j in among]

    def _span(self, attribute: int) -> slice:
        return slice(int(self.offsets[attribute]), int(self.offsets[attribute + 1]))

    def _is_here(self, attribute: int) -> bool:
        return self._core.at(self.owners[attribute]) is not None


def check_bins(attribute: int, bins: Array | None, n: int, most: int) -> NDArray[np.int64]:
    """Return the bins of n records of an attribute that has `most`. See `check_whole`."""
    return check_whole(f"bins of attribute {attribute}", bins, n, range(most))


def check_whole(
    what: str, values: Array | None, n: int, allowed: range, kinds: str = "iu"
) -> NDArray[np.int64]:
    """Return n whole numbers, one of each record of a peer, in an array of such a kind.

    H108 if there are not so many, H501 for one that is not allowed. All parties of a run may read
    why it has ended: how many there are, and which, is for their owner alone to know.
    """
    found = np.asarray(values)
    if found.shape != (n,) or found.dtype.kind not in kinds:
        raise Code.WRONG_SHAPE.error(
            expected=f"{what} at the peer that has them, a number of each record",
            found="no numbers, or not as many",
        )
    with np.errstate(invalid="ignore"):
        whole = found.astype(np.int64)
    if n and (whole.min() < allowed.start or whole.max() >= allowed.stop or (whole != found).any()):
        raise Code.BAD_PARAMETER.error(
            expected=f"{what} from {allowed.start} to {allowed.stop - 1}", found="others"
        )
    return whole


def _content(parcel: Parcel) -> Array:
    assert parcel.content is not None
    return parcel.content


def _bytes(bits: int) -> int:
    return -(-bits // 8)
