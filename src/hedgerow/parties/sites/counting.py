"""A run of sites at one of the three servers that count for them: `CountRun`, and its attempts.

The server signs a sealing key for an attempt, takes part in it (`Counting`), and forgets the key at
its end. It keeps no share and no part of a tree: a server that falls over ends the attempt, and the
next one begins from the beginning, with new keys.

Questions of the sites wait in the order of their arrival. Server 0 says which one comes next
(`send_next` of `vertical_id3.secret.server`); the three compute it together, over mutual TLS, in a
session of the attempt; servers 0 and 1 send the site that asked their halves of the answer. The
server asks the site that begins once in a while whether the attempt goes on.

Reveals: as `hedgerow.protocols.vertical_id3.secret.server`.
Cost: that, and one round of `receive_next` for every question and for every second without.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.runs.worker import RunMeter
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import (
    BEAT,
    PAUSE,
    OtherSites,
    SiteInbox,
    SitePost,
    is_away,
    lost_party,
    with_names,
)
from hedgerow.parties.sites.store import GROWN, LearnedRecord, RunRoom, write_ledger
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.durable import replacing
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
Tell = Callable[[str, dict[str, Any]], None]
"""Told what has happened, with particulars: ``failed``, ``grown``, ``refused``."""
_LEAVING = 5.0
"""Seconds for the end of an attempt that is over, before the site is asked to come again."""


@dataclass(frozen=True)
class CountStatus:
    """How far a server is: idle, counting, grown or failed; questions answered and waiting."""

    state: str
    attempt: str = ""
    answered: int = 0
    waiting: int = 0
    error: HedgerowError | None = None


class Counting:
    """One attempt at a server.

    The job has the checked keys of all three servers; the key is that of this one, for this attempt
    alone. `earlier` attempts failed after they had begun to count. `changed` is called, from any
    thread, when something has happened.
    """

    def __init__(
        self,
        others: OtherSites,
        job: SiteJob,
        key: SealingKey,
        session: str,
        learned: LearnedRecord,
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
        self._post = SitePost(
            others, {"what": "grow", "tree": session}, patience, self._undelivered
        )
        self._inbox = SiteInbox(self._take)
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

    def status(self) -> CountStatus:
        """Return how far it is."""
        state = "counting"
        if self.ended:
            state = "grown" if self._error is None else "failed"
        return CountStatus(state, self.session, self._answered, len(self._waiting), self._error)

    def receive(self, sender: str, line: str, first: int, payload: bytes) -> None:
        """Take in questions; H879 if too much waits here, and what `SiteInbox.receive` refuses."""
        with self._changed:
            waiting = list(self._waiting.values())
        size = sum(len(ask) for _, ask in waiting) + len(payload)
        if size > MOST_WAITING or len(waiting) > MOST_QUESTIONS:
            raise Code.SERVICE_BUSY.error(found="many questions that are not answered yet")
        self._inbox.receive(sender, line, first, payload)

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
            meter = RunMeter(self._learned.room.folder / "meter.json", self._attempt)
            meter.write(network.meter.snapshot())
        except HedgerowError as refused:
            _not_written(refused)

    def _record(self, state: str | None = None) -> None:
        leakage = self._servers.leakage
        self._learned.write([leakage] if leakage else [], state, counted=leakage is not None)
        # Until something is counted, what an earlier attempt has charged stands there.
        if leakage is not None:
            write_ledger(self._learned.room.folder, self._servers.ledger)

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
                    self.fail(lost_party(job.starter, error, job))
                return

    def _tell(self, name: str, fields: Fields) -> None:
        try:
            self._others.call(name, "site-end", fields)
        except HedgerowError:
            # It finds out by itself, or is what the attempt has failed by.
            return

    def _undelivered(self, name: str, error: HedgerowError, batch: list[bytes]) -> None:
        del batch
        self.fail(lost_party(name, error, self._others.job))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class CountRun:
    """A run at one server, with its own copy of the job; `tell` is called from any thread.

    The folder has job, ledger, traffic, and what was learned; `done` is set when the tree is grown,
    also by an earlier process.

    Raises
    ------
    HedgerowError
        H905 if this party is no server, H908 if it has no ports for sites, H911 for a job that
        needs no servers, H857 if a certificate was not added, H858 if policy or account refuse,
        H811 if the port for counting is taken.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        job: VerticalJob,
        *,
        tell: Tell = lambda what, fields: None,
    ) -> None:
        self.config, self.job, self.note = config, job, tell
        if not job.secret:
            raise Code.JOB_WITHOUT_SERVERS.error(
                expected="cardinality = 'secret', which needs servers",
                found=f"cardinality = {job.cardinality!r}",
            )
        self.parties = job.parties(config)
        # Whoever is no server is told so.
        assert self.parties[len(job.sites) + config.number] == config.name
        check_keys(config)
        for name in self.parties:
            Certificate.of(config, name)
        job.check_policy(policy)
        self._accounts = Accounts(config.state, policy)
        self._accounts.check(job.population, job.account_key, math.inf)
        self._room = RunRoom.of(config, job)
        self.folder = self._room.folder
        self._others = OtherSites(config, job)
        self._lock = threading.RLock()
        self._key: tuple[str, SealingKey] | None = None
        self._attempt: Counting | None = None
        self._noted = ""
        self.done = threading.Event()
        if any(one.state == GROWN for one in LearnedRecord.all_of(self._room)):
            self.done.set()
        else:
            # Found out now, and not in the middle of an attempt.
            listen(config.listen or config.me.host, config.me.count_port).close()
        with replacing(self.folder / "job.toml") as file:
            file.write(job.to_toml().encode())

    def status(self) -> CountStatus:
        """Return how far it is."""
        with self._lock:
            attempt = self._attempt
        return CountStatus("idle") if attempt is None else attempt.status()

    def sign(self, tree: str) -> SignedKey:
        """Return a sealing key for an attempt, made for it alone; an earlier one is over.

        H879 while this server has not left the meeting of an earlier one.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is not None and attempt.session != tree:
                if LearnedRecord.exists(self._room, tree):
                    raise self._unknown_attempt()
                found = f"{self.job.starter} has begun anew"
                attempt.fail(Code.SITE_LOST.error(found=found), tell=False)
        if attempt is not None and attempt.session != tree and not attempt.wait(_LEAVING):
            raise Code.SERVICE_BUSY.error(found="an earlier attempt that is about to end")
        with self._lock:
            if self._key is None or self._key[0] != tree:
                self._key = tree, SealingKey()
            key = self._key[1]
        return SignedKey.sign(key, self.config, self.job, bytes.fromhex(tree), private=True)

    def begin(self, tree: str, keys: Sequence[SignedKey]) -> None:
        """Take part in an attempt for which this server has signed its key.

        H760 for keys that the three servers have not signed for it, H893 without the own one.
        """
        with self._lock:
            if self._attempt is not None and self._attempt.session == tree:
                return
            if self._key is None or self._key[0] != tree or LearnedRecord.exists(self._room, tree):
                raise self._unknown_attempt()
            key = self._key[1]
            run = bytes.fromhex(tree)
            checked = checked_keys(keys, self.config, self.job, run, private=True)
            if checked[self.config.number] != key.public:
                raise Code.SEALED_REFUSED.error(
                    expected=f"the key that {self.config.name} has signed for {tree}",
                    found="another one of its keys",
                )
            self._accounts.charge(
                self.job.population,
                self.job.account_key,
                math.inf,
                what=f"ppid3 {self.job.run_id}, as {self.config.name}",
            )
            self._attempt = Counting(
                self._others,
                self.job.protocol_job(tuple(one.hex() for one in checked)),
                key,
                tree,
                LearnedRecord(self._room, tree),
                LearnedRecord.earlier(self._room),
                self._look,
            )
        self._look()

    def attempt(self, tree: str) -> Counting:
        """Return the attempt under way; its own error if it has failed, H893 if it is another."""
        with self._lock:
            found = self._attempt
        if found is None or found.session != tree or self.done.is_set():
            raise self._unknown_attempt()
        if found.error is not None:
            raise found.error
        return found

    def takes_part(self, tree: str) -> bool:
        """Whether this server is busy with an attempt; raises as `attempt` if it has none of it."""
        with self._lock:
            if self._key is not None and self._key[0] == tree and self._attempt is None:
                return False
        return self.attempt(tree).busy

    def keep(self, tree: str) -> None:
        """Hear that the tree of an attempt is grown."""
        with self._lock:
            found = self._attempt
        if found is not None and found.session == tree:
            found.finish()

    def end(self, tree: str, error: HedgerowError) -> None:
        """Take in that an attempt is over."""
        with self._lock:
            found = self._attempt
        if found is not None and found.session == tree:
            found.fail(error, tell=False)

    def stop(self) -> None:
        """End what is under way, and say so to the sites."""
        with self._lock:
            attempt = self._attempt
        if attempt is not None and not attempt.ended:
            found = f"{self.config.name}, which was told to stop"
            attempt.fail(Code.SITE_LOST.error(found=found))
        if attempt is not None:
            attempt.wait(_LEAVING)
        self._others.close()

    def _unknown_attempt(self) -> HedgerowError:
        return Code.WRONG_RUN_STATE.error(
            expected="an attempt that this server takes part in",
            found=f"{self.config.name} knows nothing of it",
            fix=f"have {self.job.starter} run `hedgerow site train` again",
        )

    def _look(self) -> None:
        with self._lock:
            attempt = self._attempt
            if attempt is None or not attempt.ended or attempt.session == self._noted:
                return
            self._noted = attempt.session
            if self._key is not None and self._key[0] == attempt.session:
                self._key = None
        status = attempt.status()
        if status.error is not None:
            fields = {"attempt": status.attempt, "error": str(status.error)}
            self.note("failed", fields)
            return
        self.note("grown", {"tree": status.attempt, "answered": status.answered})
        self.done.set()


def _not_written(refused: HedgerowError) -> None:
    event = {"what": "record", "outcome": refused.code.number, "found": refused.found}
    _logger.warning("record", extra={"event": event})
