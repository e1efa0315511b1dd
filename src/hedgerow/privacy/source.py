"""Where noise comes from: an AES-256 counter-mode stream.

Noise that leaves the process must be unpredictable to whoever receives it, so its bytes come from
a block cipher whose key the operating system drew, never from `numpy.random`. Tests inject a
seeded source through the same argument; such a source says so (`private` is False), and a ledger
records what was drawn from it as not private.
"""

from __future__ import annotations

import hashlib
import math
import operator
import os
import threading
import weakref

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

_KEY_BYTES = 32
_NONCE_BYTES = 16
SEED_BYTES = _KEY_BYTES + _NONCE_BYTES
_LABEL = b"hedgerow/noise-source/v1/"
# Encrypting zeros gives the key stream; one block of this size is shared by all requests.
_ZEROS = memoryview(bytes(1 << 20))


class NoiseSource:
    """A stream of uniform bytes; make one with `system` or `insecure_seeded`.

    Safe to share between threads. After a fork, the child's system sources have new keys, so
    that two processes never add the same noise to different values (their difference would be
    noiseless). No byte is handed out twice, and the key is not kept.
    """

    def __init__(self, key: bytes, nonce: bytes, *, private: bool) -> None:
        self.private = private
        self._start(key, nonce)
        _SOURCES.add(self)

    def _start(self, key: bytes, nonce: bytes) -> None:
        self._lock = threading.Lock()
        self._stream = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()

    def _after_fork(self) -> None:
        if self.private:
            self._start(os.urandom(_KEY_BYTES), os.urandom(_NONCE_BYTES))
        else:
            # Another thread of the parent may have held the lock; it does not exist here.
            self._lock = threading.Lock()

    @classmethod
    def system(cls) -> NoiseSource:
        """Key and nonce from the operating system."""
        return cls(os.urandom(_KEY_BYTES), os.urandom(_NONCE_BYTES), private=True)

    @classmethod
    def insecure_seeded(cls, seed: int) -> NoiseSource:
        """Repeat a stream, for tests only: whoever guesses the seed can subtract the noise."""
        text = str(operator.index(seed)).encode()
        key = hashlib.sha256(_LABEL + b"key/" + text).digest()
        nonce = hashlib.sha256(_LABEL + b"nonce/" + text).digest()[:_NONCE_BYTES]
        return cls(key, nonce, private=False)

    def spawn(self) -> NoiseSource:
        """Make an independent source from the next bytes: results then do not depend on timing."""
        return self.from_seed(self.bytes(SEED_BYTES).tobytes(), private=self.private)

    @classmethod
    def from_seed(cls, seed: bytes, *, private: bool) -> NoiseSource:
        """Repeat the stream of `SEED_BYTES` of another source, as private as that one.

        For whoever keeps them, as secret as the noise, to go on with what it has drawn.
        """
        return cls(seed[:_KEY_BYTES], seed[_KEY_BYTES:], private=private)

    def bytes(self, n: int) -> NDArray[np.uint8]:
        """Draw n uniform bytes."""
        out = np.empty(n, dtype=np.uint8)
        view = out.data
        with self._lock:
            for at in range(0, n, len(_ZEROS)):
                part = view[at : at + len(_ZEROS)]
                self._stream.update_into(_ZEROS[: len(part)], part)
        return out

    def words(self, n: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words, shape (n,); the same on machines of either byte order."""
        return self.bytes(8 * n).view("<u8").astype(np.uint64, copy=False)

    def integers(self, bound: int, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw integers that are exactly uniform on 0, ..., bound - 1; bound from 1 to 2**63.

        Words above the largest multiple of `bound` are rejected: a plain remainder would favour
        the small integers.
        """
        if not 1 <= bound <= 1 << 63:
            raise ValueError(f"bound must be from 1 to 2**63; found {bound}")
        shape = size if isinstance(size, tuple) else (operator.index(size),)
        out = np.empty(math.prod(shape), dtype=np.int64)
        last = np.uint64((1 << 64) // bound * bound - 1)
        filled = 0
        while filled < out.size:
            words = self.words(out.size - filled)
            kept = words[words <= last] % np.uint64(bound)
            out[filled : filled + kept.size] = kept
            filled += kept.size
        return out.reshape(shape)

    def __copy__(self) -> NoiseSource:
        # Two objects on one stream would draw the same noise, and only one is re-keyed by a fork.
        return self.spawn()

    def __repr__(self) -> str:
        return f"NoiseSource(private={self.private})"


_SOURCES: weakref.WeakSet[NoiseSource] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for source in list(_SOURCES):
        source._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
