"""Base transfers: 128 random oblivious transfers from Diffie-Hellman on Ed25519.

Papers: masny2019endemic, mcquoid2021batching.

The endemic protocol of Masny and Rindal, each transfer i with its own key of the sender, in the
subgroup of prime order with base point G. H_j hashes points to points, F points to keys; both have
session, pair, i and j in their input, F also the whole transcript of the transfer.

1. The sender draws a and sends A = a G.
2. The receiver with choice c draws b and a random point R_(1-c), sets
   R_c = b G - H_c(R_(1-c)) and sends (R_0, R_1). Neither waits for the other.
3. The sender's keys are F(a (R_j + H_j(R_(1-j)))) for j = 0, 1; the receiver's key is F(b A).

Why it is secure: (R_0, R_1) are two uniform points whatever c is, so c is hidden without any
assumption. Of the two points R_j + H_j(R_(1-j)), whoever makes R_0 and R_1 can choose one; the
other is a fresh output of a random oracle, and its product with a is the answer to a computational
Diffie-Hellman problem, which in the random-oracle model is needed to know the key. Fresh a for each
transfer makes that plain CDH; one a for all would ask for the gap assumption. A party that deviates
can choose its own keys (that is what endemic means), which the extension allows.

Points are refused unless they are canonical, on the curve, of prime order (H951). H_j is the sum of
two of libsodium's Elligator maps, indifferentiable from a random oracle where one alone would reach
half of the points. libsodium multiplies in constant time.

Reveals: nothing. Cost: one round, 32 bytes from the sender and 64 from the receiver per transfer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from nacl import bindings as sodium
from nacl.exceptions import RuntimeError as SodiumError
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Entropy
from hedgerow.crypto.oblivious_transfer.messages import Message, SessionHash, checked
from hedgerow.errors import Code

KEY_BYTES = 16
POINT_BYTES = 32


class BaseSender:
    """The side that gets two keys for each of n transfers."""

    def __init__(self, context: SessionHash, n: int, entropy: Entropy = os.urandom) -> None:
        self._context = context
        self._scalars = [_scalar(entropy) for _ in range(n)]
        self._points = [sodium.crypto_scalarmult_ed25519_base_noclamp(a) for a in self._scalars]

    def begin(self) -> Message:
        """Return A of every transfer, 32 n bytes."""
        return _joined(self._points)

    def keys(self, message: Message) -> NDArray[np.uint8]:
        """Return both keys of every transfer, shape (n, 2, 16), after the receiver's message."""
        points = _points_of(message, 2 * len(self._scalars), "base receiver's points")
        keys = []
        for i, a in enumerate(self._scalars):
            pair = points[2 * i : 2 * i + 2]
            for j in (0, 1):
                hashed = _to_point(self._context, i, j, pair[1 - j])
                shared = _product(a, sodium.crypto_core_ed25519_add(pair[j], hashed))
                keys.append(_key(self._context, i, j, self._points[i], pair, shared))
        return _joined(keys).reshape(-1, 2, KEY_BYTES)


class BaseReceiver:
    """The side that chooses, with bits of shape (n,), and gets one key for each transfer."""

    def __init__(
        self, context: SessionHash, choices: NDArray[np.integer], entropy: Entropy = os.urandom
    ) -> None:
        self._context, self._choices = context, [int(c) for c in choices]
        self._scalars, self._pairs = [], []
        for i, choice in enumerate(self._choices):
            b, other = _scalar(entropy), _scalar(entropy)
            rest = sodium.crypto_scalarmult_ed25519_base_noclamp(other)
            mine = sodium.crypto_core_ed25519_sub(
                sodium.crypto_scalarmult_ed25519_base_noclamp(b),
                _to_point(context, i, choice, rest),
            )
            self._scalars.append(b)
            self._pairs.append([(mine, rest)[choice], (mine, rest)[1 - choice]])

    def begin(self) -> Message:
        """Return R_0 and R_1 of every transfer, 64 n bytes."""
        return _joined([point for pair in self._pairs for point in pair])

    def keys(self, message: Message) -> NDArray[np.uint8]:
        """Return the key chosen of every transfer, shape (n, 16), after the sender's message."""
        points = _points_of(message, len(self._choices), "base sender's points")
        keys = [
            _key(self._context, i, c, point, pair, _product(b, point))
            for i, (c, b, point, pair) in enumerate(
                zip(self._choices, self._scalars, points, self._pairs, strict=True)
            )
        ]
        return _joined(keys).reshape(-1, KEY_BYTES)


def _scalar(entropy: Entropy) -> bytes:
    return sodium.crypto_core_ed25519_scalar_reduce(entropy(64))


def _to_point(context: SessionHash, i: int, j: int, point: bytes) -> bytes:
    """Hash a point to a point: H_j of transfer i."""
    uniform = context.hash("to point", 64, _place(i, j), point)
    halves = (
        sodium.crypto_core_ed25519_from_uniform(part) for part in (uniform[:32], uniform[32:])
    )
    return sodium.crypto_core_ed25519_add(*halves)


def _key(
    context: SessionHash, i: int, j: int, sent: bytes, pair: Sequence[bytes], shared: bytes
) -> bytes:
    """Hash the Diffie-Hellman product and the transcript of transfer i to a key: F."""
    return context.hash("base key", KEY_BYTES, _place(i, j), sent, *pair, shared)


def _place(i: int, j: int) -> bytes:
    return bytes([j]) + i.to_bytes(4, "little")


def _product(scalar: bytes, point: bytes) -> bytes:
    try:
        return sodium.crypto_scalarmult_ed25519_noclamp(scalar, point)
    except SodiumError:
        # A receiver can make the sum of its point and the hash zero; nothing is lost by refusing.
        raise _refused("a pair of points whose sum with its hash is zero") from None


def _points_of(message: Message, n: int, what: str) -> list[bytes]:
    """Cut a message into points; H951 unless each is canonical, on the curve, of prime order."""
    data = checked(message, POINT_BYTES * n, np.uint8, what).tobytes()
    points = [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]
    for i, point in enumerate(points):
        if not sodium.crypto_core_ed25519_is_valid_point(point):
            raise _refused(f"point {i} of {n} of the {what}")
    return points


def _joined(parts: list[bytes]) -> Message:
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def _refused(found: str) -> Exception:
    return Code.BAD_TRANSFER_POINT.error(found=found)
