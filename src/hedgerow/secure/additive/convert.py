"""Between bits and rings, and between rings.

Every peer knows the bits of its own share: as XOR shares they are the bits at that peer and zeros
elsewhere, without a message.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure import circuits
from hedgerow.secure.additive.arithmetic import begin
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.additive.preprocessing import Kind, Provider
from hedgerow.secure.additive.sharing import open_to_all
from hedgerow.secure.kernels import bit_planes
from hedgerow.secure.ring import Ring, product_ring
from hedgerow.secure.secret import Engine, SecretBits, pack, unpack, words

Array = NDArray[Any]


def addends(core: PeerCore, x: Array, bits: int) -> list[Array]:
    """Share the bits of every peer's share.

    From x (peers here, n) to m arrays uint64 (peers here, bits, ceil(n / 64)), lowest first.

    Reveals: nothing. Cost: nothing.
    """
    parts = []
    for peer in range(core.n):
        planes = core.shares((bits, words(x.shape[1])), np.uint64, zero=True)
        at = core.at(peer)
        if at is not None:
            planes[at] = bit_planes(x[at], bits)
        parts.append(planes)
    return parts


def b2a(provider: Provider, x: Array, n: int, ring: Ring) -> Array:
    """Turn bits into 0 and 1 of a ring.

    1. The peers open v = x ^ r, where r is a random bit that is shared in the ring as well.
    2. The bit is r + v - 2 v r: 1 - r where v is set, else r.

    From uint64 (peers here, ..., ceil(n / 64)) to (peers here, ..., n).
    Paper: rotaru2019marbled.

    Reveals: nothing.
    Cost: 1 round, one bit from every peer to every other, packed; a dabit for each.
    """
    core, shape = provider.core, (*x.shape[1:-1], n)
    size = prod(shape)
    out = core.shares((size,), ring.dtype)
    if size:
        step, (bits, numbers) = begin(provider, "b2a", Kind("dabits", ring), size)
        hidden = pack(unpack(x, n).reshape(-1, size) ^ bits.astype(np.bool_))
        v = unpack(open_to_all(step, hidden, xor=True), size)
        for at, peer in enumerate(core.here):
            np.subtract(ring.dtype.type(peer == 0), numbers[at], out=out[at])
            np.copyto(out[at], numbers[at], where=~v)
    return out.reshape(core.share_shape + shape)


def shift_right(
    engine: Engine, core: PeerCore, x: Array, source: Ring, ring: Ring, shift: int
) -> Array:
    """Divide 0 <= x < 2**(k-1) by ``2**shift`` and lift it into a ring.

    The shares are numbers below 2**k with the sum x + 2**k w, where w counts wraps.

    1. w = (T + m - 1) >> t, where T is the sum of the top t bits of all shares: T leaves out less
       than m, so the quotient is not too small, and with x below half of 2**k not too large if
       m - 1 <= 2**(t-1).
    2. With three or more peers, the carry c out of the low bits that every peer drops, likewise
       from the top t of them: (their sum) >> t is c or c - 1. With two peers c is 0 or 1, so 0
       will do.
    3. The sums are added up on bits, and what is above bit t becomes numbers of a ring; the
       smallest that 2**(k-shift) leaves, where w is all that there is.
    4. The quotient is the sum of the shifted shares, - 2**(k-shift) w, + c.

    From shares (peers here, n) to the same. The quotient is rounded down, or 1 less; exact for
    ``shift=0``.

    Reveals: nothing. Cost: `costs.cost_shift`.
    """
    m, n, k = core.n, x.shape[1], source.bits
    t, width = top_bits(m), sum_bits(m)
    tops = [x >> source.dtype.type(k - t)]
    for at, peer in enumerate(core.here):
        tops[0][at] += source.dtype.type(m - 1 if peer == 0 else 0)
    if has_carry(m, shift):
        tops.append((x << source.dtype.type(k - shift)) >> source.dtype.type(k - t))
    size = n * len(tops)
    numbers = addends(core, np.concatenate(tops, axis=1), width)
    parts = [SecretBits(engine, size, planes) for planes in numbers]
    high = circuits.total(circuits.two_summands(parts))[t:]
    small = small_ring(m, source, ring, shift)
    found = engine.b2a(high, small).data.astype(ring.dtype)
    out: Array = (x >> source.dtype.type(shift)).astype(ring.dtype)
    for bit in range(width - t):
        # What a power of two moves beyond the ring is gone.
        weight = ring.dtype.type((1 << k - shift + bit) % (1 << ring.bits))
        out -= found[:, bit, :n] * weight
        if has_carry(m, shift):
            out += found[:, bit, n:] << ring.dtype.type(bit)
    return out


def top_bits(m: int) -> int:
    """Return t: how many top bits of m shares tell how often their sum wraps around."""
    return (m - 2).bit_length() + 1


def sum_bits(m: int) -> int:
    """Return how many bits the sum of m numbers of `top_bits` has, with m - 1 more."""
    return top_bits(m) + (m - 1).bit_length()


def has_carry(m: int, shift: int) -> bool:
    """Return whether the carry of what is dropped has to be counted."""
    return shift > 0 and m > 2


def small_ring(m: int, source: Ring, ring: Ring, shift: int) -> Ring:
    """Return the ring in which wraps become numbers."""
    return ring if has_carry(m, shift) else product_ring(source, ring, shift)
