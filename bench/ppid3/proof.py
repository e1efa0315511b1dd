"""A batched proof that one exponent was used, to measure what it would cost a ring of sites.

Elements are Edwards points of libsodium, because the proof adds points, which coordinates of X25519
cannot. For elements P_i and Q_i = k P_i:

1. Both sides draw 128-bit r_i from a hash of all elements, and compute A = sum r_i P_i; who checks
   also computes B = sum r_i Q_i. B = k A, but for a probability of about 2^-128, only if every
   element was multiplied by k.
2. Who proves shows by Chaum and Pedersen's proof, made non-interactive, that B = k A for the k of
   its public key k G.

It is not used by any protocol: see docs/explanation/vertical-id3.md for why.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from nacl import bindings as sodium

Points = Sequence[bytes]


class Proof(NamedTuple):
    """Commitments w A and w G, and the answer w + c k."""

    over_sum: bytes
    over_base: bytes
    answer: bytes


def new_scalar() -> bytes:
    """Draw a number below the order of the group."""
    return sodium.crypto_core_ed25519_scalar_reduce(os.urandom(64))


def points(n: int) -> list[bytes]:
    """Draw points of prime order."""
    return [sodium.crypto_scalarmult_ed25519_base_noclamp(new_scalar()) for _ in range(n)]


def encrypt(key: bytes, elements: Points) -> list[bytes]:
    """Multiply every point."""
    return [sodium.crypto_scalarmult_ed25519_noclamp(key, point) for point in elements]


def prove(key: bytes, before: Points, after: Points) -> Proof:
    """Prove that `after` is `before` under one key, in the same order."""
    total, w = _combined(_weights(before, after), before), new_scalar()
    over_sum = sodium.crypto_scalarmult_ed25519_noclamp(w, total)
    over_base = sodium.crypto_scalarmult_ed25519_base_noclamp(w)
    challenge = _challenge(before, after, over_sum, over_base)
    share = sodium.crypto_core_ed25519_scalar_mul(challenge, key)
    return Proof(over_sum, over_base, sodium.crypto_core_ed25519_scalar_add(w, share))


def holds(proof: Proof, public: bytes, before: Points, after: Points) -> bool:
    """Check a proof against the public key k G."""
    weights = _weights(before, after)
    first, second = _combined(weights, before), _combined(weights, after)
    challenge = _challenge(before, after, proof.over_sum, proof.over_base)
    multiply, add = sodium.crypto_scalarmult_ed25519_noclamp, sodium.crypto_core_ed25519_add
    base = sodium.crypto_scalarmult_ed25519_base_noclamp(proof.answer)
    same_base = base == add(proof.over_base, multiply(challenge, public))
    same_sum = multiply(proof.answer, first) == add(proof.over_sum, multiply(challenge, second))
    return bool(same_base and same_sum)


def _weights(before: Points, after: Points) -> list[bytes]:
    stream = hashlib.shake_256(b"weights" + b"".join([*before, *after])).digest(16 * len(before))
    return [stream[i : i + 16] + bytes(16) for i in range(0, len(stream), 16)]


def _combined(weights: Sequence[bytes], elements: Points) -> bytes:
    terms = map(sodium.crypto_scalarmult_ed25519_noclamp, weights, elements)
    return reduce(sodium.crypto_core_ed25519_add, terms)


def _challenge(before: Points, after: Points, *commitments: bytes) -> bytes:
    text = b"challenge" + b"".join([*before, *after, *commitments])
    return sodium.crypto_core_ed25519_scalar_reduce(hashlib.sha512(text).digest())
