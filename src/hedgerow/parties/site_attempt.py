"""`Attempt`: one try at growing a tree, as one site sees it.

Every attempt has an identifier that the site that begins has drawn, new keys, and a post of its
own: nothing of an earlier one can get into it. While it lasts, the sites ask each other once in a
while whether they still take part. Whoever finds a fault tells the others, and the attempt ends for
all.

Reveals: what `hedgerow.protocols.ppid3_leakage` declares, to each site its part; to all sites which
of them are busy, and the root's token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.requests import Fields, error_fields
from hedgerow.parties.site_job import VerticalJob
from hedgerow.parties.site_learned import Learned
from hedgerow.parties.site_nodes import StoredNodes
from hedgerow.parties.site_post import PAUSE, OtherSites, Post, is_away
from hedgerow.parties.site_worker import Worker
from hedgerow.protocols.ppid3_leakage import TOKEN
from hedgerow.protocols.ppid3_messages import Token
from hedgerow.protocols.ppid3_site import Site

State = Literal["gathering", "growing", "storing", "grown", "failed"]
BEAT = 1.0
"""Seconds between two questions whether a site still takes part."""


@dataclass(frozen=True)
class Status:
    """How far an attempt is.

    Attributes
    ----------
    state : {"idle", "gathering", "growing", "storing", "grown", "failed"}
    attempt : str
    waiting_for : tuple of str
        Who has something to do, or has not come yet.
    away : tuple of str
        Who of them is not reached.
    nodes : int
        Of the tree, at this site.
    messages, octets : int
        Sent by this site.
    error : HedgerowError or None
    """

    state: State | Literal["idle"]
    attempt: str = ""
    waiting_for: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    nodes: int = 0
    messages: int = 0
    octets: int = 0
    error: HedgerowError | None = None


class Attempt:
    """One try.

    Parameters
    ----------
    others : OtherSites
    site : Site
        New, with keys of its own.
    session : str
        The identifier, 32 hexadecimal digits.
    learned : Learned
        Its record.
    changed : callable
        Called, from any thread, when the status may have changed.
    """

    def __init__(
        self,
        others: OtherSites,
        site: Site,
        session: str,
        learned: Learned,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.session, self.job, self._others = session, others.job, others
        self._site, self._learned, self._told = site, learned, changed
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._grown = threading.Event()
        self._state: State = "gathering"
        self._missing: set[str] = set(others.names)
        self._busy: set[str] = set()
        self._silent: set[str] = set()
        self._error: HedgerowError | None = None
        self._written: StoredNodes | None = None
        # Before anything arrives, so that a site that is killed knows that it took part.
        learned.write(site.leakages)
        patience = self.job.timeouts.lost
        self._post = Post(others, {"what": "grow", "tree": session}, patience, self._undelivered)
        self._worker = Worker(
            self.job, site, self._post, lambda error, *_: self.fail(error), self._look
        )
        self.arrived = self._worker.inbox.arrived

    @property
    def busy(self) -> bool:
        """Whether this site has something to do now."""
        return self._worker.busy

    @property
    def ended(self) -> bool:
        """Whether it is over, well or not."""
        return self._ended.is_set()

    @property
    def error(self) -> HedgerowError | None:
        """Why it has failed."""
        return self._error

    def status(self) -> Status:
        """Return how far it is."""
        with self._lock:
            away = self._silent | set(self._post.away)
            waiting = self._missing if self._state == "gathering" else self._busy | away
            over = self._state in ("grown", "failed")
            meter = self._site.meter
            return Status(
                self._state,
                self.session,
                () if over else tuple(sorted(waiting)),
                () if over else tuple(sorted(away & waiting)),
                len(self._site.nodes),
                meter.messages,
                meter.bytes,
                self._error,
            )

    def gather(self) -> None:
        """Have all other sites begin, wait for those that are not there yet, and let all go.

        Run at the site that begins.

        Raises
        ------
        HedgerowError
            H842 for a site that does not come in time, or whatever one refuses.
        """
        fields = {"tree": self.session}

        def one(name: str) -> None:
            self._step(name, "site-begin", fields, self.job.timeouts.join)
            with self._lock:
                self._missing.discard(name)
            self._told()

        self._others.at_once(one)
        self._others.at_once(lambda name: self._step(name, "site-go", fields))
        self.go()

    def go(self) -> None:
        """Take part from now on."""
        with self._lock:
            if self._state != "gathering":
                return
            self._state = "growing"
            self._missing.clear()
        self._worker.do(self._site.begin)
        for name in self._others.names:
            threading.Thread(target=self._watch, args=(name,), daemon=True).start()
        self._told()

    def wait(self) -> Token:
        """Wait, at the site that begins, until the tree is grown; raises why if it is not."""
        self._grown.wait()
        if self._error is not None:
            raise self._error
        assert self._site.root is not None
        return self._site.root

    def store(self, root: Token) -> StoredNodes:
        """Return what this site is to keep, and record what it has learned."""
        with self._lock:
            if self._state not in ("growing", "storing"):
                raise Code.WRONG_RUN_STATE.error(found=f"an attempt that is {self._state}")
            if self._written is None:
                if self._site.index != self._site.job.starter:
                    self._site.learn(TOKEN, (2,))
                self._learned.write(self._site.leakages)
                self._written = StoredNodes(self.session, root, dict(self._site.nodes))
            self._state = "storing"
        self._told()
        return self._written

    def store_everywhere(self, root: Token) -> None:
        """Have all other sites write their parts, which count when they are told so."""
        fields = {"tree": self.session, "root": list(root)}
        self._others.at_once(lambda name: self._step(name, "site-store", fields))

    def finish(self) -> None:
        """End well."""
        self._learned.write(self._site.leakages, "grown")
        self._end("grown")

    def fail(self, error: HedgerowError, *, tell: bool = True) -> None:
        """End for this site, and tell the others why."""
        with self._lock:
            if self._ended.is_set():
                return
            self._error = error
            self._learned.write(self._site.leakages, f"failed: {error.code.number} {error.found}")
            self._end("failed")
        if not tell:
            return
        fields = {"tree": self.session, **error_fields(error)}
        for name in self._others.names:
            threading.Thread(target=self._tell, args=(name, fields), daemon=True).start()

    @property
    def ledger_json(self) -> str:
        """What was charged, as JSON."""
        return self._site.ledger.to_json()

    def _end(self, state: State) -> None:
        with self._lock:
            self._state = state
            self._ended.set()
        self._grown.set()
        self._post.close()
        self._worker.stop()
        self._told()

    def _tell(self, name: str, fields: Fields) -> None:
        try:
            self._others.call(name, "site-end", fields)
        except HedgerowError:
            # It finds out by itself, or is what the attempt has failed by.
            return

    def _step(self, name: str, verb: str, fields: Fields, patience: float | None = None) -> None:
        patience = self.job.timeouts.lost if patience is None else patience
        try:
            self._others.patient(name, verb, fields, patience, self._ended)
        except HedgerowError as error:
            # At once: the other sites need not be waited for any more.
            self.fail(lost(name, error, self.job))
            raise

    def _look(self) -> None:
        if self._site.root is not None:
            self._grown.set()
        self._told()

    def _undelivered(self, name: str, error: HedgerowError, batch: list[bytes]) -> None:
        del batch
        self.fail(lost(name, error, self.job))

    def _watch(self, name: str) -> None:
        """Ask a site whether it still takes part, until the attempt is over."""
        seen, beat = time.monotonic(), min(BEAT, self.job.timeouts.lost / 3)
        while not self._ended.wait(beat) and self._state == "growing":
            try:
                reply = self._others.call(name, "site-alive", {"tree": self.session})
            except HedgerowError as error:
                if is_away(error) and time.monotonic() - seen < self.job.timeouts.lost:
                    self._note(name, silent=True)
                    continue
                if not self._ended.wait(PAUSE):
                    self.fail(lost(name, error, self.job))
                return
            seen = time.monotonic()
            self._note(name, busy=reply.fields.get("busy") is True)

    def _note(self, name: str, *, busy: bool = False, silent: bool = False) -> None:
        with self._lock:
            for names, those in ((self._busy, busy), (self._silent, silent)):
                (names.add if those else names.discard)(name)
        self._told()


def lost(name: str, error: HedgerowError, job: VerticalJob) -> HedgerowError:
    """Say that a site is lost, where that is what an error of a request to it means."""
    if is_away(error):
        return Code.SITE_LOST.error(
            expected=f"{name}, one of the sites {', '.join(job.sites)}",
            found=f"{name} is not reached: {error.found}",
        )
    if error.code is Code.WRONG_RUN_STATE and error.party == name:
        return Code.SITE_LOST.error(
            expected=f"{name} until the end of the attempt",
            found=f"{name} was started again, and knows nothing of it",
        )
    return error
