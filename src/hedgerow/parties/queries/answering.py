"""`QueryService`: the side of a server that answers queries.

An analyst hands each server its part of a query and waits. One thread owns the session with the
other servers, in which queries are answered in batches (`queries.batches`). When a server
falls out, the session ends for all; server 0 draws a new one and invites the others again until all
are back, and the queries that wait are taken up again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from typing import Annotated, Any

from pydantic import Field

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import RunPort
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.queries.batches import BatchSession
from hedgerow.parties.queries.inquiry import LARGEST_PART, Inquiry, read_inquiry
from hedgerow.parties.queries.waiting import Pending, RoomLimits, WaitingRoom, check_same
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.query_log import Asked
from hedgerow.parties.wire.client import call_members
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, verb
from hedgerow.parties.wire.requests import Fields, Payload

_PROGRAM = b"hedgerow/answers/1"
_SESSION_BYTES = 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_logger = logging.getLogger(__name__)


class MeetFields(RequestFields):
    """`session`: its number, in hexadecimal digits, or nothing."""

    session: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]


class QueryService:
    """Answer queries, as one of three servers.

    `key`: the operator's; see `hedgerow.parties.consortium.state_key`.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        key: bytes,
        port: RunPort,
        *,
        limits: RoomLimits | None = None,
    ) -> None:
        self.config, self.policy = config, policy
        self._port = port
        self._key = key
        self._limits = limits or RoomLimits()
        self.library = Library(config.state, key, config.number)
        self.room = WaitingRoom(self._limits)
        self._polls = threading.BoundedSemaphore(self._limits.polls)
        self._stopping = threading.Event()
        self._invited = threading.Condition()
        self._session = self._last_session = b""
        self._is_free = False
        self._thread = threading.Thread(target=self._live, name="answers", daemon=True)

    def start(self) -> QueryService:
        """Begin to answer; the service must be there for the invitations of server 0."""
        self._thread.start()
        return self

    def stop(self, patience: float = 30.0) -> None:
        """End the session, tell whoever waits, and close the models.

        `patience`: seconds for the batch that is under way. What it does not finish is taken up
        again after the next start.
        """
        self._stopping.set()
        self.room.close()
        with self._invited:
            self._invited.notify_all()
        if self._thread.is_alive():
            self._thread.join(patience)
        self.library.close()

    # Requests, each in a thread of the service.

    @verb(
        "query",
        ("analyst",),
        largest=LARGEST_PART,
        twice="a query is charged once by its analyst and its id, and keeps its answer.",
        leaves="the question and a half of its answer: `queries_per_analyst` and "
        "`queries_per_model`, in rows. What waits is in memory: 128 queries of one analyst.",
    )
    def query(self, caller: Caller, fields: Inquiry, payload: Incoming) -> tuple[Fields, Payload]:
        """Take this server's part of a query, and return its half of the answer when it is there.

        Payload: two seeds for the first server; for the others one, and the correction.
        Reply: ``state``, which is "waiting" or "answered"; with an answer ``dtype``, ``shape`` and
        ``draw``, and the half as payload, none from server 2.
        """
        inquiry = fields
        book = self.library.book(inquiry.model)
        book.check_asker(caller.name, inquiry.what)
        with self.room.receiving(caller.name, payload.length):
            part = read_inquiry(inquiry, book.plan.layout, self.config.number, payload, self._key)
        asked = inquiry.asked_by(caller.name, part.digest)
        known = book.log.find([asked.key]).get(asked.key)
        if known is not None:
            check_same(known.asked, asked)
            if known.state == "done":
                if inquiry.again:
                    # Another server may still have to learn that all three hold it.
                    self.room.put(self._pending(asked, inquiry.model))
                return half_reply(book.log.half(asked.key), known.draw)
        else:
            book.admit(self.policy, asked, before={})
        query = self.room.put(
            Pending(asked, inquiry.model, part.dealt, part.prints, payload.length)
        )
        patient = self._polls.acquire(blocking=False)
        try:
            query.settled.wait(self._limits.poll if patient else 0.0)
        finally:
            if patient:
                self._polls.release()
        if query.error is not None:
            raise query.error
        if not query.settled.is_set():
            trouble = self.room.trouble
            why = f"{trouble.code.number} {trouble.found}" if trouble else ""
            return {"state": "waiting", "why": why[:500]}, None
        return half_reply(query.half, query.draw)

    def _pending(self, asked: Asked, model: str) -> Pending:
        return Pending(asked, model, None, (b"", b""), 0)

    @verb(
        "query-meet",
        ("server",),
        twice="a session is drawn once and begins once; the same invitation gets the same answer.",
        leaves="the last session, in memory.",
    )
    def meet(self, caller: Caller, fields: MeetFields) -> tuple[Fields, Payload]:
        """Take the invitation of server 0 to a new session.

        Without a session it only asks whether this server has none. Reply: ``free``.
        """
        leader = self.config.servers[0].name
        if caller.name != leader or self.config.number == 0:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"an invitation of {leader}", found=f"one of {caller.name}"
            )
        drawn = bytes.fromhex(fields.session)
        with self._invited:
            if drawn and drawn == self._last_session:
                return {"free": True}, None
            free = self._is_free
            if drawn and free:
                self._session, self._is_free = drawn, False
                self._last_session = drawn
                self._invited.notify_all()
        return {"free": free}, None

    # The thread that owns the session.

    def _live(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                with self._met() as network:
                    pause = _FIRST_PAUSE
                    self.room.trouble = None
                    self._attend(network)
            except Exception as error:
                self._note(error)
                if self.config.number == 0:
                    self._stopping.wait(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    def _attend(self, network: TLSNetwork) -> None:
        config = self.config
        members = [member.name for member in config.members]
        table, seconds = BatchSession(network, self.library, self.room, self.policy, members), 0.0
        while not self._stopping.is_set():
            if config.number == 0:
                self.room.wait(self._limits.heartbeat, seconds)
            begun = time.monotonic()
            answered = table.turn()
            seconds = time.monotonic() - begun if answered else 0.0

    def _met(self) -> TLSNetwork:
        """Meet the other servers: as server 0 by inviting them, as another when invited."""
        if self.config.number:
            with self._invited:
                self._is_free = True
                self._invited.wait_for(lambda: self._session or self._stopping.is_set())
                self._is_free = False
                invitation, self._session = self._session, b""
            if not invitation:
                raise Code.NETWORK_CLOSED.error(found="a server that stops")
            return self._network(invitation)
        # A session is drawn when both are free: one that was invited to an earlier session would
        # wait there for the others while they wait here.
        self._invite("")
        session = os.urandom(_SESSION_BYTES)
        self._invite(session.hex())
        return self._network(session)

    def _invite(self, session: str) -> None:
        """Invite both others, or ask whether they are free; raise if one of them is not."""
        others, seconds = self.config.servers[1:], self.config.timeouts.connect
        replies = call_members(
            self.config, others, "query-meet", {"session": session}, seconds=seconds
        )
        for name, reply in replies.items():
            if isinstance(reply, HedgerowError):
                raise reply
            if reply.fields.get("free") is not True:
                raise Code.SERVICE_BUSY.error(
                    expected=f"{name} without a session", found="one that has not ended there"
                )

    def _network(self, session: bytes) -> TLSNetwork:
        config = self.config
        program = hashlib.sha256(_PROGRAM + config.list_digest.encode()).digest()
        with self._port.expect(session) as doorway:
            return TLSNetwork(
                config.number,
                config.server_endpoints,
                config.identity,
                session=session,
                program=program,
                timeout=config.timeouts.step,
                meeting_timeout=config.timeouts.connect,
                listener=doorway,
            )

    def _note(self, error: Exception) -> None:
        """Keep what is in the way, for those who wait, and write it into the log."""
        if self._stopping.is_set():
            return
        if isinstance(error, HedgerowError):
            self.room.trouble = error
            event: dict[str, Any] = {"session": "ended", "outcome": error.code.number}
            _logger.warning("answers", extra={"event": event | {"found": error.found}})
        else:
            self.room.trouble = Code.SERVICE_FAILED.error(found="a failure, see the log")
            _logger.exception(
                "answers", extra={"event": {"session": "ended", "outcome": "failure"}}
            )


def half_reply(half: Any, draw: str) -> tuple[Fields, bytes | None]:
    """Return the reply with half of an answer, if this server gives one, and which draw it is."""
    fields: Fields = {"state": "answered", "draw": draw}
    if half is None:
        return fields, None
    little = half.astype(half.dtype.newbyteorder("<"), copy=False)
    return fields | {"dtype": half.dtype.name, "shape": list(half.shape)}, little.tobytes()
