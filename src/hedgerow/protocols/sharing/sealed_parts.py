"""Shares of parties outside the network, sealed to the servers: how they are made and read.

Whoever is not on the servers' network cuts an array into shares
(`hedgerow.secure.replicated.outside`) and seals the part of each server to that server's key, bound
to a context that a protocol chooses. Others may carry the parts: they can do nothing with them but
that.

An array is one of numbers of a ring, of which whoever shares it may choose any, or one of bits,
shared by exclusive or in packed words. Where a number other than 0 and 1 would do harm, share bits:
whatever words arrive, they are bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.crypto.sealed import OVERHEAD, SealingKey, seal
from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import (
    Dealt,
    bits_of_parts,
    deal,
    fit_together,
    secret_of_parts,
)
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits, pack, words

Parts = dict[int, list[Dealt | None]]
"""By server that lives here, its part of each array; None for one that did not open."""


def write_keys(keys: Mapping[int, SealingKey]) -> bytes:
    """Write the keys of the servers here, to be kept as secret as they are."""
    return json.dumps([key.secret.hex() for key in keys.values()]).encode()


def read_keys(kept: bytes, servers: Sequence[int]) -> dict[int, SealingKey]:
    """Read what `write_keys` wrote of these servers; H840 for anything else."""
    try:
        found = [bytes.fromhex(text) for text in json.loads(kept)]
        return {server: SealingKey(one) for server, one in zip(servers, found, strict=True)}
    except (ValueError, TypeError, HedgerowError):
        raise Code.ANSWERS_LOST.error(found="a state without its sealing keys") from None


def seal_dealt(
    values: ArrayLike,
    ring: Ring | None,
    context: Callable[[int], bytes],
    keys: Sequence[bytes],
    entropy: Callable[[int], bytes],
) -> list[bytes]:
    """Share integers or bits and seal the part of each server.

    Bits, for which the ring is None, are packed along the last axis. `context` says what the part
    of each server is bound to. The three public keys must be authentic.

    Reveals: nothing; a server alone sees uniform numbers, and all others sealed ones.
    Cost: `sealed_size` bytes for each server.
    """
    encoded = pack(values) if ring is None else ring.encode(values)
    dealt = deal(encoded, xor=ring is None, entropy=entropy)
    return [
        seal(_write(part), keys[server], context(server), entropy=entropy)
        for server, part in enumerate(dealt)
    ]


def open_dealt(
    sealed: bytes,
    key: SealingKey,
    context: bytes,
    server: int,
    shape: tuple[int, ...],
    ring: Ring | None,
    owner: str,
) -> Dealt:
    """Open a part at its server; H760 for one that was changed, or is that of another context."""
    message = key.open(sealed, context)
    size = _size(shape, ring, server)
    if len(message) != size:
        raise Code.SEALED_REFUSED.error(
            expected=f"{size} bytes for server {server}", found=f"{len(message)} of {owner}"
        )
    known = sorted({server, (server + 1) % SERVERS} - {SERVERS - 1})
    seeds = {j: message[KEY_BYTES * i : KEY_BYTES * (i + 1)] for i, j in enumerate(known)}
    rest = message[KEY_BYTES * len(known) :]
    correction: NDArray[Any] | None = None
    if server:
        held_shape, dtype = _held(shape, ring)
        little = np.frombuffer(rest, dtype=dtype.newbyteorder("<"))
        correction = little.astype(dtype).reshape(held_shape)
    return Dealt(seeds, correction)


def sealed_size(shape: tuple[int, ...], ring: Ring | None, server: int) -> int:
    """Return the bytes of a server's sealed part, from public numbers."""
    return _size(shape, ring, server) + OVERHEAD


def fitting(engine: Engine, parts: Parts, n: int) -> NDArray[np.bool_]:
    """Tell which of n arrays all servers hold alike; every server gets the same answer.

    Reveals, cost: `hedgerow.secure.replicated.outside.fit_together`.
    """
    if isinstance(engine, ReplicatedEngine):
        return fit_together(engine, parts, n)
    return np.array([_is_one(at, parts) for at in range(n)], dtype=np.bool_)


def secret_of(engine: Engine, parts: Parts, at: int, shape: tuple[int, ...], ring: Ring) -> Secret:
    """Return one array of numbers as a secret; its parts have to be there, and `fitting`."""
    return secret_of_parts(engine, _mine(parts, at), shape, ring)


def bits_of(engine: Engine, parts: Parts, at: int, shape: tuple[int, ...]) -> SecretBits:
    """Return one array of bits as a secret; as `secret_of`."""
    return bits_of_parts(engine, _mine(parts, at), shape)


def _is_one(at: int, parts: Mapping[int, list[Dealt | None]]) -> bool:
    """Whether the three parts of an array, all here, are parts of one array."""
    zero, one, two = (parts[server][at] for server in range(SERVERS))
    if zero is None or one is None or two is None:
        return False
    assert one.correction is not None
    assert two.correction is not None
    same = zero.seeds[0] == two.seeds[0] and zero.seeds[1] == one.seeds[1]
    return same and np.array_equal(one.correction, two.correction)


def _mine(parts: Parts, at: int) -> dict[int, Dealt]:
    """Return the parts of one array by server."""
    return {server: part for server in parts if (part := parts[server][at]) is not None}


def _held(shape: tuple[int, ...], ring: Ring | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if ring is None:
        return (*shape[:-1], words(shape[-1])), np.dtype(np.uint64)
    return shape, ring.dtype


def _size(shape: tuple[int, ...], ring: Ring | None, server: int) -> int:
    # Server 0 holds the shares that are seeds.
    held, dtype = _held(shape, ring)
    return 2 * KEY_BYTES if server == 0 else KEY_BYTES + math.prod(held) * dtype.itemsize


def _write(part: Dealt) -> bytes:
    seeds = b"".join(part.seeds[j] for j in sorted(part.seeds))
    if part.correction is None:
        return seeds
    little = part.correction.astype(part.correction.dtype.newbyteorder("<"), copy=False)
    return seeds + np.ascontiguousarray(little).tobytes()
