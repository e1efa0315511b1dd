"""Products of shares with bits, without triples: one correlated transfer for a bit and two peers.

A bit t = t_0 ^ ... ^ t_{m-1} times x: with s_i = (t_0 ^ ... ^ t_i) x, peer i turns shares of
s_{i-1} into those of s_i = s_{i-1} + t_i (x - 2 s_{i-1}). Its bit is the choice in one transfer
from every other peer, whose correlation is that peer's share of what stands in brackets. A triple
of numbers would take as many transfers as a number has bits.
Paper: gilboa1999two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import message_bytes, receive_correlated, send_correlated
from hedgerow.secure.additive.transfers import AT_ONCE, Transfers
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring

Array = NDArray[Any]
NAME = "bit products"


def times_bits(
    provider: Transfers, bits: Array, x: Array, ring: Ring, holders: Sequence[int]
) -> Array:
    """Multiply rows x (peers here, n, k) by bits (peers here, n) uint8, shared as XORs.

    `holders` are the peers whose shares of the bits may be other than 0, the same at all peers.

    Reveals: nothing. Cost: `cost_times_bits`.
    """
    provider.begin()
    core, (_, n, k) = provider.core, x.shape
    out = np.zeros_like(x)
    for part in _parts(n, k):
        size = part.stop - part.start
        step = core.step(NAME, f"{n} {k} {list(holders)}")
        sizes = {(j, i): size for i in holders for j in range(core.n) if j != i}
        choices = {peer: bits[at, part] for at, peer in enumerate(core.here) if peer in holders}
        sent, received = provider.extend(step, sizes, choices)
        done = np.zeros_like(x[:, part])
        for i in holders:
            rest = x[:, part] - (done << ring.dtype.type(1))
            parcels = {}
            for j in range(core.n):
                at, message = core.at(j), None
                if j != i:
                    if at is not None:
                        y0, message = send_correlated(sent[j, i], rest[at])
                        done[at] -= y0
                    parcels[j] = step.send(j, i, (size * k,), ring.dtype, message)
            step.exchange()
            at = core.at(i)
            if at is not None:
                done[at] += bits[at, part, None].astype(ring.dtype) * rest[at]
                for j, parcel in parcels.items():
                    assert parcel.content is not None
                    done[at] += receive_correlated(received[j, i], parcel.content, ring.dtype, k)
        out[:, part] = done
    return out


def cost_times_bits(m: int, n: int, k: int, ring: Ring, holders: Sequence[int]) -> Cost:
    """State the cost of `times_bits` among m peers."""
    total = NOTHING
    for part in _parts(n, k):
        size = part.stop - part.start
        sent = [0] * m
        for i in holders:
            for j in range(m):
                if j != i:
                    sent[i] += message_bytes(size)
                    sent[j] += size * k * ring.bytes
        total += Cost(1 + len(holders), tuple(sent))
    return total


def _parts(n: int, k: int) -> Iterator[slice]:
    step = max(1, AT_ONCE // max(1, k))
    return (slice(at, min(at + step, n)) for at in range(0, n, step))
