"""`TweakableHash`: a hash of 128 bits that keeps values apart which differ by a secret Delta.

Paper: guo2020fixedkey, section 7.4.

TMMO: H(x, i) = pi(pi(x) ^ i) ^ pi(x), where pi is AES-128 under a key that everybody knows.

Assumption: AES under a fixed public key behaves like a random permutation (the ideal-permutation
model). Then H is tweakable circular correlation robust: for a Delta that is unknown to who asks,
the values H(a ^ Delta, i) and H(a ^ Delta, i) ^ Delta look like fresh random strings for any a that
it chooses, as long as a tweak i is used once for each a. With q values and p evaluations of AES,
the advantage is of the order of (p q + q^2) / 2^128 for a Delta of 128 uniform bits. The cheaper
pi(x ^ i) ^ x does not keep this against a receiver that chooses its rows: two values whose x and i
differ by the same amount would have a difference that it knows.

The key follows from session and pair, so that tweaks of one do not meet those of another.

`TweakableHash.stream` makes many blocks of a seed that is uniform and secret as a whole, for which
one call of pi is enough: F(s, i) = pi(s ^ i) ^ s, the cipher of Even and Mansour with one key. For
q blocks of whatever seeds and p evaluations of AES the advantage is of the order of
(p q + q^2) / 2^128 too; both kinds of calls count towards one q.
Papers: evenmansour1997construction, dunkelman2012minimalism.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Blocks of 128 bits, as two words along the last axis; bit i is bit ``i % 64`` of word i // 64."""

BLOCK = 16
INDEX_BITS: Final = 40
"""A tweak is (counter, node, index): 64 bits, 24 bits, 40 bits."""
# Blocks that are encrypted at a time stay in the processor's cache.
_CHUNK = 1 << 12


class BlockPermutation:
    """AES-128 under one key, block by block, on arrays of words."""

    def __init__(self, key: bytes) -> None:
        # ECB is what a permutation of blocks is called; nothing is encrypted for its secrecy.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def into(self, blocks: memoryview, out: memoryview) -> None:
        """Permute bytes of whole blocks into `out`, which must have 15 bytes to spare."""
        self._cipher.update_into(blocks, out)


class TweakableHash:
    """H(x, i) for arrays of x, with tweaks by batch, transfer and node."""

    def __init__(self, key: bytes) -> None:
        self._pi = BlockPermutation(key)

    def __call__(self, x: Words, counter: int, first: int, nodes: NDArray[np.integer]) -> Words:
        """Hash x, shape (n, k, 2) or (n, 1, 2), to (n, k, 2): k nodes for each of n transfers.

        Entry (j, h) has the tweak (counter, node, first + j). Nodes are below 2^24, shape (k,), or
        (n, k) where they are not the same for all; ``first + n`` is at most 2^40.
        """
        n, k = len(x), nodes.shape[-1]
        out = np.empty((n, k, 2), dtype=np.uint64)
        tweaks = nodes.astype(np.uint64) << np.uint64(INDEX_BITS)
        step = max(1, _CHUNK // max(1, k))
        for at in range(0, n, step):
            part = slice(at, min(at + step, n))
            inner = self._permute(x[part])
            low = np.arange(first + part.start, first + part.stop, dtype=np.uint64)
            outer = out[part]
            mine = tweaks if tweaks.ndim == 1 else tweaks[part]
            np.bitwise_xor(inner[..., 0], low[:, None] ^ mine, out=outer[..., 0])
            np.bitwise_xor(inner[..., 1], np.uint64(counter), out=outer[..., 1])
            np.bitwise_xor(self._permute(outer), inner, out=outer)
        return out

    def stream(self, seeds: Words, address: int, block: int) -> Words:
        """Return block number `block` at an address of each of some seeds (..., 2), like them.

        The same address and block give the same again: who uses them twice is to blame.
        """
        out: Words = self._permute(seeds ^ np.array([block, address], dtype=np.uint64))
        out ^= seeds
        return out

    def _permute(self, blocks: Words) -> Words:
        scratch = np.empty(blocks.size * 8 + BLOCK, dtype=np.uint8)
        self._pi.into(as_bytes(blocks).data, scratch.data)
        return little_endian(scratch[:-BLOCK].view(np.uint64)).reshape(blocks.shape)


def little_endian(words: Words) -> Words:
    """Turn words of this machine into little-endian ones and back; nothing to do on most."""
    return words if sys.byteorder == "little" else words.byteswap()


def as_bytes(words: Words) -> NDArray[np.uint8]:
    """Return words as the bytes of little-endian ones, along one axis."""
    return little_endian(np.ascontiguousarray(words)).reshape(-1).view(np.uint8)
