"""Messages of a run between a site and the others, over mutual TLS, in order and each of them once.

Messages to one party wait in a queue and leave together, as many as there are, in one request
(``site-message``). A *line* is a row of numbered messages of one sender; a request that was cut off
is made again with the same numbers, and what has arrived before is not taken again. Who sent it,
the certificate says. `SiteWorker` runs the program of a site in a
thread between `SiteInbox` and `SitePost`.
"""

from __future__ import annotations

import logging
import queue
import re
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.wire.client import Lines, Reply, call
from hedgerow.parties.wire.requests import Fields
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.tasks import Outgoing

LARGEST = 1 << 28
"""Bytes of one request."""
AWAY = {
    Code.SERVICE_UNREACHABLE,
    Code.REQUEST_CUT_OFF,
    Code.SERVICE_BUSY,
    Code.SERVICE_STOPPING,
    Code.REQUEST_TOO_SLOW,
}
"""What may pass: the other site is not there, or is about to leave."""
PAUSE = 0.1
BEAT = 1.0
"""Seconds between two questions whether a site still takes part."""
_LENGTH = struct.Struct("<Q")
_NUMBERED = re.compile(r"\b(site|server|party) (\d+)\b")
_logger = logging.getLogger(__name__)

Undelivered = Callable[[str, HedgerowError, list[bytes]], None]
"""Told the name of a site, why nothing could be delivered, and what was not."""
Action = Callable[[], list[Outgoing]]
Failed = Callable[[HedgerowError, str, bytes], None]
"""Told why, and the sender and the message that it happened with; both empty for other actions."""


class OtherSites:
    """The other sites of a job (`names`), and its `servers`, as one of them calls them.

    `parties` are all who take part, this one too, as the protocol numbers them. Servers do not call
    each other here.
    """

    def __init__(self, config: PartyConfig, job: VerticalJob) -> None:
        self.config, self.job = config, job
        self.parties = job.parties(config)
        self.names = [name for name in job.sites if name != config.name]
        servers = self.parties[len(job.sites) :]
        self.servers = [] if config.name in servers else list(servers)
        self.everybody = [*self.names, *self.servers]
        self._certificates = {name: config.certificate(name) for name in self.everybody}
        self._lines = {n: Lines(config.identity, pem) for n, pem in self._certificates.items()}

    def call(self, name: str, verb: str, fields: Fields, payload: bytes | None = None) -> Reply:
        """Make a request of the run that may be made twice; H891 if the jobs differ."""
        config, job, member = self.config, self.job, self.config.member(name, "site", "server")
        reply = call(
            (member.host, config.port_of(member)),
            config.identity,
            self._certificates[name],
            verb,
            {"run": job.run_id, "hash": job.hash, **fields},
            payload,
            name=name,
            timeout=config.timeouts.request,
            connect_timeout=config.timeouts.connect,
            lines=self._lines[name],
        )
        if reply.fields.get("hash") != job.hash:
            theirs = jsonfile.shown(reply.fields.get("hash"))
            raise jobs_differ(f"{name} has that of hash {theirs}", config.name, job)
        return reply

    def patient(
        self,
        name: str,
        verb: str,
        fields: Fields,
        patience: float,
        over: threading.Event | None = None,
    ) -> Reply:
        """Make a request, again and again while the site is away and the patience lasts.

        Once `over` is set, it is not made again.
        """
        end, over = time.monotonic() + patience, over or threading.Event()
        while True:
            try:
                return self.call(name, verb, fields)
            except HedgerowError as error:
                if not is_away(error) or time.monotonic() > end or over.wait(PAUSE):
                    raise

    def at_once(self, names: Sequence[str], one: Callable[[str], object]) -> None:
        """Do something for several parties, at the same time; raises the first error."""
        errors: list[HedgerowError] = []

        def guarded(name: str) -> None:
            try:
                one(name)
            except HedgerowError as error:
                errors.append(error)

        # Daemons: a site that does not answer must not keep a process that is to end.
        made = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in names]
        for thread in made:
            thread.start()
        for thread in made:
            thread.join()
        if errors:
            raise errors[0]

    def close(self) -> None:
        """End the connections."""
        for lines in self._lines.values():
            lines.close()


def is_away(error: HedgerowError) -> bool:
    """Whether a party was not reached, or says that it is busy or about to stop."""
    return error.code in AWAY


def lost_party(name: str, error: HedgerowError, job: VerticalJob) -> HedgerowError:
    """Say that a party is lost, where that is what an error of a request to it means."""
    if is_away(error):
        site = name in job.sites
        those = f"of the sites {', '.join(job.sites)}" if site else "of the three servers"
        verb = "serve" if site else "count"
        return Code.SITE_LOST.error(
            expected=f"{name}, one {those}",
            found=f"{name} is not reached: {error.found}",
            fix=f"have {name} run `hedgerow site {verb}`, then {job.starter} `hedgerow site train`",
        )
    if error.code is Code.WRONG_RUN_STATE and error.party == name:
        return Code.SITE_LOST.error(
            expected=f"{name} until the end of the attempt",
            found=f"{name} was started again, and knows nothing of it",
        )
    return error


def jobs_differ(found: str, name: str, job: VerticalJob) -> HedgerowError:
    """Build the refusal, by a party of some name, of one with another copy of the job."""
    return Code.JOBS_DIFFER.error(
        expected=f"one job at all parties; {name} has that of hash {job.hash}",
        found=found,
        fix="compare the two job files line by line: all sites need the same",
    )


class SitePost:
    """Messages to the others, each in the order in which it was given.

    The fields, of every request, say which attempt or tree the messages belong to. A site may be
    away for `patience` seconds. `failed` is called in a thread of the post.
    """

    def __init__(
        self, others: OtherSites, fields: Fields, patience: float, failed: Undelivered
    ) -> None:
        self._others, self._fields, self._patience, self._failed = others, fields, patience, failed
        self._changed = threading.Condition()
        self._queues: dict[str, deque[bytes]] = {name: deque() for name in others.everybody}
        self._away: set[str] = set()
        self._closed = False
        for name in others.everybody:
            threading.Thread(target=self._carry, args=(name,), daemon=True).start()

    def send(self, name: str, data: bytes) -> None:
        """Give a message; it leaves as soon as those before it have arrived."""
        with self._changed:
            self._queues[name].append(data)
            self._changed.notify_all()

    @property
    def away(self) -> list[str]:
        """The sites that messages wait for because they are not reached."""
        with self._changed:
            return sorted(self._away)

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _carry(self, name: str) -> None:
        line, number = secrets.token_hex(8), 0
        while (batch := self._next(name)) is not None:
            try:
                line, number = self._deliver(name, batch, line, number)
            except HedgerowError as error:
                # What has arrived of them is not known, so the numbers begin anew.
                line, number = secrets.token_hex(8), 0
                if not self._closed:
                    self._failed(name, error, batch)

    def _next(self, name: str) -> list[bytes] | None:
        queue, size = self._queues[name], 0
        batch: list[bytes] = []
        with self._changed:
            self._changed.wait_for(lambda: queue or self._closed)
            if self._closed:
                return None
            while queue and (not batch or size + len(queue[0]) < LARGEST // 2):
                batch.append(queue.popleft())
                size += len(batch[-1]) + _LENGTH.size
        return batch

    def _deliver(self, name: str, batch: list[bytes], line: str, number: int) -> tuple[str, int]:
        payload = b"".join(part for data in batch for part in (_LENGTH.pack(len(data)), data))
        end, anew = time.monotonic() + self._patience, False
        while True:
            fields = {**self._fields, "line": line, "first": number}
            try:
                self._others.call(name, "site-message", fields, payload)
                self._mark(name, away=False)
                return line, number + len(batch)
            except HedgerowError as error:
                if error.code is Code.WRONG_RUN_STATE and number and not anew:
                    # It was started again and does not know the line: nothing of this has arrived.
                    line, number, anew = secrets.token_hex(8), 0, True
                    continue
                if not is_away(error) or time.monotonic() > end or self._closed:
                    self._mark(name, away=False)
                    raise
            self._mark(name, away=True)
            time.sleep(PAUSE)

    def _mark(self, name: str, *, away: bool) -> None:
        with self._changed:
            (self._away.add if away else self._away.discard)(name)


class SiteInbox:
    """What has arrived from each site: every message once, in order.

    `take` gets a sender and a message; in order, and never two messages at once.
    """

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        self._take, self._lock = take, threading.Lock()
        self._at: dict[str, tuple[str, int]] = {}

    def receive(self, sender: str, line: str, first: int, payload: bytes) -> None:
        """Take in a request; H872 if it is not well formed, H893 if earlier ones are missing."""
        messages = _unpack(payload)
        with self._lock:
            known, due = self._at.get(sender, ("", 0))
            due = due if known == line else 0
            if first > due:
                raise Code.WRONG_RUN_STATE.error(
                    expected=f"message {due} of {sender}",
                    found=f"message {first}",
                    fix="none is needed: the sender begins a new line",
                )
            fresh = messages[due - first :]
            self._at[sender] = line, max(due, first + len(messages))
            for data in fresh:
                self._take(sender, data)


def _unpack(payload: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(payload):
        start = at + _LENGTH.size
        size = _LENGTH.unpack_from(payload, at)[0] if start <= len(payload) else len(payload)
        if start + size > len(payload):
            raise Code.BAD_REQUEST.error(found="a message that is cut short")
        found.append(payload[start : start + size])
        at = start + size
    return found


class SiteWorker:
    """Take messages in, one after the other, and give away what is to be sent.

    No other thread uses the program. The names are those of all who take part, as the protocol
    numbers them: the sites, then the three servers if there are any. The rest is called in the
    worker's thread: `failed`, after which it goes on; `after` everything that it has done;
    `record` before anything that was done leaves, and what it raises is a failure; `left` when
    nothing more is done.
    """

    def __init__(
        self,
        names: Sequence[str],
        program: SiteProgram,
        post: SitePost,
        failed: Failed,
        after: Callable[[], None] = lambda: None,
        record: Callable[[], None] = lambda: None,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        self._program, self._post, self._failed, self._after = program, post, failed, after
        self._names, self._record, self._left = list(names), record, left
        self._stopped = False
        self._queue: queue.SimpleQueue[tuple[Action, str, bytes] | None] = queue.SimpleQueue()
        self._undone = 0
        self._lock = threading.Lock()
        self.inbox = SiteInbox(self._message)
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether there is something that this site has to do now."""
        with self._lock:
            return self._undone > 0

    def do(self, action: Action) -> None:
        """Have something done in the worker's thread; what it returns is sent."""
        self._put(action, "", b"")

    def stop(self) -> None:
        """Do nothing more after what is being done; what waits is dropped."""
        self._stopped = True
        self._queue.put(None)

    def _message(self, sender: str, data: bytes) -> None:
        number = self._names.index(sender)
        self._put(lambda: self._program.receive(number, data), sender, data)

    def _put(self, action: Action, sender: str, data: bytes) -> None:
        with self._lock:
            self._undone += 1
        self._queue.put((action, sender, data))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None and not self._stopped:
            action, sender, data = item
            try:
                done = action()
                self._record()
                for to, outgoing in done:
                    self._post.send(self._names[to], outgoing)
            except HedgerowError as error:
                self._failed(
                    with_names(error, self._names, self._program.site.job.n_sites), sender, data
                )
            except Exception:
                _logger.exception("failure", extra={"event": {"what": "failure"}})
                broken = Code.SERVICE_FAILED.error(
                    expected="a step of the protocol", found=f"a failure of this site ({sender})"
                )
                self._failed(broken, sender, data)
            with self._lock:
                self._undone -= 1
            self._after()
        self._left()


def with_names(error: HedgerowError, names: Sequence[str], n_sites: int) -> HedgerowError:
    """Say the names of sites and servers where the protocol says their numbers."""

    def named(match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2]) + (n_sites if match[1] == "server" else 0)
        kind = kind if kind != "party" else "site" if number < n_sites else "server"
        return f"{kind} {names[number]}" if number < len(names) else match[0]

    texts = (_NUMBERED.sub(named, text) for text in (error.expected, error.found, error.fix))
    expected, found, fix = texts
    made = error.code.error(expected=expected, found=found, fix=fix)
    made.party = error.party
    return made
