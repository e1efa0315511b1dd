"""What each role of a vertical ID3 does, from the first message to its part of the tree.

Members are numbered: the three servers, where counts are secret, then the sites in the order of the
job. Sites write to each other and to the servers by mail; servers are in lock-step among
themselves. Questions about instances (`classify`) are among the sites alone. The plan of a context
is a `Session`; sizes need not have been announced, because no member knows those of the others.

What a site sends follows from its table, from what it draws, and from what it has received. So its
memory holds the seed of all that it draws, kept before the first message, and every message that it
has received, kept before anything that follows from it leaves. An attempt begins with all that
happened before, done again from there; then any two sites tell each other how many messages they
have had, and go on with the next. Over all attempts there is one message at each place between any
two of them: who was cut off, or says that it was, gets the same bytes again and nothing else. A
site that has lost its memory finds that others have had more of it than it can have sent, and
refuses to go on (H840). What servers keep is in `hedgerow.protocols.vertical_id3.secret.history`.

A ledger that is given is new: sizes decide what there is to charge, and the programs find them out.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Entropy
from hedgerow.crypto.sealed import KEY_BYTES, SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.privacy.source import SEED_BYTES
from hedgerow.protocols.contract import Context, Program
from hedgerow.protocols.sharing.saying import said_by_all
from hedgerow.protocols.sharing.sealed_parts import read_keys, write_keys
from hedgerow.protocols.vertical_id3.leakage import TOKEN
from hedgerow.protocols.vertical_id3.messages import (
    OVER,
    AskServers,
    BeginServers,
    Classify,
    Over,
    Refused,
    Token,
    bad_message,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.secret.history import ABOUT, History
from hedgerow.protocols.vertical_id3.secret.server import (
    LEADER,
    CountServers,
    ServerQuestion,
    receive_next,
    send_next,
)
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables.ids import id_bytes

KEY, HEARD, MESSAGE = "sealing key", "heard before", "message"
"""Steps of mail."""
MAIL = (KEY, HEARD, MESSAGE)
_NUMBER = struct.Struct("<Q")
_SENDER = struct.Struct("<H")


class VerticalTerms(Protocol):
    """What `site` takes from a job, beside its plan; where there is none, one record will do."""

    @property
    def least_records(self) -> int:
        """Records that all sites must have in common."""


@dataclass(frozen=True)
class Question:
    """The job of `classify`: which site asks, and about how many instances at most."""

    asker: int
    most: int | None = None


@dataclass(frozen=True)
class AnsweringPart:
    """The table of `classify`: a site with its part of the tree, and how it knows instances.

    The site is as it was after growing, or new with its nodes (`Site.take_up`), for each attempt;
    what earlier questions have shown is not in a memory but with whoever keeps the site. Ids (n,)
    and bins (n, d) are of the instances that may be asked about; `asked` are ids, at the site that
    asks.
    """

    site: Site
    ids: NDArray[Any] = field(repr=False)
    bins: NDArray[Any] = field(repr=False)
    asked: NDArray[Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CountRecord:
    """What a server has at the end: what was charged, and what was opened to whom."""

    ledger: Ledger = field(repr=False)
    leakage: Leakage = field(repr=False)


def first_site(plan: Session) -> int:
    """Return the number of the first site; those of the servers are below it."""
    return SERVERS if plan.secret else 0


def program_of(plan: Session, party: int) -> Program:
    """Return what the member with this number does to grow a tree."""
    return server if party < first_site(plan) else site


def site(context: Context) -> Site:
    """Grow a tree with the other sites; see `grow`. The table is a `SiteTable`."""
    return grow(context, site_of(context))


def site_of(context: Context) -> Site:
    """Return a site before its first message; it can tell what it has learned however `grow` ends.

    With secret counts, every server sends its sealing key first; H760 for another one than in an
    attempt before.
    """
    network, me, plan = context.network, context.party, context.plan
    servers = range(first_site(plan))
    keys = [network.receive(KEY, me, [server])[1] for server in servers]
    known = context.memory.load()
    source, kept = _source(context, b"".join(keys))
    if known is not None and kept != b"".join(keys):
        raise Code.SEALED_REFUSED.error(
            expected="the sealing keys that the servers sent in the attempt before",
            found="other ones",
        )
    job = replace(plan.job, server_keys=tuple(key.hex() for key in keys))
    here = Site(me - len(servers), job, context.table, source=source.spawn(), ledger=context.ledger)
    here.entropy = _entropy(source)
    return here


def grow(context: Context, here: Site) -> Site:
    """Take part as a site until the tree is grown; return the site with its part of it.

    That is its own nodes, the root's token, what it has learned and its ledger. The site that
    begins tells the others, and the servers, that the tree is grown.

    Reveals: what `hedgerow.protocols.vertical_id3.leakage` declares, to each site its part.
    Cost: that of `hedgerow.protocols.vertical_id3.ppid3`; the memory grows by all that is received.
    """
    job, base = here.job, first_site(context.plan)
    terms: VerticalTerms | None = context.job
    program = SiteProgram(here, 1 if terms is None else terms.least_records)
    mail = Correspondence(context, [*range(base, base + job.n_sites), *range(base)])
    mail.send(program.begin())
    nodes = 0
    while here.root is None:
        sender, data = mail.next()
        if is_over(data):
            if sender != job.starter or not program.idle:
                raise bad_message(f"site {sender}", "the end, out of its time")
            here.learn(TOKEN, (2,))
            here.root = _root_of(data, sender)
            mail.send([])
        else:
            mail.send(program.receive(sender, data))
        if len(here.nodes) > nodes:
            nodes = len(here.nodes)
            meter = here.meter
            context.progress({"nodes": nodes, "messages": meter.messages, "bytes": meter.bytes})
    if here.index == job.starter:
        others = [i for i in range(mail.n) if i != here.index]
        mail.send(program.tell(others, Over(OVER, here.root)))
    mail.check()
    assert program.idle
    here.end_growth()
    here.finished = True
    return here


def classify(context: Context) -> NDArray[np.int64] | None:
    """Classify instances with the other sites; all of them attend, those on no path do nothing.

    Returns, to the site that asks, class counts int64 (n, c); None to all others, and where the
    class site keeps the answers (`Site.kept`). What was learned is in the site.

    A site that does not have an instance sends that back the way that the question came: neither
    the asker nor those between are told where the path ended (H111).

    Reveals, Cost: as `hedgerow.protocols.vertical_id3.classify`.
    """
    own: AnsweringPart = context.table
    asker, here, me = context.job.asker, own.site, context.party
    here.entropy = _entropy(_source(context)[0])
    here.offer(own.ids, own.bins)
    here.end_growth()
    program = PathProgram(here, asker, context.job.most)
    mail = Correspondence(context, range(here.job.n_sites))
    found: list[NDArray[np.int64] | None] = []
    if me == asker:
        assert own.asked is not None
        assert here.root is not None
        mail.send(program.ask(here.root, id_bytes(own.asked), found.append))
    while not (found or program.refused):
        sender, data = mail.next()
        if is_over(data):
            if sender != asker:
                raise bad_message(f"site {sender}", "the end of another site's question")
            mail.send([])
            return None
        mail.send(program.receive(sender, data))
    others = [i for i in range(mail.n) if i != me]
    mail.send(program.tell(others, Over(OVER, here.root or Token(0, 0))))
    mail.check()
    if program.refused:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="every site on the path with its nodes and the instances",
            found="a fault on the path, at a site that is not named to the one that asks",
            fix="check the ids: an instance has to be among those of every site on its path",
        )
    return found[0]


class PathProgram(SiteProgram):
    """Runs one site in a question of `asker`; `refused` there if a site lacks an instance.

    More instances than `most` are refused, H752: a site has counted so many before it came.
    """

    def __init__(self, site: Site, asker: int, most: int | None = None) -> None:
        super().__init__(site)
        self.refused = False
        self._asker, self._most = asker, most
        self._seen: set[bytes] = set()
        self._way_back: int | None = None
        self._told = False

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        """Take in a message; what ends on its path goes back to where the question came from."""
        message = from_bytes(data, f"site {sender}")
        if isinstance(message, Refused):
            return self._refuse(message.call)
        if isinstance(message, Classify):
            self._seen.update(message.instances)
            if self._most is not None and len(self._seen) > self._most:
                raise bad_message(f"site {sender}", "more instances than the question was said of")
        if isinstance(message, Classify) and self._way_back is None:
            # A question may come again, further down its path: by the first time the way back ends.
            self._way_back = sender
        try:
            return super().receive(sender, data)
        except HedgerowError as error:
            if error.code is not Code.IDS_DO_NOT_ALIGN or self.site.index == self._asker:
                raise
            return self._refuse(message.call)

    def _refuse(self, call: int) -> list[Outgoing]:
        self.refused = self.site.index == self._asker
        if self.refused or self._told or self._way_back is None:
            return []
        # Once is enough.
        self._told = True
        return self.tell([self._way_back], Refused(call))


def server(context: Context) -> CountRecord:
    """Be one of the three servers of secret counts, or all of them; answer until the tree is grown.

    1. Send the sites the public sealing key, which was kept before; compare with the other servers
       what was answered in earlier attempts, and tell each site how much of it came from there.
    2. Answer questions in the order in which they reach server 0, which names the next one.
    3. Keep a half before it leaves (`History.keep`).

    Reveals, Cost: as `hedgerow.protocols.vertical_id3.secret.server`; a message of 32 bytes more.
    """
    plan, network, here = context.plan, context.network, context.network.local
    sites = range(SERVERS, SERVERS + plan.job.n_sites)
    keys, history = _sealing_keys(context), History(context.memory)
    public = said_by_all(network, KEY, {i: key.public for i, key in keys.items()}, ABOUT)
    for party in here:
        for other in sites:
            network.post(KEY, party, other, keys[party].public)
    history.meet(network)
    servers = CountServers(
        replace(plan.job, server_keys=tuple(key.hex() for key in public)),
        keys,
        lambda: network,
        computed=context.engine,
        seed=context.seed,
        ledger=context.ledger,
    )
    for one in history.released:
        servers.recall(one.sender, one.ask)
    _send_again(network, sites, history)
    while (asked := _next_question(network, sites, plan.job.starter)) is not None:
        sender, question, asks = asked
        context.progress({"questions": len(history.released)})
        halves = servers.answers(sender, asks)
        history.keep(network, sender, question, halves)
        for party, half in halves.items():
            network.post(MESSAGE, party, SERVERS + sender, half)
    servers.finish()
    if servers.leakage is None:
        raise bad_message(f"site {plan.job.starter}", "the end before the first question")
    return CountRecord(servers.ledger, servers.leakage)


class Correspondence:
    """All messages of one site in an attempt, none of them twice and none of them lost.

    Made when the others have said how many messages of this site they have had. `seats` are the
    numbers on the network of those whom the site knows by their place.
    """

    def __init__(self, context: Context, seats: Sequence[int]) -> None:
        self.n = len(seats)
        self._context, self._seats = context, seats
        self._before = deque(_read_line(line, self.n) for line in context.memory.lines())
        self._new: tuple[int, bytes] | None = None
        self._checked = False
        self._sent: Counter[int] = Counter()
        had = Counter(sender for sender, _ in self._before)
        network, me = context.network, context.party
        self._others = [i for i, seat in enumerate(seats) if seat != me]
        for other in self._others:
            network.post(HEARD, me, seats[other], _NUMBER.pack(had[other]))
        self._had = {other: _heard(network, me, seats[other]) for other in self._others}

    def next(self) -> tuple[int, bytes]:
        """Return the next message and whose it is: of earlier attempts first."""
        if self._before:
            return self._before.popleft()
        if not self._checked:
            self.check()
            self._checked = True
        network, me = self._context.network, self._context.party
        party, data = network.receive(MESSAGE, me, [self._seats[i] for i in self._others])
        self._new = self._seats.index(party), data
        return self._new

    def send(self, outgoing: Sequence[Outgoing]) -> None:
        """Keep the message that came last, if it is new, then send what follows from it."""
        if self._new is not None:
            sender, data = self._new
            self._context.memory.append(_SENDER.pack(sender) + data)
            self._new = None
        for to, data in outgoing:
            self._sent[to] += 1
            if self._sent[to] > self._had[to]:
                context = self._context
                context.network.post(MESSAGE, context.party, self._seats[to], data)

    def check(self) -> None:
        """Refuse to go on if somebody has had more than was sent; H840."""
        for other, had in self._had.items():
            if had > self._sent[other]:
                raise Code.ANSWERS_LOST.error(
                    expected=f"{had:,} messages to {self._context.members[self._seats[other]]}, "
                    "which it says it has had",
                    found=f"{self._sent[other]:,} that follow from what is kept here",
                )


def is_over(data: bytes) -> bool:
    """Whether a message is the last one of a run or a question."""
    return data[3:4] == bytes([Over.KIND])


def _root_of(data: bytes, sender: int) -> Token:
    message = from_bytes(data, f"site {sender}")
    assert isinstance(message, Over)
    return message.root


def _read_line(line: bytes, n: int) -> tuple[int, bytes]:
    sender = int.from_bytes(line[: _SENDER.size], "little")
    if len(line) <= _SENDER.size or sender >= n:
        raise Code.ANSWERS_LOST.error(found="a damaged record of messages")
    return sender, line[_SENDER.size :]


def _heard(network: Network, me: int, other: int) -> int:
    """Return how many messages of a member another one has had, as that one says; H752."""
    _, data = network.receive(HEARD, me, [other])
    if len(data) != _NUMBER.size:
        raise bad_message(f"party {other}", f"{len(data)} bytes for a number of messages")
    return int(_NUMBER.unpack(data)[0])


def _source(context: Context, more: bytes = b"") -> tuple[NoiseSource, bytes]:
    """Return where all comes from that a site draws, and what was kept beside its seed."""
    state = context.memory.load()
    if state is None:
        state = context.source.bytes(SEED_BYTES).tobytes() + more
        context.memory.keep(state)
    seed = state[:SEED_BYTES]
    if len(seed) < SEED_BYTES:
        raise Code.ANSWERS_LOST.error(found="a damaged seed")
    return NoiseSource.from_seed(seed, private=context.source.private), state[SEED_BYTES:]


def _entropy(source: NoiseSource) -> Entropy:
    drawn = source.spawn()
    return lambda n: drawn.bytes(n).tobytes()


def _sealing_keys(context: Context) -> dict[int, SealingKey]:
    """Return the keys of the servers here: those kept, else new ones, or such that follow a seed.

    Noise is drawn under the session, which they are a part of.
    """
    local, kept = context.network.local, context.memory.load()
    if kept is not None:
        return read_keys(kept, local)
    keys = {party: SealingKey() for party in local}
    if context.seed is not None:
        texts = {party: f"hedgerow server {party} seed {context.seed}".encode() for party in local}
        keys = {
            party: SealingKey(hashlib.blake2b(text, digest_size=KEY_BYTES).digest())
            for party, text in texts.items()
        }
    context.memory.keep(write_keys(keys))
    return keys


def _send_again(network: Network, sites: Sequence[int], history: History) -> None:
    """Tell sites how many of their questions were answered, and give them what they lack; H840."""
    for party in network.local:
        for at, other in enumerate(sites):
            network.post(HEARD, party, other, _NUMBER.pack(history.n_asked(at)))
    for party in network.local:
        for at, other in enumerate(sites):
            had, halves = _heard(network, party, other), history.halves_for(at, party)
            if had > len(halves):
                raise Code.ANSWERS_LOST.error(
                    expected=f"{had:,} answers to site {at}, which it says it has had",
                    found=f"{len(halves):,} that are kept here",
                )
            for half in halves[had:]:
                network.post(MESSAGE, party, other, half)


def _next_question(
    network: Network, sites: Sequence[int], starter: int
) -> tuple[int, bytes, dict[int, bytes]] | None:
    """Return which site asks, its question without parts, and what it sends the servers here.

    None once the tree is grown.
    """
    asks: dict[int, bytes] = {}
    if LEADER in network.local:
        party, asks[LEADER] = network.receive(MESSAGE, LEADER, sites)
        named = ServerQuestion(party, from_bytes(asks[LEADER], f"party {party}").call)
        send_next(network, named)
    else:
        named = receive_next(network)
        if named.sender not in sites:
            raise bad_message(f"server {LEADER}", "the order of no question")
    # Every site writes to the three servers in the same order.
    others = (party for party in network.local if party != LEADER)
    asks |= {party: network.receive(MESSAGE, party, [named.sender])[1] for party in others}
    at = named.sender - SERVERS
    read = [from_bytes(data, f"site {at}") for data in asks.values()]
    if {message.call for message in read} != {named.call} or len(set(map(type, read))) > 1:
        raise bad_message(f"site {at}", "different questions to the servers")
    first = read[0]
    if isinstance(first, AskServers | BeginServers):
        return at, to_bytes(replace(first, parts=())), asks
    if at != starter or not isinstance(first, Over):
        raise bad_message(f"site {at}", "neither a question nor the end, or not for it to say")
    return None
