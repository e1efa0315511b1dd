"""What the parties of a run would send, to the byte: from programs that run without data.

Servers and peers are in lock-step: their programs run where nobody lives, and every step says what
it would send (`Rehearsal`). What they would see opened is taken to make the largest model that the
plan allows, so a tree that stops early sends less.

Owners and sites write mail, whose length follows from what is found in tables. So they run among
themselves, on tables made up at random, of the sizes that are public, with a cipher that sends as
much as the real one and hides nothing. What that grows is a typical tree: a large one, since
nothing in such a table is worth stopping for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import CipherKey, Curve25519Cipher, Elements
from hedgerow.net.mesh import Mesh, MeshNetwork
from hedgerow.net.meter import Reading
from hedgerow.net.network import Array, Network, Route
from hedgerow.net.rehearsal import Rehearsal
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints
from hedgerow.protocols.contract import Context
from hedgerow.protocols.growers.grouped import PLACES
from hedgerow.protocols.hidden import programs as hidden
from hedgerow.protocols.hidden.plan import OpenPlan, split_name
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.pivot.aligning import ALIGNED, align_rows
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import OFFLINE, PeerTable, peer
from hedgerow.protocols.pivot.run import members_of as peer_names
from hedgerow.protocols.run import joined_meters, run_side_by_side
from hedgerow.protocols.sharing.table import Upload, horizontal_uploads, vertical_uploads
from hedgerow.protocols.sharing.uploaded import HeldUpload, planes_shape_of
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.programs import coordinator_seat
from hedgerow.protocols.topdown.programs import program_of as topdown_program
from hedgerow.protocols.topdown.run import Owners
from hedgerow.protocols.topdown.wire import SERVER_NAMES
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import first_site, grow, server, site_of
from hedgerow.protocols.vertical_id3.run import members_of as site_names
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.secure.replicated import SERVERS
from hedgerow.secure.sort import SHUFFLED
from hedgerow.tables import Encoded

LARGEST = "of the largest model that the plan allows; one that stops growing early sends less"
TYPICAL = "a tree that was grown from a made-up table of these sizes"
Around = Callable[[Network], AbstractContextManager[Checkpoints]]
"""What members in lock-step do before and after a program, and whenever it keeps a stage."""
_SEED = 20190827
_PATIENCE = 3600.0


@dataclass(frozen=True)
class Rehearsed:
    """What parties would send: `reading` by step, of which `offline` steps need no rows.

    `latencies` are one-way ways that one message waits for another. `work` is what messages do not
    show, of all parties together, by kind.
    """

    parties: tuple[str, ...]
    reading: Reading = field(repr=False)
    latencies: int
    work: Mapping[str, int]
    offline: tuple[str, ...] = ()
    note: str = ""

    def phase(self, *, offline: bool) -> Reading:
        """Return what is sent before rows are needed, or all the rest."""
        return (self.reading.only if offline else self.reading.without)(*self.offline)


@contextmanager
def _alone(network: Network) -> Iterator[Checkpoints]:
    """Add nothing to the program, as on one machine."""
    del network
    yield NoCheckpoints()


def servers_traffic(
    plan: ServerPlan,
    protocol: str,
    n_uploads: int = 1,
    *,
    joined: bool = False,
    around: Around = _alone,
) -> Rehearsed:
    """Rehearse a training of the three servers, on so many uploads of rows, or of columns.

    Uploads are taken to be of equal size: of as many slots, or columns.
    """
    uploads = _joined_uploads(plan, n_uploads) if joined else _uploads(plan, n_uploads)
    held = [HeldUpload(one, planes_shape_of(plan.layout, one), {}) for one in uploads]
    network = Rehearsal(SERVERS, _supposed(plan))
    terms, ledger = hidden.Terms(protocol), Ledger(domain=plan.domain)
    with around(network) as stages:
        hidden.server(Context(network, SERVER_NAMES, plan, terms, held, ledger, stages))
    reading = network.meter.snapshot()
    note = LARGEST if isinstance(plan, OpenPlan) else ""
    return Rehearsed(SERVER_NAMES, reading, reading.rounds, network.work, note=note)


def peers_traffic(
    plan: PeerPlan, names: Sequence[str] | None = None, around: Around = _alone
) -> Rehearsed:
    """Rehearse a training among peers, who have as many rows in common as the plan has room for."""
    network, n = Rehearsal(plan.n_peers, _supposed(plan)), plan.capacity
    ledger, found = Ledger(domain=plan.domain), Reading(range(plan.n_peers), {})
    plan.charge(ledger)
    latencies, work = 0, Counter[str]()
    table = PeerTable({}, n, ids=np.zeros(0, np.int64))
    given = replace(plan, align="given") if plan.align == "ring" else plan
    with around(network) as stages:
        if plan.align == "ring":
            aligned = _alignment(plan)
            found, latencies, work = aligned.reading, aligned.latencies, Counter(aligned.work)
            stages.save(ALIGNED, {})
        peer(Context(network, peer_names(plan), given, None, table, ledger, stages))
    reading = network.meter.snapshot()
    both = Reading(reading.parties, found.traffic | reading.traffic)
    note = LARGEST if isinstance(plan, PivotPlan) and not plan.is_noisy else ""
    return Rehearsed(
        tuple(names or peer_names(plan)),
        both,
        latencies + reading.rounds,
        work + network.work,
        OFFLINE,
        note,
    )


def topdown_traffic(plan: TopDownPlan, owners: Sequence[str]) -> Rehearsed:
    """Rehearse DP-TopDown: it is grown from tables made up at random, with noise.

    Both are the same each time, so that the same job is said to send the same: nothing is private.
    """
    first, rng = coordinator_seat(plan), np.random.default_rng(_SEED)
    members = (*SERVER_NAMES[:first], "coordinator", *owners)
    room = (plan.capacity or 1 << 12) // len(owners)
    tables = {name: _random_table(plan, min(room, 1 << 12), rng) for name in owners}

    def attend(network: Network) -> None:
        (party, *_) = network.local
        table = tables[members[party]] if party > first else None
        noise: dict[str, Any] = {
            "seed": _SEED,
            "source": NoiseSource.insecure_seeded(_SEED + party),
        }
        here = Context(network, members, plan, job=Owners(tuple(owners)), table=table, **noise)
        topdown_program(plan, party)(here)

    return _by_mail(members, first, attend)


def vertical_traffic(
    plan: Session, values: Sequence[Sequence[int]], n: int, names: Sequence[str] = ()
) -> Rehearsed:
    """Rehearse a vertical ID3 of n records, from the numbers of values of each site's attributes.

    How much is sent depends on which sites have the best attributes: several tables are made up, in
    which they are at one site after the other, or anywhere. Of these the one in the middle counts,
    and the note has the range.
    """
    drawn = [random_sites(plan, values, n, best) for best in [*range(min(len(values), 4)), None]]
    found = sorted(
        (sites_traffic(plan, tables, names) for tables in drawn),
        key=lambda one: sum(one.reading.payload),
    )
    least, most = (sum(one.reading.payload) / 1e6 for one in (found[0], found[-1]))
    note = (
        f"of {TYPICAL}, the middle one of {len(found)}, which sent from {least:,.2f} to "
        f"{most:,.2f} MB in all, as the best attributes lie: it depends on the rows, and other "
        "rows may send more or less"
    )
    return replace(found[len(found) // 2], note=note)


def random_sites(
    plan: Session, values: Sequence[Sequence[int]], n: int, best: int | None = None
) -> list[SiteTable]:
    """Make up n records; their class goes with the attributes of the `best` site, or with none."""
    rng, classes = np.random.default_rng(_SEED), plan.job.n_classes
    bins = [rng.integers(0, np.array(own, int), (n, len(own))) for own in values]
    total = rng.normal(0, 0.2, n)
    if best is not None:
        total += (bins[best] / np.array(values[best], int)).sum(axis=1)
    target = np.argsort(np.argsort(total)) * classes // max(n, 1)
    return [
        SiteTable(
            np.asfortranarray(table.astype(np.uint16)),
            np.array(own, np.int64),
            target if plan.job.knows_class(site) else None,
            np.arange(n),
        )
        for site, (table, own) in enumerate(zip(bins, values, strict=True))
    ]


def sites_traffic(
    plan: Session, tables: Sequence[SiteTable], names: Sequence[str] = ()
) -> Rehearsed:
    """Rehearse a vertical ID3 on tables, such as `random_sites`, under a cipher that hides nothing.

    How much is sent depends on which site has the best attribute of each node.
    """
    base, work, members = first_site(plan), Counter[str](), site_names(plan)

    def attend(network: Network) -> None:
        (party, *_) = network.local
        if party < base:
            server(Context(network, members, plan))
            return
        context = Context(network, members, plan, table=tables[party - base])
        here = site_of(context)
        here.cipher = PlainCipher(work)
        grow(context, here)

    found = _by_mail(members, base, attend)
    shown = (*members[:base], *(names or members[base:]))
    return replace(found, parties=shown, work=work)


class PlainCipher(Curve25519Cipher):
    """Sends as much as the cipher of sites and hides nothing; what it would encrypt is counted."""

    def __init__(self, work: Counter[str]) -> None:
        self._work = work

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        """Take the first bytes of each message for an element."""
        del purpose
        found = np.zeros((len(messages), self.width), np.uint8)
        for row, message in zip(found, messages, strict=True):
            row[: min(len(message), self.width)] = np.frombuffer(message, np.uint8)[: self.width]
        self._work["hashes"] += len(messages)
        return found

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        """Add the key, bit by bit: as commutative as what it stands for."""
        self._work["encryptions"] += len(elements)
        return elements ^ np.frombuffer(key.secret, np.uint8)

    def check(self, elements: Elements, sender: str) -> None:
        """Take any element."""
        del elements, sender


class _Relay(Mesh):
    """A mesh that counts how many messages have waited for each other, one after the other."""

    def __init__(self, n: int) -> None:
        super().__init__(n, timeout=_PATIENCE)
        self.clocks = [0] * n
        self.stamps: dict[tuple[int, int], deque[int]] = {}

    def at(self, parties: Sequence[int]) -> MeshNetwork:
        """Return the network of one endpoint."""
        return _RelayNetwork(self, parties)


class _RelayNetwork(MeshNetwork):
    mesh: _Relay

    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        way = self.mesh.stamps.setdefault((source, destination), deque())
        way.append(self.mesh.clocks[source] + 1)
        super()._post(step, source, destination, data)

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        sender, data = super()._receive(step, at, senders, timeout)
        clocks = self.mesh.clocks
        clocks[at] = max(clocks[at], self.mesh.stamps[sender, at].popleft())
        return sender, data

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        found = super()._move(step, plan, outbox)
        clocks = self.mesh.clocks
        latest = 1 + max(clocks[party] for party in self.local)
        for party in self.local:
            clocks[party] = latest
        return found


def _by_mail(members: Sequence[str], servers: int, attend: Callable[[Network], None]) -> Rehearsed:
    """Run members that write to each other, the first so many of them servers, and count."""
    mesh = _Relay(len(members))
    _, sent = run_side_by_side(len(members), servers, attend, mesh)
    note = f"of {TYPICAL}"
    return Rehearsed(tuple(members), joined_meters(sent), max(mesh.clocks), {}, note=note)


def _alignment(plan: PeerPlan) -> Rehearsed:
    """Align rows of peers that all have the same ids: in a ring, without a key."""
    ids, work, ledger = np.arange(plan.capacity), Counter[str](), Ledger(domain=plan.domain)
    plan.charge(ledger)

    def attend(network: Network) -> None:
        leakage = Leakage(plan.ring_openings(), ledger=ledger, records=len(ids))
        align_rows(network, plan, ids, leakage, NoCheckpoints(), cipher=PlainCipher(work))

    return replace(_by_mail(peer_names(plan), 0, attend), work=work)


def _supposed(plan: Any) -> Callable[[str, tuple[int, ...]], NDArray[Any]]:
    """Return what is taken to be opened: a shuffle, the widest splits, and otherwise zeros.

    So no node is a leaf before the last level.
    """
    splits: dict[str, NDArray[np.int64]] = {}
    if isinstance(plan, PivotPlan) and plan.shown is not None:
        splits = {split_name(level): plan.shown for level in range(plan.depth)}
    elif isinstance(plan, OpenPlan):
        widest = np.flatnonzero(plan.layout.candidates.n_children == plan.layout.arity)
        splits = {split_name(level): widest for level in range(plan.depth)}

    def opened(name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        if SHUFFLED in name or PLACES in name:
            return np.arange(shape[0])
        if name in splits:
            # Spread over all, so that every owner's attributes come up alike.
            among = splits[name]
            return among[np.arange(shape[0]) * len(among) // shape[0]]
        return np.zeros(shape, np.int64)

    return opened


def _uploads(plan: ServerPlan, n: int) -> list[Upload]:
    ends = [plan.n_slots * i // n for i in range(n + 1)]
    return horizontal_uploads(plan.layout, np.diff(ends).tolist())


def _joined_uploads(plan: ServerPlan, n: int) -> list[Upload]:
    groups = np.array_split(np.arange(plan.layout.n_features), n)
    return vertical_uploads([plan.n_slots] * n, [group.tolist() for group in groups], 0)


def _random_table(plan: TopDownPlan, n: int, rng: np.random.Generator) -> Encoded:
    """Make up a table in which every node is worth a split: the class follows from a sum."""
    bins = np.asfortranarray(rng.integers(0, plan.domain.n_bins, (n, len(plan.domain.n_bins))))
    total = (bins / plan.domain.n_bins).sum(axis=1)
    ranks = np.argsort(np.argsort(total))
    target = (ranks * plan.n_classes // max(n, 1)).astype(np.uint8)
    return Encoded(plan.domain, bins.astype(plan.domain.dtype), target, np.ones(n, np.bool_))
