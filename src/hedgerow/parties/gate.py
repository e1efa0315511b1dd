"""`Gate`: how many connections a service has, and whose.

Callers that have not shown a certificate yet have places of their own, so strangers cannot keep
members out: when those are all taken, the caller that has been there longest goes. Members have a
bounded number of places each, while a request of theirs is answered; between two requests a
connection rests, and the one that has rested longest ends when there are too many.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hedgerow.errors import Code
from hedgerow.parties.link import Link

# Long enough for a handshake over any distance.
_GRACE_SECONDS = 2.0


class Gate:
    """Places of a service.

    Parameters
    ----------
    strangers : int
        Connections in their handshake at once.
    members : int
        Connections of members at once, all together.
    per_member : int
    """

    def __init__(self, strangers: int, members: int, per_member: int) -> None:
        self.strangers, self.members, self.per_member = strangers, members, per_member
        self._changed = threading.Condition()
        self._shaking: dict[Link, float] = {}
        self._waiting: set[Link] = set()
        self._working: set[Link] = set()
        # In the order in which they began to rest.
        self._resting: dict[Link, None] = {}
        self._counts: Counter[str] = Counter()
        self._stopping = False

    def admit(self, link: Link) -> None:
        """Take a place for a handshake; wait, and end the oldest one, if there is none."""
        with self._changed:
            while len(self._shaking) >= self.strangers:
                oldest, since = next(iter(self._shaking.items()))
                left = since + _GRACE_SECONDS - time.monotonic()
                if left <= 0:
                    oldest.cut()
                    del self._shaking[oldest]
                else:
                    self._changed.wait(left)
            self._shaking[link] = time.monotonic()

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
            if self._counts[member] >= self.per_member:
                raise Code.SERVICE_BUSY.error(
                    expected=f"at most {self.per_member} requests of {member} at once",
                    found=f"{self._counts[member] + 1}",
                )
            if self._counts.total() >= self.members:
                raise Code.SERVICE_BUSY.error(
                    expected=f"at most {self.members} requests of all callers at once",
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
    def rest(self, link: Link) -> Iterator[bool]:
        """Keep a connection on which nothing is asked just now; False if it had better end."""
        with self._changed:
            may_rest = not self._stopping
            while may_rest and len(self._resting) >= self.members:
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
