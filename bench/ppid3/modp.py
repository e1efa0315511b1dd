"""The commutative cipher of the paper's time: exponentiation modulo a 2048-bit safe prime.

Pohlig-Hellman in the subgroup of squares of RFC 3526, group 14, behind the interface of
`hedgerow.crypto.commutative.CommutativeCipher`, for comparison only. With gmpy2 (extra ``bench``),
which lets go of the interpreter's lock over a list; otherwise with Python's `pow`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np

from hedgerow import threads
from hedgerow.crypto.commutative import CipherKey, Elements, Entropy
from hedgerow.errors import Code

try:
    import gmpy2
except ImportError:
    gmpy2 = None

P = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74"
    "020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437"
    "4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05"
    "98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB"
    "9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
Q = (P - 1) // 2
WIDTH = 256


class ModpCipher:
    """x to the power of a secret number, among the squares modulo P.

    `exponent_bits`: 2048 draws exponents below the order of the group, as the cipher was published.
    Fewer, such as 256, are faster and rest on one more assumption: that short exponents are as hard
    to find.
    """

    name = "2048-bit"
    width = WIDTH

    def __init__(self, exponent_bits: int = 2048) -> None:
        self.exponent_bits = exponent_bits

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        """Square 2176 uniform bits: a square, whose root nobody needs to know."""
        label = b"hedgerow/bench/modp/" + purpose.encode() + b"/"
        wide = (hashlib.shake_256(label + m).digest(WIDTH + 16) for m in messages)
        return _rows([pow(int.from_bytes(w, "big"), 2, P) for w in wide])

    def new_key(self, entropy: Entropy = os.urandom) -> CipherKey:
        """Draw an exponent."""
        bits = min(self.exponent_bits, 2047)
        secret = int.from_bytes(entropy(WIDTH + 16), "big") % (1 << bits) % (Q - 1) + 1
        return CipherKey(secret)

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        """Raise every element to the key."""
        return _raised(elements, key.secret)

    def check(self, elements: Elements, sender: str) -> None:
        """Refuse what is no square between 1 and P."""
        for row in elements:
            x = int.from_bytes(row.tobytes(), "big")
            if not (1 < x < P and _is_square(x)):
                raise Code.BAD_ELEMENT.error(found=f"no square from {sender}")


def _is_square(x: int) -> bool:
    return bool(gmpy2.jacobi(x, P) == 1 if gmpy2 else pow(x, Q, P) == 1)


def _raised(elements: Elements, exponent: int) -> Elements:
    def work(part: np.ndarray) -> list[int]:
        bases = [int.from_bytes(elements[i].tobytes(), "big") for i in part]
        if gmpy2:
            return [int(y) for y in gmpy2.powmod_base_list(bases, exponent, P)]
        return [pow(base, exponent, P) for base in bases]

    parts = threads.dealt(len(elements), threads.available())
    out = np.empty((len(elements), WIDTH), dtype=np.uint8)
    for part, made in zip(parts, threads.run(work, parts), strict=True):
        out[part] = _rows(made)
    return out


def _rows(numbers: Sequence[int]) -> Elements:
    joined = b"".join(number.to_bytes(WIDTH, "big") for number in numbers)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, WIDTH).copy()
