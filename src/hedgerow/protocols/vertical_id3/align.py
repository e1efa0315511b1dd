"""Aligning records: each site learns which of its own ids all the others have.

1. Every site's hashed ids go around the ring as in `RingCardinality`, and meet at one site.
2. That site marks, in every set, the elements that all sets have.
3. The marks of a set go back the way that it came. Each site undoes the shuffle that it did, so
   that they reach the owner in the order in which it sent its elements.

Nothing is ever decrypted: whatever the meeting site marks, no site learns an id that it does not
have; see `align` for what is left.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Elements
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.cardinality import RingCardinality, subsets_name
from hedgerow.protocols.vertical_id3.leakage import COMMON, MARKS
from hedgerow.protocols.vertical_id3.messages import ALIGN, RECORDS, Common, bad_message
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

Marks = NDArray[np.bool_]


def align(site: Site, ring: RingCardinality) -> Task[None]:
    """Leave out the records that not all sites have; run at every site. H111 if none is left.

    A site that begins and does not keep to its word can mark other elements than the common ones,
    as many in each set: other records are left out then, and no id is seen. With more than two
    sites it can also find out which of its own ids each of the others has, by encrypting every one
    of them under a key of its own.

    Reveals: to every site which of its ids are common and the number of each other site's ids; to
    the site that begins also the sizes of the intersections of all subsets of the sites.
    Cost: with n_j records at site j and k sites, k sum n_j encryptions; one bit of marks for every
    element on its way back.
    """
    sites = tuple(range(site.job.n_sites))
    if site.index == site.job.starter:
        own = [np.arange(site.table.n_records)]
        sets, _ = yield from ring.gather(ALIGN, RECORDS, sites, own)
        site.learn(subsets_name((1,) * len(sites)), (2,) * len(sites))
        words = [_words(groups[0]) for groups in sets]
        common = reduce(np.intersect1d, words)
        if not common.size:
            raise Code.IDS_DO_NOT_ALIGN.error(
                expected="ids in common at all sites",
                found="no id that all of them have",
                fix="check that all sites mean the same ids, spell them alike, and give them one "
                "type: the number 7 and the text '7' differ",
            )
        for owner, theirs in zip(sites, words, strict=True):
            yield Send(sites[owner - 1], _marks_message(owner, np.isin(theirs, common)))
    ((sender, message),) = yield Wait(ALIGN, Common)
    site.learn(COMMON, (site.table.n_records,))
    rows = np.flatnonzero(_unshuffle(site, ring, sender, message))
    site.keep(rows)
    ring.elements = ring.elements[rows]


def pass_marks(site: Site, ring: RingCardinality, sender: int, message: Common) -> Task[None]:
    """Undo this site's shuffle of another site's set, and pass the marks back."""
    if sender != site.index:
        site.learn(MARKS, ())
    marks = _unshuffle(site, ring, sender, message)
    yield Send((site.index - 1) % site.job.n_sites, _marks_message(message.owner, marks))


def _unshuffle(site: Site, ring: RingCardinality, sender: int, message: Common) -> Marks:
    """Return marks in the order in which the elements came here.

    H752 for marks of no set that went this way, H754 for another number than in the sets before.
    """
    name, owner, k = f"site {sender}", message.owner, site.job.n_sites
    order = ring.order(ALIGN, owner)
    # The last site on the way of a set hears from where the sets meet, the others from the next.
    last = site.index == (owner - 1) % k
    if order is None or sender != (site.job.starter if last else (site.index + 1) % k):
        raise bad_message(name, f"marks of a set of site {owner}, out of turn")
    bits = np.unpackbits(np.frombuffer(message.marks, dtype=np.uint8))
    if len(bits) != -(-len(order) // 8) * 8 or bits[len(order) :].any():
        raise bad_message(name, f"{len(message.marks)} bytes of marks for {len(order):,} elements")
    marks = np.empty(len(order), dtype=np.bool_)
    marks[order] = bits[: len(order)] != 0
    n = int(marks.sum())
    if not n or site.n_common not in (None, n):
        raise Code.SITE_CONTRADICTS.error(
            expected="as many common records in every set, and at least one",
            found=f"{n:,} of site {owner}, {site.n_common or 0:,} of a set before",
        )
    site.n_common = n
    return marks


def _marks_message(owner: int, marks: Marks) -> Common:
    return Common(ALIGN, owner, np.packbits(marks).tobytes())


def _words(elements: Elements) -> NDArray[Any]:
    return np.ascontiguousarray(elements).view(f"V{elements.shape[1]}").ravel()
