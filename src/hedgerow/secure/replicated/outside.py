"""Shares of parties that are not on the network: an owner deals them, an analyst joins them.

They hand every server its part by whatever way and get their answer in two halves, without a seat
in the session. An engine that has no shares, in a process that hides nothing, joins all parts and
opens the whole of what it computes.

Who deals could give the two holders of a share different versions, and products with it would be
numbers that nobody shared. The servers find out together (`fit_together`), with one verdict, so
that they can go on without that party.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.engine import ReplicatedEngine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits, unpack, words
from hedgerow.secure.steps import Parcel

Array = NDArray[Any]
HALVES = (0, 1)
"""Servers that send the halves of an answer."""
PRINT_BYTES = 32
"""Of a hash; an owner that sought two parts with one hash would have to try 2^128."""
_LABEL = b"hedgerow/dealt/1"


@dataclass(frozen=True)
class Dealt:
    """What one server gets of an array: two of F(s_0), F(s_1) and the correction, x_2."""

    seeds: Mapping[int, bytes] = field(repr=False)
    correction: Array | None = field(repr=False)


def deal(
    value: Array, *, xor: bool = False, entropy: Callable[[int], bytes] = os.urandom
) -> tuple[Dealt, ...]:
    """Cut an array of ring elements, or of packed bits (`xor`), into the three servers' parts.

    Only tests pass other `entropy` than the operating system's.
    """
    seeds = [entropy(KEY_BYTES) for _ in range(2)]
    subtract = np.bitwise_xor if xor else np.subtract
    correction = value
    for seed in seeds:
        correction = subtract(correction, _expanded(seed, value.shape, value.dtype))
    return tuple(
        Dealt(
            {j: seeds[j] for j in _held(server) if j < 2},
            correction if SERVERS - 1 in _held(server) else None,
        )
        for server in range(SERVERS)
    )


def secret_of_parts(
    engine: Engine, parts: Mapping[int, Dealt], shape: tuple[int, ...], ring: Ring
) -> Secret:
    """Make a secret of dealt parts, one for every server that lives here; no message."""
    if not _has_servers(engine):
        return engine.public(join_parts(_in_order(parts), shape, ring.dtype), ring)
    return Secret(engine, ring, _restored(engine, parts, shape, ring.dtype))


def join_parts(
    parts: Sequence[Dealt], shape: tuple[int, ...], dtype: np.dtype[Any], *, xor: bool = False
) -> Array:
    """Return the array of which one holds the parts of all three servers: nothing is hidden."""
    found = parts[1].correction if len(parts) == SERVERS else None
    if found is None or found.shape != shape or found.dtype != dtype:
        raise Code.WRONG_SHAPE.error(
            expected=f"share 2 of {dtype} {shape}",
            found="none" if found is None else f"{found.dtype} {found.shape}",
        )
    add = np.bitwise_xor if xor else np.add
    for j in range(2):
        found = add(found, _expanded(parts[0].seeds[j], shape, dtype))
    return np.asarray(found)


def bits_of_parts(engine: Engine, parts: Mapping[int, Dealt], shape: tuple[int, ...]) -> SecretBits:
    """Make secret bits of dealt parts that share packed words; no message."""
    full, dtype = (*shape[:-1], words(shape[-1])), np.dtype(np.uint64)
    if not _has_servers(engine):
        packed = join_parts(_in_order(parts), full, dtype, xor=True)
        return engine.public_bits(unpack(packed, shape[-1]))
    return SecretBits(engine, shape[-1], _restored(engine, parts, full, dtype))


def open_halves(engine: Engine, x: Secret, name: str, to: str) -> dict[int, Array]:
    """Open a declared value to a party outside, as two halves that are uniform each.

    Server 0 gives x_0 + x_1 + r, server 1 gives x_2 - r, with r a mask that both know. It is
    recorded as opened before a half exists. Returns the half of every server here that gives one.

    Reveals: to whoever gets both halves, the value.
    Cost: no round among the servers; one element from servers 0 and 1 each.
    """
    if x.engine is not engine:
        raise Code.SECRETS_DO_NOT_FIT.error(found=f"{x!r} of another engine")
    if not _has_servers(engine):
        opened = engine.open(x, name, to)
        assert opened is not None
        # One process that hides nothing: the second half has nothing to add.
        return dict(zip(HALVES, (opened, np.zeros_like(opened)), strict=True))
    core = engine.core
    engine.leakage.check(name, to, x.shape)
    step = core.step("open outside", f"{name} to {to}")
    found: dict[int, Array] = {}
    for server in HALVES:
        at = core.at(server)
        if at is None:
            continue
        mask = step.mask(1, "fresh", x.shape, x.ring.dtype)
        shares = x.data[at]
        found[server] = np.asarray(
            shares[0] + shares[1] + mask if server == 0 else shares[1] - mask
        )
    return found


def join_halves(first: Array, second: Array) -> Array:
    """Join the halves of servers 0 and 1."""
    if first.shape != second.shape or first.dtype != second.dtype:
        raise Code.WRONG_SHAPE.error(
            expected="two halves of one answer",
            found=f"{first.dtype} {first.shape} and {second.dtype} {second.shape}",
        )
    return first + second


def _has_servers(engine: Engine) -> TypeGuard[ReplicatedEngine]:
    """Tell three servers from an engine that has no shares; any other is refused with H702."""
    servers = isinstance(engine, ReplicatedEngine)
    if not servers and engine.share_axes:
        # It would make public what was dealt to three servers.
        raise Code.SECRETS_DO_NOT_FIT.error(
            expected="three servers, or an engine that has no shares",
            found=type(engine).__name__,
            fix="let a party of that engine give its input",
        )
    return servers


def _held(server: int) -> tuple[int, int]:
    return server, (server + 1) % SERVERS


def _in_order(parts: Mapping[int, Dealt]) -> list[Dealt]:
    return [parts[server] for server in sorted(parts)]


def _restored(
    engine: ReplicatedEngine,
    parts: Mapping[int, Dealt],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Array:
    core = engine.core
    out = core.shares(shape, dtype)
    for at, server in enumerate(core.here):
        part = parts.get(server)
        for side, j in enumerate(_held(server)):
            share = None if part is None else part.correction
            if part is not None and j in part.seeds:
                share = _expanded(part.seeds[j], shape, dtype)
            if share is None or share.shape != shape or share.dtype != dtype:
                raise Code.WRONG_SHAPE.error(
                    expected=f"share {j} of {dtype} {shape} at server {server}",
                    found="none" if share is None else f"{share.dtype} {share.shape}",
                )
            out[at, side] = share
    return out


def _expanded(seed: bytes, shape: tuple[int, ...], dtype: Any) -> Array:
    return Prg(seed).fill("outside", shape, dtype)


def fit_together(
    engine: ReplicatedEngine, parts: Mapping[int, Sequence[Dealt | None]], n: int
) -> NDArray[np.bool_]:
    """Tell which of n dealt arrays all servers hold alike; every server gets the same answer.

    1. The two holders of a share hash it and add a mask that only they know.
    2. Everybody sends its masked hashes to the two others. Equal parts give equal messages; to the
       third server a hash of the correction would otherwise confirm a guess of the array, of which
       it holds the two other shares.

    A part that could not be read is None. Returns bool (n,).

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
    me = core.here[0]
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
