"""`JointKey`: a Paillier key of all peers, and the ways between ciphertexts and shares.

Paper: wu2020pivot, section 2.1 and algorithm 1.

Numbers of a ring Z_2^k are encrypted as whole numbers that are right modulo 2^k: the sum of m
shares is the secret and some multiple of 2^k. So are their sums and products, and shares of these
are right again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.paillier import (
    KEY_BITS,
    Ciphertexts,
    Encrypted,
    KeyShare,
    Numbers,
    PublicKey,
    Slots,
    ciphertext_bytes,
    draw,
    gathered,
    insecure_deal,
)
from hedgerow.errors import Code
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring

Array = NDArray[Any]
STATISTICAL: Final = 64
"""Bits by which masks are longer than what they hide: of 2^24 numbers that are turned into shares,
what is decrypted is within 2^-40 of what it would be without them."""
DEAL, ENCRYPT, DECRYPT = "insecure dealer", "ciphertexts", "decryption"
"""Names of the steps, on meters."""


class JointKey:
    """A public key, and the shares of the peers here; only all peers together decrypt."""

    statistical = STATISTICAL

    def __init__(self, core: PeerCore, shares: Mapping[int, KeyShare]) -> None:
        self._core, self._shares = core, dict(shares)
        self.public = next(iter(self._shares.values())).key

    @classmethod
    def insecure_dealt(cls, core: PeerCore, bits: int = KEY_BITS) -> JointKey:
        """Let peer 0 draw a key and hand out its shares: it can decrypt everything alone.

        Reveals: all that is ever encrypted, to peer 0. Cost: `cost_deal`.
        """
        step, dealt = core.step(DEAL, f"{bits} bits"), {}
        if core.at(0) is not None:
            dealt = dict(enumerate(insecure_deal(core.n, bits)))
        size, parcels = ciphertext_bytes(bits), {}
        for peer in range(1, core.n):
            payload = None
            if dealt:
                modulus = dealt[0].key.modulus.to_bytes(size, "little")
                payload = np.frombuffer(modulus + dealt[peer].to_bytes(), dtype=np.uint8)
            parcels[peer] = step.send(0, peer, (2 * size,), np.uint8, payload)
        step.exchange()
        shares = {0: dealt[0]} if dealt else {}
        for peer in core.here:
            if peer:
                modulus, exponent = _numbers(parcels[peer].content, size)
                key = shares[0].key if dealt else PublicKey(modulus, insecure_small=True)
                if key.bits != bits:
                    raise Code.BAD_CIPHERTEXT.error(
                        expected=f"a key of {bits:,} bits", found=f"{key.bits:,} from peer 0"
                    )
                shares[peer] = KeyShare(key, exponent)
        return cls(core, shares)

    @staticmethod
    def cost_deal(m: int, bits: int = KEY_BITS) -> Cost:
        """State the cost of `insecure_dealt` among m peers."""
        return Cost(1, (2 * ciphertext_bytes(bits) * (m - 1), *(0,) * (m - 1)))

    # Messages: ciphertexts in numbers that everybody knows

    def collect(
        self, name: str, parts: Mapping[int, Mapping[int, Ciphertexts]], sizes: Mapping[int, int]
    ) -> dict[int, list[Ciphertexts]]:
        """Send ciphertexts of all peers to some: `parts` by receiver and sender, those made here.

        Each receiver is sent `sizes` of them. Returns for receivers here what each peer sent.

        Cost: `cost_collect`.
        """
        step, parcels = self._core.step(name, f"to {dict(sizes)}"), {}
        for to, size in sizes.items():
            for peer in range(self._core.n):
                if peer != to:
                    made = parts[to].get(peer)
                    payload = None if made is None else self.public.write(made)
                    shape = (size, self.public.width)
                    parcels[to, peer] = step.send(peer, to, shape, np.uint8, payload)
        if any(sizes.values()):
            step.exchange()
        return {
            to: [
                parts[to][peer] if peer == to else self._read(parcels[to, peer].content, peer)
                for peer in range(self._core.n)
            ]
            for to in sizes
            if self._core.at(to) is not None
        }

    def cost_collect(self, sizes: Mapping[int, int]) -> Cost:
        """State the cost of `collect`."""
        sent = [0] * self._core.n
        for to, size in sizes.items():
            for peer in range(self._core.n):
                sent[peer] += size * self.public.width if peer != to else 0
        return Cost(1, tuple(sent)) if any(sent) else NOTHING

    def broadcast(
        self, name: str, made: Mapping[int, Ciphertexts], sizes: Mapping[int, int]
    ) -> dict[int, Ciphertexts]:
        """Send ciphertexts of some peers to all: `sizes` of each, those `made` here.

        Cost: `cost_broadcast`.
        """
        step, parcels = self._core.step(name, f"from {dict(sizes)}"), {}
        for peer, size in sizes.items():
            payload = self.public.write(made[peer]) if peer in made else None
            for to in range(self._core.n):
                if to != peer:
                    shape = (size, self.public.width)
                    parcels[peer, to] = step.send(peer, to, shape, np.uint8, payload)
        if any(sizes.values()):
            step.exchange()
        found = {}
        for peer in sizes:
            # All peers receive the same; the first of those here reads it for all.
            me = self._core.here[0]
            found[peer] = (
                made[peer] if peer in made else self._read(parcels[peer, me].content, peer)
            )
        return found

    def cost_broadcast(self, sizes: Mapping[int, int]) -> Cost:
        """State the cost of `broadcast`."""
        each = (self._core.n - 1) * self.public.width
        sent = tuple(sizes.get(peer, 0) * each for peer in range(self._core.n))
        return Cost(1, sent) if any(sent) else NOTHING

    # Between ciphertexts and shares

    def encrypt(self, x: Mapping[int, Array], slots: Slots, ring: Ring) -> dict[int, Encrypted]:
        """Encrypt shares for some peers: `x` by receiver, shares (peers here, q, numbers).

        Every peer encrypts its share, and the receiver adds up. The numbers of a row begin a new
        ciphertext. Returns for receivers here (q, ciphertexts of a row).

        Reveals: nothing. Cost: `cost_collect` of as many ciphertexts.
        """
        parts = {to: self._encrypted(shares, slots, ring) for to, shares in x.items()}
        shapes = {to: _shape(shares, slots) for to, shares in x.items()}
        return {
            to: self._sum(sent, slots, ring).reshape(*shapes[to])
            for to, sent in self.collect(
                ENCRYPT, parts, {to: prod(shape) for to, shape in shapes.items()}
            ).items()
        }

    def encrypt_for_all(self, x: Array, slots: Slots, ring: Ring) -> Encrypted:
        """Encrypt shares (peers here, q, numbers) for all peers; else as `encrypt`.

        Reveals: nothing. Cost: `cost_broadcast` of as many ciphertexts from every peer.
        """
        shape = _shape(x, slots)
        sizes = dict.fromkeys(range(self._core.n), prod(shape))
        sent = self.broadcast(ENCRYPT, self._encrypted(x, slots, ring), sizes)
        return self._sum(sent.values(), slots, ring).reshape(*shape)

    def _encrypted(self, x: Array, slots: Slots, ring: Ring) -> dict[int, Ciphertexts]:
        """Encrypt what each peer here has, one after the other."""
        most = (1 << ring.bits) - 1
        return {
            peer: Encrypted.of(self.public, slots, x[at].astype(object), most).data.reshape(-1)
            for at, peer in enumerate(self._core.here)
        }

    def _sum(self, sent: Iterable[Ciphertexts], slots: Slots, ring: Ring) -> Encrypted:
        """Add up shares of all peers."""
        most = self._core.n * ((1 << ring.bits) - 1)
        return Encrypted(self.public, slots, most, self.public.product([*sent]))

    def share(
        self,
        held: Mapping[int, Encrypted],
        sizes: Mapping[int, int],
        slots: Slots,
        most: int,
        ring: Ring,
    ) -> dict[int, Array]:
        """Turn ciphertexts of some peers into shares (algorithm 1).

        Of peer i `sizes[i]` ciphertexts are, which it `held` if it lives here, of numbers from 0 to
        `most` in their `slots`. Returns shares (peers here, sizes[i], slots.count).

        0. Peer i shifts the slots of several ciphertexts into one.
        1. Every peer draws masks, `statistical` bits longer than `most`, and sends them encrypted.
        2. Peer i adds them, its own too, which is fresh and hides what it has added to.
        3. All peers decrypt, towards peer i: [e] with e = x + r_1 + ... + r_m.
        4. Its share is e - r_i, that of all others -r_j, modulo 2^k.

        Reveals: e to peer i. The mask of one peer is enough to hide x: the distance of e from what
        it would be for another x is below 2^-statistical for each number. H961 where numbers with
        all masks would not fit.
        Cost: `cost_share`.
        """
        core, key, g = self._core, self.public, gathered(self.public, slots)
        wide, mask_bits = Slots(g * slots.count, slots.width), most.bit_length() + self.statistical
        least = ((1 << mask_bits) - 1) * core.n + most
        if any(x.most > most for x in held.values()):
            raise Code.PLAINTEXT_OVERFLOW.error(
                expected=f"numbers up to {most:,}", found="numbers that may be larger"
            )
        gathers = {i: -(-size // g) for i, size in sizes.items()}
        masks, hidden = {}, {}
        for i, size in gathers.items():
            drawn = {peer: draw(mask_bits, (size, wide.count)) for peer in core.here}
            masks[i] = drawn
            hidden[i] = {
                # Their sum with what they hide is what has to fit.
                peer: Encrypted.of(key, wide, r, least).data[:, 0]
                for peer, r in drawn.items()
            }
        added = {
            i: key.product([held[i].gather().data, *sent])
            for i, sent in self.collect(ENCRYPT, hidden, gathers).items()
        }
        seen = self.broadcast(ENCRYPT, added, gathers)
        parts = {
            i: {peer: self._shares[peer].partial(seen[i]) for peer in core.here} for i in sizes
        }
        opened = {
            i: wide.unpack(key.combine(partials))
            for i, partials in self.collect(DECRYPT, parts, gathers).items()
        }
        out = {}
        for i, size in sizes.items():
            shares = core.shares((gathers[i] * g, slots.count), ring.dtype)
            for at, peer in enumerate(core.here):
                own = opened[i] - masks[i][peer] if peer == i else -masks[i][peer]
                shares[at] = _elements(own, ring).reshape(-1, slots.count)
            out[i] = shares[:, :size]
        return out

    def cost_share(self, sizes: Mapping[int, int], slots: Slots) -> Cost:
        """State the cost of `share`."""
        g = gathered(self.public, slots)
        gathers = {i: -(-size // g) for i, size in sizes.items()}
        return 2 * self.cost_collect(gathers) + self.cost_broadcast(gathers)

    def _read(self, blob: Array | None, peer: int) -> Ciphertexts:
        assert blob is not None
        return self.public.read(blob, f"peer {peer}")


def slot_width(m: int, most: int) -> int:
    """Return how many bits numbers up to `most` take with the masks of m peers."""
    return (((1 << (most.bit_length() + STATISTICAL)) - 1) * m + most).bit_length()


def _shape(shares: Array, slots: Slots) -> tuple[int, int]:
    """Return the shape of the ciphertexts of shares (peers here, q, numbers)."""
    return shares.shape[1], -(-shares.shape[2] // slots.count)


def _elements(numbers: Numbers, ring: Ring) -> Array:
    """Reduce whole numbers into a ring."""
    return ring.encode((numbers & ((1 << ring.bits) - 1)).astype(np.uint64))


def _numbers(blob: Array | None, size: int) -> Iterable[int]:
    assert blob is not None
    data = blob.tobytes()
    return (int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size))
