"""`Counting`: one attempt at growing a tree, as one of the three servers that count sees it.

Questions of the sites wait in the order of their arrival. Server 0 says which one comes next
(`vertical_id3.secret.server`); the three compute it together, over mutual TLS, in a
session of the attempt; servers 0 and 1 send the site that asked their halves of the answer. The
server asks the site that begins once in a while whether the attempt goes on.

Reveals: as `hedgerow.protocols.vertical_id3.secret.server`.
Cost: that, and one round of `receive_next` for every question and for every second without.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.runs.worker import RunMeter
from hedgerow.parties.sites.learned import GROWN, Learned, write_ledger
from hedgerow.parties.sites.post import PAUSE, Inbox, OtherSites, Post, is_away
from hedgerow.parties.sites.status import BEAT, lost
from hedgerow.parties.sites.worker import with_names
from hedgerow.parties.wire.requests import Fields, error_fields
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import (
    AskServers,
    BeginServers,
    bad_message,
    from_bytes,
)
from hedgerow.protocols.vertical_id3.secret.server import (
    LEADER,
    CountServers,
    Next,
    ServerQuestion,
    receive_next,
    send_next,
)

MEETING_SECONDS = 20.0
"""For the other servers to come: all three have been asked at the same moment."""
MOST_WAITING = 1 << 30
"""Bytes of questions that may wait here."""
MOST_QUESTIONS = 1 << 12
"""Questions that may wait here, besides those of one request."""
_AWAY = {Code.NETWORK_CLOSED, Code.PEER_TIMEOUT, Code.PEER_GONE, Code.PEER_STOPPED}
"""What a server sees of another one that has stopped, for whatever reason."""
_ECHO_SECONDS = 1.0
"""For which a server that sees another one stop waits to be told why."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far a server is.

    Attributes
    ----------
    state : {"idle", "counting", "grown", "failed"}
    attempt : str
    answered : int
        Questions.
    waiting : int
        Questions that have arrived and are not answered yet.
    error : HedgerowError or None
    """

    state: str
    attempt: str = ""
    answered: int = 0
    waiting: int = 0
    error: HedgerowError | None = None


class Counting:
    """One attempt at a server.

    Parameters
    ----------
    others : OtherSites
        The sites, as this server calls them.
    job : SiteJob
        With the keys of all three servers, checked.
    key : SealingKey
        Of this server, for this attempt alone.
    session : str
        Identifier of the attempt, 32 hexadecimal digits.
    learned : Learned
        Its record.
    earlier : int
        Attempts that failed after they had begun to count.
    changed : callable
        Called, from any thread, when something has happened.
    """

    def __init__(
        self,
        others: OtherSites,
        job: SiteJob,
        key: SealingKey,
        session: str,
        learned: Learned,
        earlier: int,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.session, self._others, self._learned, self._told = session, others, learned, changed
        self._number = others.config.number
        self._servers = CountServers(job, {self._number: key}, self._meet, earlier=earlier)
        self._network: TLSNetwork | None = None
        self._attempt = earlier + 1
        self._changed = threading.Condition()
        self._waiting: dict[ServerQuestion, tuple[float, bytes]] = {}
        self._done: set[ServerQuestion] = set()
        self._answered = 0
        self._ended, self._finished = threading.Event(), threading.Event()
        self._error: HedgerowError | None = None
        # Before anything arrives, so that a server that is killed knows that it took part.
        self._record()
        patience = others.job.timeouts.lost
        self._post = Post(others, {"what": "grow", "tree": session}, patience, self._undelivered)
        self._inbox = Inbox(self._take)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether there are questions here."""
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        """Whether it is over, well or not."""
        return self._ended.is_set()

    @property
    def error(self) -> HedgerowError | None:
        """Why it has failed."""
        return self._error

    def status(self) -> Progress:
        """Return how far it is."""
        state = "counting"
        if self.ended:
            state = "grown" if self._error is None else "failed"
        return Progress(state, self.session, self._answered, len(self._waiting), self._error)

    def arrived(self, sender: str, line: object, first: object, payload: bytes) -> None:
        """Take in questions; H879 if too much waits here, and what `Inbox.arrived` refuses."""
        with self._changed:
            waiting = list(self._waiting.values())
        size = sum(len(ask) for _, ask in waiting) + len(payload)
        if size > MOST_WAITING or len(waiting) > MOST_QUESTIONS:
            raise Code.SERVICE_BUSY.error(found="many questions that are not answered yet")
        self._inbox.arrived(sender, line, first, payload)

    def finish(self) -> None:
        """Hear that the tree is grown: nobody asks any more."""
        self._finished.set()
        self._wake()

    def fail(self, error: HedgerowError, *, tell: bool = True) -> None:
        """End, and tell the sites why."""
        with self._changed:
            if self._ended.is_set():
                return
            self._error = error
            self._ended.set()
        self._post.close()
        self._wake()
        self._note_end(f"failed: {error.code.number} {error.found}")
        self._told()
        if tell:
            fields = {"tree": self.session, **error_fields(error)}
            for name in self._others.names:
                threading.Thread(target=self._tell, args=(name, fields), daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until the meeting with the other servers is over, too; whether it is."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._count()
        except HedgerowError as error:
            names, n_sites = self._others.parties, len(self._others.job.sites)
            if error.code not in _AWAY:
                self.fail(with_names(error, names, n_sites))
            elif not self._ended.wait(_ECHO_SECONDS):
                # The network numbers the servers alone.
                named = with_names(error, names[n_sites:], 0)
                who = re.search(r"server (\S+)", f"{named.expected} {named.found}")
                found = f"{who[1] if who else 'a server'} has left the meeting of the servers"
                self.fail(Code.SITE_LOST.error(found=f"{found}: {named.found}"))
        except Exception:
            _logger.exception("failure", extra={"event": {"what": "failure"}})
            self.fail(Code.SERVICE_FAILED.error(expected="a count", found="a failure of a server"))
        finally:
            self._leave()

    def _count(self) -> None:
        """Answer the first question, which begins the meeting, then those that are named."""
        first = self._next(None)
        if first is None:
            self.fail(Code.WRONG_RUN_STATE.error(found="a tree that was grown without a question"))
            return
        self._answer(first)
        network = self._network
        assert network is not None
        while not self._ended.is_set():
            following: Next
            if self._number == LEADER:
                idle: Next = "end" if self._finished.is_set() else "wait"
                following = self._next(BEAT) or idle
                send_next(network, following)
            else:
                following = receive_next(network)
            if isinstance(following, ServerQuestion):
                self._await(following)
                self._answer(following)
            elif following == "end":
                self._servers.finish()
                self._end_well()
            elif self._number != LEADER:
                self._check_order()

    def _next(self, seconds: float | None) -> ServerQuestion | None:
        """Return a question that waits here, the oldest; None at the end, or after a while."""
        with self._changed:
            over = self._ended.is_set, self._finished.is_set
            self._changed.wait_for(lambda: self._waiting or any(check() for check in over), seconds)
            return None if self._ended.is_set() else next(iter(self._waiting), None)

    def _check_order(self) -> None:
        """Refuse to wait with a question that server 0 never names: it has not been asked it."""
        patience = self._others.job.timeouts.lost + 2 * BEAT
        with self._changed:
            oldest, (since, _) = next(iter(self._waiting.items()), (None, (0.0, b"")))
        if oldest is not None and time.monotonic() - since > patience:
            raise bad_message(f"site {oldest.sender}", "a question to some of the servers")

    def _await(self, question: ServerQuestion) -> None:
        """Wait for a question that server 0 has named; the same site has sent it here, too."""
        if question in self._done:
            raise Code.BAD_FRAME.error(
                expected="the order of a question that is open, from server 0",
                found="one that was answered",
            )
        lost_after = self._others.job.timeouts.lost
        with self._changed:
            here = self._changed.wait_for(
                lambda: question in self._waiting or self._ended.is_set(), lost_after
            )
        if not here:
            raise bad_message(f"site {question.sender}", "a question to some of the servers")
        if self._error is not None:
            raise self._error

    def _answer(self, question: ServerQuestion) -> None:
        _, ask = self._waiting[question]
        found = self._servers.answers(question.sender, {self._number: ask})
        with self._changed:
            del self._waiting[question]
            self._done.add(question)
            self._answered += 1
        for half in found.values():
            self._post.send(self._others.parties[question.sender], half)
        self._told()

    def _take(self, sender: str, data: bytes) -> None:
        number = self._others.parties.index(sender)
        try:
            message = from_bytes(data, f"site {sender}")
            if not isinstance(message, AskServers | BeginServers):
                raise bad_message(f"site {sender}", f"{type(message).__name__} to a server")
            question = ServerQuestion(number, message.call)
            with self._changed:
                if question in self._waiting or question in self._done:
                    raise bad_message(f"site {sender}", f"call {question.call} a second time")
                self._waiting[question] = time.monotonic(), data
                self._changed.notify_all()
        except HedgerowError as error:
            self.fail(error)
            raise

    def _meet(self) -> TLSNetwork:
        config = self._others.config
        self._network = TLSNetwork(
            self._number,
            config.roster("count"),
            config.identity,
            session=bytes.fromhex(self.session),
            program=self._others.job.hash.encode(),
            timeout=config.timeouts.step,
            meeting_timeout=min(config.timeouts.step, MEETING_SECONDS),
            listener=listen(config.listen or config.me.host, config.me.count_port),
        )
        # On the disk before the first number is opened.
        self._record()
        return self._network

    def _end_well(self) -> None:
        with self._changed:
            if self._ended.is_set():
                return
            self._ended.set()
        self._post.close()
        self._note_end(GROWN)
        self._told()

    def _leave(self) -> None:
        """Hang up, forget the key, and write down what was sent to the other servers."""
        self._servers.forget()
        network = self._network
        if network is None:
            return
        network.__exit__(None if self._error is None else type(self._error), self._error, None)
        try:
            meter = RunMeter(self._learned.folder / "meter.json", self._attempt)
            meter.write(network.meter.snapshot())
        except HedgerowError as refused:
            _not_written(refused)

    def _record(self, state: str | None = None) -> None:
        leakage = self._servers.leakage
        self._learned.write([leakage] if leakage else [], state, counted=leakage is not None)
        # Until something is counted, what an earlier attempt has charged stands there.
        if leakage is not None:
            write_ledger(self._learned.folder, self._servers.ledger)

    def _note_end(self, state: str) -> None:
        """Write down how it has ended; a disk that takes nothing must not keep it from ending."""
        try:
            self._record(state)
        except HedgerowError as refused:
            _not_written(refused)

    def _watch(self) -> None:
        """Ask the site that begins whether the attempt goes on, until it is over."""
        job, seen = self._others.job, time.monotonic()
        while not self._ended.wait(min(BEAT, job.timeouts.lost / 3)):
            try:
                self._others.call(job.starter, "site-alive", {"tree": self.session})
                seen = time.monotonic()
            except HedgerowError as error:
                if is_away(error) and time.monotonic() - seen < job.timeouts.lost:
                    continue
                if not self._ended.wait(PAUSE):
                    self.fail(lost(job.starter, error, job))
                return

    def _tell(self, name: str, fields: Fields) -> None:
        try:
            self._others.call(name, "site-end", fields)
        except HedgerowError:
            # It finds out by itself, or is what the attempt has failed by.
            return

    def _undelivered(self, name: str, error: HedgerowError, batch: list[bytes]) -> None:
        del batch
        self.fail(lost(name, error, self._others.job))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _not_written(refused: HedgerowError) -> None:
    event = {"what": "record", "outcome": refused.code.number, "found": refused.found}
    _logger.warning("record", extra={"event": event})
