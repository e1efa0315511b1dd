"""Random transfers by the million from 128 base transfers: SoftSpoken, with its check.

Papers: roy2022softspoken, boyle2019silent.

Set-up (k = 4, so 32 trees of 16 leaves), after the base transfers, in which the *receiver* of the
extension is the base sender and the *sender* chooses the complement of the bits of its secret
Delta = (Delta_0, ..., Delta_31), 4 bits each:

1. The receiver grows 32 GGM trees: keys of base transfer 4 t are the two nodes below the root of
   tree t; of every further level it sends the exclusive or of all left and of all right nodes, each
   under a key of base transfer 4 t + level. The sender learns all leaves but number Delta_t.
2. A leaf is hashed to a seed and 256 bits of check. The receiver sends the exclusive or of the
   checks of each tree and one hash of them all; the sender refuses trees that do not fit (H952).

A batch of n transfers with choices u, and r_(t,y) a stream of leaf y of tree t, at the counter:

3. Receiver: u_t = xor_y r_(t,y), V_t = xor_y y r_(t,y) (four bit planes), and it sends the
   corrections c_t = u_t ^ u. Sender: Q_t = xor_y (Delta_t ^ y) r_(t,y) ^ Delta_t c_t. So row by row
   q_j = v_j ^ u_j Delta, with 128 bits each.
4. Check: 128 more rows with random choices are added. A hash of the corrections gives a random
   matrix R (Fiat-Shamir), which is the identity on those rows. The receiver sends R u and a hash of
   R V; the sender compares with R Q ^ (R u) Delta.

Security. Rows are what the trees say unless corrections of two trees differ in a choice. A receiver
whose corrections differ passes only if R maps a non-zero difference to zero, probability 2^-128
for each hash that it computes, or if it has guessed Delta_t for every tree t that it falsified:
with f of them, 4 f bits. One falsified sum of a level in the set-up (step 1) is a bet on the bit of
Delta that decides whether the sender uses it. So b bits guessed pass with probability 2^-b, in a
batch or in the set-up, and passing tells them, which leaves Delta as hard to guess as before the
bet. After a failed check the sender's keys are gone (H955), as Delta is no longer all secret. A
sender that deviates learns nothing, since it only receives. R u shows nothing of u: its mask are
the choices of the rows that were added.

Batches are addressed by a counter: rows depend on set-up, session and counter alone, and a counter
is used once (H953). Which leaf is written where in memory depends on Delta, in the sender's own
process; kernels do not.

Reveals: nothing. Cost: set-up 4,128 bytes from receiver to sender after the base transfers; a batch
4 bytes for each transfer from receiver to sender, and 560 to 1,068 more.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from functools import reduce
from operator import xor
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.compiled import A, jit
from hedgerow.crypto.commutative import Entropy
from hedgerow.crypto.oblivious_transfer.base import KEY_BYTES, POINT_BYTES, BaseReceiver, BaseSender
from hedgerow.crypto.oblivious_transfer.hashing import (
    BLOCK,
    BlockPermutation,
    TweakableHash,
    Words,
    as_bytes,
    little_endian,
)
from hedgerow.crypto.oblivious_transfer.messages import Message, SessionHash, checked
from hedgerow.crypto.oblivious_transfer.rows import ReceivedRows, SentRows
from hedgerow.crypto.prg import Prg
from hedgerow.errors import Code

K = 4
LEAVES = 1 << K
TREES = 128 // K
CHECK_ROWS = 128
_CHECK = 32
_DIGEST = 32

BEGIN_RECEIVER = 128 * POINT_BYTES
"""Bytes of the receiver's first message."""
BEGIN_SENDER = 128 * 2 * POINT_BYTES
"""Bytes of the sender's only message of the set-up."""
PLANT = TREES * (2 * (K - 1) * KEY_BYTES + _CHECK) + _DIGEST
"""Bytes of the receiver's second message."""

_Seeds = list[list[bytes | None]]
"""By tree and place; the sender's place 0 has none."""

# Words of every stream that are made at a time: 65,536 transfers, whose rows take 1 MiB.
_CHUNK = 1 << 10
_CHECK_CHUNK = 1 << 13


def message_bytes(n: int) -> int:
    """Return the size of the message of a batch of n transfers."""
    return TREES * 8 * _words(n) + CHECK_ROWS // 8 + _DIGEST


class _Party:
    """What both sides have: a session, the streams of their leaves, and the counters used."""

    def __init__(self, session: bytes, pair: tuple[int, int], entropy: Entropy) -> None:
        self._entropy = entropy
        self._context = SessionHash(session, pair)
        self._sessions = {session}
        self._counters: set[int] = set()
        self._base: BaseSender | BaseReceiver | None = None
        self._seeds: _Seeds | None = None

    def begin(self) -> Message:
        """Return this side's points of the base transfers."""
        if self._base is None:
            raise Code.TRANSFER_NOT_READY.error(found="a set-up that has ended")
        return self._base.begin()

    def _base_keys(self, message: Message) -> NDArray[np.uint8]:
        """End the base transfers with the other side's points; whatever comes of it, once."""
        if self._base is None:
            raise Code.TRANSFER_NOT_READY.error(found="a set-up that has ended")
        base, self._base = self._base, None
        return base.keys(message)

    def bind(self, session: bytes) -> None:
        """Go on in a new session, as the other side does too: new keys, the old ones gone.

        Rows of the new session are independent of all earlier ones, whatever their counters. A
        session that was bound before is refused (H954).
        """
        seeds = self._ready()
        if session in self._sessions:
            raise Code.TRANSFER_SESSION_USED.error(found=f"session {session.hex()[:32]} again")
        self._sessions.add(session)
        self._context = SessionHash(session, self._context.pair)
        self._key_streams(seeds)

    def _key_streams(self, before: _Seeds) -> None:
        """Derive the session's seeds from those before."""
        self._seeds = [
            [seed and self._context.hash("seed", KEY_BYTES, seed) for seed in seeds]
            for seeds in before
        ]
        self._streams = [
            [
                (place, BlockPermutation(self._context.hash("stream", KEY_BYTES, seed)))
                for place, seed in enumerate(seeds)
                if seed is not None
            ]
            for seeds in self._seeds
        ]
        self._hash = TweakableHash(self._context.hash("row hash", KEY_BYTES))
        self._counters.clear()

    def _ready(self) -> _Seeds:
        if self._seeds is None:
            raise Code.TRANSFER_NOT_READY.error(found="a batch or a session without keys")
        return self._seeds

    def _claim(self, counter: int) -> None:
        self._ready()
        if not 0 <= counter < 1 << 64:
            raise ValueError(f"counter must be from 0 to 2^64 - 1; found {counter}")
        if counter in self._counters:
            raise Code.TRANSFER_USED_TWICE.error(found=f"counter {counter} a second time")
        self._counters.add(counter)

    def _planes(self, counter: int, part: slice) -> Iterator[tuple[slice, Words, Words]]:
        """For some trees at a time: which, u_t (trees, w) and V_t (trees, 4, w).

        From the leaves as they are placed.
        """
        w = part.stop - part.start
        blocks = np.empty((w // 2, 2), dtype=np.uint64)
        blocks[:, 0] = np.arange(part.start // 2, part.stop // 2)
        blocks[:, 1] = counter
        data = as_bytes(blocks).data
        at_once = min(TREES, max(1, _CHUNK // w))
        # AES asks for 15 bytes more than it writes; the next leaf is written over them.
        scratch = np.empty(at_once * LEAVES * w * 8 + BLOCK, dtype=np.uint8)
        leaves = scratch[:-BLOCK].view(np.uint64).reshape(at_once, LEAVES, w)
        ends = range(0, at_once * LEAVES * w * 8, w * 8)
        places = [scratch.data[at : at + w * 8 + BLOCK] for at in ends]
        for trees in _parts(TREES, at_once):
            for number, streams in enumerate(self._streams[trees]):
                for place, stream in streams:
                    stream.into(data, places[number * LEAVES + place])
            total, planes = _fold(leaves[: trees.stop - trees.start].swapaxes(0, 1), K)
            yield trees, little_endian(total), little_endian(planes.swapaxes(0, 1))

    def _challenged(self, corrections: Words, n: int, counter: int) -> Prg:
        """Step 4: R is a stream whose key hashes all that the receiver is bound to."""
        place = counter.to_bytes(8, "little") + n.to_bytes(8, "little")
        return Prg(self._context.hash("challenge", 16, place, as_bytes(corrections).data))

    def _digest(self, checks: Words, counter: int) -> bytes:
        place = counter.to_bytes(8, "little")
        return self._context.hash("rows", _DIGEST, place, as_bytes(checks).data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of pair {self._context.pair}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys stay where they were made: a copy would not know what was used")


class Receiver(_Party):
    """The side that chooses; pair is (sender's number, receiver's number)."""

    def __init__(
        self, session: bytes, pair: tuple[int, int], entropy: Entropy = os.urandom
    ) -> None:
        super().__init__(session, pair, entropy)
        self._base = BaseSender(self._context, K * TREES, entropy)

    def plant(self, message: Message) -> Message:
        """Do steps 1 and 2 after the sender's message; this side's set-up ends with it."""
        keys = self._base_keys(message).reshape(TREES, K, 2, KEY_BYTES)
        sums, checks, every = [], [], []
        seeds: _Seeds = []
        for tree in range(TREES):
            nodes = [keys[tree, 0, side].tobytes() for side in (0, 1)]
            for level in range(1, K):
                nodes = [child for node in nodes for child in _children(self._context, node)]
                pads = (keys[tree, level, side].tobytes() for side in (0, 1))
                sums += [_xor(pad, *nodes[side::2]) for side, pad in enumerate(pads)]
            leaves = [_leaf(self._context, tree, node) for node in nodes]
            checks.append(_xor(*(check for _, check in leaves)))
            every += [check for _, check in leaves]
            seeds.append([seed for seed, _ in leaves])
        digest = self._context.hash("trees", _DIGEST, *every)
        self._key_streams(seeds)
        return np.frombuffer(b"".join([*sums, *checks, digest]), dtype=np.uint8)

    def extend(self, choices: ArrayLike, counter: int) -> tuple[Message, ReceivedRows]:
        """Do steps 3 and 4 for choices of 0 and 1, shape (n,): the message, and rows v_j."""
        bits = _bits(choices)
        self._claim(counter)
        n = bits.size
        u = _packed(bits, _words(n))
        u[-CHECK_ROWS // 64 :] = np.frombuffer(self._entropy(CHECK_ROWS // 8), dtype="<u8")
        corrections = np.empty((TREES, u.size), dtype=np.uint64)
        rows = np.empty((64 * u.size, 2), dtype=np.uint64)
        for part in _parts(u.size, _CHUNK):
            columns = np.empty((TREES, K, part.stop - part.start), dtype=np.uint64)
            for trees, total, planes in self._planes(counter, part):
                corrections[trees, part] = total ^ u[part]
                columns[trees] = planes
            _transpose(columns.reshape(K * TREES, -1), rows[64 * part.start : 64 * part.stop])
        return self._sealed(corrections, u, rows, n, counter), ReceivedRows(
            self._hash, counter, 0, rows[:n], bits
        )

    def _sealed(self, corrections: Words, u: Words, rows: Words, n: int, counter: int) -> Message:
        """Step 4: append R u and the hash of R V to the corrections."""
        checks, total = _checks(self._challenged(corrections, n, counter), rows, u)
        digest = np.frombuffer(self._digest(checks, counter), dtype=np.uint8)
        return np.concatenate([as_bytes(corrections), as_bytes(total), digest])


class Sender(_Party):
    """The side with two values for each choice; pair is (sender's number, receiver's number)."""

    def __init__(
        self, session: bytes, pair: tuple[int, int], entropy: Entropy = os.urandom
    ) -> None:
        super().__init__(session, pair, entropy)
        drawn = np.frombuffer(entropy(16), dtype=np.uint8)
        self._delta = little_endian(drawn.view(np.uint64).copy())
        bits = np.unpackbits(drawn, bitorder="little").reshape(TREES, K)
        self._holes = [int(hole) for hole in bits @ (1 << np.arange(K))]
        self._masks = np.negative(bits.astype(np.uint64))[:, :, None]
        # Levels of a tree go from the top bit of a leaf's number to its lowest.
        self._away = 1 - bits[:, ::-1]
        self._base = BaseReceiver(self._context, self._away.reshape(-1), entropy)

    def finish(self, first: Message, second: Message) -> None:
        """Learn all leaves but Delta's, from the receiver's two messages; H952 if they are off."""
        data = checked(second, PLANT, np.uint8, "trees of the set-up")
        keys = self._base_keys(first).reshape(TREES, K, KEY_BYTES)
        middle = TREES * (K - 1) * 2 * KEY_BYTES
        sums = data[:middle].reshape(TREES, K - 1, 2, KEY_BYTES)
        checks = data[middle:-_DIGEST].reshape(TREES, _CHECK)
        every: list[bytes] = []
        seeds: _Seeds = []
        for tree, hole in enumerate(self._holes):
            away = self._away[tree]
            # The hole of a level is a node of zeros until its sibling is known.
            nodes = [bytes(KEY_BYTES)] * 2
            nodes[away[0]] = keys[tree, 0].tobytes()
            for level in range(1, K):
                at = hole >> (K - level)
                nodes = [child for node in nodes for child in _children(self._context, node)]
                nodes[2 * at] = nodes[2 * at + 1] = bytes(KEY_BYTES)
                side = away[level]
                nodes[2 * at + side] = _xor(
                    sums[tree, level - 1, side].tobytes(),
                    keys[tree, level].tobytes(),
                    *nodes[side::2],
                )
            leaves = [_leaf(self._context, tree, node) for node in nodes]
            known = [check for y, (_, check) in enumerate(leaves) if y != hole]
            every += [*known[:hole], _xor(checks[tree].tobytes(), *known), *known[hole:]]
            # Leaf y is placed where it counts as y ^ Delta_t, so that the hole is at 0.
            seeds.append([None, *(leaves[place ^ hole][0] for place in range(1, LEAVES))])
        digest = self._context.hash("trees", _DIGEST, *every)
        if not hmac.compare_digest(digest, data[-_DIGEST:].tobytes()):
            raise Code.TRANSFER_CHECK_FAILED.error(found="trees of the set-up that do not fit")
        self._key_streams(seeds)

    def extend(self, message: Message, n: int, counter: int) -> SentRows:
        """Do steps 3 and 4 for the receiver's message about n transfers: the rows q_j.

        A message that does not pass the check raises H952 and ends this object: Delta may be known
        in part, and nothing may hang on it any more.
        """
        data = checked(message, message_bytes(n), np.uint8, f"extension of {n:,} transfers")
        self._claim(counter)
        size = _words(n)
        tail = data[8 * TREES * size :]
        corrections = _aligned(data[: 8 * TREES * size]).reshape(TREES, size)
        rows = np.empty((64 * size, 2), dtype=np.uint64)
        for part in _parts(size, _CHUNK):
            columns = np.empty((TREES, K, part.stop - part.start), dtype=np.uint64)
            for trees, _, planes in self._planes(counter, part):
                chosen = corrections[trees, None, part] & self._masks[trees]
                np.bitwise_xor(planes, chosen, out=columns[trees])
            _transpose(columns.reshape(K * TREES, -1), rows[64 * part.start : 64 * part.stop])
        found, _ = _checks(
            self._challenged(corrections, n, counter), rows, np.zeros(size, np.uint64)
        )
        total = np.unpackbits(tail[: CHECK_ROWS // 8], bitorder="little").astype(np.uint64)
        expected = self._digest(found ^ total[:, None] * self._delta, counter)
        if not hmac.compare_digest(expected, tail[CHECK_ROWS // 8 :].tobytes()):
            self._seeds = None
            self._streams.clear()
            raise Code.TRANSFER_CHECK_FAILED.error(
                found=f"batch {counter} of pair {self._context.pair}, which does not fit its trees"
            )
        return SentRows(self._hash, counter, 0, rows[:n], self._delta)


def _words(n: int) -> int:
    """Return the words of a column: transfers in whole blocks of AES, and those of the check."""
    return 2 * -(-n // 128) + CHECK_ROWS // 64


def _parts(size: int, step: int) -> Iterator[slice]:
    return (slice(at, min(at + step, size)) for at in range(0, size, step))


def _bits(choices: ArrayLike) -> NDArray[np.uint8]:
    array = np.asarray(choices)
    if array.ndim != 1 or array.dtype.kind not in "biu" or ((array != 0) & (array != 1)).any():
        raise Code.BAD_TRANSFER_MESSAGE.error(
            expected="choices of 0 and 1 along one axis",
            found=f"shape {array.shape} of {array.dtype.name}",
        )
    return array.astype(np.uint8)


def _packed(bits: NDArray[np.uint8], size: int) -> Words:
    out = np.zeros(8 * size, dtype=np.uint8)
    packed = np.packbits(bits, bitorder="little")
    out[: packed.size] = packed
    return little_endian(out.view(np.uint64))


def _aligned(data: Message) -> Words:
    return little_endian(np.ascontiguousarray(data).copy().view(np.uint64))


def _children(context: SessionHash, node: bytes) -> tuple[bytes, bytes]:
    both = context.hash("children", 2 * KEY_BYTES, node)
    return both[:KEY_BYTES], both[KEY_BYTES:]


def _leaf(context: SessionHash, tree: int, node: bytes) -> tuple[bytes, bytes]:
    """Return what streams are keyed by, and the check of a leaf."""
    made = context.hash("check", KEY_BYTES + _CHECK, bytes([tree]), node)
    return made[:KEY_BYTES], made[KEY_BYTES:]


def _xor(*parts: bytes) -> bytes:
    numbers = (int.from_bytes(part, "little") for part in parts)
    return reduce(xor, numbers).to_bytes(len(parts[0]), "little")


def _checks(challenge: Prg, rows: Words, u: Words) -> tuple[Words, Words]:
    """Return R V (128, 2) and R u (2,), with R the identity on the last 128 rows."""
    n = len(rows) - CHECK_ROWS
    buckets, total = np.zeros((BLOCK, 256, 2), dtype=np.uint64), u[-2:].copy()
    for part in _parts(n, _CHECK_CHUNK):
        size = part.stop - part.start
        signs = challenge.fill(f"rows {part.start}", (size, 2), np.uint64)
        _bucket(as_bytes(signs).reshape(-1, BLOCK), rows[part], buckets)
        _sum_chosen(signs, u[part.start // 64 :], total)
    _, planes = _fold(buckets.swapaxes(0, 1), 8)
    return rows[n:] ^ planes.swapaxes(0, 1).reshape(CHECK_ROWS, 2), total


def _fold(leaves: Words, bits: int) -> tuple[Words, Words]:
    """Return the sum of leaves (2**bits, ...), and the sums of those with bit b of their place set.

    The leaves are summed in halves, in place; what lies at place 0 goes into the total alone.
    """
    planes = np.empty((bits, *leaves.shape[1:]), dtype=np.uint64)
    for bit in reversed(range(bits)):
        half = 1 << bit
        np.bitwise_xor.reduce(leaves[half : 2 * half], axis=0, out=planes[bit])
        leaves[:half] ^= leaves[half : 2 * half]
    return leaves[0], planes


@jit
def _transpose(columns: A, rows: A) -> None:
    """Write bit i of word c of column x, (128, w), as bit x of row 64 c + i, (64 w, 2).

    Eight squares of 64 bits are turned at once: the inner loops are vectors of the processor.
    """
    block = np.zeros((64, 8), dtype=np.uint64)
    for c in range(0, columns.shape[1], 8):
        lanes = min(8, columns.shape[1] - c)
        for half in range(2):
            for i in range(64):
                for k in range(lanes):
                    block[i, k] = columns[64 * half + i, c + k]
            shift, mask = 32, np.uint64(0x00000000FFFFFFFF)
            while shift:
                by = np.uint64(shift)
                for i in range(64):
                    if not i & shift:
                        for k in range(8):
                            swap = ((block[i, k] >> by) ^ block[i + shift, k]) & mask
                            block[i, k] ^= swap << by
                            block[i + shift, k] ^= swap
                shift >>= 1
                mask ^= mask << np.uint64(shift)
            for k in range(lanes):
                for i in range(64):
                    rows[64 * (c + k) + i, half] = block[i, k]


@jit
def _bucket(signs: A, rows: A, buckets: A) -> None:
    """Add row j to bucket (i, signs[j, i]) for each of 16 bytes i."""
    for j in range(signs.shape[0]):
        low, high = rows[j, 0], rows[j, 1]
        for i in range(16):
            buckets[i, signs[j, i], 0] ^= low
            buckets[i, signs[j, i], 1] ^= high


@jit
def _sum_chosen(signs: A, u: A, total: A) -> None:
    """Add the words (n, 2) of signs whose choice, bit j of u, is 1."""
    for j in range(signs.shape[0]):
        chosen = np.uint64(0) - (u[j >> 6] >> np.uint64(j & 63) & np.uint64(1))
        total[0] ^= signs[j, 0] & chosen
        total[1] ^= signs[j, 1] & chosen
