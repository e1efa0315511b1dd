"""What engines of several parties stand on: who of them lives here, their keys, their steps.

A step is one call of a primitive. All parties count steps alike, and every mask has the address
(session, step, tag) in the stream of its key: nothing depends on how much was drawn before.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.net.network import Network, Route
from hedgerow.privacy.release import Audience

Array = NDArray[Any]


class Holders(ABC):
    """The parties of this process that hold shares, and what they have in common with the others.

    Parties 0 to n - 1 of the network hold shares; those that live here (`here`, ascending) are the
    first axis of share arrays. All keys follow from `seed`, for tests: whoever knows it knows
    every mask, so `private` is false.
    """

    sides: ClassVar[tuple[int, ...]] = ()
    """Share axes behind the first."""

    def __init__(self, network: Network, session: str, n: int, seed: bytes | None) -> None:
        if network.n < n:
            raise Code.BAD_PARAMETER.error(
                expected=f"a network of at least {n} parties", found=f"{network.n}"
            )
        self.network, self.session, self.n = network, session, n
        self.here = tuple(p for p in network.local if p < n)
        self.private = seed is None
        self.steps = 0
        self._process = os.getpid()
        self._place = {party: at for at, party in enumerate(self.here)}
        self._streams: dict[Hashable, Prg] = {}

    def __reduce__(self) -> NoReturn:
        raise Code.SECRET_IN_THE_OPEN.error(
            expected="one engine for one set of keys",
            found="a copy of an engine, which would draw the same masks again",
            fix="make a new engine",
        )

    def at(self, party: int) -> int | None:
        """Place of a party on the first axis of share arrays, None if it lives elsewhere."""
        return self._place.get(party % self.n)

    def key(self, key: Any) -> Hashable:
        """Return the name under which a key is kept."""
        found: Hashable = key
        return found

    @abstractmethod
    def parts(self, party: int) -> Mapping[int, Hashable]:
        """Return the keys of what a party draws for all: of share x_j or order pi_j, by j.

        In the order of the party's sides.
        """

    def step(self, name: str, purpose: str = "") -> Step:
        """Begin a step; all parties begin the same steps in the same order, for one purpose."""
        if os.getpid() != self._process:
            # The other process has the same keys and the same count, so it would draw the same.
            raise Code.ADDRESS_USED_TWICE.error(
                expected="masks drawn in the process that made the engine",
                found="a process that was forked from it",
                fix="make a new engine in the new process",
            )
        self.steps += 1
        for stream in self._streams.values():
            # Addresses begin with the number of their step (`draw`), which only grows.
            stream.forget()
        return Step(self, name, self.steps, purpose)

    @property
    def share_shape(self) -> tuple[int, ...]:
        """Shape of the share axes."""
        return (len(self.here), *self.sides)

    def shares(self, shape: tuple[int, ...], dtype: Any, *, zero: bool = False) -> Array:
        """Return room for shares: (*share axes, *shape)."""
        make = np.zeros if zero else np.empty
        return make((*self.share_shape, *shape), dtype)

    def draw(self, key: Hashable, step: int, tag: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Draw from the stream of a key that a party of this process holds, once for a tag; H750.

        Of the step under way alone: what earlier ones have drawn is forgotten.
        """
        if step != self.steps:
            raise Code.ADDRESS_USED_TWICE.error(
                expected=f"masks of step {self.steps}, which is under way",
                found=f"one of step {step}",
                fix="begin a step for what is drawn",
            )
        return self._streams[key].fill(f"{self.session}/{step}/{tag}", shape, dtype)


class Step:
    """One call of a primitive: its masks and messages, and a `purpose` that all agree on."""

    def __init__(self, core: Holders, name: str, number: int, purpose: str = "") -> None:
        self.core, self.name, self.number, self.purpose = core, name, number, purpose
        self._masks: dict[tuple[Hashable, str], Array] = {}
        self._messages: list[Parcel] = []
        self._outbox: dict[int, Array] = {}

    def mask(self, key: Any, tag: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return uniform elements that the holders of a key know; not to be written to."""
        index = self.core.key(key)
        if (index, tag) not in self._masks:
            self._masks[index, tag] = self.core.draw(index, self.number, tag, shape, dtype)
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


def fresh_key(label: str, seed: bytes | None) -> bytes:
    """Draw a key, from the operating system unless a seed is given."""
    if seed is None:
        return os.urandom(KEY_BYTES)
    return hashlib.blake2b(
        f"hedgerow/{label}".encode(), key=seed[:64], digest_size=KEY_BYTES
    ).digest()


def sums(*, xor: bool) -> tuple[np.ufunc, np.ufunc]:
    """Return what adds and what subtracts shares: of numbers, or of words of bits."""
    return (np.bitwise_xor, np.bitwise_xor) if xor else (np.add, np.subtract)


def parties_of(to: str, role: str, n: int) -> tuple[int, ...]:
    """Return which of n parties of a role are an audience, ascending; H501 for none."""
    audience = Audience.parse(to)
    found = tuple(i for i in range(n) if Audience(role, str(i)).is_within(audience))
    if not found:
        raise Code.BAD_PARAMETER.error(
            expected=f"an audience among {', '.join(f'{role} {i}' for i in range(n))}",
            found=f"{to!r}",
        )
    return found
