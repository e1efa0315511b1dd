"""`WaitingRoom`: queries that have arrived and are not answered, in bounded memory.

Analysts take turns: each batch begins with the one that was served the longest time ago and takes
one query of everybody in turn, so that nobody who asks much keeps the others waiting.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.secure.replicated.outside import Dealt

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0


@dataclass(frozen=True)
class RoomLimits:
    """What queries may take.

    `queries`, `octets`: queries that wait at once, and bytes of their shares.
    `each`: the fraction of both that one analyst may take: one in so many.
    `polls`: callers that may wait for an answer at once; others are told to come again.
    `poll`: seconds after which a caller that waits is told to come again.
    `idle`: seconds after which a query is dropped if nobody comes for its answer.
    `batch_queries`, `batch_rows`: of one batch; a query of more rows is a batch by itself.
    `patience`: seconds for which the others wait for a query that reached server 0 first.
    `heartbeat`: seconds between two messages among servers that have nothing to do.
    `gather`: the fraction of the time of a batch for which the next one waits for those who were
    answered in it, and may ask again: a batch of many takes little longer than one of few.
    """

    queries: int = 1024
    octets: int = 1 << 28
    each: int = 8
    polls: int = 96
    poll: float = 20.0
    idle: float = 120.0
    batch_queries: int = 64
    batch_rows: int = 8192
    patience: float = 0.25
    heartbeat: float = 1.0
    gather: float = 0.5


@dataclass(eq=False)
class Pending:
    """A query that waits.

    `part`: of this server; None for one that was answered and is only to be confirmed.
    `prints`: digests of its two shares, to be compared with their other holders.
    """

    asked: Asked
    model: str
    part: Dealt | None = field(repr=False)
    prints: tuple[bytes, bytes] = field(repr=False)
    size: int
    polled: float = field(default_factory=time.monotonic)
    due: float = 0.0
    tries: int = 0
    failures: int = 0
    settled: threading.Event = field(default_factory=threading.Event, repr=False)
    half: NDArray[Any] | None = field(default=None, repr=False)
    draw: str = ""
    error: HedgerowError | None = None

    @property
    def key(self) -> QueryKey:
        """Who asks, under which identifier."""
        return self.asked.key


class WaitingRoom:
    """Queries that wait; for all threads."""

    def __init__(self, limits: RoomLimits) -> None:
        self.limits = limits
        self.trouble: HedgerowError | None = None
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, QueryKey], Pending] = {}
        self._served: dict[str, float] = {}
        self._last: set[str] = set()
        self._receiving: Counter[str] = Counter()
        self._closed = False

    @contextmanager
    def receiving(self, analyst: str, size: int) -> Iterator[None]:
        """Keep room for bytes that are about to be read; H879 if there is none."""
        with self._changed:
            self._check_room(analyst, size)
            self._receiving[analyst] += size
        try:
            yield
        finally:
            with self._changed:
                self._receiving[analyst] -= size

    def put(self, query: Pending) -> Pending:
        """Take a query in, or return the one that waits under its identifier.

        Raises H896 if that one is another query, H879 if there is no room.
        """
        with self._changed:
            there = self._waiting.get((query.model, query.key))
            if there is not None:
                check_same(there.asked, query.asked)
                there.polled = time.monotonic()
                if there.part is not None or query.part is None:
                    return there
            self._check_room(query.key.analyst, query.size)
            self._waiting[query.model, query.key] = query
            self._changed.notify_all()
            return query

    def get(
        self, model: str, keys: Collection[QueryKey], awaited: Collection[QueryKey] = ()
    ) -> dict[QueryKey, Pending | None]:
        """Return the queries under these identifiers, after a while for those that are awaited."""

        def all_here() -> bool:
            return self._closed or all((model, key) in self._waiting for key in awaited)

        with self._changed:
            self._changed.wait_for(all_here, self.limits.patience)
            return {key: self._waiting.get((model, key)) for key in keys}

    def pick(self) -> list[Pending]:
        """Return the next batch: of one model and one kind of answer; empty if there is none."""
        now = time.monotonic()
        with self._changed:
            self._drop_idle(now)
            by_analyst: dict[str, list[Pending]] = {}
            for query in self._waiting.values():
                if query.due <= now:
                    by_analyst.setdefault(query.key.analyst, []).append(query)
            if not by_analyst:
                return []
            turns = sorted(by_analyst, key=lambda analyst: self._served.get(analyst, 0.0))
            first = by_analyst[turns[0]][0]
            subject = (first.model, first.asked.what)
            queues = [
                [q for q in by_analyst[analyst] if (q.model, q.asked.what) == subject]
                for analyst in turns
            ]
            batch = _in_turn(queues, self.limits)
            self._last = {query.key.analyst for query in batch}
            self._served |= dict.fromkeys(self._last, now)
            return batch

    def wait(self, seconds: float, batch: float = 0.0) -> None:
        """Wait until something may be due, no longer than `seconds`.

        `batch`: seconds that the last batch took, which has ended just now.
        """
        gathering = time.monotonic() + self.limits.gather * batch
        with self._changed:
            if self._closed:
                return
            now = time.monotonic()
            due = min((query.due for query in self._waiting.values()), default=now + seconds)
            if due > now:
                self._changed.wait(min(seconds, due - now))
            self._changed.wait_for(self._all_back, max(0.0, gathering - time.monotonic()))

    def later(self, query: Pending, *, at_once: bool = False) -> None:
        """Put a query off: at some server it has not arrived, or a batch had no room for it."""
        with self._changed:
            pause = 0.0 if at_once else min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**query.tries)
            query.tries += not at_once
            query.due = time.monotonic() + pause

    def settle(
        self,
        query: Pending,
        *,
        half: NDArray[Any] | None = None,
        draw: str = "",
        error: HedgerowError | None = None,
    ) -> None:
        """Give whoever waits for a query its half or an error."""
        with self._changed:
            self._waiting.pop((query.model, query.key), None)
        query.half, query.draw, query.error = half, draw, error
        # What is answered needs its shares no more, however long somebody keeps it.
        query.part = None
        query.settled.set()

    def close(self) -> None:
        """Wake everybody up; nothing is taken in any more."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
            self._changed.notify_all()
        for query in waiting.values():
            query.error = Code.SERVICE_STOPPING.error(found="one that takes nothing new")
            query.settled.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def _all_back(self) -> bool:
        """Return whether nobody is missing who was in the last batch."""
        return self._closed or self._last <= {query.key.analyst for query in self._waiting.values()}

    def _check_room(self, analyst: str, size: int) -> None:
        if self._closed:
            raise Code.SERVICE_STOPPING.error(found="one that takes nothing new")
        self._drop_idle(time.monotonic())
        limits, every = self.limits, list(self._waiting.values())
        mine = [query for query in every if query.key.analyst == analyst]
        for there, arriving, share, whose in (
            (every, self._receiving.total(), 1, "all"),
            (mine, self._receiving[analyst], limits.each, analyst),
        ):
            octets = sum(query.size for query in there) + arriving
            # One query is always taken, however large.
            full = len(there) >= limits.queries // share
            if full or (octets and octets + size > limits.octets // share):
                raise Code.SERVICE_BUSY.error(
                    expected=f"at most {limits.queries // share} queries of {whose} that wait, and "
                    f"{limits.octets // share:,} bytes of them",
                    found=f"{len(there) + 1} and {octets + size:,} bytes",
                )

    def _drop_idle(self, now: float) -> None:
        gone = [key for key, q in self._waiting.items() if q.polled < now - self.limits.idle]
        for key in gone:
            del self._waiting[key]
        if len(self._served) > 4 * self.limits.queries:
            self._served.clear()


def check_same(known: Asked, asked: Asked) -> None:
    """Refuse another query under a known identifier; H896."""
    if known != asked:
        raise Code.QUERY_CONFLICT.error(
            found=f"identifier {asked.key.id} again, with other rows, number or kind of answer"
        )


def _in_turn(queues: Iterable[list[Pending]], limits: RoomLimits) -> list[Pending]:
    """Take one of every queue in turn, as many as a batch holds."""
    batch: list[Pending] = []
    rows, left = 0, [list(reversed(queue)) for queue in queues]
    while left and len(batch) < limits.batch_queries:
        for queue in left:
            query = queue.pop() if queue else None
            if query is None or len(batch) >= limits.batch_queries:
                continue
            if batch and rows + query.asked.n > limits.batch_rows:
                # The next of this analyst must not go before this one.
                queue.clear()
                continue
            batch.append(query)
            rows += query.asked.n
        left = [queue for queue in left if queue]
    return batch
