"""Openings: only the share that a receiver lacks travels, and only to those who may see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy.release import Audience
from hedgerow.secure.replicated.core import SERVERS, Core

Array = NDArray[Any]
Operation = Callable[[Array, Array], Array]


class Seats:
    """Which party an audience is.

    Each party outside the servers has one audience: what one saw would otherwise be missing from
    the record of the other. By default the last party is the ``"analyst"``, and those before it,
    from 3 on, ``"owner 0"``, ``"owner 1"`` and so on.
    """

    def __init__(self, n: int, outside: Mapping[str, int] | None = None) -> None:
        if outside is None:
            outside = {f"owner {p - SERVERS}": p for p in range(SERVERS, n - 1)}
            if n > SERVERS:
                outside["analyst"] = n - 1
        for name, party in outside.items():
            if not SERVERS <= party < n:
                raise Code.BAD_PARAMETER.error(
                    expected=f"a party from {SERVERS} to {n - 1} for every audience outside",
                    found=f"{name!r} at {party}",
                )
        if len(set(outside.values())) < len(outside):
            raise Code.BAD_PARAMETER.error(
                expected="one audience for every party", found=f"seats {dict(outside)}"
            )
        named = {f"server {i}": i for i in range(SERVERS)} | dict(outside)
        self._seats = [(Audience.parse(name), party) for name, party in named.items()]

    def parties(self, to: str) -> tuple[int, ...]:
        """Return the parties of an audience, ascending; every audience has one at least."""
        audience = Audience.parse(to)
        found = {party for seat, party in self._seats if seat.is_within(audience)}
        if not found:
            raise Code.BAD_PARAMETER.error(
                expected=f"an audience among {', '.join(str(seat) for seat, _ in self._seats)}",
                found=f"{to!r}",
            )
        return tuple(sorted(found))


def reveal(
    core: Core,
    x: Array,
    parties: Sequence[int],
    *,
    purpose: str,
    xor: bool,
) -> Array | None:
    """Open shares to parties.

    Server i gets x_{i-1} from server i-1. A party outside gets x_0 + x_1 + r from server 0 and
    x_2 - r from server 1, with r a mask of k_1, so that it sees the value and nothing of shares.
    Cost: 1 round; per receiver one element from server i-1, or from servers 0 and 1.

    All servers must agree on `purpose`, name and audience of the opening. Returns None where no
    receiver lives.
    """
    add: Operation = np.bitwise_xor if xor else np.add
    subtract: Operation = np.bitwise_xor if xor else np.subtract
    shape, dtype = x.shape[2:], x.dtype
    step = core.step("open", purpose)
    messages = {}
    for p in parties:
        if p < SERVERS:
            at = core.at(p - 1)
            payload = None if at is None else x[at, 0, ...]
            messages[p] = [step.send((p - 1) % SERVERS, p, shape, dtype, payload)]
            continue
        halves: list[Array | None] = [None, None]
        zeroth, first = core.at(0), core.at(1)
        if zeroth is not None:
            whole = add(x[zeroth, 0, ...], x[zeroth, 1, ...])
            halves[0] = add(whole, step.mask(1, "fresh", shape, dtype))
        if first is not None:
            halves[1] = subtract(x[first, 1, ...], step.mask(1, "fresh", shape, dtype))
        messages[p] = [step.send(i, p, shape, dtype, half) for i, half in enumerate(halves)]
    step.exchange()
    for p in parties:
        if core.lives(p):
            at = core.at(p) if p < SERVERS else None
            parts = [message.content for message in messages[p]]
            parts += [] if at is None else [x[at, 0, ...], x[at, 1, ...]]
            return reduce(add, [part for part in parts if part is not None])
    return None
