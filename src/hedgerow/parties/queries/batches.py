"""Batches: how the three servers agree on queries, charge them and answer them together.

One turn of a session, in which server 0 leads:

1. ``announce``: server 0 names a model and some queries to it, or nothing to do.
2. ``compare``: every server says how far it has come with each of them. The two servers that hold
   the same share of a query compare its digest; nobody else sees that digest, for who holds the
   other two shares could try rows until it fits.
3. ``agree``: every server says which it admits, by its own policy and ledger.
4. Queries that all have and all admit are charged, answered in one run, and their halves are on
   the disk before the servers take leave of each other. Only then are they given away.

An answer that all servers hold from an earlier turn, which a failure has cut short, is given away
without a new run. See `hedgerow.parties.store.query_log`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.net.network import Network, Route
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.queries.agreeing import (
    ADMITTED,
    DRAW_BYTES,
    LATER,
    REFUSED,
    ROW_BYTES,
    Announcement,
    Row,
    Verdict,
    announcement_bytes,
    look_up,
    tag_of,
    verdict,
)
from hedgerow.parties.queries.answer_run import Run
from hedgerow.parties.queries.waiting import Pending, WaitingRoom
from hedgerow.parties.store.library import Book, Library
from hedgerow.parties.store.query_index import Key
from hedgerow.secure.replicated.core import SERVERS

MOST_FAILURES = 3
_logger = logging.getLogger(__name__)


class Table:
    """One server at the table of a session; for one thread.

    `members`: all members of the consortium, in the order that all parties have.
    """

    def __init__(
        self,
        network: Network,
        library: Library,
        room: WaitingRoom,
        policy: Policy,
        members: Sequence[str],
    ) -> None:
        (self.me,) = network.local
        self.network, self.library, self.room, self.policy = network, library, room, policy
        self.members = list(members)
        self._missed: set[Key] = set()

    def turn(self) -> int:
        """Take one turn; return how many queries were answered."""
        said = self._announced()
        if not said.keys:
            return 0
        begun = time.monotonic()
        here = self._gathered(said)
        book = self._book(said)
        rows = self._compared(said, book, here)
        verdicts = {
            key: verdict([rows[s][k] for s in range(SERVERS)]) for k, key in enumerate(said.keys)
        }
        errors = self._refusals(said, book, here, rows, verdicts)
        agreed = self._agreed(said, errors)
        asked = [key for key in said.keys if verdicts[key] == "run" and agreed[key] == ADMITTED]
        kept = [key for key in said.keys if verdicts[key] == "commit"]
        draws: dict[Key, str] = {}
        if asked:
            assert book is not None
            queries = [query for key in asked if (query := here[key]) is not None]
            self._run(book, queries, said)
            draws |= dict.fromkeys(asked, said.draw.hex())
        if kept:
            assert book is not None
            book.log.finish(kept)
            draws |= {key: book.log.state(key)[1] for key in kept}
        for key in said.keys:
            self._settle(key, here[key], book, draws.get(key), agreed[key], errors.get(key))
        if draws:
            event = {"batch": said.draw.hex(), "model": said.model, "queries": len(draws)}
            seconds = round(time.monotonic() - begun, 6)
            _logger.info("batch", extra={"event": event | {"seconds": seconds}})
        return len(draws)

    def _announced(self) -> Announcement:
        room = self.room.limits.batch_queries
        size = announcement_bytes(room)
        plan = [Route(0, server, (size,), "uint8") for server in (1, 2)]
        if self.me:
            found = self.network.exchange("announce", plan, {})
            return Announcement.parse(found[self.me - 1].tobytes(), self.members)
        batch = self.room.pick()
        said = Announcement.nothing(os.urandom(DRAW_BYTES))
        if batch:
            first = batch[0]
            keys = tuple(query.key for query in batch)
            tag = tag_of(self.library.book(first.model))
            said = Announcement(said.draw, first.asked.what, first.model, tag, keys)
        data = np.frombuffer(said.pack(self.members, room), dtype=np.uint8)
        self.network.exchange("announce", plan, {0: data, 1: data})
        return said

    def _gathered(self, said: Announcement) -> dict[Key, Pending | None]:
        """Return what is here, after a moment for queries that are still on their way."""
        fresh = [key for key in said.keys if key not in self._missed] if self.me else []
        here = self.room.get(said.model, said.keys, fresh)
        if len(self._missed) > 4 * self.room.limits.queries:
            self._missed.clear()
        # Who sends its parts to some servers only does not hold up the others twice.
        self._missed |= {key for key, query in here.items() if query is None}
        return here

    def _book(self, said: Announcement) -> Book | None:
        """Return the model, unless there is none here whose shares belong to the others'."""
        try:
            book = self.library.book(said.model)
        except HedgerowError:
            # The analyst was told so by the handler of its request.
            return None
        if tag_of(book) == said.tag:
            return book
        _logger.warning("answers", extra={"event": {"model": said.model, "found": "other shares"}})
        return None

    def _compared(
        self, said: Announcement, book: Book | None, here: Mapping[Key, Pending | None]
    ) -> list[list[Row]]:
        """Tell the others what is here, and return what all of them say."""
        mine = [look_up(said, key, book, here[key]) for key in said.keys]
        size = (len(said.keys) * ROW_BYTES,)
        plan = [
            Route(a, b, size, "uint8") for a in range(SERVERS) for b in range(SERVERS) if a != b
        ]
        outbox = {}
        for k, route in enumerate(plan):
            if route.source == self.me:
                # Server i holds the shares i and i + 1; each neighbour holds one of them.
                side = 1 if route.destination == (self.me + 1) % SERVERS else 0
                data = b"".join(Row(*row, prints[side]).pack() for row, prints in mine)
                outbox[k] = np.frombuffer(data, dtype=np.uint8)
        found = self.network.exchange("compare", plan, outbox)
        rows: list[list[Row]] = [[] for _ in range(SERVERS)]
        rows[self.me] = [Row(*row, b"") for row, _ in mine]
        self._prints = dict(zip(said.keys, (prints for _, prints in mine), strict=True))
        for k, route in enumerate(plan):
            if route.destination == self.me:
                rows[route.source] = Row.parse_all(found[k].tobytes())
        return rows

    def _refusals(
        self,
        said: Announcement,
        book: Book | None,
        here: Mapping[Key, Pending | None],
        rows: list[list[Row]],
        verdicts: Mapping[Key, Verdict],
    ) -> dict[Key, HedgerowError | None]:
        """Return what this server does not admit, and why; None for what is to wait a turn."""
        errors: dict[Key, HedgerowError | None] = {}
        ahead: Counter[str] = Counter()
        for k, key in enumerate(said.keys):
            query, found_out = here[key], verdicts[key]
            if found_out in ("conflict", "lost"):
                found = "an answer that another server has lost"
                if found_out == "conflict":
                    found = "another number of rows at another server"
                errors[key] = Code.QUERY_CONFLICT.error(found=found)
            if found_out != "run" or query is None or book is None:
                continue
            after, before = (self.me + 1) % SERVERS, (self.me - 1) % SERVERS
            if (rows[before][k].print, rows[after][k].print) != self._prints[key]:
                errors[key] = Code.QUERY_CONFLICT.error(
                    found="parts at two servers that do not belong together"
                )
                continue
            if book.log.find(key) is not None:
                continue
            try:
                book.admit(self.policy, query.asked, before={})
            except HedgerowError as error:
                errors[key] = error
                continue
            try:
                book.admit(self.policy, query.asked, before=ahead)
            except HedgerowError:
                # It fits by itself: those before it may yet be refused elsewhere.
                errors[key] = None
                continue
            ahead[key.analyst] += query.asked.n
        return errors

    def _agreed(
        self, said: Announcement, errors: Mapping[Key, HedgerowError | None]
    ) -> dict[Key, int]:
        """Tell the others what is admitted here, and return what all admit."""
        mine = np.full(len(said.keys), ADMITTED, dtype=np.uint8)
        for k, key in enumerate(said.keys):
            if key in errors:
                mine[k] = LATER if errors[key] is None else REFUSED
        plan = _to_all(mine.shape)
        ours = {k: mine for k, route in enumerate(plan) if route.source == self.me}
        found = self.network.exchange("agree", plan, ours)
        every = np.stack([mine, *found.values()])
        refused, later = (every == REFUSED).any(axis=0), (every == LATER).any(axis=0)
        final = np.where(refused, REFUSED, np.where(later, LATER, ADMITTED))
        return {key: int(final[k]) for k, key in enumerate(said.keys)}

    def _run(self, book: Book, queries: Sequence[Pending], said: Announcement) -> None:
        """Charge and answer; everything is durable at all servers when it returns."""
        keys = [query.key for query in queries]
        try:
            book.charge([query.asked for query in queries])
            run = Run(self.network, book, self.library.shares(said.model), said.draw.hex())
            halves = run.answer(queries, said.what)
            book.log.hold(said.draw.hex(), keys, halves)
            run.finish()
            book.log.finish(keys)
        except NetworkError:
            raise
        except Exception:
            for query in queries:
                query.failures += 1
                if query.failures >= MOST_FAILURES:
                    error = Code.SERVICE_FAILED.error(
                        expected="an answer", found=f"a failure in batch {said.draw.hex()}"
                    )
                    self.room.settle(query, error=error)
            raise
        for query in queries:
            query.half = halves.get(query.key)

    def _settle(
        self,
        key: Key,
        query: Pending | None,
        book: Book | None,
        draw: str | None,
        agreed: int,
        error: HedgerowError | None,
    ) -> None:
        if query is None:
            return
        if draw is not None and book is not None:
            half = query.half if query.half is not None else book.log.half(key)
            self.room.settle(query, half=half, draw=draw)
        elif agreed == REFUSED:
            elsewhere = Code.QUERY_REFUSED_ELSEWHERE.error(found="a refusal by another server")
            self.room.settle(query, error=error or elsewhere)
        else:
            self.room.later(query, at_once=agreed == LATER)


def _to_all(shape: tuple[int, ...]) -> list[Route]:
    """Plan a message of every server to every other."""
    both = [(a, b) for a in range(SERVERS) for b in range(SERVERS) if a != b]
    return [Route(a, b, shape, "uint8") for a, b in both]
