"""Between bits and rings, and between rings.

All rest on one fact: with a = x_t + x_{t+1}, which server t knows, and b = x_{t+2}, which servers
t+1 and t+2 know, a number is a + b. Server t deals what it knows (`Deal`), the other two multiply
it with what they know and join the products (`Join`). The role t rotates over thirds of a batch.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.kernels import bit_planes
from hedgerow.secure.replicated import kernels
from hedgerow.secure.replicated.core import Core
from hedgerow.secure.replicated.sharing import Deal, Join, length, thirds, write
from hedgerow.secure.ring import Ring, product_ring
from hedgerow.secure.secret import WORD, unpack, words

Array = NDArray[Any]


def addends(core: Core, x: Array, bits: int) -> tuple[Array, Array]:
    """Share the bits of a = x_t + x_{t+1} and of b = x_{t+2}.

    Server t deals the bits of a; those of b are shares already: (b, 0, 0) from share t+2 on.
    Reveals: nothing. Cost: 1 round; over a third of the words, ``8 * bits`` bytes per word from
    server t, a mean of ``bits / 24`` bytes per element.

    From x (servers here, 2, n) to uint64 (servers here, 2, bits, ceil(n / 64)), lowest first.
    """
    n = x.shape[2]
    step = core.step("addends")
    a, b = (core.shares((bits, words(n)), np.uint64, zero=True) for _ in range(2))
    deals = []
    for t, run in enumerate(thirds(words(n))):
        span = slice(WORD * run.start, min(n, WORD * run.stop))
        shape = (bits, length(run))
        at = core.at(t)
        known = None if at is None else bit_planes(x[at, 0, span] + x[at, 1, span], bits)
        deals.append((run, Deal(step, f"a{t}", t, shape, np.uint64, known, xor=True)))
        for server, side in ((t + 1, 1), (t + 2, 0)):
            place = core.at(server)
            if place is not None:
                b[place, side, :, run] = bit_planes(x[place, side, span], bits)
    step.exchange()
    for run, deal in deals:
        write(core, deal, a[..., run])
    return a, b


def b2a(core: Core, x: Array, n: int, ring: Ring) -> Array:
    """Turn bits into 0 and 1 of a ring.

    1. Server t deals c = x_t ^ x_{t+1} in the ring, as c_t + c_{t+1}.
    2. The bit is c ^ d = c_{t+1} (1 - 2d) + d + c_t (1 - 2d) with d = x_{t+2}: servers t+1 and t+2
       know c_{t+1}, d and c_t, d and join the two terms.

    From uint64 (servers here, 2, ..., ceil(n / 64)) to (servers here, 2, ..., n).

    Reveals: nothing. Cost: 2 rounds, one element from every server.
    """
    shape = (*x.shape[2:-1], n)
    size = prod(shape)
    flat = unpack(x, n).view(np.uint8).reshape(len(core.here), 2, size)
    step = core.step("b2a")
    out = core.shares((size,), ring.dtype)
    runs, deals, joins, flip = thirds(size), [], [], kernels.flip(ring.dtype.name)
    for t, run in enumerate(runs):
        at = core.at(t)
        known = None if at is None else (flat[at, 0, run] ^ flat[at, 1, run]).astype(ring.dtype)
        deals.append(Deal(step, f"c{t}", t, (length(run),), ring.dtype, known))
    step.exchange()
    for t, (run, deal) in enumerate(zip(runs, deals, strict=True)):
        terms: list[Array | None] = [None, None]
        for number, server, side in ((0, t + 1, 1), (1, t + 2, 0)):
            at = core.at(server)
            if at is not None:
                # c (1 - 2d) + d is 1 - c or c; the d is added by server t+1 alone.
                terms[number] = np.empty(length(run), ring.dtype)
                part = deal.got if number == 0 else deal.mask
                flip(part, flat[at, side, run], 1 - number, terms[number])
        joins.append(Join(step, f"j{t}", t, (length(run),), ring.dtype, *terms))
    step.exchange()
    for run, join in zip(runs, joins, strict=True):
        write(core, join, out[..., run])
    return out.reshape(len(core.here), 2, *shape)


def shift_right(core: Core, x: Array, source: Ring, ring: Ring, shift: int) -> Array:
    """Divide 0 <= x < 2**(k-1) by ``2**shift`` and lift it into a ring.

    As x < 2**(k-1), a + b passes 2**k exactly when a or b has its top bit set. With a and b read as
    signed numbers, x = a + b + 2**k * (top bit of a) * (top bit of b), and the same holds for the
    parts shifted to the right, up to a carry out of the bits that are dropped.

    1. Server t deals a >> shift in the ring and its top bit in the smallest ring that has the bits
       which 2**(k-shift) leaves.
    2. Servers t+1 and t+2 multiply the top bit by that of b and join the products.

    Shares are (servers here, 2, n), `shift` is from 0 to k. The quotient is rounded down, or 1
    less; exact for ``shift=0``.

    Reveals: nothing.
    Cost: 2 rounds; with e the bytes of the small ring, e from every server and over a third of the
    batch one element of the ring from server t.
    """
    n = x.shape[-1]
    step = core.step("truncate" if shift else "extend")
    small = product_ring(source, ring, shift)
    out = core.shares((n,), ring.dtype)
    runs, deals, joins = thirds(n), [], []
    for t, run in enumerate(runs):
        at, shape = core.at(t), (length(run),)
        a = None if at is None else x[at, 0, run] + x[at, 1, run]
        high = None if a is None else _high(a, source, ring, shift)
        top = None if a is None else _top(a, source, small)
        deals.append(
            (
                Deal(step, f"a{t}", t, shape, ring.dtype, high),
                Deal(step, f"m{t}", t, shape, small.dtype, top),
            )
        )
    step.exchange()
    for t, (run, (high_deal, top_deal)) in enumerate(zip(runs, deals, strict=True)):
        write(core, high_deal, out[..., run])
        terms: list[Array | None] = [None, None]
        for number, server, side in ((0, t + 1, 1), (1, t + 2, 0)):
            at = core.at(server)
            if at is None:
                continue
            b = x[at, side, run]
            out[at, side, run] += _high(b, source, ring, shift)
            factor = top_deal.got if number == 0 else top_deal.mask
            terms[number] = factor * _top(b, source, small)
        joins.append(Join(step, f"j{t}", t, (length(run),), small.dtype, *terms))
    step.exchange()
    weight = ring.dtype.type(source.bits - shift)
    for run, join in zip(runs, joins, strict=True):
        for at, server in enumerate(core.here):
            for side, share in enumerate(join.shares(server)):
                assert share is not None
                out[at, side, run] += share.astype(ring.dtype) << weight
    return out


def _high(part: Array, source: Ring, ring: Ring, shift: int) -> Array:
    signed = source.signed(part) >> shift
    return signed.astype(f"i{ring.bytes}").view(ring.dtype)


def _top(part: Array, source: Ring, small: Ring) -> Array:
    top: Array = part >> source.dtype.type(source.bits - 1)
    return top.astype(small.dtype)
