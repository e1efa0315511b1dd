"""A small loop that runs several conversations over non-blocking sockets in one thread.

A conversation is a generator that yields a `Want`, the socket events or the moment it waits for.
All of a step advance together, so a large message can be sent and another received at the same
time, and the time spent waiting is known exactly.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Generator
from typing import NamedTuple

READ, WRITE = select.POLLIN, select.POLLOUT


class Want(NamedTuple):
    """What a conversation waits for: events of a file descriptor, or a moment."""

    fd: int = -1
    events: int = 0
    until: float = math.inf


Conversation = Generator[Want, None, None]


class Loop:
    """Advance conversations until a goal is reached or a deadline has passed.

    `waited`: seconds in which no conversation could advance.
    """

    def __init__(self) -> None:
        self.waited = 0.0
        self._new: list[Conversation] = []
        self._wants: dict[Conversation, Want] = {}

    def start(self, conversation: Conversation) -> None:
        """Add a conversation; it may be called from within another one."""
        self._new.append(conversation)

    @property
    def idle(self) -> bool:
        """Whether all conversations have ended."""
        return not self._new and not self._wants

    def run(self, done: Callable[[], bool], deadline: float) -> bool:
        """Advance all conversations until `done`; False if the deadline passed first.

        `done` is asked each time after some conversation has advanced, the deadline is on the clock
        of `time.monotonic`. What a conversation raises comes through.
        """
        while True:
            ready, self._new = self._new, []
            self._advance(ready)
            while not self._new:
                if done():
                    return True
                now = time.monotonic()
                if now >= deadline:
                    return False
                self._advance(self._wait(now, deadline))

    def _advance(self, ready: list[Conversation]) -> None:
        for conversation in ready:
            try:
                self._wants[conversation] = next(conversation)
            except StopIteration:
                self._wants.pop(conversation, None)

    def _wait(self, now: float, deadline: float) -> list[Conversation]:
        """Return the conversations whose wants are met; empty once the deadline has passed."""
        poll = select.poll()
        events: dict[int, int] = {}
        until = deadline
        for want in self._wants.values():
            until = min(until, want.until)
            if want.fd >= 0:
                events[want.fd] = events.get(want.fd, 0) | want.events
        for fd, mask in events.items():
            poll.register(fd, mask)
        # Rounded up: waking a moment too early would turn the last millisecond into a busy loop.
        seen = dict(poll.poll(math.ceil(max(0.0, until - now) * 1000)))
        after = time.monotonic()
        self.waited += after - now
        return [
            conversation
            for conversation, want in self._wants.items()
            # A hang-up or an error wakes everybody on that socket: the next call reports it.
            if seen.get(want.fd, 0) & (want.events | ~(READ | WRITE)) or after >= want.until
        ]
