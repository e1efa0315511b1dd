"""What all parts say to each other: contexts that bind hashes to a session, and sizes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code

Message = NDArray[np.uint8]
_LABEL = b"hedgerow/transfer/v1"


class SessionHash:
    """Hashes that belong to one session, one ordered pair of peers and one purpose each."""

    def __init__(self, session: bytes, pair: tuple[int, int]) -> None:
        self.pair = pair
        self._name = hashlib.blake2b(
            session, salt=pair[0].to_bytes(8, "little") + pair[1].to_bytes(8, "little")
        ).digest()[:32]

    def hash(self, purpose: str, size: int, *parts: bytes | memoryview) -> bytes:
        """Return `size` bytes, at most 64; parts have lengths that follow from the purpose."""
        made = hashlib.blake2b(_LABEL, key=self._name, person=purpose.encode(), digest_size=size)
        for part in parts:
            made.update(part)
        return made.digest()


def checked(
    message: NDArray[Any], size: int, dtype: type | np.dtype[Any], what: str
) -> NDArray[Any]:
    """Return a message of one axis, with `size` values of a type; H950 for any other."""
    array, kind = np.asarray(message), np.dtype(dtype)
    if array.dtype != kind or array.shape != (size,):
        raise Code.BAD_TRANSFER_MESSAGE.error(
            expected=f"{size:,} values of {kind.name} as {what}",
            found=f"shape {array.shape} of {array.dtype.name}",
        )
    return array
