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

import hashlib
import logging
import os
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.net.network import Network, Route
from hedgerow.parties.consortium.names import is_name
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.queries.answer_run import answer_batch
from hedgerow.parties.queries.inquiry import PRINT_BYTES, WHATS
from hedgerow.parties.queries.waiting import Pending, WaitingRoom
from hedgerow.parties.runs.agreement import exchange_all
from hedgerow.parties.store.library import Library, ModelBook
from hedgerow.parties.store.query_log import Array, LoggedQuery, QueryKey
from hedgerow.secure.replicated.core import SERVERS

DRAW_BYTES = TAG_BYTES = 16
_VERSION = 2
_HEAD = struct.Struct(">16sBBH63s16s")
_KEY = struct.Struct(">H16s")
_ROW = struct.Struct(">B16sI32s")
ROW_BYTES = _ROW.size
MISSING, HERE, HELD, ONLY_HELD, DONE = range(5)
"""How far a server has come: it has nothing, a query, a query and a draw, a draw, an answer."""
LATER, REFUSED, ADMITTED = range(3)

Verdict = Literal["later", "conflict", "lost", "commit", "run"]


def tag_of(book: ModelBook) -> bytes:
    """Return the tag of a model's shares, as servers compare it."""
    text = f"{book.manifest.job} {book.manifest.tag}".encode()
    return hashlib.blake2b(text, digest_size=TAG_BYTES, person=b"hedgerow/model").digest()


def announcement_bytes(room: int) -> int:
    """Return the size of an announcement with room for so many queries."""
    return _HEAD.size + room * _KEY.size


@dataclass(frozen=True)
class Announcement:
    """What server 0 would like to do next; public among the servers.

    `draw`: name of the answers that would be drawn, never used before.
    `tag`: of the model's shares at server 0: those of another training do not fit to them.
    `keys`: queries; empty if there is nothing to do.
    """

    draw: bytes
    what: str
    model: str
    tag: bytes
    keys: tuple[QueryKey, ...]

    @classmethod
    def nothing(cls, draw: bytes) -> Announcement:
        """Announce that there is nothing to do."""
        return cls(draw, WHATS[0], "", bytes(TAG_BYTES), ())

    def pack(self, members: Sequence[str], room: int) -> bytes:
        """Write it into a fixed number of bytes."""
        what, name = WHATS.index(self.what), self.model.encode("ascii")
        head = _HEAD.pack(self.draw, _VERSION, what, len(self.keys), name, self.tag)
        keys = [_KEY.pack(members.index(k.analyst), bytes.fromhex(k.id)) for k in self.keys]
        return (head + b"".join(keys)).ljust(announcement_bytes(room), b"\0")

    @classmethod
    def parse(cls, data: bytes, members: Sequence[str]) -> Announcement:
        """Read it; H806 for anything that no server writes."""
        draw, version, what, count, name, tag = _HEAD.unpack_from(data)
        model = name.rstrip(b"\0").decode("ascii", errors="replace")
        if not count:
            return cls.nothing(draw)
        fits = _HEAD.size + count * _KEY.size <= len(data)
        if version != _VERSION or what >= len(WHATS) or not is_name(model) or not fits:
            raise Code.BAD_FRAME.error(found="an announcement that cannot be read")
        keys = []
        for k in range(count):
            who, id_ = _KEY.unpack_from(data, _HEAD.size + k * _KEY.size)
            if who >= len(members):
                raise Code.BAD_FRAME.error(found="an announcement of a query by nobody")
            keys.append(QueryKey(members[who], id_.hex()))
        if len(set(keys)) < count:
            raise Code.BAD_FRAME.error(found="an announcement that names a query twice")
        return cls(draw, WHATS[what], model, tag, tuple(keys))


class Row(NamedTuple):
    """What a server says about a query: status, draw that it holds, rows, digest of a share."""

    status: int
    draw: bytes
    n: int
    print: bytes

    def pack(self) -> bytes:
        """Write it."""
        return _ROW.pack(*self)

    @classmethod
    def parse_all(cls, data: bytes) -> list[Row]:
        """Read what was written one after the other."""
        return [cls(*row) for row in _ROW.iter_unpack(data)]


Finding = tuple[tuple[int, bytes, int], tuple[bytes, bytes]]
_NOTHING: Finding = (MISSING, bytes(DRAW_BYTES), 0), (bytes(PRINT_BYTES), bytes(PRINT_BYTES))


def look_up(said: Announcement, known: LoggedQuery | None, query: Pending | None) -> Finding:
    """Return what this server has of a query, and the digests of its two shares."""
    (_, no_draw, _), no_prints = _NOTHING
    state, draw = (known.state, known.draw) if known is not None else ("", "")
    drawn = bytes.fromhex(draw) if draw else no_draw
    if known is not None and state == "done":
        return (DONE, drawn, known.asked.n), no_prints
    if query is not None and query.part is not None and query.asked.what == said.what:
        return (HELD if state == "held" else HERE, drawn, query.asked.n), query.prints
    if known is not None and state == "held":
        return (ONLY_HELD, drawn, known.asked.n), no_prints
    return _NOTHING


def verdict(rows: Sequence[Row]) -> Verdict:
    """Return what becomes of a query; all servers see the same rows and find the same."""
    statuses = {row.status for row in rows}
    if MISSING in statuses:
        return "later"
    if len({row.n for row in rows}) > 1:
        return "conflict"
    if statuses <= {HELD, ONLY_HELD, DONE} and len({row.draw for row in rows}) == 1:
        return "commit"
    if DONE in statuses:
        return "lost"
    return "later" if ONLY_HELD in statuses else "run"


class _Answer(NamedTuple):
    """An answer that may leave, and this server's half of it, if it gives one."""

    draw: str
    half: Array | None


MOST_FAILURES = 3
_logger = logging.getLogger(__name__)


class BatchSession:
    """One server in a session with the other two, which all list the members alike; one thread."""

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
        self._missed: set[QueryKey] = set()

    def turn(self) -> int:
        """Take one turn; return how many queries were answered."""
        said = self._announce()
        if not said.keys:
            return 0
        begun = time.monotonic()
        here = self._gather(said)
        book = self._book(said)
        known = {} if book is None else book.log.find(said.keys)
        rows = self._compare(said, book, known, here)
        verdicts = {
            key: verdict([rows[s][k] for s in range(SERVERS)]) for k, key in enumerate(said.keys)
        }
        errors = self._refusals(said, book, known, here, rows, verdicts)
        agreed = self._agree(said, errors)
        asked = [key for key in said.keys if verdicts[key] == "run" and agreed[key] == ADMITTED]
        kept = [key for key in said.keys if verdicts[key] == "commit"]
        answers: dict[QueryKey, _Answer] = {}
        if asked:
            assert book is not None
            queries = [query for key in asked if (query := here[key]) is not None]
            halves = self._run(book, queries, said)
            answers |= {key: _Answer(said.draw.hex(), halves.get(key)) for key in asked}
        if kept:
            assert book is not None
            book.log.finish(kept)
            answers |= {key: _Answer(known[key].draw, book.log.half(key)) for key in kept}
        for key in said.keys:
            self._settle(here[key], answers.get(key), agreed[key], errors.get(key))
        if answers:
            event = {"batch": said.draw.hex(), "model": said.model, "queries": len(answers)}
            seconds = round(time.monotonic() - begun, 6)
            _logger.info("batch", extra={"event": event | {"seconds": seconds}})
        return len(answers)

    def _announce(self) -> Announcement:
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

    def _gather(self, said: Announcement) -> dict[QueryKey, Pending | None]:
        """Return what is here, after a moment for queries that are still on their way."""
        fresh = [key for key in said.keys if key not in self._missed] if self.me else []
        here = self.room.get(said.model, said.keys, fresh)
        if len(self._missed) > 4 * self.room.limits.queries:
            self._missed.clear()
        # Who sends its parts to some servers only does not hold up the others twice.
        self._missed |= {key for key, query in here.items() if query is None}
        return here

    def _book(self, said: Announcement) -> ModelBook | None:
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

    def _compare(
        self,
        said: Announcement,
        book: ModelBook | None,
        known: Mapping[QueryKey, LoggedQuery],
        here: Mapping[QueryKey, Pending | None],
    ) -> list[list[Row]]:
        """Tell the others what is here, and return what all of them say."""
        mine = [_NOTHING] * len(said.keys)
        if book is not None:
            mine = [look_up(said, known.get(key), here[key]) for key in said.keys]
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
        book: ModelBook | None,
        known: Mapping[QueryKey, LoggedQuery],
        here: Mapping[QueryKey, Pending | None],
        rows: list[list[Row]],
        verdicts: Mapping[QueryKey, Verdict],
    ) -> dict[QueryKey, HedgerowError | None]:
        """Return what this server does not admit, and why; None for what is to wait a turn."""
        errors: dict[QueryKey, HedgerowError | None] = {}
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
            if key in known:
                continue
            try:
                book.admit(self.policy, query.asked, before=ahead)
                ahead[key.analyst] += query.asked.n
            except HedgerowError:
                errors[key] = self._refusal(book, query)
        return errors

    def _refusal(self, book: ModelBook, query: Pending) -> HedgerowError | None:
        """Return why a query is refused; None if it fits by itself.

        Then those before it in its batch may yet be refused elsewhere.
        """
        try:
            book.admit(self.policy, query.asked, before={})
        except HedgerowError as error:
            return error
        return None

    def _agree(
        self, said: Announcement, errors: Mapping[QueryKey, HedgerowError | None]
    ) -> dict[QueryKey, int]:
        """Tell the others what is admitted here, and return what all admit."""
        mine = np.full(len(said.keys), ADMITTED, dtype=np.uint8)
        for k, key in enumerate(said.keys):
            if key in errors:
                mine[k] = LATER if errors[key] is None else REFUSED
        every = np.stack(list(exchange_all(self.network, "agree", mine).values()))
        refused, later = (every == REFUSED).any(axis=0), (every == LATER).any(axis=0)
        final = np.where(refused, REFUSED, np.where(later, LATER, ADMITTED))
        return {key: int(final[k]) for k, key in enumerate(said.keys)}

    def _run(
        self, book: ModelBook, queries: Sequence[Pending], said: Announcement
    ) -> dict[QueryKey, Array]:
        """Charge and answer; everything is durable at all servers when it returns the halves."""
        keys = [query.key for query in queries]
        try:
            book.charge([query.asked for query in queries])
            shares = self.library.shares(said.model)
            halves = answer_batch(self.network, book, shares, queries, said.what, said.draw.hex())
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
        return halves

    def _settle(
        self,
        query: Pending | None,
        answer: _Answer | None,
        agreed: int,
        error: HedgerowError | None,
    ) -> None:
        if query is None:
            return
        if answer is not None:
            self.room.settle(query, half=answer.half, draw=answer.draw)
        elif agreed == REFUSED:
            elsewhere = Code.QUERY_REFUSED_ELSEWHERE.error(found="a refusal by another server")
            self.room.settle(query, error=error or elsewhere)
        else:
            self.room.later(query, at_once=agreed == LATER)
