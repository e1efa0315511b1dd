"""`CommutativeCipher`: E_a(E_b(x)) = E_b(E_a(x)), on an elliptic curve.

Equal elements that all sites have encrypted are equal, whoever began; under keys that nobody knows
together, unequal and equal ones are all that can be told. On a curve where the decisional
Diffie-Hellman problem is hard and with the hash as a random oracle, E_a(x) under a fresh key looks
like a random point to everybody else.

`Curve25519Cipher` multiplies u-coordinates by X25519 of libsodium, through PyNaCl: C code that is
constant-time and lets go of the interpreter's lock, so that a batch uses all cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from nacl.bindings import crypto_scalarmult
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.crypto import curve25519
from hedgerow.errors import Code

Entropy = Callable[[int], bytes]
Elements = NDArray[np.uint8]
"""Rows of `width` bytes each, uint8 (n, width)."""

_LABEL = b"hedgerow/commutative/v1/curve25519_XMD:SHA-512_ELL2_NU_/"
_KINDS = {
    curve25519.NOT_CANONICAL: "a number that is not below 2^255 - 19",
    curve25519.ON_TWIST: "a point of the twist",
    curve25519.SMALL_ORDER: "the identity or a point of small order",
}
# Fewer elements than this are not worth a second thread.
_CHUNK = 64


class CipherKey:
    """A key of one call. It is not printed, copied or compared."""

    __slots__ = ("secret",)

    def __init__(self, secret: Any) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "CipherKey()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys stay where they were made")


class CommutativeCipher(Protocol):
    """What the protocols ask of a commutative cipher."""

    name: str
    width: int

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        """Map messages to elements that may be encrypted; another purpose gives other elements."""
        ...

    def new_key(self, entropy: Entropy = os.urandom) -> CipherKey:
        """Draw a key; from the operating system, unless a test passes a seeded source."""
        ...

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        """Encrypt elements one by one."""
        ...

    def check(self, elements: Elements, sender: str) -> None:
        """Refuse elements that no honest sender sends; H751 names the sender."""
        ...


class Curve25519Cipher:
    """Multiplication of u-coordinates of Curve25519 by a secret number.

    Keys are X25519 scalars: multiples of 8 from 2^254 to 2^255, so the part of a point that has
    small order is gone after the first multiplication. `hash` removes it at once.

    Cost: one multiplication of a point per element, about 0.05 ms on one core.
    """

    name = "curve25519"
    width = curve25519.WIDTH

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        """Hash messages to points of prime order. See `CommutativeCipher.hash`."""
        points = curve25519.hash_to_curve(messages, _LABEL + purpose.encode())
        return _multiply(_PROJECTION, points)

    def new_key(self, entropy: Entropy = os.urandom) -> CipherKey:
        """Draw a scalar. See `CommutativeCipher.new_key`."""
        return CipherKey(_clamped(int.from_bytes(entropy(32), "little")).to_bytes(32, "little"))

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        """Multiply every point by the key. See `CommutativeCipher.encrypt`."""
        return _multiply(key.secret, elements)

    def check(self, elements: Elements, sender: str) -> None:
        """Refuse what is no point of the curve. See `CommutativeCipher.check`."""
        parts = _parts(len(elements))
        kinds = np.concatenate(
            [
                np.empty(0, dtype=np.uint8),
                *threads.run(lambda part: curve25519.classify(elements[part]), parts),
            ]
        )
        bad = np.flatnonzero(kinds)
        if bad.size:
            raise Code.BAD_ELEMENT.error(
                found=f"{_KINDS[int(kinds[bad[0]])]} from {sender}, "
                f"element {int(bad[0])} of {len(elements):,}"
            )


def elements_of(blob: bytes, width: int, sender: str) -> Elements:
    """Read elements from a message; H751 if the bytes are not whole elements."""
    if len(blob) % width:
        raise Code.BAD_ELEMENT.error(
            expected=f"elements of {width} bytes", found=f"{len(blob)} bytes from {sender}"
        )
    return np.frombuffer(blob, dtype=np.uint8).reshape(-1, width)


def shuffled(n: int, entropy: Entropy = os.urandom) -> NDArray[np.intp]:
    """Draw a permutation of 0..n-1; two equal draws of 64 bits are too rare to bias it."""
    return np.argsort(np.frombuffer(entropy(8 * n), dtype="<u8"), kind="stable")


def _clamped(number: int) -> int:
    return (number & ((1 << 255) - 8)) & ((1 << 254) - 1) | (1 << 254)


def _scalar(residue: int) -> bytes | None:
    """Return an X25519 scalar equal to plus or minus `residue` modulo the order.

    Of the multiple t of 8 below 8 * order with that residue, and 8 * order - t, one lies from
    2^254 to 2^255 but for a share of 2^-126; a u-coordinate does not tell a point from its
    negative.
    """
    order = curve25519.ORDER
    t = residue + order * (-residue * pow(order, -1, 8) % 8)
    for candidate in (t, 8 * order - t):
        if candidate == _clamped(candidate):
            return candidate.to_bytes(32, "little")
    return None


def _parts(n: int) -> list[slice]:
    return threads.balanced(np.ones(n, dtype=np.int64), min(threads.available(), 1 + n // _CHUNK))


def _multiply(scalar: bytes, points: Elements) -> Elements:
    out = np.empty((len(points), curve25519.WIDTH), dtype=np.uint8)

    def work(part: slice) -> None:
        # The library takes one point at a time.
        data = points[part].tobytes()
        made = [crypto_scalarmult(scalar, data[i : i + 32]) for i in range(0, len(data), 32)]
        out[part] = np.frombuffer(b"".join(made), dtype=np.uint8).reshape(-1, curve25519.WIDTH)

    threads.run(work, _parts(len(points)))
    return out


def _projection() -> bytes:
    scalar = _scalar(1)
    assert scalar is not None
    return scalar


_PROJECTION = _projection()
