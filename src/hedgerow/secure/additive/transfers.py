"""`Transfers`: correlated randomness from oblivious transfer between every ordered pair of peers.

A product of sums is a sum of products: a b = sum a_i b_i + sum over i != j of a_i b_j. A peer
multiplies a_i b_i alone. For a_i b_j, peer i is the receiver and peer j the sender of one
correlated transfer for every bit of a_i: with choice bit l the sender has y0 and the receiver
y0 + a_i[l] b_j, so -y0 2**l and y 2**l are shares of a_i[l] b_j 2**l. Of the l-th message k - l
bits count, so messages l and k - l travel in one element.
Paper: gilboa1999two.

A random bit r = r_0 ^ ... ^ r_{m-1} in a ring: peer t turns shares s of r_0 ^ ... ^ r_{t-1} into
those of s + r_t - 2 r_t s, by one transfer from every earlier peer, whose choice is r_t. That is
one transfer of one element for every pair of peers; a product with a triple would take k.

Nobody deals anything: every peer draws its own a_i, b_i and r_i.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import (
    BEGIN_RECEIVER,
    BEGIN_SENDER,
    PLANT,
    ReceivedRows,
    Receiver,
    Sender,
    SentRows,
    message_bytes,
    receive_correlated,
    send_correlated,
)
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.additive.preprocessing import Items, Kind, Provider
from hedgerow.secure.additive.shuffle import Pair, Switches, Translation
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.orders import JointPermutation
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import WORD, pack, unpack
from hedgerow.secure.steps import Step, sums

Array = NDArray[Any]
SETUP: Final = "base transfers"
PREPROCESSING: Final = "preprocessing"
"""Names of the steps, on meters: once, and whenever something is made."""
AT_ONCE: Final = 1 << 20
"""Elements that are transferred between two peers in a batch; more would only take more memory."""


class Transfers(Provider):
    """Makes correlated randomness by correlated oblivious transfers.

    Base transfers take place when something is first made: `cost_setup`.
    """

    def __init__(self, core: PeerCore) -> None:
        super().__init__(core)
        self._pairs = list(permutations(range(core.n), 2))
        self._senders: dict[Pair, Sender] = {}
        self._receivers: dict[Pair, Receiver] = {}
        self._batches = 0
        self._begun = False

    def cost_setup(self) -> Cost:
        """State the cost of the base transfers between all pairs of peers."""
        each = (self.core.n - 1) * (BEGIN_SENDER + BEGIN_RECEIVER + PLANT)
        return Cost.equal(2, each, self.core.n)

    def cost(self, kind: Kind, n: int) -> Cost:
        """State the cost of making n items at once, as preprocessing."""
        total, m = NOTHING, self.core.n
        for part in _parts(kind, n):
            size = part.stop - part.start
            if kind.name == "dabits":
                assert kind.ring is not None
                asked, answered = message_bytes(size), size * kind.ring.bytes
                sent = tuple(i * asked + (m - 1 - i) * answered for i in range(m))
                total += Cost(preprocessing=sent, preprocessing_rounds=m)
                continue
            if kind.ring is None:
                each = message_bytes(size * WORD) + size * (WORD // 8)
            else:
                rows, columns = _sides(kind)
                elements = size * rows * columns * _folded(kind.ring)
                each = message_bytes(size * rows * kind.ring.bits) + elements * kind.ring.bytes
            total += Cost(preprocessing=((m - 1) * each,) * m, preprocessing_rounds=2)
        return total + Cost(demand={kind: n})

    def make(self, kind: Kind, first: int, n: int) -> Items:
        """Make items of a kind: `cost`."""
        self.begin()
        step = self.core.step(PREPROCESSING, f"{kind} {first} {n}")
        if kind.name == "dabits":
            return self._dabits(step, kind, first, n)
        if kind.ring is None:
            return self._conjunctions(step, kind, first, n)
        return self._products(step, kind, kind.ring, first, n)

    def cost_translations(self, n: int, width: int, ring: Ring | None) -> Cost:
        """State the cost of `translations`: a transfer of a row for every switch."""
        m, switches = self.core.n, Switches(n).count
        each = message_bytes(switches) + switches * width * (
            WORD // 8 if ring is None else ring.bytes
        )
        return Cost(preprocessing=((m - 1) * each,) * m, preprocessing_rounds=2)

    def translations(
        self, by: JointPermutation, width: int, ring: Ring | None, *, inverse: bool
    ) -> dict[Pair, Translation]:
        """Pass rows of every pair through the switches of who permutes them.

        The rows v = z + u of a switch are shared: u with the sender, z with who permutes, 0 at
        first. With bit b, and y = y0 + b (u_2 - u_1) transferred, the first row becomes
        v_1 + b (v_2 - v_1): u_1 - y0, and z_1 + b (z_2 - z_1) + y.
        """
        self.begin()
        core, net, xor = self.core, Switches(by.n), ring is None
        dtype = np.dtype(np.uint64) if ring is None else ring.dtype
        add, subtract = sums(xor=xor)
        step = core.step(PREPROCESSING, f"translations {by.n} {width}")
        choices = np.zeros((len(core.here), net.count), np.uint8)
        for at, peer in enumerate(core.here):
            choices[at] = net.bits(by.orders[peer], inverse=inverse).reshape(-1)
        sent, received = self._extend(step, self._pairs, net.count, choices)
        cuts = [net.size // 2] * net.layers
        made: dict[Pair, Translation] = {}
        answers: dict[Pair, Array] = {}
        for pair, rows in sent.items():
            u = np.zeros((net.size, width), dtype)
            u[: by.n] = step.mask((pair[0],) * 2, f"to {pair[1]}", (by.n, width), dtype)
            before, messages = u[: by.n].copy(), []
            for part, (one, two) in zip(rows.split(cuts), net.pairs(u), strict=True):
                y0, message = send_correlated(part, subtract(two, one).reshape(-1, width), xor=xor)
                messages.append(message)
                subtract(one, y0.reshape(one.shape), out=one)
                add(two, y0.reshape(one.shape), out=two)
            answers[pair] = np.concatenate(messages)
            made[pair] = Translation(before, u[: by.n], None)
        got = self._answer(step, answers, self._pairs, net.count * width, dtype)
        for pair, message in got.items():
            z = np.zeros((net.size, width), dtype)
            bits = choices[core.at(pair[1])].reshape(net.layers, -1)
            layers = zip(
                received[pair].split(cuts), bits, message.reshape(net.layers, -1), net.pairs(z),
                strict=True,
            )  # fmt: skip
            for got_rows, swap, answer, (one, two) in layers:
                y = receive_correlated(got_rows, answer, dtype, width, xor=xor)
                swapped = swap.astype(dtype).reshape(*one.shape[:2], 1) * subtract(two, one)
                change = add(swapped, y.reshape(one.shape))
                add(one, change, out=one)
                subtract(two, change, out=two)
            made[pair] = made.get(pair, Translation())._replace(change=z[: by.n])
        return made

    def begin(self) -> None:
        """Do the base transfers, unless they are done: `cost_setup`."""
        if not self._begun:
            self._set_up()
            self._begun = True

    def _set_up(self) -> None:
        core, step = self.core, self.core.step(SETUP)
        points, replies, planted = {}, {}, {}
        for pair in self._pairs:
            source, destination = pair
            sent = received = None
            session = self._session(step, pair) if set(pair) & set(core.here) else b""
            if core.at(source) is not None:
                self._senders[pair] = Sender(session, pair, self._entropy(source, pair))
                sent = self._senders[pair].begin()
            if core.at(destination) is not None:
                self._receivers[pair] = Receiver(session, pair, self._entropy(destination, pair))
                received = self._receivers[pair].begin()
            points[pair] = step.send(source, destination, (BEGIN_SENDER,), np.uint8, sent)
            replies[pair] = step.send(destination, source, (BEGIN_RECEIVER,), np.uint8, received)
        step.exchange()
        for pair in self._pairs:
            content = points[pair].content
            message = None if content is None else self._receivers[pair].plant(content)
            planted[pair] = step.send(pair[1], pair[0], (PLANT,), np.uint8, message)
        step.exchange()
        for pair, sender in self._senders.items():
            one, two = replies[pair].content, planted[pair].content
            assert one is not None
            assert two is not None
            sender.finish(one, two)

    def _session(self, step: Step, pair: Pair) -> bytes:
        """Return a name that no other set-up of any two peers has: it keys what they hash with."""
        key, tag = (min(pair), max(pair)), f"transfers/{pair[0]}/{pair[1]}"
        return self.core.draw(key, step.number, tag, (32,), np.uint8).tobytes()

    def _entropy(self, peer: int, pair: Pair) -> Any:
        """Return where one side of a pair gets its randomness from."""
        if self.core.private:
            return os.urandom
        count = iter(range(1 << 62))

        def drawn(size: int) -> bytes:
            core, tag = self.core, f"entropy/{pair[0]}/{pair[1]}/{next(count)}"
            return core.draw((peer, peer), core.steps, tag, (size,), np.uint8).tobytes()

        return drawn

    def _draw(
        self, step: Step, kind: Kind, first: int, tag: str, shape: tuple[int, ...], dtype: Any
    ) -> Array:
        """Draw what each peer here knows alone, for items from number `first` on."""
        drawn, tag = self.core.shares(shape, dtype), f"{kind}/{first}/{tag}"
        for own, peer in zip(drawn, self.core.here, strict=True):
            own[...] = self.core.draw((peer, peer), step.number, tag, shape, dtype)
        return drawn

    def _extend(
        self, step: Step, pairs: Sequence[Pair], n: int, choices: Array
    ) -> tuple[dict[Pair, SentRows], dict[Pair, ReceivedRows]]:
        """Begin n transfers for each pair, with the choices (peers here, n) of receivers."""
        own = dict(zip(self.core.here, choices, strict=True))
        return self.extend(step, dict.fromkeys(pairs, n), own)

    def extend(
        self, step: Step, sizes: Mapping[Pair, int], choices: Mapping[int, Array]
    ) -> tuple[dict[Pair, SentRows], dict[Pair, ReceivedRows]]:
        """Begin transfers, so many for each pair, with the choices of the receivers here.

        Cost: 1 round, `message_bytes` from receiver to sender of each pair, after `begin`.
        """
        core, messages, received = self.core, {}, {}
        counter, self._batches = self._batches, self._batches + 1
        for pair, n in sizes.items():
            message = None
            if core.at(pair[1]) is not None:
                message, received[pair] = self._receivers[pair].extend(choices[pair[1]], counter)
            messages[pair] = step.send(pair[1], pair[0], (message_bytes(n),), np.uint8, message)
        step.exchange()
        sent = {}
        for pair, parcel in messages.items():
            if parcel.content is not None:
                sent[pair] = self._senders[pair].extend(parcel.content, sizes[pair], counter)
        return sent, received

    def _answer(
        self, step: Step, answers: Mapping[Pair, Array], pairs: Sequence[Pair], n: int, dtype: Any
    ) -> dict[Pair, Array]:
        """Send the messages of senders, and return those that receivers here have got."""
        parcels = {pair: step.send(*pair, (n,), dtype, answers.get(pair)) for pair in pairs}
        step.exchange()
        return {pair: p.content for pair, p in parcels.items() if p.content is not None}

    def _conjunctions(self, step: Step, kind: Kind, first: int, n: int) -> Items:
        """Make triples of bits, 64 to a word."""
        core = self.core
        a, b = (self._draw(step, kind, first, tag, (n,), np.uint64) for tag in "ab")
        c: Array = a & b
        for part in _parts(kind, n):
            choices, x = (
                unpack(words[:, part], WORD * (part.stop - part.start)) for words in (a, b)
            )
            size = choices.shape[1]
            sent, received = self._extend(step, self._pairs, size, choices.view(np.uint8))
            answers = {}
            for pair, rows in sent.items():
                at = core.at(pair[0])
                y0, answers[pair] = send_correlated(rows, x[at])
                c[at, part] ^= pack(y0)
            got = self._answer(step, answers, self._pairs, size // 8, np.uint8)
            for pair, message in got.items():
                c[core.at(pair[1]), part] ^= pack(
                    receive_correlated(received[pair], message, np.bool_)
                )
        return a, b, c

    def _products(self, step: Step, kind: Kind, ring: Ring, first: int, n: int) -> Items:
        """Make triples of matrices (m, k) and (k, n); numbers are matrices of one element.

        The product is the sum of k outer products. The bits of the shorter side are choices.
        """
        core = self.core
        m, k, columns = kind.shape or (1, 1, 1)
        a = self._draw(step, kind, first, "a", (n, m, k), ring.dtype)
        b = self._draw(step, kind, first, "b", (n, k, columns), ring.dtype)
        c = np.zeros((len(core.here), n, m, columns), ring.dtype)
        # All outer products of all items, one behind the other: (peers here, n k, side).
        left = np.swapaxes(a, 2, 3).reshape(len(core.here), n * k, m)
        right = b.reshape(len(core.here), n * k, columns)
        turned = m > columns
        chosen, spread = (right, left) if turned else (left, right)
        for part in _parts(kind, n):
            outer = self._outer(step, ring, chosen[:, part], spread[:, part])
            item, begins = np.unique(np.arange(part.start, part.stop) // k, return_index=True)
            terms = np.add.reduceat(np.swapaxes(outer, 2, 3) if turned else outer, begins, axis=1)
            c[:, item[0] : item[-1] + 1] += terms
        if kind.shape is None:
            return a[:, :, 0, 0], b[:, :, 0, 0], c[:, :, 0, 0]
        return a, b, c

    def _outer(self, step: Step, ring: Ring, a: Array, b: Array) -> Array:
        """Return shares of the outer products of a (peers here, p, r) and b (peers here, p, s)."""
        core, k = self.core, ring.bits
        (here, p, r), s = a.shape, b.shape[2]
        out: Array = a[..., None] * b[:, :, None, :]
        little = np.ascontiguousarray(a.astype(ring.dtype.newbyteorder("<")))
        size = p * r * k
        octets = little.reshape(here, p * r).view(np.uint8)
        choices = np.unpackbits(octets, axis=1, bitorder="little")
        sent, received = self._extend(step, self._pairs, size, choices)
        answers = {}
        spread = [np.repeat(each, r * k, axis=0) for each in b]
        for pair, rows in sent.items():
            at = core.at(pair[0])
            assert at is not None
            y0, message = send_correlated(rows, spread[at])
            answers[pair] = _fold(message.reshape(p * r, k, s)).reshape(-1)
            out[at] -= _weighted(y0.reshape(p, r, k, s))
        n = p * r * s * _folded(ring)
        for pair, message in self._answer(step, answers, self._pairs, n, ring.dtype).items():
            whole = _unfold(message.reshape(p * r, -1, s)).reshape(-1)
            y = receive_correlated(received[pair], whole, ring.dtype, s)
            out[core.at(pair[1])] += _weighted(y.reshape(p, r, k, s))
        return out

    def _dabits(self, step: Step, kind: Kind, first: int, n: int) -> Items:
        """Make random bits that are shared as XORs and in a ring."""
        core, ring = self.core, kind.ring
        assert ring is not None
        bits = self._draw(step, kind, first, "r", (n,), np.uint8) & np.uint8(1)
        numbers = bits.astype(ring.dtype)
        pairs = [(j, t) for t in range(core.n) for j in range(t)]
        for part in _parts(kind, n):
            size = part.stop - part.start
            sent, received = self._extend(step, pairs, size, bits[:, part])
            for t in range(1, core.n):
                stage = [pair for pair in pairs if pair[1] == t]
                answers = {}
                for pair in stage:
                    at = core.at(pair[0])
                    if at is not None:
                        y0, answers[pair] = send_correlated(sent[pair], numbers[at, part])
                        numbers[at, part] += y0 << ring.dtype.type(1)
                for pair, message in self._answer(step, answers, stage, size, ring.dtype).items():
                    y = receive_correlated(received[pair], message, ring.dtype)
                    numbers[core.at(t), part] -= y << ring.dtype.type(1)
        return bits, numbers


def _sides(kind: Kind) -> tuple[int, int]:
    """Return the shorter and the longer side of an outer product."""
    m, _, n = kind.shape or (1, 1, 1)
    return min(m, n), max(m, n)


def _parts(kind: Kind, n: int) -> Iterator[slice]:
    """Cut n items into batches: of words, of bits, or of outer products."""
    if kind.name == "dabits":
        count, each = n, 1
    elif kind.ring is None:
        count, each = n, WORD
    else:
        count = n * (kind.shape or (1, 1, 1))[1]
        each = kind.ring.bits * _sides(kind)[0] * _sides(kind)[1]
    step = max(1, AT_ONCE // each)
    return (slice(at, min(at + step, count)) for at in range(0, count, step))


def _folded(ring: Ring) -> int:
    """Return how many elements the messages of one product take."""
    return ring.bits // 2 + 1


def _weighted(y: Array) -> Array:
    """Sum y (..., k, s) times 2**l over its k bits l."""
    weights = y.dtype.type(1) << np.arange(y.shape[-2], dtype=y.dtype)
    total: Array = np.einsum("...ks,k->...s", y, weights)
    return total


def _fold(d: Array) -> Array:
    """Put the lowest l bits of message k - l above the k - l that count of message l.

    From (p, k, s) to (p, k / 2 + 1, s); messages 0 and k / 2 go alone.
    """
    k = d.shape[1]
    low = np.arange(1, k // 2, dtype=d.dtype)[:, None]
    counts = d.dtype.type(k) - low
    out = np.ascontiguousarray(d[:, : k // 2 + 1])
    out[:, 1:-1] = (out[:, 1:-1] << low >> low) | (d[:, : k // 2 : -1] << counts)
    return out


def _unfold(folded: Array) -> Array:
    """Undo `_fold`, up to bits of a message that do not count."""
    half = folded.shape[1] - 1
    counts = folded.dtype.type(2 * half) - np.arange(1, half, dtype=folded.dtype)[:, None]
    upper = folded[:, 1:-1] >> counts
    return np.concatenate([folded, upper[:, ::-1]], axis=1)
