"""Whether parts that parties outside the network have dealt fit together.

Every share of an array is held by two servers. Who deals it could give them two versions, and
products with it would then be numbers that nobody shared. The three servers find out together, and
come to the same verdict, so that they can go on without that party.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated.core import SERVERS, Parcel
from hedgerow.secure.replicated.engine import ReplicatedEngine
from hedgerow.secure.replicated.outside import Dealt

PRINT_BYTES = 32
_LABEL = b"hedgerow/dealt/1"


def fit_together(
    engine: ReplicatedEngine, parts: Mapping[int, Sequence[Dealt | None]], n: int
) -> NDArray[np.bool_]:
    """Tell which of n dealt arrays all servers hold alike; every server gets the same answer.

    1. The two holders of a share hash it and add a mask that only they know.
    2. Everybody sends its masked hashes to the two others. Equal parts give equal messages; to the
       third server a hash of the correction would otherwise confirm a guess of the array, of which
       it holds the two other shares.

    `parts`: for every server that lives here, its part of each array; None if it could not be read.
    `n`: arrays. Returns bool array, shape (n,).

    Reveals: to the servers, which arrays were dealt in two versions, or not at all: which is none,
    where whoever deals follows the protocol.
    Cost: `cost_fit_together`; 1 round, 128 bytes from every server for an array.
    """
    core = engine.core
    step = core.step("dealt parts")
    shape = (n, PRINT_BYTES)
    own: dict[tuple[int, int], NDArray[np.uint8]] = {}
    sent: dict[tuple[int, int, int], Parcel] = {}
    for server in range(SERVERS):
        for j in (server, (server + 1) % SERVERS):
            if core.at(server) is not None:
                mask = step.mask(j, "print", shape, np.uint8)
                own[j, server] = _prints(parts[server], j, server) ^ mask
            for other in range(SERVERS):
                if other != server:
                    message = step.send(server, other, shape, np.uint8, own.get((j, server)))
                    sent[j, server, other] = message
    step.exchange()
    # Servers that live here have seen the same; the first of them speaks for all.
    me = core.servers[0]
    seen = {
        (j, server): own[j, me] if server == me else _content(sent[j, server, me])
        for j, server, _ in sent
    }
    fits = np.ones(n, dtype=np.bool_)
    for j in range(SERVERS):
        fits &= (seen[j, j] == seen[j, (j - 1) % SERVERS]).all(axis=1)
    return fits


def cost_fit_together(n: int) -> Cost:
    """State the cost of `fit_together` for n arrays."""
    return Cost.equal(1, 4 * n * PRINT_BYTES, SERVERS)


def _prints(dealt: Sequence[Dealt | None], j: int, server: int) -> NDArray[np.uint8]:
    """Return the hashes of one share of every array, (n, 32)."""
    found = [
        hashlib.blake2b(_part(one, j, server), digest_size=PRINT_BYTES, person=_LABEL)
        for one in dealt
    ]
    return np.frombuffer(b"".join(h.digest() for h in found), np.uint8).reshape(-1, PRINT_BYTES)


def _part(dealt: Dealt | None, j: int, server: int) -> bytes:
    if dealt is None:
        # Unlike anything that the other holder can have, also where that has nothing either.
        return f"none at server {server}".encode()
    if j in dealt.seeds:
        return b"seed" + dealt.seeds[j]
    correction: NDArray[Any] | None = dealt.correction
    assert correction is not None
    return b"rest" + np.ascontiguousarray(correction).tobytes()


def _content(message: Parcel) -> NDArray[Any]:
    assert message.content is not None
    return message.content
