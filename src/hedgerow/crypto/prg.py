"""`Prg`: uniform words from a shared key, by address.

Two parties that hold the same key draw the same masks without a message. Every array has an
address, such as (session, step, tag) written as text, and its own AES-128 counter-mode stream
whose key and first counter are a keyed BLAKE2b hash of the address. So nothing depends on how
much was drawn before, and streams of two addresses never overlap.
"""

from __future__ import annotations

import hashlib
import math
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hedgerow.errors import Code

KEY_BYTES = 16
_LABEL = b"hedgerow/prg/v1"
# Encrypting zeros gives the key stream; blocks of this size stay in the processor's cache.
_ZEROS = memoryview(bytes(1 << 18))


class Prg:
    """Addressed streams of uniform words; the key is not printed.

    With `once`, an address is filled from a single time: a mask that is used twice shows the
    difference of what it hides.
    """

    def __init__(self, key: bytes, *, once: bool = False) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"key must have {KEY_BYTES} bytes; found {len(key)}")
        self._key = bytes(key)
        self._used: set[bytes] | None = set() if once else None

    def fill(
        self, address: bytes | str, shape: int | tuple[int, ...], dtype: str | np.dtype | type
    ) -> NDArray[np.unsignedinteger]:
        """Draw uniform words at an address.

        Text counts as its UTF-8 bytes. The same address gives the same words, on machines of either
        byte order; a longer array begins with the bytes of a shorter one.
        """
        kind = np.dtype(dtype)
        if kind.kind != "u":
            raise ValueError(f"dtype must be one of unsigned integers; found {kind.name}")
        name = address.encode() if isinstance(address, str) else bytes(address)
        digest = hashlib.blake2b(name, key=self._key, person=_LABEL, digest_size=32).digest()
        if self._used is not None:
            if digest in self._used:
                raise Code.ADDRESS_USED_TWICE.error(found=f"address {address!r} a second time")
            self._used.add(digest)
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        out = np.empty(size * kind.itemsize, dtype=np.uint8)
        stream = Cipher(algorithms.AES(digest[:16]), modes.CTR(digest[16:])).encryptor()
        view = out.data
        for at in range(0, out.size, len(_ZEROS)):
            part = view[at : at + len(_ZEROS)]
            stream.update_into(_ZEROS[: len(part)], part)
        words = out.view(kind.newbyteorder("<")).astype(kind.newbyteorder("="), copy=False)
        return words.reshape(shape)

    def forget(self) -> None:
        """Forget which addresses were used: for a caller who knows that none of them can recur."""
        if self._used is not None:
            self._used.clear()

    def __reduce__(self) -> NoReturn:
        raise Code.ADDRESS_USED_TWICE.error(
            expected="one stream for one key", found="a copy, which would not know what was drawn"
        )

    def __repr__(self) -> str:
        return "Prg()"
