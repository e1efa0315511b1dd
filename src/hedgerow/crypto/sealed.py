"""Sealed messages: for the eyes of one receiver, whoever carries them.

A message is encrypted to the X25519 key of its receiver and bound to a context, bytes that both
sides know: to which run, round, sender and receiver it belongs. Who relays it can neither read nor
change it, nor pass it on as the message of another context.

1. The sender draws a key pair for this one message; z is the X25519 product with the receiver's
   public key.
2. Key and nonce are HKDF-SHA256 of z, salted with both public keys, under a label of the format.
3. AES-256-GCM with the context as associated data.

A sealed message does not say who made it: anybody who knows the public key can seal one. It is a
version, the sender's fresh public key and the ciphertext with its tag: 49 bytes longer than what is
in it.

Keys of receivers have to be authentic: they stand in something that all parties have agreed on, or
come over a connection whose certificate is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hedgerow.errors import Code

KEY_BYTES = 32
OVERHEAD = 1 + KEY_BYTES + 16
"""Bytes that sealing adds."""
_VERSION = b"\x01"
_LABEL = b"hedgerow/sealed/v1"
_NONCE_BYTES = 12


class SealingKey:
    """The key pair of a receiver: a new one, or that of a `secret` from before."""

    def __init__(self, secret: bytes | None = None) -> None:
        if secret is not None and len(secret) != KEY_BYTES:
            raise _refused(f"a secret key of {KEY_BYTES} bytes", f"{len(secret)} bytes")
        self._key = X25519PrivateKey.from_private_bytes(secret or os.urandom(KEY_BYTES))

    @property
    def public(self) -> bytes:
        """What senders need, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    @property
    def secret(self) -> bytes:
        """What must be kept, and from everybody else, to open messages later; 32 bytes."""
        return self._key.private_bytes_raw()

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return what was sealed to this key in this context; H760 for anything else."""
        message = bytes(sealed)
        if len(message) < OVERHEAD or message[:1] != _VERSION:
            raise _refused("a sealed message of version 1", f"{len(message)} other bytes")
        fresh, body = message[1 : 1 + KEY_BYTES], message[1 + KEY_BYTES :]
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(fresh))
            key, nonce = _derived(shared, fresh, self.public)
            return AESGCM(key).decrypt(nonce, body, context)
        except (InvalidTag, ValueError):
            # A product that is zero (a key of small order) is refused like any other forgery.
            raise _refused(
                f"a message sealed to this key for {context!r:.200}", "one that does not open"
            ) from None

    def __repr__(self) -> str:
        return f"<SealingKey {self.public.hex()[:16]}>"


def seal(
    message: bytes,
    to: bytes,
    context: bytes,
    *,
    entropy: Callable[[int], bytes] = os.urandom,
) -> bytes:
    """Seal a message to an authentic public key; H760 for a key that is none.

    Both sides know the context, which is not sent. Only tests pass other `entropy` than the
    operating system's.
    """
    fresh = X25519PrivateKey.from_private_bytes(entropy(KEY_BYTES))
    try:
        shared = fresh.exchange(X25519PublicKey.from_public_bytes(to))
    except ValueError:
        raise _refused("an X25519 public key", f"{to.hex()[:80]}") from None
    public = fresh.public_key().public_bytes_raw()
    key, nonce = _derived(shared, public, to)
    return _VERSION + public + AESGCM(key).encrypt(nonce, message, context)


def _derived(shared: bytes, fresh: bytes, to: bytes) -> tuple[bytes, bytes]:
    made = HKDF(SHA256(), 32 + _NONCE_BYTES, fresh + to, _LABEL).derive(shared)
    return made[:32], made[32:]


def _refused(expected: str, found: str) -> Exception:
    return Code.SEALED_REFUSED.error(expected=expected, found=found)
