"""What callers may take of a service: places, identifiers of requests, lines of the log.

`Gate`: how many connections there are, and whose.

Callers that have not shown a certificate yet have places of their own, of which one address has a
part, so strangers cannot keep members out. When they are all taken, one goes at once that has said
nothing: who wants to shake hands speaks first. Of those who have spoken, the one that has been
there longest goes, after a while. Members have a bounded number of places each, while a request of
theirs is answered, and a bounded amount of payload; between two requests a connection rests, and
the one that has rested longest ends when there are too many.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hedgerow.errors import Code
from hedgerow.parties.wire.handlers import ServiceLimits
from hedgerow.parties.wire.link import Link

# Long enough for a handshake over any distance.
_GRACE_SECONDS = 2.0


@dataclass
class _Stranger:
    host: str
    since: float = field(default_factory=time.monotonic)
    spoke: bool = False


class Gate:
    """Places of a service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self._changed = threading.Condition()
        # In the order in which they came.
        self._shaking: dict[Link, _Stranger] = {}
        self._held: Counter[str] = Counter()
        self._waiting: set[Link] = set()
        self._working: set[Link] = set()
        # In the order in which they began to rest.
        self._resting: dict[Link, None] = {}
        self._counts: Counter[str] = Counter()
        self._stopping = False

    def admit(self, link: Link, host: str = "") -> bool:
        """Take a place for a handshake, if need be that of another; False if there is none.

        Only where all places are taken by callers of many addresses who have just begun to speak,
        this waits.
        """
        with self._changed:
            while True:
                here = [one for one, stranger in self._shaking.items() if stranger.host == host]
                crowded = len(here) >= self.limits.per_address
                if not crowded and len(self._shaking) < self.limits.strangers:
                    break
                goes = self._superfluous(here if crowded else list(self._shaking))
                if goes is not None:
                    goes.cut()
                    del self._shaking[goes]
                elif crowded:
                    return False
                else:
                    oldest = next(iter(self._shaking.values())).since
                    self._changed.wait(max(0.0, oldest + _GRACE_SECONDS - time.monotonic()))
            self._shaking[link] = _Stranger(host)
            return True

    def _superfluous(self, links: list[Link]) -> Link | None:
        """Return who goes first: the oldest that is silent, of the address that has most of them.

        If all have spoken, the oldest, unless that is a handshake that may still be under way.
        """
        silent = [one for one in links if not self._shaking[one].spoke]
        if silent:
            most = Counter(self._shaking[one].host for one in silent).most_common(1)[0][0]
            return next(one for one in silent if self._shaking[one].host == most)
        age = time.monotonic() - self._shaking[links[0]].since
        return links[0] if age > _GRACE_SECONDS else None

    def spoke(self, link: Link) -> None:
        """Note that a caller has sent something."""
        with self._changed:
            if link in self._shaking:
                self._shaking[link].spoke = True

    def forget(self, link: Link) -> None:
        """Give the place of a handshake back."""
        with self._changed:
            self._shaking.pop(link, None)
            self._changed.notify_all()

    @contextmanager
    def place(self, link: Link, member: str) -> Iterator[None]:
        """Move a connection from the strangers to the members: H879, H880 if it cannot be."""
        with self._changed:
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
            self._shaking.pop(link, None)
            self._changed.notify_all()
            self._counts[member] += 1
            self._waiting.add(link)
        try:
            yield
        finally:
            with self._changed:
                self._counts[member] -= 1
                self._waiting.discard(link)
                self._working.discard(link)
                self._changed.notify_all()

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
        with self._changed:
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
            with self._changed:
                self._held[member] -= octets

    @contextmanager
    def rest(self, link: Link) -> Iterator[bool]:
        """Keep a connection on which nothing is asked just now; False if it had better end."""
        with self._changed:
            may_rest = not self._stopping
            while may_rest and len(self._resting) >= self.limits.members:
                oldest = next(iter(self._resting))
                oldest.cut()
                del self._resting[oldest]
            self._resting |= {link: None} if may_rest else {}
        try:
            yield may_rest
        finally:
            with self._changed:
                self._resting.pop(link, None)

    def begin(self, link: Link) -> None:
        """Count a request as taken: from here on it is finished, even when the service stops."""
        with self._changed:
            self._check_open()
            self._waiting.discard(link)
            self._working.add(link)

    def stop(self, patience: float) -> bool:
        """Take nothing new and wait for what was taken; return whether all of it has ended."""
        now = time.monotonic()
        with self._changed:
            self._stopping = True
            for link in self._resting:
                link.cut()
            # Who has not said yet what it wants gets a moment to be told, no more.
            self._until(lambda: not self._shaking and not self._waiting, now + min(1.0, patience))
            for link in [*self._shaking, *self._waiting]:
                link.cut()
            done = self._until(lambda: not self._working, now + patience)
            for link in self._working:
                link.cut()
            return done

    def _until(self, reached: Callable[[], bool], end: float) -> bool:
        return self._changed.wait_for(reached, max(0.0, end - time.monotonic()))

    def _check_open(self) -> None:
        if self._stopping:
            raise Code.SERVICE_STOPPING.error(found="one that takes nothing new")


class Replays:
    """Requests that change something are carried out at most once: a bounded memory of identifiers.

    A request whose time differs by more than `skew` seconds from the clock here is refused, so that
    an identifier can be forgotten after a while. One from before the start is refused as well: what
    was carried out then is not known here. More than `largest` of one member within the time are
    refused, not forgotten.
    """

    def __init__(self, skew: float, largest: int) -> None:
        self.skew, self.largest = skew, largest
        self._started = time.time()
        self._seen: dict[str, OrderedDict[str, float]] = {}
        self._lock = threading.Lock()

    def check_clock(self, stamp: float) -> None:
        """Refuse a request whose time is too far from the clock here: H878."""
        ahead = stamp - time.time()
        if abs(ahead) > self.skew:
            raise Code.CLOCKS_DIFFER.error(
                expected=f"a clock that differs by at most {self.skew:g} s",
                found=f"one that is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}",
            )

    def take(self, member: str, identifier: str, stamp: float) -> None:
        """Use up an identifier: H877 the second time, H878 before the start, H879 if too many."""
        if stamp < self._started:
            raise Code.CLOCKS_DIFFER.error(
                expected="a request that was made after this party has started",
                found=f"one from {self._started - stamp:.1f} s before",
            )
        now = time.monotonic()
        with self._lock:
            seen = self._seen.setdefault(member, OrderedDict())
            # Times lie within the skew on either side of the clock, so twice that is enough.
            while seen and next(iter(seen.values())) < now - 2 * self.skew:
                seen.popitem(last=False)
            if identifier in seen:
                raise Code.REQUEST_REPLAYED.error(found=f"identifier {identifier} again")
            if len(seen) >= self.largest:
                raise Code.SERVICE_BUSY.error(
                    expected=f"at most {self.largest} such requests in {2 * self.skew:g} s",
                    found="more",
                )
            seen[identifier] = now


class Throttle:
    """Let a few through in every minute and count the rest, so that strangers fill no disk."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._lock = threading.Lock()
        self._minute, self._passed, self._held = -1, 0, 0

    def passes(self) -> int | None:
        """Return how many were held back before this one, or None to hold this one back."""
        with self._lock:
            minute = int(time.monotonic() // 60)
            if minute != self._minute:
                self._minute, self._passed = minute, 0
            if self._passed >= self.per_minute:
                self._held += 1
                return None
            self._passed += 1
            held, self._held = self._held, 0
            return held
