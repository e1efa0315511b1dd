"""Aligning records: each site learns which of its ids all the others have.

1. Every site's hashed ids go around the ring as in `RingCardinality`, and meet at one site.
2. That site keeps the elements that all sets have, shuffles them and takes its key off; so does
   every other site in turn.
3. The last one holds the hashes of the common ids, which everybody may know, and sends them to all.

No site learns whose an id is that not all have; only the meeting site learns how many there are of
each sort.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Elements, elements_of, shuffled
from hedgerow.errors import Code
from hedgerow.protocols.ppid3_checks import ALIGN as CALL
from hedgerow.protocols.ppid3_leakage import COMMON
from hedgerow.protocols.ppid3_messages import Common, Strip, bad_message
from hedgerow.protocols.ppid3_tasks import Send, Task, Wait
from hedgerow.protocols.set_cardinality import RECORDS, subsets_name

if TYPE_CHECKING:
    from hedgerow.protocols.ppid3_site import Site


def align(site: Site) -> Task[None]:
    """Leave out the records that not all sites have; run at every site.

    Reveals: to every site which of its ids are common and the number of each other site's ids; to
    the site that begins also the sizes of the intersections of all subsets of the sites.
    Cost: with n_j records at site j and k sites, k sum n_j encryptions, and k times the number of
    common records to take the keys off.

    Raises
    ------
    InputError
        H111 if there is none.
    """
    ring = tuple(range(site.job.n_sites))
    if site.index == site.job.starter:
        own = [np.arange(site.table.n_records)]
        sets, _ = yield from site.ring.gather(CALL, RECORDS, ring, own)
        site.learn(subsets_name((1,) * len(ring)), (2,) * len(ring))
        words = [_words(groups[0]) for groups in sets]
        common = reduce(np.intersect1d, words)
        if not common.size:
            raise _nothing_in_common()
        yield from _take_off(site, ring, 0, _elements(common, site.cipher.width))
    ((sender, message),) = yield Wait(CALL, Common)
    found = elements_of(message.common, site.cipher.width, f"site {sender}")
    site.learn(COMMON, (site.table.n_records,))
    keep = np.isin(_words(site.ring.elements), _words(found))
    if int(keep.sum()) != len(found):
        raise bad_message(f"site {sender}", "ids in common that this site does not have")
    if not keep.any():
        raise _nothing_in_common()
    site.keep(np.flatnonzero(keep))


def strip(site: Site, sender: int, message: Strip) -> Task[None]:
    """Take this site's key off the common elements, and pass them on."""
    ring = message.ring
    if ring != tuple(range(site.job.n_sites)) or not 0 < message.layers < len(ring):
        raise bad_message(f"site {sender}", "common elements out of turn")
    name = f"site {sender}"
    common = elements_of(message.common, site.cipher.width, name)
    site.cipher.check(common, name)
    yield from _take_off(site, ring, message.layers, common)


def _take_off(site: Site, ring: tuple[int, ...], layers: int, common: Elements) -> Task[None]:
    plain = site.cipher.decrypt(site.ring.key(CALL), common)
    site.meter.alignment += len(common)
    data = plain[shuffled(len(plain), site.entropy)].tobytes()
    if layers + 1 < len(ring):
        to = ring[(ring.index(site.index) + 1) % len(ring)]
        yield Send(to, Strip(CALL, ring, layers + 1, data))
        return
    for other in ring:
        yield Send(other, Common(CALL, data))


def _words(elements: Elements) -> NDArray[Any]:
    return np.ascontiguousarray(elements).view(f"V{elements.shape[1]}").ravel()


def _elements(words: NDArray[Any], width: int) -> Elements:
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, width)


def _nothing_in_common() -> Exception:
    return Code.IDS_DO_NOT_ALIGN.error(
        expected="ids in common at all sites",
        found="no id that all of them have",
        fix="check that all sites mean the same ids, spell them alike, and give them one type: "
        "the number 7 and the text '7' differ",
    )
