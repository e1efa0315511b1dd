"""What callers may take of a service: places, bytes of payload, lines of the log.

Callers that have not shown a certificate yet have places of their own, of which one address has a
part, so strangers cannot keep members out. When they are all taken, one goes at once that has said
nothing: who wants to shake hands speaks first. Of those who have spoken, the one that has been
there longest goes, after a while. Members have a bounded number of places each, while a request of
theirs is answered, and a bounded amount of payload. A connection without a request rests, also
while a header arrives; the one that has rested longest ends when there are too many, of its member
or in all. Those on which nothing was ever asked are counted by themselves, as many as strangers may
be. Everything here happens in the one thread of the service's loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from hedgerow.errors import Code
from hedgerow.parties.wire.handlers import ServiceLimits

# Long enough for a handshake over any distance.
_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 0.01


class Connection(Protocol):
    """A connection, of which only this is asked."""

    def cut(self) -> None:
        """End it at once."""


@dataclass
class _Stranger:
    host: str
    since: float
    spoke: bool = False


@dataclass(frozen=True)
class _Rest:
    member: str
    is_new: bool


class Gate:
    """Places of a service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        # In the order in which they came.
        self._shaking: dict[Connection, _Stranger] = {}
        # In the order in which they began to rest.
        self._resting: dict[Connection, _Rest] = {}
        self._waiting: set[Connection] = set()
        self._working: set[Connection] = set()
        self._counts: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._stopping = False

    def admit(self, link: Connection, host: str = "") -> float:
        """Take a place for a handshake, if need be that of another; return 0 if there is one.

        Otherwise seconds after which to try again, where all places are taken by callers of many
        addresses who have just begun to speak; infinite if there are too many of this address.
        """
        while True:
            here = [one for one, stranger in self._shaking.items() if stranger.host == host]
            crowded = len(here) >= self.limits.per_address
            if not crowded and len(self._shaking) < self.limits.strangers:
                self._shaking[link] = _Stranger(host, time.monotonic())
                return 0.0
            goes = self._superfluous(here if crowded else list(self._shaking))
            if goes is not None:
                del self._shaking[goes]
                goes.cut()
            elif crowded:
                return math.inf
            else:
                oldest = next(iter(self._shaking.values())).since
                return max(_LOOK_SECONDS, oldest + _GRACE_SECONDS - time.monotonic())

    def _superfluous(self, links: list[Connection]) -> Connection | None:
        """Return who goes first: the oldest that is silent, of the address that has most of them.

        If all have spoken, the oldest, unless that is a handshake that may still be under way.
        """
        silent = [one for one in links if not self._shaking[one].spoke]
        if silent:
            most = Counter(self._shaking[one].host for one in silent).most_common(1)[0][0]
            return next(one for one in silent if self._shaking[one].host == most)
        age = time.monotonic() - self._shaking[links[0]].since
        return links[0] if age > _GRACE_SECONDS else None

    def spoke(self, link: Connection) -> None:
        """Note that a caller has sent something."""
        if link in self._shaking:
            self._shaking[link].spoke = True

    def forget(self, link: Connection) -> None:
        """Give the place back that a connection has while nothing is asked on it."""
        self._shaking.pop(link, None)
        self._resting.pop(link, None)

    def rest(self, link: Connection, member: str, *, is_new: bool = False) -> None:
        """Keep a connection on which nothing is asked just now, unless the service is to end."""
        if self._stopping:
            link.cut()
            return
        limits = self.limits
        each, all_ = limits.per_member, limits.members
        if is_new:
            each, all_ = limits.per_address, limits.strangers
        alike = [one for one, rest in self._resting.items() if rest.is_new == is_new]
        mine = [one for one in alike if self._resting[one].member == member]
        if len(mine) >= each or len(alike) >= all_:
            oldest = mine[0] if len(mine) >= each else alike[0]
            del self._resting[oldest]
            oldest.cut()
        self._resting[link] = _Rest(member, is_new)

    @contextmanager
    def place(self, link: Connection, member: str) -> Iterator[None]:
        """Take a place for a request: H879, H880 if there is none."""
        self._check_open()
        if self._counts[member] >= self.limits.per_member:
            raise Code.SERVICE_BUSY.error(
                expected=f"at most {self.limits.per_member} requests of {member} at once",
                found=f"{self._counts[member] + 1}",
            )
        if self._counts.total() >= self.limits.members:
            raise Code.SERVICE_BUSY.error(
                expected=f"at most {self.limits.members} requests of all callers at once",
                found=f"{self._counts.total() + 1}",
            )
        self._resting.pop(link, None)
        self._counts[member] += 1
        self._waiting.add(link)
        try:
            yield
        finally:
            self._counts[member] -= 1
            self._waiting.discard(link)
            self._working.discard(link)

    @contextmanager
    def hold(self, member: str, octets: int) -> Iterator[None]:
        """Make room for a payload, before any of it is read: H879 while there is none.

        H875 if there can never be enough.
        """
        mine, all_ = self.limits.octets_per_member, self.limits.octets
        if octets > min(mine, all_):
            raise Code.PAYLOAD_TOO_LARGE.error(
                expected=f"payload of at most {min(mine, all_)} bytes at once of {member}",
                found=f"{octets} bytes",
            )
        if self._held[member] + octets > mine or self._held.total() + octets > all_:
            raise Code.SERVICE_BUSY.error(
                expected=f"payload of at most {mine} bytes at once of {member}, {all_} of all",
                found=f"{self._held[member]} of {member}, {self._held.total()} of all, and "
                f"{octets} more",
            )
        self._held[member] += octets
        try:
            yield
        finally:
            self._held[member] -= octets

    def begin(self, link: Connection) -> None:
        """Count a request as taken: from here on it is finished, even when the service stops."""
        self._check_open()
        self._waiting.discard(link)
        self._working.add(link)

    async def stop(self, patience: float) -> bool:
        """Take nothing new and wait for what was taken; return whether all of it has ended."""
        now = time.monotonic()
        self._stopping = True
        for link in [one for one, rest in self._resting.items() if not rest.is_new]:
            self._resting.pop(link, None)
            link.cut()
        # Who has not said yet what it wants gets a moment to be told, no more.
        end = now + min(1.0, patience)
        await _until(lambda: not (self._shaking or self._resting or self._waiting), end)
        for link in [*self._shaking, *self._resting, *self._waiting]:
            link.cut()
        done = await _until(lambda: not self._working, now + patience)
        for link in list(self._working):
            link.cut()
        return done

    def _check_open(self) -> None:
        if self._stopping:
            raise Code.SERVICE_STOPPING.error(found="one that takes nothing new")


async def _until(reached: Callable[[], bool], end: float) -> bool:
    while not reached() and time.monotonic() < end:
        await asyncio.sleep(_LOOK_SECONDS)
    return reached()


class Throttle:
    """Let a few through in every minute and count the rest, so that strangers fill no disk."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._minute, self._passed, self._held = -1, 0, 0

    def passes(self) -> int | None:
        """Return how many were held back before this one, or None to hold this one back."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._passed = minute, 0
        if self._passed >= self.per_minute:
            self._held += 1
            return None
        self._passed += 1
        held, self._held = self._held, 0
        return held
