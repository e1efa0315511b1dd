"""Inputs: an array that one party holds becomes shares, most of them from seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.secure.replicated.core import SERVERS, Core, Parcel
from hedgerow.secure.replicated.sharing import Deal, write

Array = NDArray[Any]
PRINT_BYTES = 32
"""Of a hash; an owner that sought two parts with one hash would have to try 2^128."""


def share(
    core: Core,
    value: Array | None,
    owner: int,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    xor: bool,
) -> Array:
    """Share an array that one party holds.

    A server deals (`Deal`): one element from it, 1 round. For an owner outside see `_from_outside`.
    Reveals: nothing.

    The owner's `value` is None where it does not live; `xor` shares bits. Returns shape (servers
    here, 2, *shape).
    """
    if owner >= SERVERS:
        subtract = np.bitwise_xor if xor else np.subtract
        return _from_outside(core, value, owner, shape, dtype, subtract)
    step = core.step("input")
    deal = Deal(step, "input", owner, shape, dtype, value, xor=xor)
    step.exchange()
    out = core.shares(shape, dtype)
    write(core, deal, out)
    return out


def _from_outside(
    core: Core,
    value: Array | None,
    owner: int,
    shape: tuple[int, ...],
    dtype: Any,
    subtract: Callable[[Array, Array], Array],
) -> Array:
    """Share as two seeds and one correction.

    1. The owner draws seeds s_0 and s_1, and x_2 = x - F(s_0) - F(s_1).
    2. It sends (s_0, s_1) to server 0, s_1 and x_2 to server 1, s_0 and x_2 to server 2.
    3. Servers that got the same part compare its hash: an owner that sends them different ones
       would make a number of every product with it that nobody shared.

    Cost: 2 rounds; two hashes from every server, 64 bytes and two elements per element from the
    owner.
    """
    step = core.step("input")
    seeds: list[Array | None] = [None, None]
    correction = None
    if value is not None:
        drawn = core.draw_own(owner, f"{step.number}/seeds", 2 * KEY_BYTES)
        seeds = list(drawn.reshape(2, KEY_BYTES))
        masks = [_expanded(seed, shape, dtype) for seed in seeds]
        correction = reduce(subtract, masks, value)
    # Index of the share, then of the server that holds it.
    key = {
        (j, i): step.send(owner, i, (KEY_BYTES,), np.uint8, seeds[j])
        for j, i in ((0, 0), (0, 2), (1, 0), (1, 1))
    }
    rest = {i: step.send(owner, i, shape, dtype, correction) for i in (1, 2)}
    step.exchange()
    parts = {(j, i): message.content for (j, i), message in key.items()}
    parts |= {(SERVERS - 1, i): message.content for i, message in rest.items()}
    _compare(core, parts, owner)
    out = core.shares(shape, dtype)
    for at, server in enumerate(core.servers):
        for side in range(2):
            j = (server + side) % SERVERS
            out[at, side] = (
                rest[server].content
                if j == SERVERS - 1
                else _expanded(key[j, server].content, shape, dtype)
            )
    return out


def _compare(core: Core, parts: dict[tuple[int, int], Array | None], owner: int) -> None:
    """Refuse a part that its two holders did not get alike; by share and server."""
    step = core.step("input check")
    prints = {at: _print(part) for at, part in parts.items() if core.lives(at[1])}
    heard: dict[tuple[int, int], Parcel] = {}
    for j, i in parts:
        other = next(at for share, at in parts if share == j and at != i)
        heard[j, other] = step.send(i, other, (PRINT_BYTES,), np.uint8, prints.get((j, i)))
    step.exchange()
    for (j, i), message in heard.items():
        if core.lives(i) and _bytes(message.content) != _bytes(prints[j, i]):
            raise Code.SHARES_DIFFER.error(
                found=f"two versions of share {j} from party {owner}, seen by server {i}"
            )


def _bytes(part: Array | None) -> bytes:
    assert part is not None
    return part.tobytes()


def _print(part: Array | None) -> Array:
    assert part is not None
    data = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
    digest = hashlib.blake2b(data, digest_size=PRINT_BYTES, person=b"hedgerow/input/1")
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _expanded(seed: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    assert seed is not None
    return Prg(seed.tobytes()).fill("input", shape, dtype)
