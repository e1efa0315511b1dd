"""`SiteProgram`: one site takes part in a vertical ID3, without any I/O.

Whoever drives the program carries the bytes that it returns
(`hedgerow.protocols.vertical_id3.programs`). Messages of one sender have to arrive in order. What
it sends follows from what it has received, in that order, from its table and from its entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.align import RingAlignment, check_enough, is_aligning
from hedgerow.protocols.vertical_id3.cardinality import RingCardinality
from hedgerow.protocols.vertical_id3.classify import classify_instances, pass_on
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import ANNOUNCED, Announced
from hedgerow.protocols.vertical_id3.messages import (
    ALIGN,
    ANNOUNCE,
    READY,
    Announce,
    Answers,
    AnswersKept,
    AskGain,
    AskLeaf,
    BringSet,
    Classify,
    Common,
    CompareStart,
    Half,
    Message,
    NodeCall,
    Ready,
    Split,
    Sum,
    Token,
    bad_message,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.node import OpenGains, add_flag, answer_gain, answer_leaf
from hedgerow.protocols.vertical_id3.plan import Session, mark_secret
from hedgerow.protocols.vertical_id3.ppid3 import answer_split, ppid3
from hedgerow.protocols.vertical_id3.secret.cardinality import SecretCardinality
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Desk, Outgoing, Send, Task, Wait
from hedgerow.tables.ids import id_bytes

_FIRST = (Announce, Ready)
_QUESTIONS = (Classify, Answers, AnswersKept)
_REQUESTS = (NodeCall, BringSet, CompareStart)
_EARLY = (Announce, Ready, Common, CompareStart, Answers, AnswersKept)
"""Messages that may come before this site waits for them."""
_CALLS: Mapping[type[Message], int] = {Announce: ANNOUNCE, Ready: READY, Common: ALIGN}


class SiteProgram:
    """Runs one site: aligns, announces, grows the tree, and answers questions.

    H111 if all sites have fewer than `least_records` in common; with an epsilon there is a tree
    whatever the rows.
    """

    def __init__(self, site: Site, least_records: int = 1) -> None:
        self.site, job = site, site.job
        self._least = least_records if job.epsilon is None else 0
        self._ring = RingCardinality(
            site.index,
            site.cipher,
            site.form,
            learn=site.learn,
            check=site.check_groups,
            meter=site.meter,
            entropy=site.entropy,
        )
        self._alignment = RingAlignment(
            self._ring, job.n_sites, job.starter, site.learn, min(self._least, 1)
        )
        self._secret = SecretCardinality(site) if job.secret else None
        site.cardinality = self._secret or self._ring
        site.gains = self._secret or OpenGains(site)
        parties = job.n_sites + len(job.server_keys)
        self._desk = Desk(site.index, parties, self._handle, _EARLY)

    def begin(self) -> list[Outgoing]:
        """Take part from now on; returns what is to be sent."""
        self._ring.elements = self.site.cipher.hash(id_bytes(self.site.table.ids), "records")
        return self.start(self._take_part(), lambda _: None)

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        """Take in a message; H751 to H755, and the end, for what an honest site does not send."""
        return self._meter(self._desk.receive(sender, data))

    def ask(
        self,
        root: Token,
        instances: Sequence[bytes],
        done: Callable[[NDArray[np.int64] | None], None],
    ) -> list[Outgoing]:
        """Ask for the classes of instances; `done` gets what `classify_instances` returns."""
        self.site.end_growth()
        return self.start(classify_instances(self.site, root, instances), done)

    def start(self, task: Task[Any], done: Callable[[Any], None]) -> list[Outgoing]:
        """Begin a task of this site; `done` gets its result. Returns what is to be sent now."""
        return self._meter(self._desk.start(task, done))

    def tell(self, to: Iterable[int], message: Message) -> list[Outgoing]:
        """Return a message that no task sends, for each of some parties."""
        data = to_bytes(message)
        return self._meter([Outgoing(party, data) for party in to])

    @property
    def idle(self) -> bool:
        """Whether this site waits for nothing."""
        return self._desk.idle

    def _take_part(self) -> Task[None]:
        """Align, announce, and, at the site that begins, grow the tree."""
        site, job, k = self.site, self.site.job, self.site.job.n_sites
        if job.align:
            rows = yield from self._alignment.find()
            site.keep(rows)
            self._ring.elements = self._ring.elements[rows]
        check_enough(site.table.n_records, self._least)
        own = site.table.announced(job, site.index)
        for other in range(k):
            if other != site.index:
                yield Send(other, Announce(ANNOUNCE, job.digest(), *own))
        heard = yield Wait(ANNOUNCE, Announce, k - 1)
        site.announced = {site.index: own}
        for sender, message in heard:
            site.learn(ANNOUNCED, ())
            again = sender in site.announced
            said = _check_announced(job, sender, message, site.table.n_records, again)
            site.announced[sender] = said
        self._prepare()
        if site.index != job.starter:
            yield Send(job.starter, Ready(READY))
            site.finished = True
            return
        yield Wait(READY, Ready, k - 1)
        if self._secret is not None:
            yield from self._secret.begin()
        grown = yield from ppid3(site, NodeCall(0, 1, 0, ()))
        site.root, site.finished = grown.token, True
        site.end_growth()

    def _prepare(self) -> None:
        """Declare and charge what growing reveals, now that all sizes are known."""
        site, job = self.site, self.site.job
        session = Session(job, dict(site.announced), job.secret)
        site.noise = session.noise
        if site.noise is not None and not site.source.private:
            site.ledger.mark_not_private("the noise was seeded")
        if self._secret is not None:
            self._secret.prepare(session)
            mark_secret(site.ledger, job)
        due = session.growth_releases(f"site {site.index}")
        site.declare(session.growth_openings(site.index), due)

    def _handle(self, sender: int, message: Message) -> Task[None] | None:
        site, ring = self.site, self._ring
        self._alignment.check(sender, message)
        _check_time(site.job, sender, message, begun=bool(site.announced), grown=site.grown)
        match message:
            case Answers() | AnswersKept() if message.call not in site.open_questions:
                raise bad_message(f"site {sender}", "an answer that was not asked for")
            case Ready() if site.index != site.job.starter or site.grown:
                raise bad_message(f"site {sender}", "Ready, which is not for this site")
            case Common() if message.owner != site.index:
                return self._alignment.pass_marks(sender, message)
            case Sum():
                return add_flag(site, sender, message)
            case AskLeaf():
                return answer_leaf(site, sender, message)
            case AskGain():
                return answer_gain(site, sender, message)
            case Split():
                return answer_split(site, sender, message)
            case Classify():
                return pass_on(site, sender, message)
        task = None if self._secret is None else self._secret.handle(sender, message)
        return task or ring.handle(sender, message)

    def _meter(self, outgoing: list[Outgoing]) -> list[Outgoing]:
        meter = self.site.meter
        meter.messages += len(outgoing)
        meter.bytes += sum(len(item.data) for item in outgoing)
        return outgoing


def _check_announced(
    job: SiteJob, sender: int, message: Announce, records: int, again: bool
) -> Announced:
    """Return what a site announces, if it fits the job and this site's own records.

    H755 for another job, H754 for sizes that cannot be, H111 for another number of records.
    """
    said = Announced(message.values, message.classes, message.records)
    if message.job != job.digest():
        raise Code.BAD_SITES.error(found=f"another job at site {sender}")
    expected = job.n_classes if job.knows_class(sender) else 0
    if again or said.classes != expected or 0 in said.values:
        raise Code.SITE_CONTRADICTS.error(found=f"{said} of site {sender}")
    if said.records != records:
        raise Code.IDS_DO_NOT_ALIGN.error(
            found=f"{records:,} records here, {said.records:,} at site {sender}",
            fix="align the records first (align=True), or bring the same ids at every site",
        )
    return said


def _check_time(job: SiteJob, sender: int, message: Message, *, begun: bool, grown: bool) -> None:
    """Refuse what comes before its time or after it, and sites that there are none of; H752."""
    name, kind = f"site {sender}", type(message).__name__
    if (sender >= job.n_sites) != isinstance(message, Half):
        # Servers answer, and do nothing else.
        raise bad_message(f"party {sender}", f"{kind}, which is not for it to send")
    aligning = is_aligning(message)
    named = getattr(message, "ring", ()) + getattr(message, "constrained", ())
    if any(site >= job.n_sites for site in named):
        raise bad_message(name, f"{kind} with a site that is not in this run")
    if aligning and (begun or not job.align):
        raise bad_message(name, f"{kind} to align records, out of its time")
    if not (aligning or begun or isinstance(message, _FIRST)):
        raise bad_message(name, f"{kind} before its time")
    if grown and not isinstance(message, _QUESTIONS):
        raise bad_message(name, f"{kind} after the tree was grown")
    if isinstance(message, _REQUESTS) and not aligning:
        # Every site numbers its own calls, so that nobody can take another's.
        fits = message.call >> 48 == sender + 1
    else:
        fits = message.call == _CALLS.get(type(message), ALIGN if aligning else message.call)
    if not fits:
        raise bad_message(name, f"{kind} in a call that is not its own")
