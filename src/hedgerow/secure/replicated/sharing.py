"""The two moves that unequal roles are made of, and their rotation over thirds of a batch.

Shares: x = x_0 + x_1 + x_2 (or XOR), server i holds (x_i, x_{i+1}).

`Deal`: server t shares a number it knows. x_t is a mask of key k_t, known to t and t-1; x_{t+1}
is the number minus the mask, sent to server t+1; x_{t+2} is 0. One element travels.

`Join`: servers t+1 and t+2 know u and v; all three get shares of u + v. Both hide their number
under masks of k_{t+2}, which server t does not know, and send it to server t: two elements travel.

A protocol of a deal and a join costs three elements, one per server when t takes the three values
over thirds of the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.replicated.core import SERVERS, Core
from hedgerow.secure.steps import Step, sums

Array = NDArray[Any]


def thirds(n: int) -> list[slice]:
    """Cut 0..n-1 into three runs; their lengths differ by at most 1."""
    ends = [n * t // SERVERS for t in range(SERVERS + 1)]
    return [slice(ends[t], ends[t + 1]) for t in range(SERVERS)]


def length(run: slice) -> int:
    """Return how many elements a run has."""
    return int(run.stop - run.start)


class Deal:
    """Server t shares what it knows; one message.

    `value` is given where server t lives; the message goes out with the step's next exchange.

    Reveals: nothing; server t+1 receives uniform elements. Cost: one element from server t.
    """

    def __init__(
        self,
        step: Step,
        tag: str,
        t: int,
        shape: tuple[int, ...],
        dtype: Any,
        value: Array | None,
        *,
        xor: bool = False,
    ) -> None:
        self.t = t
        core = step.core
        holds = core.at(t) is not None or core.at(t - 1) is not None
        self.mask = step.mask(t, tag, shape, dtype) if holds else None
        self.sent: Array | None = None
        if value is not None:
            assert self.mask is not None
            self.sent = np.bitwise_xor(value, self.mask) if xor else value - self.mask
        self._message = step.send(t, (t + 1) % SERVERS, shape, dtype, self.sent)

    @property
    def got(self) -> Array | None:
        """What server t+1 received, where it lives."""
        return self._message.content

    def shares(self, server: int) -> tuple[Array | None, Array | None]:
        """Return the two shares of a server of this process; None stands for zeros."""
        role = (server - self.t) % SERVERS
        return ((self.mask, self.sent), (self.got, None), (None, self.mask))[role]


class Join:
    """Servers t+1 and t+2 make shares of the sum of what each of them knows; two messages.

    `u` and `v`, given where servers t+1 and t+2 live, are overwritten. The messages go out with the
    step's next exchange.

    Reveals: nothing; server t receives uniform elements. Cost: one element each from t+1 and t+2.
    """

    def __init__(
        self,
        step: Step,
        tag: str,
        t: int,
        shape: tuple[int, ...],
        dtype: Any,
        u: Array | None,
        v: Array | None,
        *,
        xor: bool = False,
    ) -> None:
        self.t = t
        add, subtract = sums(xor=xor)
        self._sent: list[Array | None] = [u, v]
        self._hidden: Array | None = None
        if u is not None or v is not None:
            masks = [step.mask(t + 2, f"{tag}/{side}", shape, dtype) for side in "uv"]
            self._hidden = add(masks[0], masks[1])
            for number, mask in zip(self._sent, masks, strict=True):
                if number is not None:
                    subtract(number, mask, out=number)
        self._messages = [
            step.send((t + 1 + side) % SERVERS, t, shape, dtype, number)
            for side, number in enumerate(self._sent)
        ]

    def shares(self, server: int) -> tuple[Array | None, Array | None]:
        """Return the two shares of a server of this process."""
        u, v = self._sent
        got_u, got_v = (message.content for message in self._messages)
        return ((got_v, got_u), (u, self._hidden), (self._hidden, v))[(server - self.t) % SERVERS]


def deal_input(
    core: Core, value: Array | None, owner: int, shape: tuple[int, ...], dtype: Any, *, xor: bool
) -> Array:
    """Share an array that one server holds; `xor` shares bits.

    Its `value` is None where it does not live. Returns shape (servers here, 2, *shape).

    Reveals: nothing. Cost: 1 round, one element from that server.
    """
    step = core.step("input")
    deal = Deal(step, "input", owner, shape, dtype, value, xor=xor)
    step.exchange()
    out = core.shares(shape, dtype)
    write(core, deal, out)
    return out


def write(core: Core, move: Deal | Join, out: Array) -> None:
    """Put the shares of a deal or a join into a share array (servers here, 2, *shape)."""
    for at, server in enumerate(core.here):
        for side, share in enumerate(move.shares(server)):
            out[at, side] = 0 if share is None else share
