"""`IsREmpty`: whether any attributes are left, at any site.

Paper: vaidya2005vertical, algorithm 2 and lemma 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hedgerow.crypto.commutative import Elements, elements_of
from hedgerow.protocols.vertical_id3.leakage import COMPARISON, REMAIN, SUM
from hedgerow.protocols.vertical_id3.messages import CompareReply, CompareStart, Sum, bad_message
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

if TYPE_CHECKING:
    from hedgerow.protocols.vertical_id3.site import Site

M = 2**64
"""The modulus m of the sum; sums of the sites' flags are far below it."""


def is_r_empty(site: Site) -> Task[bool]:
    """Find out whether no site has an attribute left; run at the site that asks, P_1.

    1. P_1 draws r uniformly below m and sends r + AR_1 (steps 1 and 2).
    2. Every site adds its flag and passes the sum on (steps 3 to 8).
    3. P_1 and the last site compare r and the sum under two keys of a commutative cipher (steps 9
       to 12).

    Reveals: to P_1 whether the number of sites with attributes left is 0; to the others a number
    that is uniform, or points under a key that they do not have.
    Cost: k + 1 messages after each other, 4 encryptions.
    """
    k = site.job.n_sites
    ring = tuple((site.index + i) % k for i in range(k))
    call = site.new_call()
    r = int.from_bytes(site.entropy(8), "little")
    yield Send(ring[1], Sum(call, ring, (r + _flag(site)) % M))
    key = site.cipher.new_key(site.entropy)
    yield Send(
        ring[-1],
        CompareStart(call, site.index, site.cipher.encrypt(key, _point(site, r)).tobytes()),
    )
    ((sender, reply),) = yield Wait(call, CompareReply)
    if sender != ring[-1]:
        raise bad_message(f"site {sender}", "a comparison that is not its own")
    site.learn(COMPARISON, ())
    both, last = (_element(site, sender, blob) for blob in (reply.both, reply.last))
    site.meter.comparisons += 2
    site.learn(REMAIN, ())
    return bool(np.array_equal(site.cipher.encrypt(key, last), both))


def add_flag(site: Site, sender: int, message: Sum) -> Task[None]:
    """Add this site's flag to a passing sum, or, at the last site, compare it."""
    ring, k = message.ring, site.job.n_sites
    if sorted(ring) != list(range(k)) or ring[0] == site.index:
        raise bad_message(f"site {sender}", f"a sum along the sites {ring}")
    at = ring.index(site.index)
    if ring[at - 1] != sender:
        raise bad_message(f"site {sender}", "a sum out of turn")
    site.learn(SUM, ())
    total = (message.total + _flag(site)) % M
    if at < k - 1:
        yield Send(ring[at + 1], Sum(message.call, ring, total))
        return
    ((first, start),) = yield Wait(message.call, CompareStart)
    if first != ring[0] or start.first != first:
        raise bad_message(f"site {first}", "a comparison that is not its own")
    site.learn(COMPARISON, ())
    key = site.cipher.new_key(site.entropy)
    both = site.cipher.encrypt(key, _element(site, first, start.element))
    last = site.cipher.encrypt(key, _point(site, total))
    site.meter.comparisons += 2
    yield Send(first, CompareReply(message.call, both.tobytes(), last.tobytes()))


def _flag(site: Site) -> int:
    return int(bool(site.constraints.remaining))


def _point(site: Site, number: int) -> Elements:
    return site.cipher.hash([number.to_bytes(8, "little")], "sum")


def _element(site: Site, sender: int, blob: bytes) -> Elements:
    name = f"site {sender}"
    found = elements_of(blob, site.cipher.width, name)
    if len(found) != 1:
        raise bad_message(name, f"{len(found)} elements where one was due")
    site.cipher.check(found, name)
    return found
