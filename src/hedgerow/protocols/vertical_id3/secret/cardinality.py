"""`SecretCardinality`: sizes of intersections and the best gain, on shares of three servers.

The second way to count of vaidya2005vertical's protocol, behind the same interface as the ring of
`RingCardinality`, without the two things that the ring gives away: sizes of sub-intersections, and
the best gain of each site.

1. The site that counts asks the others of the ring for their sets.
2. Each site writes for every aligned record, in the order of their ids, the number of the group
   that it is in, or 0 for none; it shares the bits of these numbers, seals a part to each of the
   three servers and sends the parts back. The class site draws a new order of its classes each
   time.
3. The site that counts passes the parts on. The servers make one bit per group of them, multiply
   and sum (`hedgerow.protocols.vertical_id3.secret.server`) and give it two halves of the sizes.

Whatever bits a site shares, they put every record into one group or into none: no record can count
for more than one, as the noise and the ledger assume. Gains are compared in the same way: the site
that runs the node is told who has the largest, the first of equal ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import shuffled
from hedgerow.errors import Code
from hedgerow.protocols.sharing.sealed_parts import seal_dealt
from hedgerow.protocols.vertical_id3.cardinality import ASKED, Counts, Groups
from hedgerow.protocols.vertical_id3.leakage import possible_groups
from hedgerow.protocols.vertical_id3.messages import (
    BEST,
    IDS,
    NODE,
    SAME,
    SIZES,
    AskServers,
    BeginServers,
    BringSet,
    Half,
    Message,
    SealedSet,
    bad_message,
)
from hedgerow.protocols.vertical_id3.plan import (
    NUMBERS,
    SAME_IDS,
    SEALED,
    WINNER,
    Session,
    gain_number,
    set_planes,
    sizes_of,
)
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import HALVES, join_halves
from hedgerow.secure.ring import Ring
from hedgerow.tables.ids import id_bytes


class SecretCardinality:
    """How one site counts, and compares gains, on shares.

    Reveals: to the site that counts, the sizes of the intersections of one group from each set of
    the ring, with noise where the job has an epsilon; to the others, that they were asked. Parts
    that pass through the site that counts are sealed.
    Cost: 4 messages after each other. A site with g groups over n records sends n bits for every
    binary digit of g to each of two servers, in words of 64, and two keys to the third. Nothing for
    a ring of one.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._slots: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._session: Session | None = None
        self._keys = [bytes.fromhex(key) for key in site.job.server_keys]

    @property
    def session(self) -> Session:
        """The public facts of the run, once all sites have announced theirs."""
        assert self._session is not None
        return self._session

    def prepare(self, session: Session) -> None:
        """Take what the sites announced; records get their slots in the order of their ids."""
        site, self._session = self._site, session
        self._slots = np.empty(site.table.n_records, dtype=np.intp)
        self._slots[np.argsort(site.table.ids, kind="stable")] = np.arange(site.table.n_records)

    def begin(self) -> Task[None]:
        """Have the servers compare the ids of all sites, so that slots mean the same records.

        Reveals: to this site, whether they are the same; H111 if not. The servers see shares of
        hashes of the ids.
        """
        site, call, ring = self._site, self._site.new_call(), self._everybody
        for other in ring:
            if other != site.index:
                yield Send(other, BringSet(call, IDS, site.index, ring))
        parts = yield from self._gather(call, SAME, ring, self._seal_ids(call, site.index, ring))
        said = [site.announced[other] for other in ring]
        attributes = tuple(len(one.values) for one in said)
        values = tuple(p for one in said for p in one.values)
        for server, theirs in enumerate(zip(*(one.parts for one in parts), strict=True)):
            begin = BeginServers(
                *(call, site.job.digest(), site.index, site.table.n_records),
                *(attributes, values, theirs),
            )
            yield Send(site.job.n_sites + server, begin)
        (same,) = yield from self._join_halves(call, SAME, SAME_IDS, (1,), NUMBERS)
        if same != 1:
            raise Code.IDS_DO_NOT_ALIGN.error(
                found="other ids at some site",
                fix="align the records first (align=True), or bring the same ids at every site",
            )

    def count(self, call: int, ring: tuple[int, ...], own: Groups) -> Task[Counts]:
        """See `SetCardinality.count`; where there is noise, it is in the sizes."""
        site = self._site
        if ring == (site.index,):
            # Nobody else's records are in these sizes, and the noise is for nobody here.
            counts = site.next_noise()(np.array([len(rows) for rows in own], dtype=np.int64))
        else:
            site.meter.passes += 1
            for other in ring:
                if other != site.index:
                    yield Send(other, BringSet(call, NODE, site.index, ring))
            mine = self._seal_set(call, site.index, ring, own)
            parts = yield from self._gather(call, SIZES, ring, mine)
            counts = yield from self._sizes(call, ring, parts)
        site.meter.intersections += counts.size
        return counts

    def best_site(self, call: int) -> Task[int]:
        """See `GainComparison.best_site`. Reveals: to this site, which one it is."""
        ring = self._everybody
        parts = yield from self._gather(call, BEST, ring, None)
        yield from self._ask(call, BEST, ring, parts)
        (best,) = yield from self._join_halves(call, BEST, WINNER, (1,), NUMBERS)
        if not 0 <= best < len(ring):
            raise bad_message("the servers", f"site {best} as the best")
        return int(best)

    def offer(self, call: int, to: int, gain: float) -> SealedSet:
        """See `GainComparison.offer`: shares of the gain."""
        return self._seal(call, BEST, to, self._everybody, 1, np.array([gain_number(gain)]))

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """See `SetCardinality.handle`."""
        if isinstance(message, BringSet) and message.purpose in (NODE, IDS):
            ring, purpose = message.ring, message.purpose
            if (
                message.counter != sender
                or list(ring) != sorted(set(ring))
                or not {self._site.index, sender} <= set(ring)
                or (purpose == IDS and (sender, ring) != (self._site.job.starter, self._everybody))
            ):
                raise bad_message(f"site {sender}", f"a request to the sites {ring}")
            return self._bring(sender, message)
        return None

    @property
    def _everybody(self) -> tuple[int, ...]:
        return tuple(range(self._site.job.n_sites))

    def _bring(self, sender: int, message: BringSet) -> Task[None]:
        site = self._site
        site.learn(ASKED, ())
        if message.purpose == IDS:
            yield Send(sender, self._seal_ids(message.call, sender, message.ring))
            return
        own = site.form(message.purpose)
        order = shuffled(len(own), site.entropy)
        groups = [own[i] for i in order]
        yield Send(sender, self._seal_set(message.call, sender, message.ring, groups))

    def _gather(
        self, call: int, what: int, ring: tuple[int, ...], own: SealedSet | None
    ) -> Task[list[SealedSet]]:
        """Collect the parts of all sites of a ring, in its order; `own` if it is here already."""
        site = self._site
        found = {} if own is None else {site.index: own}
        replies = yield Wait(call, SealedSet, len(ring) - len(found))
        for sender, message in replies:
            name = f"site {sender}"
            if sender in found or sender not in ring or message.what != what:
                raise bad_message(name, "parts that were not asked for")
            if len(message.parts) != SERVERS:
                raise bad_message(name, f"{len(message.parts)} parts for {SERVERS} servers")
            known = {1}
            if what == SIZES:
                known = possible_groups(site.job, sender, site.announced[sender])
            if message.groups not in known:
                raise Code.SITE_CONTRADICTS.error(
                    expected=f"{' or '.join(map(str, sorted(known)))} groups of records",
                    found=f"{message.groups} groups of site {sender}",
                )
            if sender != site.index:
                site.learn(SEALED, ())
            found[sender] = message
        return [found[other] for other in ring]

    def _sizes(self, call: int, ring: tuple[int, ...], parts: Sequence[SealedSet]) -> Task[Counts]:
        """Ask for sizes, and give them one axis for each site of the ring."""
        site, class_at = self._site, self._site.job.class_at
        groups = tuple(one.groups for one in parts)
        yield from self._ask(call, SIZES, ring, parts)
        mine = ring.index(site.index)
        if class_at == site.index or class_at not in ring:
            table = yield from self._table(call, (groups[mine],))
            return table.reshape(groups)
        theirs = ring.index(class_at)
        table = yield from self._table(call, (groups[mine], groups[theirs]))
        return (table if mine < theirs else table.T).reshape(groups)

    def _table(self, call: int, shape: tuple[int, ...]) -> Task[Counts]:
        ring = self.session.ring
        found = yield from self._join_halves(call, SIZES, sizes_of(shape), shape, ring)
        if self.session.noise is None:
            counts = found.astype(np.int64)
            if counts.sum() > self.session.records:
                raise bad_message("the servers", "more records than there are")
        else:
            counts = np.maximum(ring.signed(found).astype(np.int64), 0)
        return counts.reshape(shape)

    def _ask(
        self, call: int, what: int, ring: tuple[int, ...], parts: Sequence[SealedSet]
    ) -> Task[None]:
        site = self._site
        groups = tuple(one.groups for one in parts)
        for server in range(SERVERS):
            theirs = tuple(one.parts[server] for one in parts)
            question = AskServers(call, what, site.index, ring, groups, theirs)
            yield Send(site.job.n_sites + server, question)

    def _join_halves(
        self, call: int, what: int, name: str, shape: tuple[int, ...], ring: Ring
    ) -> Task[NDArray[Any]]:
        """Wait for the halves of an answer and join them, flat."""
        site = self._site
        arrived = yield Wait(call, Half, len(HALVES))
        found: dict[int, NDArray[Any]] = {}
        size = int(np.prod(shape, dtype=np.int64)) * ring.bytes
        for sender, message in arrived:
            server = sender - site.job.n_sites
            if server not in HALVES or server in found or message.what != what:
                raise bad_message(f"party {sender}", "half of an answer that is not its own")
            if len(message.half) != size:
                raise bad_message(f"server {server}", f"{len(message.half)} bytes of {size}")
            half = np.frombuffer(message.half, dtype=ring.dtype.newbyteorder("<"))
            found[server] = half.astype(ring.dtype)
        site.learn(name, shape)
        return join_halves(*(found[server] for server in HALVES))

    def _seal_set(self, call: int, counter: int, ring: tuple[int, ...], own: Groups) -> SealedSet:
        numbers = np.zeros(len(self._slots), dtype=np.int64)
        for group, rows in enumerate(own):
            numbers[self._slots[rows]] = 1 + group
        shifts = np.arange(set_planes(len(own)))[::-1, None]
        return self._seal(call, SIZES, counter, ring, len(own), (numbers >> shifts) & 1 != 0)

    def _seal_ids(self, call: int, counter: int, ring: tuple[int, ...]) -> SealedSet:
        names = id_bytes(self._site.table.ids[np.argsort(self._slots, kind="stable")])
        hashed = hashlib.blake2b(self.session.digest, digest_size=8, person=b"hedgerow/ids")
        hashed.update(np.fromiter(map(len, names), dtype="<u8").tobytes() + b"".join(names))
        value = np.frombuffer(hashed.digest(), dtype="<u8")
        return self._seal(call, SAME, counter, ring, 1, value)

    def _seal(
        self,
        call: int,
        what: int,
        counter: int,
        ring: tuple[int, ...],
        groups: int,
        values: NDArray[Any],
    ) -> SealedSet:
        session, site = self.session, self._site
        bound = session.context(call, what, counter, ring)
        shape, numbers = session.shape_of_part(what, groups)
        assert values.shape == shape
        parts = seal_dealt(
            values,
            numbers,
            lambda server: bound.of(site.index, groups, server),
            self._keys,
            site.entropy,
        )
        return SealedSet(call, what, groups, tuple(parts))
