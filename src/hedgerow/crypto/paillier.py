"""Threshold Paillier, n-out-of-n: whoever has the public key adds, all holders together decrypt.

Papers: paillier1999public, damgard2001generalisation.

- Enc(x) = (1 + x N) r^N mod N^2 for x from 0 to N - 1; products of ciphertexts are sums, powers are
  products with plaintexts. That equal numbers cannot be told apart is the decisional composite
  residuosity assumption.
- c^d = 1 + x N for d = 1 mod N and d = 0 mod lambda. Each holder has an additive share of d modulo
  N lambda, uniform but for the last; all but one of them say nothing about d.

Powers and products of ciphertexts are as random as what they were made of: a product by 0 is 1, one
by 1 the factor itself. `Encrypted.randomise` comes before anything leaves that was made so.
What key shares do takes the same time whatever they are; the other powers do not.

Arithmetic is that of gmpy2 (extra ``paillier``), on NumPy arrays of its integers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from math import lcm, prod
from typing import Any, Final, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code, HedgerowError, install_of

KEY_BITS: Final = 2048
Ciphertexts = NDArray[np.object_]
"""Integers of gmpy2 below N^2, any shape."""
Numbers = NDArray[np.object_]
"""Whole numbers of any size, any shape."""
# Bits beyond those of a modulus, after which a remainder is as good as uniform.
_SPARE: Final = 64


class PublicKey:
    """A modulus N. H501 for one of fewer than 2048 bits, unless it is said to be insecure.

    Plaintexts of up to `room` bits do not wrap around; a ciphertext has `width` bytes.
    """

    def __init__(self, modulus: int, *, insecure_small: bool = False) -> None:
        self.modulus = gmpy2().mpz(modulus)
        self.square = self.modulus**2
        self.one = gmpy2().mpz(1)
        self.bits = self.modulus.bit_length()
        self.room, self.width = self.bits - 1, ciphertext_bytes(self.bits)
        if self.bits < KEY_BITS and not insecure_small:
            raise Code.BAD_PARAMETER.error(
                expected=f"a modulus of at least {KEY_BITS:,} bits", found=f"{self.bits:,} bits"
            )

    def zeros(self, shape: tuple[int, ...]) -> Ciphertexts:
        """Encrypt zeros: r^N, of r from the operating system. All the time of an encryption."""
        drawn = draw(self.bits + _SPARE, shape) % self.modulus

        def work(part: slice) -> Any:
            bases = drawn.reshape(-1)[part].tolist()
            return gmpy2().powmod_base_list(bases, self.modulus, self.square)

        return _each(work, shape)

    def encrypt(self, numbers: Numbers) -> Ciphertexts:
        """Encrypt numbers from 0 to N - 1; H961 for others."""
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.modulus:
            raise _overflow(f"a number of 0 to {self.bits} bits", "one below 0, or too large")
        made: Ciphertexts = (numbers * self.modulus + 1) * self.zeros(numbers.shape) % self.square
        return made

    def combine(self, partials: Sequence[Ciphertexts]) -> Numbers:
        """Decrypt: join what every holder made of the same ciphertexts with `KeyShare.partial`.

        H960 if one of them is missing, or was made of another ciphertext or with another key.
        """
        whole = self.product(partials)
        if np.any((whole - 1) % self.modulus):
            raise Code.BAD_CIPHERTEXT.error(
                expected="decryptions of the same ciphertexts by all holders of the key",
                found=f"{len(partials)} that do not fit together",
            )
        plain: Numbers = (whole - 1) // self.modulus
        return plain

    def product(self, factors: Sequence[Ciphertexts]) -> Ciphertexts:
        """Multiply arrays of ciphertexts, element by element: sums of what is encrypted."""
        return reduce(lambda x, y: x * y % self.square, factors)

    def write(self, ciphertexts: Ciphertexts) -> NDArray[np.uint8]:
        """Write ciphertexts as bytes, uint8 (..., width)."""
        size = self.width
        joined = b"".join(c.to_bytes(size, "little") for c in ciphertexts.reshape(-1).tolist())
        return np.frombuffer(joined, dtype=np.uint8).reshape(*ciphertexts.shape, size)

    def read(self, blob: NDArray[np.uint8], sender: str) -> Ciphertexts:
        """Read ciphertexts from bytes; H960 for what no encryption makes, with the sender."""
        if blob.dtype != np.uint8 or blob.shape[-1:] != (self.width,):
            raise _bad(f"{blob.dtype} of shape {blob.shape} from {sender}", f"{self.width} bytes")
        mpz, data, size = gmpy2().mpz, blob.tobytes(), self.width
        found = [mpz.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        # A factor of N in one of them is one of their product.
        if found and (max(found) >= self.square or not self._coprime(self._fold(found))):
            bad = next(i for i, c in enumerate(found) if c >= self.square or not self._coprime(c))
            raise _bad(f"another number from {sender}, ciphertext {bad} of {len(found):,}")
        return _array(found, blob.shape[:-1])

    def _fold(self, ciphertexts: Sequence[Any]) -> Any:
        """Multiply ciphertexts of a list."""
        square = self.square
        return reduce(lambda x, y: x * y % square, ciphertexts, self.one)

    def _coprime(self, number: Any) -> bool:
        return bool(gmpy2().gcd(number, self.modulus) == 1)


class KeyShare:
    """What one holder decrypts with. It is not printed, copied or compared."""

    __slots__ = ("_exponent", "key")

    def __init__(self, key: PublicKey, exponent: int) -> None:
        self.key, self._exponent = key, gmpy2().mpz(exponent)

    def partial(self, ciphertexts: Ciphertexts) -> Ciphertexts:
        """Do this holder's part of a decryption: c^(d_i)."""
        module, square, exponent = gmpy2(), self.key.square, self._exponent

        def work(part: slice) -> list[Any]:
            with module.context(allow_release_gil=True):
                flat = ciphertexts.reshape(-1)[part].tolist()
                return [module.powmod_sec(c, exponent, square) for c in flat]

        return _each(work, ciphertexts.shape)

    def to_bytes(self) -> bytes:
        """Write the share, as long as a ciphertext, for the dealer to hand over."""
        written: bytes = self._exponent.to_bytes(self.key.width, "little")
        return written

    def __repr__(self) -> str:
        return "KeyShare()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys stay where they were made")


def insecure_deal(holders: int, bits: int = KEY_BITS) -> list[KeyShare]:
    """Draw a key and split it: whoever calls this has seen all of it, and can decrypt alone.

    No maintained library makes such keys without a dealer; that takes a protocol of its own, in
    which the holders find N together and nobody learns its factors. Fewer bits are for tests.
    """
    p, q = _prime(bits // 2), _prime(bits - bits // 2)
    return insecure_split(p, q, holders) if p != q else insecure_deal(holders, bits)


def insecure_split(p: int, q: int, holders: int) -> list[KeyShare]:
    """Split the key of two primes, of any size: see `insecure_deal`."""
    modulus, order = p * q, lcm(p - 1, q - 1)
    key = PublicKey(modulus, insecure_small=True)
    whole, left = modulus * order, order * pow(order, -1, modulus)
    shares = []
    for _ in range(holders - 1):
        # From 1 and not from 0, which a power in constant time cannot have.
        shares.append(1 + int(draw(whole.bit_length() + _SPARE, ())[()]) % whole)
        left -= shares[-1]
    return [KeyShare(key, share) for share in (*shares, left % whole or whole)]


def ciphertext_bytes(bits: int) -> int:
    """Return how many bytes a ciphertext has, and the share of a key of so many bits."""
    return -(-2 * bits // 8)


@dataclass(frozen=True)
class Slots:
    """Places for `count` numbers of at most `width` bits in one plaintext, the first lowest."""

    count: int
    width: int

    def pack(self, numbers: Numbers) -> Numbers:
        """Put numbers (..., q) into plaintexts (..., ceil(q / count)); H961 where one is too wide.

        Places that are left stay 0.
        """
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < 1 << self.width:
            raise _overflow(f"numbers of 0 to {self.width} bits", "one below 0, or wider")
        *lead, q = numbers.shape
        groups = -(-q // self.count)
        padded = np.zeros((*lead, groups * self.count), dtype=object)
        padded[..., :q] = numbers
        parts = padded.reshape(*lead, groups, self.count)
        return reduce(lambda high, low: (high << self.width) + low, np.moveaxis(parts, -1, 0)[::-1])

    def unpack(self, plaintexts: Numbers) -> Numbers:
        """Take the numbers out of plaintexts (...): (..., count)."""
        shift = self.width * np.arange(self.count).astype(object)
        found: Numbers = (plaintexts[..., None] >> shift) & ((1 << self.width) - 1)
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Encrypted:
    """Ciphertexts of numbers from 0 to `most`, one in each of their slots.

    Every step knows how large numbers can become, from public bounds alone: H961 before one would
    not fit into its slot.
    """

    key: PublicKey
    slots: Slots
    most: int
    data: Ciphertexts

    def __post_init__(self) -> None:
        check_slots(self.key, self.slots)
        if self.most.bit_length() > self.slots.width:
            raise _overflow(
                f"numbers of at most {self.slots.width} bits in a slot",
                f"numbers of up to {self.most.bit_length()} bits",
            )

    @classmethod
    def of(cls, key: PublicKey, slots: Slots, numbers: Numbers, most: int) -> Self:
        """Encrypt numbers (..., q) from 0 to `most`, ceil(q / count) ciphertexts each."""
        return cls(key, slots, most, key.encrypt(slots.pack(numbers)))

    def __getitem__(self, index: Any) -> Encrypted:
        return replace(self, data=self.data[index])

    def reshape(self, *shape: int) -> Encrypted:
        """Return the ciphertexts in another shape."""
        return replace(self, data=self.data.reshape(shape))

    def __add__(self, other: Encrypted) -> Encrypted:
        fitting = replace(self, most=self.most + other.most)
        return replace(fitting, data=self.key.product([self.data, other.data]))

    def subtract(self, other: Encrypted, lift: int = 0) -> Encrypted:
        """Subtract, with `lift` added in every slot.

        It is to be at least what can be subtracted: 0 will do where the others are 0 or the same.
        """
        module, square, fitting = gmpy2(), self.key.square, replace(self, most=self.most + lift)
        inverses = [module.invert(c, square) for c in other.data.reshape(-1).tolist()]
        lifted = self.slots.pack(np.full(self.slots.count, lift, dtype=object))[0]
        factor = 1 + lifted * self.key.modulus
        made = self.data * _array(inverses, other.data.shape) % square
        return replace(fitting, data=made * factor % square)

    def multiply(self, factors: Numbers, slots: Slots, most: int) -> Encrypted:
        """Multiply by plaintexts of numbers up to `most`, packed as `slots`, into which it goes.

        One number each here. As random as before: see `randomise`.
        """
        fitting = replace(self, slots=slots, most=self.most * most)
        power, square = gmpy2().powmod, self.key.square
        pairs = zip(self.data.reshape(-1).tolist(), factors.reshape(-1).tolist(), strict=True)
        data = _array([power(c, factor, square) for c, factor in pairs], self.data.shape)
        return replace(fitting, data=data)

    def select(self, bits: NDArray[np.bool_]) -> Encrypted:
        """Multiply by 0 and 1, randomised."""
        return replace(self, data=np.where(bits, self.data, self.key.one)).randomise()

    def randomise(self) -> Encrypted:
        """Encrypt zeros into these, so that nobody sees what they were made of."""
        zeros = self.key.zeros(self.data.shape)
        return replace(self, data=self.key.product([self.data, zeros]))

    def sums(self, which: Sequence[NDArray[np.int64]], at_most: int) -> Encrypted:
        """Add up numbers (..., n) at some places, `at_most` so many of them: (..., len(which)).

        Dot products with vectors of 0 and 1. As random as before: see `randomise`.
        """
        fitting, (*lead, n) = replace(self, most=self.most * at_most), self.data.shape
        flat = self.data.reshape(prod(lead), n)
        # Python's part of a product of two numbers of 4,096 bits is 2%.
        made = [self.key._fold(row[places].tolist()) for row in flat for places in which]
        return replace(fitting, data=_array(made, (*lead, len(which))))

    def gather(self) -> Encrypted:
        """Shift the slots of g ciphertexts (n,) into one, as many as the key has room for.

        (ceil(n / g),), the first ones lowest. As random as before: see `randomise`.
        """
        slots = self.slots
        g = gathered(self.key, slots)
        padded = np.full(-(-self.data.size // g) * g, self.key.one, dtype=object)
        padded[: self.data.size] = self.data
        by, square = 1 << (slots.count * slots.width), self.key.square

        def shifted(high: Ciphertexts, low: Ciphertexts) -> Ciphertexts:
            moved = gmpy2().powmod_base_list(high.tolist(), by, square)
            return self.key.product([_array(moved, high.shape), low])

        data = reduce(shifted, padded.reshape(-1, g).T[::-1])
        return replace(self, slots=Slots(g * slots.count, slots.width), data=data)


def gathered(key: PublicKey, slots: Slots) -> int:
    """Return of how many ciphertexts the slots go into one."""
    return int(key.room // (slots.count * slots.width))


def check_slots(key: PublicKey, slots: Slots) -> None:
    """Refuse slots that a plaintext has no room for with H961."""
    if slots.count * slots.width > key.room:
        raise _overflow(
            f"slots of {key.room:,} bits together", f"{slots.count} of {slots.width:,} bits"
        )


def draw(bits: int, shape: tuple[int, ...]) -> Numbers:
    """Draw uniform numbers below 2^bits from the operating system."""
    size, mpz = -(-bits // 8), gmpy2().mpz
    data, spare = os.urandom(size * prod(shape)), 8 * size - bits
    found = [mpz.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    numbers: Numbers = _array(found, shape) >> spare
    return np.asarray(numbers, dtype=object)


def gmpy2() -> Any:
    """Return the module; H406 where it is not installed."""
    try:
        return import_module("gmpy2")
    except ImportError:
        raise Code.MISSING_EXTRA.error(
            found="no module 'gmpy2'", fix=install_of("paillier")
        ) from None


def _prime(bits: int) -> int:
    """Draw a prime with its two highest bits set, so that a product of two has all its bits."""
    top = (1 << (bits - 1)) | (1 << (bits - 2)) | 1
    while True:
        found = int(draw(bits, ())[()]) | top
        if gmpy2().is_prime(found, 40):
            return found


def _array(values: Sequence[Any], shape: tuple[int, ...]) -> Numbers:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)


def _each(work: Callable[[slice], list[Any]], shape: tuple[int, ...]) -> Numbers:
    """Do a part of the work on each core."""
    parts = threads.balanced(np.ones(prod(shape), dtype=np.int64), threads.available())
    return _array([value for part in threads.run(work, parts) for value in part], shape)


def _bad(found: str, expected: str | None = None) -> HedgerowError:
    return Code.BAD_CIPHERTEXT.error(found=found, expected=expected)


def _overflow(expected: str, found: str) -> HedgerowError:
    return Code.PLAINTEXT_OVERFLOW.error(expected=expected, found=found)
