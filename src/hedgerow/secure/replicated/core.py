"""What every three-server protocol stands on: who lives here, pairwise keys, steps.

Server i holds the keys k_i and k_{i+1}, so key k_j is known to the servers j and j-1 and to nobody
else. A step is one call of a primitive. All servers count steps alike, and every mask has the
address (session, step, tag) in the stream of its key: nothing depends on how much was drawn before.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.net.network import Network, Route

Array = NDArray[Any]

SERVERS = 3
EVERYONE = "server"
"""Audience of all three, in openings and ledgers."""


class Core:
    """The servers of this process and what they share with the others.

    Parties 0, 1, 2 are the servers; those that live here, ascending, are the first axis of share
    arrays. All keys follow from `seed`, for tests: whoever knows it knows every mask, so `private`
    is false. Without one every server draws k_i from the operating system and hands it to server
    i-1: one round.
    """

    def __init__(self, network: Network, session: str, seed: bytes | None = None) -> None:
        if network.n < SERVERS:
            raise Code.BAD_PARAMETER.error(
                expected="a network of at least three parties", found=f"{network.n}"
            )
        self.network = network
        self.session = session
        self.servers = tuple(p for p in network.local if p < SERVERS)
        self.private = seed is None
        self.steps = 0
        self._process = os.getpid()
        self._place = {server: at for at, server in enumerate(self.servers)}
        keys = {j: _fresh(j, seed) for j in (self.servers if seed is None else range(SERVERS))}
        if seed is None:
            keys |= self._exchanged(keys)
        held = sorted({j % SERVERS for i in self.servers for j in (i, i + 1)})
        self._pair = {j: Prg(keys[j], once=True) for j in held}

    def __reduce__(self) -> NoReturn:
        raise Code.SECRET_IN_THE_OPEN.error(
            expected="one engine for one set of keys",
            found="a copy of an engine, which would draw the same masks again",
            fix="make a new engine",
        )

    def at(self, server: int) -> int | None:
        """Place of a server on the first axis of share arrays, None if it lives elsewhere."""
        return self._place.get(server % SERVERS)

    def holds(self, key: int) -> bool:
        """Return whether a server of this process holds key k_j."""
        return key % SERVERS in self._pair

    def step(self, name: str, purpose: str = "") -> Step:
        """Begin a step; all servers begin the same steps in the same order, for one purpose."""
        if os.getpid() != self._process:
            # The other process has the same keys and the same count, so it would draw the same.
            raise Code.ADDRESS_USED_TWICE.error(
                expected="masks drawn in the process that made the engine",
                found="a process that was forked from it",
                fix="make a new engine in the new process",
            )
        self.steps += 1
        for stream in self._pair.values():
            # Addresses begin with the number of their step, which only grows.
            stream.forget()
        return Step(self, name, self.steps, purpose)

    def shares(self, shape: tuple[int, ...], dtype: Any, *, zero: bool = False) -> Array:
        """Return room for shares: (servers here, 2, *shape)."""
        make = np.zeros if zero else np.empty
        return make((len(self.servers), 2, *shape), dtype)

    def draw(self, key: int, address: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Draw from the stream of key k_j, which a server of this process holds."""
        return self._pair[key].fill(f"{self.session}/{address}", shape, dtype)

    def _exchanged(self, own: dict[int, bytes]) -> dict[int, bytes]:
        """Hand key k_i to server i-1, which becomes its second holder."""
        plan = [Route(i, (i - 1) % SERVERS, (KEY_BYTES,), "uint8") for i in range(SERVERS)]
        outbox = {i: np.frombuffer(own[i], dtype=np.uint8) for i in self.servers}
        received = self.network.exchange("keys", plan, outbox)
        return {j: array.tobytes() for j, array in received.items()}


class Step:
    """One call of a primitive: its masks and messages, and a `purpose` that all agree on."""

    def __init__(self, core: Core, name: str, number: int, purpose: str = "") -> None:
        self.core, self.name, self.number, self.purpose = core, name, number, purpose
        self._masks: dict[tuple[int, str], Array] = {}
        self._messages: list[Parcel] = []
        self._outbox: dict[int, Array] = {}

    def mask(self, key: int, tag: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return uniform elements that the two holders of key k_j know; not to be written to."""
        index = key % SERVERS
        if (index, tag) not in self._masks:
            address = f"{self.number}/{tag}"
            self._masks[index, tag] = self.core.draw(index, address, shape, dtype)
        return self._masks[index, tag]

    def send(
        self,
        source: int,
        destination: int,
        shape: tuple[int, ...],
        dtype: Any,
        payload: Array | None = None,
    ) -> Parcel:
        """Add a message to the next exchange; the payload is given where the source lives."""
        message = Parcel(Route(source, destination, shape, np.dtype(dtype).name))
        if prod(shape):
            if payload is not None:
                self._outbox[len(self._messages)] = payload
            self._messages.append(message)
        elif self.core.at(destination) is not None:
            # What is empty is not sent; shapes are public, so all parties agree on that.
            message.content = np.empty(shape, dtype)
        return message

    def exchange(self) -> None:
        """Send all messages added since the last exchange, and fill in what arrived: one round."""
        # A party that is a step ahead, or opens something else, is found out by its first frame.
        self.core.network.agreed = f"{self.core.session} {self.number} {self.purpose}"
        messages, outbox = self._messages, self._outbox
        self._messages, self._outbox = [], {}
        plan = [message.route for message in messages]
        for k, array in self.core.network.exchange(self.name, plan, outbox).items():
            messages[k].content = array


@dataclass(eq=False)
class Parcel:
    """An array on its way; `content` is there after the exchange, where the receiver lives."""

    route: Route
    content: Array | None = field(default=None, repr=False)


def _fresh(server: int, seed: bytes | None) -> bytes:
    """Draw the key of a server, from the operating system unless a seed is given."""
    if seed is None:
        return os.urandom(KEY_BYTES)
    return hashlib.blake2b(
        f"hedgerow/party {server}".encode(), key=seed[:64], digest_size=KEY_BYTES
    ).digest()
