"""Products of shares with bits, without triples: one correlated transfer for a bit and two peers.

A bit t = t_0 ^ ... ^ t_{m-1} times x: with s_i = (t_0 ^ ... ^ t_i) x, peer i turns shares of
s_{i-1} into those of s_i = s_{i-1} + t_i (x - 2 s_{i-1}). Its bit is the choice in one transfer
from every other peer, whose correlation is that peer's share of what stands in brackets. A triple
of numbers would take as many transfers as a number has bits.
Paper: gilboa1999two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import message_bytes, receive_correlated, send_correlated
from hedgerow.secure.additive.shuffle import Pair
from hedgerow.secure.additive.transfers import AT_ONCE, Transfers
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.steps import Parcel

Array = NDArray[Any]
NAME = "bit products"


Stage = Mapping[int, slice]
"""Rows that the bits of some peers multiply, side by side."""


def times_bits(
    provider: Transfers, bits: Array, x: Array, ring: Ring, stages: Sequence[Stage]
) -> Array:
    """Multiply rows x (peers here, n, k) by bits (peers here, n) uint8, shared as XORs.

    Peers whose bits are shares of the same rows come in different `stages`, in turn; those of
    different rows may come in one. A peer has one slice of rows, outside of which its bits are 0;
    rows of no peer become 0. Stages are the same at all peers.

    Reveals: nothing. Cost: `cost_times_bits`.
    """
    provider.begin()
    core, (_, n, k) = provider.core, x.shape
    out = np.zeros_like(x)
    for part in _parts(n, k):
        step = core.step(NAME, f"{n} {k} {[dict(stage) for stage in stages]}")
        turns = _turns(stages, part)
        rows = {i: own for turn in turns for i, own in turn.items()}
        sizes = {
            (j, i): own.stop - own.start for i, own in rows.items() for j in _others(core.n, i)
        }
        choices = {i: bits[core.at(i), own] for i, own in rows.items() if core.at(i) is not None}
        sent, received = provider.extend(step, sizes, choices)
        for turn in turns:
            parcels: dict[Pair, Parcel] = {}
            rest = {i: x[:, own] - (out[:, own] << ring.dtype.type(1)) for i, own in turn.items()}
            for i, own in turn.items():
                for j in _others(core.n, i):
                    at, message = core.at(j), None
                    if at is not None:
                        y0, message = send_correlated(sent[j, i], rest[i][at])
                        out[at, own] -= y0
                    parcels[j, i] = step.send(j, i, (sizes[j, i] * k,), ring.dtype, message)
            step.exchange()
            for i, own in turn.items():
                at = core.at(i)
                if at is not None:
                    out[at, own] += bits[at, own, None].astype(ring.dtype) * rest[i][at]
            for pair, parcel in parcels.items():
                if parcel.content is not None:
                    y = receive_correlated(received[pair], parcel.content, ring.dtype, k)
                    out[core.at(pair[1]), rows[pair[1]]] += y
    return out


def every_peer(m: int, n: int) -> list[Stage]:
    """Return the stages of bits that all peers have shares of."""
    return [{peer: slice(0, n)} for peer in range(m)]


def times_planes(provider: Transfers, x: Array, planes: Array, ring: Ring) -> Array:
    """Multiply x (peers here, c, n) by numbers of which bits (peers here, b, n) are shared.

    Bits are uint8, lowest first. One transfer for a bit, with c elements.

    Reveals: nothing. Cost: `cost_times_bits` of b n rows of c numbers.
    """
    here, c, n = x.shape
    b = planes.shape[1]
    powers = ring.dtype.type(1) << np.arange(b, dtype=ring.dtype)
    rows = np.swapaxes(x, 1, 2)[:, None] * powers[:, None, None]
    bits, stages = planes.reshape(here, b * n), every_peer(provider.core.n, b * n)
    found = times_bits(provider, bits, rows.reshape(here, b * n, c), ring, stages)
    return np.swapaxes(found.reshape(here, b, n, c).sum(axis=1, dtype=ring.dtype), 1, 2)


def cost_times_bits(m: int, n: int, k: int, ring: Ring, stages: Sequence[Stage]) -> Cost:
    """State the cost of `times_bits` among m peers."""
    total = NOTHING
    for part in _parts(n, k):
        sent, turns = [0] * m, _turns(stages, part)
        for turn in turns:
            for i, own in turn.items():
                for j in _others(m, i):
                    sent[i] += message_bytes(own.stop - own.start)
                    sent[j] += (own.stop - own.start) * k * ring.bytes
        if turns:
            total += Cost(1 + len(turns), tuple(sent))
    return total


def _turns(stages: Sequence[Stage], part: slice) -> list[dict[int, slice]]:
    """Return what stages have to do with a part of the rows, those that have nothing left out."""
    cut = [
        {
            i: slice(max(own.start, part.start), min(own.stop, part.stop))
            for i, own in stage.items()
            if max(own.start, part.start) < min(own.stop, part.stop)
        }
        for stage in stages
    ]
    return [turn for turn in cut if turn]


def _others(m: int, i: int) -> list[int]:
    return [j for j in range(m) if j != i]


def _parts(n: int, k: int) -> Iterator[slice]:
    step = max(1, AT_ONCE // max(1, k))
    return (slice(at, min(at + step, n)) for at in range(0, n, step))
