"""Inputs and openings of additive shares.

Shares: x = x_0 + ... + x_{m-1} (or XOR), peer i holds x_i. An input takes no message: every other
share is a mask that the owner has in common with its holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.steps import Step

Array = NDArray[Any]


def deal_input(
    core: PeerCore,
    value: Array | None,
    owner: int,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    xor: bool,
) -> Array:
    """Share an array that one peer holds; `xor` shares bits.

    1. x_j = F(k_{ij}) for every other peer j, with the key that it has in common with the owner i.
    2. x_i is the value less all of these.

    Its `value` is None where the owner does not live. Returns shape (peers here, *shape).

    Reveals: nothing. Cost: nothing.
    """
    step = core.step("input")
    out = core.shares(shape, dtype)
    subtract = np.bitwise_xor if xor else np.subtract
    for at, peer in enumerate(core.here):
        if peer != owner:
            out[at] = step.mask((min(peer, owner), max(peer, owner)), "input", shape, dtype)
            continue
        out[at] = value
        own = out[at, ...]
        for other in range(core.n):
            if other != owner:
                key = (min(other, owner), max(other, owner))
                subtract(own, step.mask(key, "input", shape, dtype), out=own)
    return out


def reveal(
    core: PeerCore, x: Array, peers: Sequence[int], *, purpose: str, xor: bool
) -> Array | None:
    """Open shares (peers here, *shape) to peers.

    1. Every peer adds a share of zero, so that a receiver sees a sum and nothing of its parts.
    2. Every peer sends its share to every receiver.

    All peers must agree on `purpose`, name and audience of the opening. Returns None where no
    receiver lives.

    Cost: 1 round; one element from every peer to every receiver but itself.
    """
    step = core.step("open", purpose)
    fresh = core.shares(x.shape[1:], x.dtype)
    add = np.bitwise_xor if xor else np.add
    for at, peer in enumerate(core.here):
        zero = core.sum_masks(step, "zero", peer, x.shape[1:], x.dtype, xor=xor)
        add(x[at, ...], zero, out=fresh[at, ...])
    return exchange_sum(step, fresh, peers, xor=xor)


def open_to_all(step: Step, x: Array, *, xor: bool) -> Array:
    """Open shares that hide what they are made of, such as masked factors: one round."""
    opened = exchange_sum(step, x, range(step.core.n), xor=xor)
    # All parties are peers: none is here in a rehearsal, where no value counts.
    return np.zeros(x.shape[1:], x.dtype) if opened is None else opened


def exchange_sum(step: Step, x: Array, peers: Sequence[int], *, xor: bool) -> Array | None:
    """Send shares to peers and add up what arrives at one of them here: one round."""
    core, shape = step.core, x.shape[1:]
    sent = {}
    for source in range(core.n):
        at = core.at(source)
        payload = None if at is None else x[at, ...]
        for peer in peers:
            if peer != source:
                sent[source, peer] = step.send(source, peer, shape, x.dtype, payload)
    step.exchange()
    # Receivers that live here see the same; the first of them adds up for all.
    me = next((peer for peer in peers if core.at(peer) is not None), None)
    if me is None:
        return None
    total = np.array(x[core.at(me), ...])
    add = np.bitwise_xor if xor else np.add
    for (_, peer), message in sent.items():
        if peer == me:
            assert message.content is not None
            add(total, message.content, out=total)
    return total
