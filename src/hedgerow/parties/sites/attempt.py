"""`SiteAttempt`: one try at growing a tree, as one site sees it.

Every attempt has an identifier that the site that begins has drawn, new keys, and a post of its
own: nothing of an earlier one can get into it. Where servers count, each of them signs a sealing
key for the attempt; the site that begins collects the three and hands them to everybody, and
everybody checks them. While it lasts, the sites ask each other, and the servers, once in a while
whether they still take part. Whoever finds a fault tells the others, and the attempt ends for all.

Reveals: what `vertical_id3.leakage` declares, to each site its part; to all sites which
of them are busy, and the root's token.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.sites.post import (
    BEAT,
    PAUSE,
    OtherSites,
    SitePost,
    SiteWorker,
    is_away,
    lost_party,
)
from hedgerow.parties.sites.store import GROWN, LearnedRecord, StoredNodes, write_ledger
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.requests import Fields, error_fields
from hedgerow.protocols.vertical_id3.cardinality import SiteMeter
from hedgerow.protocols.vertical_id3.leakage import TOKEN
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site

_logger = logging.getLogger(__name__)

Make = Callable[[tuple[str, ...]], SiteProgram]
"""Returns the program of a new site, of the servers' public keys if there are servers."""

State = Literal["gathering", "growing", "storing", "grown", "failed"]


@dataclass(frozen=True)
class AttemptStatus:
    """How far an attempt is.

    `waiting_for` has something to do, or has not come yet; `away` is who of them is not reached.
    Records are how many of this site's all sites have, and how many it has, once that is known;
    nodes, messages and octets are those of this site.
    """

    state: State | Literal["idle"]
    attempt: str = ""
    waiting_for: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    nodes: int = 0
    records: tuple[int, int] | None = None
    messages: int = 0
    octets: int = 0
    error: HedgerowError | None = None


class SiteAttempt:
    """One try, with an identifier of 32 hexadecimal digits.

    `changed` is called, from any thread, when the status may have changed. A site that was handed
    the keys of the three servers has them here; H760 for one that is not signed for this attempt.
    """

    def __init__(
        self,
        others: OtherSites,
        make: Make,
        session: str,
        learned: LearnedRecord,
        changed: Callable[[], None] = lambda: None,
        keys: Sequence[SignedKey] = (),
    ) -> None:
        self.session, self.job, self._others = session, others.job, others
        self._make, self._learned, self._told = make, learned, changed
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._grown, self._recording = threading.Event(), threading.Lock()
        self._state: State = "gathering"
        self._missing: set[str] = set(others.everybody)
        self._busy: set[str] = set()
        self._silent: set[str] = set()
        self._error: HedgerowError | None = None
        self._written: StoredNodes | None = None
        self._decided = self._counts = False
        self._records: tuple[int, int] | None = None
        self._rows = 0
        self._site: Site | None = None
        self._program: SiteProgram | None = None
        self._worker: SiteWorker | None = None
        patience = self.job.timeouts.lost
        self._post = SitePost(
            others, {"what": "grow", "tree": session}, patience, self._undelivered
        )
        try:
            if keys or not others.servers:
                self._take_seat(keys)
            else:
                self._record()
        except HedgerowError:
            self._post.close()
            raise

    def _take_seat(self, keys: Sequence[SignedKey]) -> None:
        """Make the site, now that the keys of the servers are known, if there are servers."""
        self._check_on()
        config, run = self._others.config, bytes.fromhex(self.session)
        checked = checked_keys(keys, config, self.job, run, private=True) if keys else ()
        program = self._make(tuple(key.hex() for key in checked))
        self._program, self._site = program, program.site
        self._rows = self._site.table.n_records
        # Before anything arrives, so that a site that is killed knows that it took part.
        self._record()
        self._worker = SiteWorker(
            self._others.parties,
            program,
            self._post,
            lambda error, *_: self.fail(error),
            self._look,
            self._before_sending,
            self._note_end,
        )

    def receive(self, sender: str, line: str, first: int, payload: bytes) -> None:
        """Take in messages of another party; see `hedgerow.parties.sites.post.SiteInbox`."""
        if self._worker is None:
            raise Code.WRONG_RUN_STATE.error(found="messages of an attempt that has not begun")
        self._worker.inbox.receive(sender, line, first, payload)

    @property
    def site(self) -> Site:
        """The site, once the keys of the servers are here."""
        if self._site is None:
            raise Code.WRONG_RUN_STATE.error(found="an attempt that waits for the servers")
        return self._site

    @property
    def busy(self) -> bool:
        """Whether this site has something to do now."""
        return self._worker is not None and self._worker.busy

    @property
    def ended(self) -> bool:
        """Whether it is over, well or not."""
        return self._ended.is_set()

    @property
    def error(self) -> HedgerowError | None:
        """Why it has failed."""
        return self._error

    def status(self) -> AttemptStatus:
        """Return how far it is."""
        with self._lock:
            away = self._silent | set(self._post.away)
            waiting = self._missing if self._state == "gathering" else self._busy | away
            over = self._state in ("grown", "failed")
            meter = SiteMeter() if self._site is None else self._site.meter
            return AttemptStatus(
                self._state,
                self.session,
                () if over else tuple(sorted(waiting)),
                () if over else tuple(sorted(away & waiting)),
                0 if self._site is None else len(self._site.nodes),
                self._records,
                meter.messages,
                meter.bytes,
                self._error,
            )

    def gather(self) -> None:
        """Have all others begin, wait for those that are not there yet, and let all go.

        Run at the site that begins. H842 for a site or a server that does not come in time, or
        whatever one refuses.
        """
        others, keys, tree = self._others, self._collect_keys(), {"tree": self.session}
        fields: Fields = dict(tree)
        if keys:
            self._take_seat(keys)
            fields["keys"] = [key.to_dict() for key in keys]

        def one(name: str) -> None:
            self._step(name, "site-begin", fields, self.job.timeouts.join)
            with self._lock:
                self._missing.discard(name)
            self._told()

        others.at_once(others.everybody, one)
        self._check_on()
        others.at_once(others.names, lambda name: self._step(name, "site-go", tree))
        self.go()

    def _collect_keys(self) -> list[SignedKey]:
        """Ask every server for a key that is for this attempt alone."""
        found: dict[str, SignedKey] = {}

        def one(name: str) -> None:
            if name in self._others.names:
                self._find(name)
            else:
                reply = self._step(name, "site-key", {"tree": self.session}, self.job.timeouts.join)
                found[name] = SignedKey.from_dict(reply.fields.get("key"))
            with self._lock:
                self._missing.discard(name)
            self._told()

        if self._others.servers:
            # The other sites are looked for meanwhile: who is missing is said at once.
            self._others.at_once(self._others.everybody, one)
        return [found[name] for name in self._others.servers]

    def _find(self, name: str) -> None:
        """Wait for a site to serve the job; it knows nothing of this attempt yet."""
        try:
            self._step(name, "site-alive", {"tree": self.session}, self.job.timeouts.join)
        except HedgerowError as error:
            if error.code is not Code.WRONG_RUN_STATE:
                raise

    def go(self) -> None:
        """Take part from now on."""
        with self._lock:
            if self._state != "gathering":
                return
            self._state = "growing"
            self._missing.clear()
        assert self._worker is not None
        assert self._program is not None
        self._worker.do(self._program.begin)
        for name in self._others.everybody:
            threading.Thread(target=self._watch, args=(name,), daemon=True).start()
        self._told()

    def wait(self) -> Token:
        """Wait, at the site that begins, until the tree is grown; raises why if it is not."""
        self._grown.wait()
        if self._error is not None:
            raise self._error
        assert self.site.root is not None
        return self.site.root

    def store(self, root: Token) -> StoredNodes:
        """Return what this site is to keep, and record what it has learned."""
        with self._lock:
            if self._state not in ("growing", "storing"):
                raise Code.WRONG_RUN_STATE.error(found=f"an attempt that is {self._state}")
            if self._written is None:
                site = self.site
                if site.index != site.job.starter:
                    site.learn(TOKEN, (2,))
                self._record()
                self._written = StoredNodes(self.session, root, dict(site.nodes))
            self._state = "storing"
        self._told()
        return self._written

    def store_everywhere(self, root: Token) -> None:
        """Have all other sites write their parts, which count when they are told so."""
        fields = {"tree": self.session, "root": list(root)}
        names = self._others.names
        self._others.at_once(names, lambda name: self._step(name, "site-store", fields))

    def decide(self) -> None:
        """Let the tree count: from here on nothing makes the attempt fail; raises why if it has."""
        with self._lock:
            self._check_on()
            self._decided = True

    def finish(self) -> None:
        """End well."""
        self._decided = True
        self._end("grown")
        self._note_end()

    def fail(self, error: HedgerowError, *, tell: bool = True) -> None:
        """End for this site, and tell the others why."""
        with self._lock:
            if self._ended.is_set() or self._decided:
                return
            self._error = error
            self._end("failed")
        self._note_end()
        if not tell:
            return
        others = self._others
        for name in others.everybody:
            told = error if name in others.names else _for_servers(error, others.config.name)
            fields = {"tree": self.session, **error_fields(told)}
            threading.Thread(target=self._tell, args=(name, fields), daemon=True).start()

    def _check_on(self) -> None:
        """Raise why the attempt has failed, if it has."""
        if self._error is not None:
            raise self._error

    def _note_end(self) -> None:
        """Write down how it has ended, and what was learned until then.

        Once more when the worker has left: what it was doing may have shown something. A disk that
        takes nothing must not keep the attempt from ending.
        """
        error = self._error
        try:
            self._record(GROWN if error is None else f"failed: {error.code.number} {error.found}")
        except HedgerowError as refused:
            event = {"what": "record", "outcome": refused.code.number, "found": refused.found}
            _logger.warning("record", extra={"event": event})

    def _before_sending(self) -> None:
        """Have on the disk that counting begins before anybody is told anything that follows."""
        if self._counts or len(self.site.leakages) < 2:
            return
        common, least = self.site.table.n_records, self.job.least_records
        self._records = common, self._rows
        if common < least:
            raise Code.IDS_DO_NOT_ALIGN.error(
                expected=f"{least:,} records that all sites have, as the job wants",
                found=f"{common:,}",
                fix="check that all sites mean the same ids, spell them alike, and give them one "
                "type: numbers or text",
            )
        self._record()
        self._counts = True

    def _record(self, state: str | None = None) -> None:
        """Write down what was learned so far."""
        with self._recording:
            seen = [] if self._site is None else self._site.leakages
            # The second declaration is that of growing, made once all sizes are announced.
            counted = len(seen) > 1
            if counted:
                write_ledger(self._learned.room.folder, self.site.ledger)
            self._learned.write(seen, state, counted=counted)

    def _end(self, state: State) -> None:
        with self._lock:
            self._state = state
            self._ended.set()
        self._grown.set()
        self._post.close()
        if self._worker is not None:
            self._worker.stop()
        self._told()

    def _tell(self, name: str, fields: Fields) -> None:
        try:
            self._others.call(name, "site-end", fields)
        except HedgerowError:
            # It finds out by itself, or is what the attempt has failed by.
            return

    def _step(self, name: str, verb: str, fields: Fields, patience: float | None = None) -> Reply:
        patience = self.job.timeouts.lost if patience is None else patience
        try:
            return self._others.patient(name, verb, fields, patience, self._ended)
        except HedgerowError as error:
            if verb == "site-alive" and error.code is Code.WRONG_RUN_STATE:
                raise
            # At once: the other sites need not be waited for any more.
            self.fail(lost_party(name, error, self.job))
            raise

    def _look(self) -> None:
        if self.site.root is not None:
            self._grown.set()
        self._told()

    def _undelivered(self, name: str, error: HedgerowError, batch: list[bytes]) -> None:
        del batch
        self.fail(lost_party(name, error, self.job))

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
                if not self._ended.wait(PAUSE) and self._state == "growing":
                    self.fail(lost_party(name, error, self.job))
                return
            seen = time.monotonic()
            self._note(name, busy=reply.fields.get("busy") is True)

    def _note(self, name: str, *, busy: bool = False, silent: bool = False) -> None:
        with self._lock:
            for names, those in ((self._busy, busy), (self._silent, silent)):
                (names.add if those else names.discard)(name)
        self._told()


def _for_servers(error: HedgerowError, name: str) -> HedgerowError:
    """Return what servers are told of the end of an attempt: who is lost, and no other reason.

    What sites find out about each other, such as that their ids differ, is not for them.
    """
    if error.code is Code.SITE_LOST:
        return error
    return Code.SITE_LOST.error(found=f"{name} has ended the attempt; its operator knows why")
