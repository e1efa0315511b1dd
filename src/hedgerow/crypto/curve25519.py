"""Curve25519 by its u-coordinates: hashing onto the curve, and telling its points from the rest.

Papers: rfc7748, rfc9380.

A u-coordinate belongs to the curve or to its twist, and multiplication keeps it there. An element
of the twist could therefore be followed through every encryption and shuffle. So what is hashed is
put on the curve, and what is received is looked at.

The kernels are not constant-time: they see ids that the caller holds and points that were sent,
never a key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.compiled import A, jit

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Order of the subgroup that all encrypted points lie in; the curve has 8 times as many points."""
A_CURVE = 486662
WIDTH = 32

_LENGTH = 48
_BLOCK = bytes(128)
# u-coordinates of points of the curve whose order divides 8.
_SMALL = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)

GOOD, NOT_CANONICAL, ON_TWIST, SMALL_ORDER = range(4)


def hash_to_curve(messages: Sequence[bytes], domain: bytes) -> NDArray[np.uint8]:
    """Map messages to points of the curve: ``curve25519_XMD:SHA-512_ELL2_NU_`` before the cofactor.

    1. u = 48 bytes of expand_message_xmd with SHA-512, modulo p.
    2. Elligator 2: w = -A / (1 + 2 u^2); the point is w if w^3 + A w^2 + w is a square, else
       -w - A.

    One of the two candidates is on the curve and the other on the twist. The result may have a
    part of order 8; the first encryption removes it.

    `domain`, at most 255 bytes, separates this use of the hash from all others. Returns
    little-endian u-coordinates.
    """
    first = [_candidate(_field_element(message, domain)) for message in messages]
    points = elements(first)
    twisted = np.flatnonzero(classify(points) == ON_TWIST)
    points[twisted] = elements([(-first[i] - A_CURVE) % P for i in twisted.tolist()])
    return points


def elements(values: Sequence[int]) -> NDArray[np.uint8]:
    """Write numbers below 2^256 as rows of 32 bytes, little-endian."""
    joined = b"".join(value.to_bytes(WIDTH, "little") for value in values)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, WIDTH).copy()


def classify(points: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Tell for each row of 32 bytes whether it may be encrypted: GOOD, or why it may not."""
    words = np.ascontiguousarray(points).view("<u8").astype(np.uint64, copy=False)
    kinds = np.empty(len(points), dtype=np.uint8)
    _classify(words, _SMALL_WORDS, kinds)
    return kinds


def _field_element(message: bytes, domain: bytes) -> int:
    """Return step 1: one block of SHA-512 is enough for 48 bytes."""
    suffix = domain + bytes([len(domain)])
    head = _BLOCK + message + _LENGTH.to_bytes(2, "big") + b"\0" + suffix
    seed = hashlib.sha512(head).digest()
    uniform = hashlib.sha512(seed + b"\1" + suffix).digest()[:_LENGTH]
    return int.from_bytes(uniform, "big") % P


def _candidate(u: int) -> int:
    # 1 + 2 u^2 is never 0: -1/2 is not a square.
    return -A_CURVE * pow(1 + 2 * u * u, -1, P) % P


_SMALL_WORDS = elements(_SMALL).view("<u8").astype(np.uint64)
_LOW = np.uint64(0xFFFFFFFF)
_P0 = np.uint64(0xFFFFFFFFFFFFFFED)
_P1 = np.uint64(0xFFFFFFFFFFFFFFFF)
_P3 = np.uint64(0x7FFFFFFFFFFFFFFF)
_U1, _U2, _U3, _U32, _U63 = (np.uint64(i) for i in (1, 2, 3, 32, 63))
_FOLD, _TOP_FOLD = np.uint64(38), np.uint64(19)
_A_WORD = np.uint64(A_CURVE)


@jit
def _classify(words: A, small: A, kinds: A) -> None:
    u, v, product = np.zeros(8, np.uint64), np.zeros(8, np.uint64), np.zeros(16, np.uint64)
    for i in range(words.shape[0]):
        if words[i, 3] > _P3 or (
            words[i, 3] == _P3 and words[i, 2] == _P1 and words[i, 1] == _P1 and words[i, 0] >= _P0
        ):
            kinds[i] = NOT_CANONICAL
            continue
        kinds[i] = GOOD
        for s in range(small.shape[0]):
            same = True
            for j in range(4):
                same &= words[i, j] == small[s, j]
            if same:
                kinds[i] = SMALL_ORDER
        if kinds[i] != GOOD:
            continue
        # u (u^2 + A u + 1) = u ((u + A) u + 1)
        for j in range(4):
            u[2 * j], u[2 * j + 1] = words[i, j] & _LOW, words[i, j] >> _U32
        for j in range(8):
            v[j] = u[j]
        _add_small(v, _A_WORD)
        _multiply(v, u, product)
        _add_small(v, _U1)
        _multiply(v, u, product)
        if _jacobi(v) != 1:
            kinds[i] = ON_TWIST


@jit
def _add_small(v: A, carry: A) -> A:
    """Add a small number to 8 limbs of 32 bits; returns what goes beyond 2^256, 0 or 1."""
    for j in range(8):
        carry += v[j]
        v[j] = carry & _LOW
        carry >>= _U32
    return carry


@jit
def _multiply(v: A, u: A, product: A) -> None:
    """Replace v by v u modulo p, below p; 8 limbs of 32 bits each."""
    for j in range(16):
        product[j] = 0
    for i in range(8):
        carry = np.uint64(0)
        for j in range(8):
            carry += product[i + j] + v[i] * u[j]
            product[i + j] = carry & _LOW
            carry >>= _U32
        product[i + 8] = carry
    carry = np.uint64(0)
    for j in range(8):
        carry += product[j] + _FOLD * product[j + 8]
        v[j] = carry & _LOW
        carry >>= _U32
    while carry:
        carry = _add_small(v, carry * _FOLD)
    # Just below 2^256, adding 19 reaches 2^255 once more.
    for _ in range(2):
        top = v[7] >> np.uint64(31)
        v[7] &= np.uint64(0x7FFFFFFF)
        _add_small(v, top * _TOP_FOLD)
    if v[7] >= np.uint64(0x7FFFFFFF) and v[0] >= np.uint64(0xFFFFFFED):
        full = v[7] == np.uint64(0x7FFFFFFF)
        for j in range(1, 7):
            full &= v[j] == _LOW
        if full:
            v[0] -= np.uint64(0xFFFFFFED)
            for j in range(1, 8):
                v[j] = 0


@jit
def _jacobi(v: A) -> int:
    """Return the Jacobi symbol (v / p) by the binary algorithm: 1, -1, or 0 for v = 0."""
    a0, a1 = v[0] | v[1] << _U32, v[2] | v[3] << _U32
    a2, a3 = v[4] | v[5] << _U32, v[6] | v[7] << _U32
    n0, n1, n2, n3 = _P0, _P1, _P1, _P3
    sign = 1
    while a0 | a1 | a2 | a3:
        while a0 & _U1 == 0:
            a0 = a0 >> _U1 | a1 << _U63
            a1 = a1 >> _U1 | a2 << _U63
            a2 = a2 >> _U1 | a3 << _U63
            a3 >>= _U1
            # (2 / n) is -1 for n = 3 and 5 modulo 8.
            if ((n0 >> _U1) ^ (n0 >> _U2)) & _U1:
                sign = -sign
        less = a3 < n3 or (
            a3 == n3 and (a2 < n2 or (a2 == n2 and (a1 < n1 or (a1 == n1 and a0 < n0))))
        )
        if less:
            a0, n0, a1, n1, a2, n2, a3, n3 = n0, a0, n1, a1, n2, a2, n3, a3
            if a0 & n0 & _U3 == _U3:
                sign = -sign
        borrow = np.uint64(a0 < n0)
        a0 -= n0
        below = np.uint64(a1 < n1 or (a1 == n1 and borrow == _U1))
        a1 -= n1 + borrow
        borrow = np.uint64(a2 < n2 or (a2 == n2 and below == _U1))
        a2 -= n2 + below
        a3 -= n3 + borrow
    return sign if n0 == _U1 and n1 | n2 | n3 == 0 else 0
