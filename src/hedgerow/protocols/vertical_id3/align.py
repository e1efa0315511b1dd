"""Aligning records: each site learns which of its own ids all the others have.

1. Every site's hashed ids go around the ring as in `RingCardinality`, and meet at one site.
2. That site marks, in every set, the elements that all sets have.
3. The marks of a set go back the way that it came. Each site undoes the shuffle that it did, so
   that they reach the owner in the order in which it sent its elements.

Nothing is ever decrypted: whatever the meeting site marks, no site learns an id that it does not
have; see `RingAlignment` for what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Elements
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.cardinality import RingCardinality, subsets_name
from hedgerow.protocols.vertical_id3.leakage import COMMON, MARKS
from hedgerow.protocols.vertical_id3.messages import (
    ALIGN,
    RECORDS,
    BringSet,
    Common,
    Message,
    PassSet,
    bad_message,
)
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

Marks = NDArray[np.bool_]
Learn = Callable[[str, tuple[int, ...]], None]
"""Told what is learned before it is used; raises what is not declared."""


class RingAlignment:
    """Finds, at one of `n_sites`, which of its records all of them have; `starter` begins.

    With `least` 0 there may be no common records; else there is at least one.

    A site that begins and does not keep to its word can mark other elements than the common ones,
    as many in each set: other records are left out then, and no id is seen. With more than two
    sites it can also find out which of its own ids each of the others has, by encrypting every one
    of them under a key of its own.

    Reveals: to every site which of its ids are common and the number of each other site's ids; to
    the site that begins also the sizes of the intersections of all subsets of the sites.
    Cost: with n_j records at site j and k sites, k sum n_j encryptions; one bit of marks for every
    element on its way back.
    """

    def __init__(
        self, ring: RingCardinality, n_sites: int, starter: int, learn: Learn, least: int = 1
    ) -> None:
        self.ring, self.n_sites, self.starter = ring, n_sites, starter
        self._learn, self._least = learn, least
        self._n_common: int | None = None
        self._sets_left = n_sites

    @property
    def is_done(self) -> bool:
        """Whether the marks of all sets have come by: nothing is waited for any more."""
        return not self._sets_left

    def find(self) -> Task[NDArray[np.intp]]:
        """Return the records that all sites have, by their places; run at every site.

        H111 if there are none and `least` is 1.
        """
        ring, sites, n_records = self.ring, tuple(range(self.n_sites)), len(self.ring.elements)
        if ring.index == self.starter:
            sets, _ = yield from ring.gather(ALIGN, RECORDS, sites, [np.arange(n_records)])
            self._learn(subsets_name((1,) * len(sites)), (2,) * len(sites))
            words = [_words(groups[0]) for groups in sets]
            common = reduce(np.intersect1d, words)
            if common.size < self._least:
                raise Code.IDS_DO_NOT_ALIGN.error(
                    expected="ids in common at all sites",
                    found="no id that all of them have",
                    fix="check that all sites mean the same ids, spell them alike, and give them "
                    "one type: the number 7 and the text '7' differ",
                )
            for owner, theirs in zip(sites, words, strict=True):
                yield Send(sites[owner - 1], _marks_message(owner, np.isin(theirs, common)))
        ((sender, message),) = yield Wait(ALIGN, Common)
        self._learn(COMMON, (n_records,))
        return np.flatnonzero(self._unshuffle(sender, message))

    def pass_marks(self, sender: int, message: Common) -> Task[None]:
        """Undo this site's shuffle of another site's set, and pass the marks back."""
        if sender != self.ring.index:
            self._learn(MARKS, ())
        marks = self._unshuffle(sender, message)
        to = (self.ring.index - 1) % self.n_sites
        yield Send(to, _marks_message(message.owner, marks))

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """Return the task that a message begins where nothing but aligning is under way; H752."""
        self.check(sender, message)
        if message.call != ALIGN or not is_aligning(message):
            raise bad_message(f"site {sender}", f"{type(message).__name__} while records align")
        if isinstance(message, Common) and message.owner != self.ring.index:
            return self.pass_marks(sender, message)
        return self.ring.handle(sender, message)

    def check(self, sender: int, message: Message) -> None:
        """Refuse to align the records of some sites alone, which would tell whose they are; H752.

        Those of all of them, and at the site that begins, are no such thing.
        """
        everybody = tuple(range(self.n_sites)), self.starter
        if (
            isinstance(message, BringSet | PassSet)
            and message.purpose == RECORDS
            and (message.ring, message.counter) != everybody
        ):
            kind = type(message).__name__
            raise bad_message(
                f"site {sender}", f"{kind} to align records of the sites {message.ring}"
            )

    def _unshuffle(self, sender: int, message: Common) -> Marks:
        """Return marks in the order in which the elements came here.

        H752 for marks of no set that went this way, H754 for another number than in the sets
        before.
        """
        name, owner, k, here = f"site {sender}", message.owner, self.n_sites, self.ring.index
        order = self.ring.order(ALIGN, owner)
        # The last site on the way of a set hears from where the sets meet, the others from the
        # next.
        last = here == (owner - 1) % k
        if order is None or sender != (self.starter if last else (here + 1) % k):
            raise bad_message(name, f"marks of a set of site {owner}, out of turn")
        bits = np.unpackbits(np.frombuffer(message.marks, dtype=np.uint8))
        if len(bits) != -(-len(order) // 8) * 8 or bits[len(order) :].any():
            raise bad_message(
                name, f"{len(message.marks)} bytes of marks for {len(order):,} elements"
            )
        marks = np.empty(len(order), dtype=np.bool_)
        marks[order] = bits[: len(order)] != 0
        n = int(marks.sum())
        if n < self._least or self._n_common not in (None, n):
            raise Code.SITE_CONTRADICTS.error(
                expected=f"as many common records in every set, and at least {self._least}",
                found=f"{n:,} of site {owner}, {self._n_common or 0:,} of a set before",
            )
        self._n_common = n
        self._sets_left -= 1
        return marks


def is_aligning(message: Message) -> bool:
    """Whether a message is about which records all sites have."""
    if isinstance(message, BringSet | PassSet):
        return message.purpose == RECORDS
    return isinstance(message, Common)


def check_enough(common: int, least: int) -> None:
    """Refuse, H111, fewer common records than a job wants."""
    if common < least:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected=f"{least:,} records that all sites have, as the job wants",
            found=f"{common:,}",
            fix="check that all sites mean the same ids, spell them alike, and give them one "
            "type: numbers or text",
        )


def _marks_message(owner: int, marks: Marks) -> Common:
    return Common(ALIGN, owner, np.packbits(marks).tobytes())


def _words(elements: Elements) -> NDArray[Any]:
    return np.ascontiguousarray(elements).view(f"V{elements.shape[1]}").ravel()
