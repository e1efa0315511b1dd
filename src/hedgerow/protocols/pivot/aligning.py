"""Rows of all peers in one order, before a tree is grown: `align_rows`.

Peers are in lock-step, sites are not: the messages of `RingAlignment` go in rounds, in which every
peer tells all others how many bytes it has for whom. They know these numbers: every set passes
every peer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import CommutativeCipher, Curve25519Cipher
from hedgerow.errors import Code
from hedgerow.net.network import Network, Route
from hedgerow.privacy import Leakage
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.sharing.saying import said_by_all
from hedgerow.protocols.vertical_id3.align import Learn, RingAlignment, check_enough
from hedgerow.protocols.vertical_id3.cardinality import RingCardinality, SiteMeter
from hedgerow.protocols.vertical_id3.messages import RECORDS, Common, bad_message
from hedgerow.protocols.vertical_id3.tasks import Desk, Outgoing
from hedgerow.tables.ids import id_bytes

ALIGNED = "aligned rows"
"""The stage that has which rows of a peer are common, and what it learned when they were found."""
SIZES, SETS = "sizes of sets", "sets of ids"
_ABOUT = "rows of peers"
_LENGTH = struct.Struct("<Q")


def align_rows(
    network: Network,
    plan: PeerPlan,
    ids: NDArray[Any],
    leakage: Leakage,
    keep: Checkpoints,
    least: int = 1,
    cipher: CommutativeCipher | None = None,
) -> NDArray[np.intp]:
    """Return the rows of this peer that all peers have, in the same order at all of them.

    An attempt that was cut off while rows were being aligned begins that anew, under fresh keys,
    and shows the same sizes; once all peers have the stage, it is not done again. H111 for fewer
    than `least` rows.

    Reveals: what `RingAlignment` says; `PeerPlan.openings` declares it.
    Cost: about 4 m rounds; every peer encrypts the ids of all.
    """
    (party,) = network.local
    declared = {one.name: one for one in leakage.openings}
    names = [one.name for one in plan.ring_openings()]
    times = np.zeros(len(names), dtype=np.int64)

    def learn(name: str, shape: tuple[int, ...], more: int = 1) -> None:
        leakage.check(name, f"peer {party}", shape, more)
        times[names.index(name)] += more

    known = keep.load(ALIGNED)
    if known is None:
        rows = _found(network, plan, ids, learn, min(least, 1), cipher or Curve25519Cipher())
        keep.save(ALIGNED, {"rows": rows, "times": times})
    else:
        rows = known["rows"]
        for name, n in zip(names, known["times"], strict=True):
            if n:
                learn(name, declared[name].shape, int(n))
    check_enough(len(rows), least)
    return rows


def _found(
    network: Network,
    plan: PeerPlan,
    ids: NDArray[Any],
    learn: Learn,
    least: int,
    cipher: CommutativeCipher,
) -> NDArray[np.intp]:
    (party,), n = network.local, plan.n_peers
    ring = RingCardinality(
        party,
        cipher,
        lambda purpose: [np.arange(len(ids))],
        learn=learn,
        check=_check_groups,
        meter=SiteMeter(),
    )
    names = id_bytes(ids)
    ring.elements = ring.cipher.hash(names, "records")
    alignment = RingAlignment(ring, n, plan.starter, learn, least)
    desk = Desk(party, n, alignment.handle, (Common,))
    found: list[NDArray[np.intp]] = []
    outgoing = desk.start(alignment.find(), found.append)
    while (heard := _round(network, n, outgoing, is_done=alignment.is_done)) is not None:
        outgoing = [one for sender, data in heard for one in desk.receive(sender, data)]
    (rows,) = found
    # Ids are the same at all peers, and so is their order.
    return np.array(sorted(rows.tolist(), key=names.__getitem__), dtype=np.intp)


def _round(
    network: Network, n: int, outgoing: Sequence[Outgoing], *, is_done: bool
) -> list[tuple[int, bytes]] | None:
    """Send messages and return those of the others, in order; None once all peers are done.

    H752 where nobody has anything to send and not all are done.
    """
    (me,) = network.local
    bodies = {
        to: b"".join(_LENGTH.pack(len(one.data)) + one.data for one in outgoing if one.to == to)
        for to in range(n)
    }
    mine = np.array([*(len(bodies[to]) for to in range(n)), is_done], dtype="<u8")
    said = said_by_all(network, SIZES, {me: mine.tobytes()}, _ABOUT, n)
    sizes = np.array([np.frombuffer(one, dtype="<u8") for one in said])
    sent, done = sizes[:, :n], sizes[:, n]
    if not sent.any():
        if done.all():
            return None
        raise bad_message(f"peer {int(np.argmin(done))}", "nothing, before its set had come back")
    wrong = np.argwhere(np.where(np.eye(n, dtype=np.bool_), sent > 0, sent > network.most_mail))
    if wrong.size:
        a, b = wrong[0]
        raise bad_message(f"peer {a}", f"a set of {sent[a, b]:,} bytes for peer {b}")
    plan = [Route(int(a), int(b), (int(sent[a, b]),), "uint8") for a, b in np.argwhere(sent)]
    outbox = {
        k: np.frombuffer(bodies[route.destination], dtype=np.uint8)
        for k, route in enumerate(plan)
        if route.source == me
    }
    heard = network.exchange(SETS, plan, outbox)
    return [(plan[k].source, data) for k, body in heard.items() for data in _parts(body.tobytes())]


def _parts(body: bytes) -> Iterator[bytes]:
    """Split what came in one round into messages; what is left over is one, and is refused."""
    at = 0
    while at < len(body):
        start = at + _LENGTH.size
        length = int.from_bytes(body[at:start], "little")
        at = min(start + length, len(body))
        yield body[start:at]


def _check_groups(owner: int, purpose: int, sizes: list[int]) -> None:
    if purpose != RECORDS or len(sizes) != 1:
        raise Code.SITE_CONTRADICTS.error(
            expected="one set of records", found=f"{len(sizes)} groups of peer {owner}"
        )
