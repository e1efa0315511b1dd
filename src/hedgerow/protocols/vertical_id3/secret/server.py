"""`CountServers`: three servers that count for the sites of a vertical ID3, on shares.

A site asks all three the same question, each with its sealed parts; servers 0 and 1 give it the
halves of the answer. For each question:

1. Each server opens its parts. Parts that do not open, or that two servers got in different
   versions, end the question at all three (H704).
2. The servers compute on shares (`hedgerow.protocols.vertical_id3.secret.sums`), and draw noise
   where the job has an epsilon.
3. The answer goes to the site that asked, in two halves that are uniform each.

Sites ask at the same time, and their questions reach each server in another order. So server 0
names the next one of those that have reached it (`send_next`, `receive_next`), and the two others
wait for it if need be.

Reveals: to the servers, who asks about which sites and in how many groups they bring their sets; to
the site that asks, the sizes of the full intersections, or the site with the best attribute.
Cost: `hedgerow.secure.replicated.outside.cost_fit_together` and that of the sums, with noise
also `cost_two_sided_geometric`; for the order one round, 11 bytes to each of two servers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network, Route
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.contract import Computed
from hedgerow.protocols.hidden.programs import SEEDED, check_together, server_engine
from hedgerow.protocols.sharing.sealed_parts import Parts, bits_of, fitting, open_dealt, secret_of
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import ANNOUNCED, Announced, possible_groups
from hedgerow.protocols.vertical_id3.messages import (
    BEST,
    SAME,
    SIZES,
    AskServers,
    BeginServers,
    Half,
    bad_message,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.plan import (
    ALL_SERVERS,
    NUMBERS,
    QUESTION,
    SAME_IDS,
    WINNER,
    Session,
    mark_secret,
    sizes_of,
)
from hedgerow.protocols.vertical_id3.secret.sums import all_same, best_site, joint_counts
from hedgerow.secure.noise.discrete import two_sided_geometric
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.secret import Engine, Secret

LEADER = 0
STEP = "next question"
_ASKED = 1
_ORDER = struct.Struct("<BHQ")


class ServerQuestion(NamedTuple):
    """Which question is meant: the site that asks, and its call."""

    sender: int
    call: int


Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


class CountServers:
    """The servers that live in one process, by their `keys`: one, or all three.

    `meet` returns a network of the three, once, at the first question; `computed` "clear" is one
    process with all three keys that computes on plain numbers. A `seed` is recorded as not private.
    """

    def __init__(
        self,
        job: SiteJob,
        keys: Mapping[int, SealingKey],
        meet: Callable[[], Network],
        *,
        computed: Computed = "replicated",
        seed: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        own = {server: key.public.hex() for server, key in keys.items()}
        if not own or any(job.server_keys[s : s + 1] != (key,) for s, key in own.items()):
            raise Code.BAD_SITES.error(found=f"other keys than those of servers {sorted(own)}")
        check_together(computed, own)
        self.job, self.keys, self.computed = job, dict(keys), computed
        self.ledger = ledger or Ledger()
        self.leakage: Leakage | None = None
        self._meet, self._seed = meet, seed
        self._session: Session | None = None
        self._network: Network | None = None
        self._engine: Engine | None = None
        self._done: set[int] = set()

    def answers(self, sender: int, asks: Mapping[int, bytes]) -> dict[int, bytes]:
        """Answer a question; all three servers must be asked it, here or elsewhere.

        The sender is the site that asks, as its connection says. Returns the half of every server
        here that gives one. H752 for a question that does not follow the protocol, H754 for other
        sizes than announced, H704 for parts that do not fit together.
        """
        name = f"site {sender}"
        read = {server: from_bytes(data, name) for server, data in asks.items()}
        if set(read) != set(self.keys):
            raise bad_message(name, f"a question to servers {sorted(read)}")
        begins = [message for message in read.values() if isinstance(message, BeginServers)]
        if begins and self._session is None:
            if any(replace(begin, parts=()) != replace(begins[0], parts=()) for begin in begins):
                raise bad_message(name, "different beginnings")
            self._begin(_session_of(self.job, sender, begins[0]))
            read = {
                server: _first_question(self.job, message)
                for server, message in read.items()
                if isinstance(message, BeginServers)
            }
        asked = {
            server: message for server, message in read.items() if isinstance(message, AskServers)
        }
        if set(asked) != set(self.keys) or self._session is None:
            raise bad_message(name, "a question out of its time")
        question = _check_question(self._session, sender, asked, self._done)
        try:
            return self._compute(question, asked)
        except HedgerowError as error:
            self._hang_up(error)
            raise

    def recall(self, sender: int, ask: bytes) -> None:
        """Stand behind a question that was answered before; its parts are not needed."""
        message = from_bytes(ask, f"site {sender}")
        if isinstance(message, BeginServers):
            if message.job != self.job.digest():
                raise Code.ANSWERS_LOST.error(found="answers under other sealing keys")
            self._begin(_session_of(self.job, sender, message))
            message = _first_question(self.job, message)
        if not isinstance(message, AskServers) or self.leakage is None:
            raise Code.ANSWERS_LOST.error(found="questions that do not begin with the first")
        self._note(message)
        name, shape = _answer_of(self.job, message)
        self.leakage.check(name, f"site {message.counter}", shape)

    def finish(self) -> None:
        """Return once the three servers have completed every step."""
        if isinstance(self._engine, ReplicatedEngine):
            self._engine.finish()

    def _compute(self, question: AskServers, asked: Mapping[int, AskServers]) -> dict[int, bytes]:
        assert self._session is not None
        self._note(question)
        self._engine = self._engine_for(question)
        parts = self._parts(question, asked)
        if question.what == SIZES:
            found = self._counts(question, parts)
            drawn = self._session.drawn
            if drawn is not None:
                found += two_sided_geometric(self._engine, found.shape, drawn, found.ring)
        else:
            found = (best_site if question.what == BEST else all_same)(self._numbers(parts))
        name, _ = _answer_of(self.job, question)
        opened = open_halves(self._engine, found, name, f"site {question.counter}")
        return {
            server: to_bytes(Half(question.call, question.what, _little(half)))
            for server, half in opened.items()
        }

    def _note(self, question: AskServers) -> None:
        assert self.leakage is not None
        self.leakage.check(QUESTION, ALL_SERVERS, ())
        self._done.add(question.call)

    def _counts(self, question: AskServers, parts: Parts) -> Secret:
        session, engine = self._session, self._engine
        assert session is not None
        assert engine is not None
        sets = [
            bits_of(engine, parts, at, session.shape_of_part(SIZES, groups)[0])
            for at, groups in enumerate(question.groups)
        ]
        counter, holder = question.ring.index(question.counter), _holder_of(self.job, question)
        return joint_counts(sets, question.groups, counter, holder, session.ring)

    def _numbers(self, parts: Parts) -> list[Secret]:
        assert self._engine is not None
        sites = range(self.job.n_sites)
        return [secret_of(self._engine, parts, at, (1,), NUMBERS) for at in sites]

    def _parts(self, question: AskServers, asked: Mapping[int, AskServers]) -> Parts:
        """Open the parts of all sites of the ring; H704 names those that do not fit together."""
        session, engine = self._session, self._engine
        assert session is not None
        assert engine is not None
        bound = session.context(question.call, question.what, question.counter, question.ring)
        parts: Parts = {server: [] for server in sorted(asked)}
        for server in parts:
            for at, owner in enumerate(question.ring):
                groups = question.groups[at]
                shape, ring = session.shape_of_part(question.what, groups)
                context = bound.of(owner, groups, server)
                key, sealed = self.keys[server], asked[server].parts[at]
                try:
                    part = open_dealt(sealed, key, context, server, shape, ring, f"site {owner}")
                except HedgerowError:
                    part = None
                parts[server].append(part)
        fits = fitting(engine, parts, len(question.ring))
        if not fits.all():
            wrong = [f"site {o}" for o, fit in zip(question.ring, fits, strict=True) if not fit]
            raise Code.SHARES_DIFFER.error(
                found=f"others of {', '.join(wrong)}, passed on by site {question.counter}"
            )
        return parts

    def _begin(self, session: Session) -> None:
        """Declare and charge what the run opens, and meet the other servers."""
        self.ledger.charge(*session.releases(ALL_SERVERS))
        mark_secret(self.ledger, self.job)
        if self._seed is not None:
            self.ledger.mark_not_private(SEEDED)
        self.leakage = Leakage(session.openings(ALL_SERVERS), ledger=self.ledger)
        self.leakage.check(ANNOUNCED, ALL_SERVERS, ())
        self._session = session

    def _engine_for(self, question: AskServers) -> Engine:
        """Return an engine; with a seed a new one, so that the order of questions is no matter."""
        seed, leakage = self._seed, self.leakage
        if self._engine is not None and seed is None:
            return self._engine
        assert leakage is not None
        assert self._session is not None
        if self.computed != "clear" and self._network is None:
            self._network = self._meet()
        # Servers that were told other sizes find out at their first message.
        name, source = self._session.digest.hex(), None
        if seed is not None:
            name = f"{name} {question.call}"
            source = NoiseSource.insecure_seeded(int(seed) << 64 | question.call)
        return server_engine(self.computed, self._network, leakage, name, seed, source)

    def _hang_up(self, error: HedgerowError) -> None:
        """Tell the other servers that this run has failed here."""
        if isinstance(self._engine, ReplicatedEngine):
            self._engine.network.__exit__(type(error), error, None)


def _little(half: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(half.astype(half.dtype.newbyteorder("<"), copy=False)).tobytes()


def _session_of(job: SiteJob, sender: int, message: BeginServers) -> Session:
    """Return the session that a first question begins; H752 if it is of another job or site."""
    if (
        sender != job.starter
        or message.job != job.digest()
        or len(message.attributes) != job.n_sites
        or sum(message.attributes) != len(message.values)
        or 0 in message.values
    ):
        raise bad_message(f"site {sender}", "the beginning of another run")
    announced, at = {}, 0
    for site, n in enumerate(message.attributes):
        classes = job.n_classes if job.knows_class(site) else 0
        announced[site] = Announced(message.values[at : at + n], classes, message.records)
        at += n
    return Session(job, announced, secret=True)


def _first_question(job: SiteJob, message: BeginServers) -> AskServers:
    """Return the question that begins a run in the form of all others."""
    ring = tuple(range(job.n_sites))
    return AskServers(message.call, SAME, message.counter, ring, (1,) * job.n_sites, message.parts)


def _check_question(
    session: Session, sender: int, asked: Mapping[int, AskServers], done: Container[int]
) -> AskServers:
    """Return the question that all servers of a process were asked, without its parts.

    H752 for a call or ring that cannot be, or was answered; H754 for other sizes than announced.
    """
    job, name = session.job, f"site {sender}"
    found = {replace(message, parts=()) for message in asked.values()}
    question = next(iter(found))
    ring, groups = question.ring, question.groups
    if len(found) > 1 or question.counter != sender or question.call in done:
        raise bad_message(name, f"call {question.call}, of another site or a second time")
    if (
        list(ring) != sorted(set(ring))
        or sender not in ring
        or len(ring) < 2
        or ring[-1] >= job.n_sites
        or {len(groups), *(len(message.parts) for message in asked.values())} != {len(ring)}
        or (question.what != SIZES and len(ring) != job.n_sites)
    ):
        raise bad_message(name, f"a question about the sites {ring}")
    for site, n in zip(ring, groups, strict=True):
        known = _may_bring(session, site, question) if question.what == SIZES else {1}
        if n not in known:
            raise Code.SITE_CONTRADICTS.error(
                expected=f"{' or '.join(map(str, sorted(known)))} groups of records",
                found=f"{n} groups of site {site}",
            )
    return question


def _answer_of(job: SiteJob, question: AskServers) -> tuple[str, tuple[int, ...]]:
    """Return name and shape under which the answer to a question is declared."""
    if question.what != SIZES:
        return (WINNER if question.what == BEST else SAME_IDS), (1,)
    places = [question.ring.index(question.counter), _holder_of(job, question)]
    shape = tuple(question.groups[at] for at in places if at is not None)
    return sizes_of(shape), shape


def _holder_of(job: SiteJob, question: AskServers) -> int | None:
    """Return the place in the ring of a class site that does not count itself, if there is one."""
    if job.class_at is None or job.class_at == question.counter:
        return None
    return question.ring.index(job.class_at) if job.class_at in question.ring else None


def _may_bring(session: Session, site: int, question: AskServers) -> set[int]:
    """Return in how many groups a site may bring its set: the counter's values, the classes."""
    job = session.job
    if site == question.counter:
        return possible_groups(job, site, session.announced[site])
    return {job.n_classes} if job.class_at == site else {1}


def send_next(network: Network, following: ServerQuestion) -> None:
    """Tell the two other servers what comes next, as server 0."""
    payload = np.frombuffer(_ORDER.pack(_ASKED, *following), dtype=np.uint8)
    _exchange(network, dict.fromkeys(range(SERVERS - 1), payload))


def receive_next(network: Network) -> ServerQuestion:
    """Hear what comes next, as one of the two other servers; H806 if it is no question."""
    (received,) = _exchange(network, {}).values()
    kind, sender, call = _ORDER.unpack(received.tobytes())
    if kind != _ASKED:
        raise Code.BAD_FRAME.error(found=f"an order of kind {kind} from server {LEADER}")
    return ServerQuestion(sender, call)


def _exchange(network: Network, outbox: dict[int, Bytes]) -> dict[int, Bytes]:
    network.agreed = "servers that count for sites"
    others = (server for server in range(SERVERS) if server != LEADER)
    plan = [Route(LEADER, server, (_ORDER.size,), "uint8") for server in others]
    received: dict[int, Bytes] = network.exchange(STEP, plan, outbox)
    return received
