"""Sizes of intersections of sets that lie at several sites, many of them in one pass.

Paper: vaidya2005vertical, lemma 2 and section 5; the ring is that of its reference 13.

A site's set may come in groups that share no element (the transactions of each class, of each
value of an attribute). One pass of the sets around the ring then gives the sizes of the
intersections of every choice of groups, and nothing that separate passes would not have given:
groups of one set are disjoint, so all other sizes are sums and differences of these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import (
    CipherKey,
    CommutativeCipher,
    Elements,
    Entropy,
    elements_of,
    shuffled,
)
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.messages import (
    NODE,
    RECORDS,
    BringSet,
    Message,
    PassSet,
    bad_message,
)
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

Groups = Sequence[NDArray[np.intp]]
"""Rows of a site's elements, disjoint; a set without groups is a list of one."""
Counts = NDArray[np.int64]

ASKED = "sites of an intersection"
"""Name under which it is declared that a site is asked for its set."""


@dataclass
class SiteMeter:
    """What was done at one site; `passes` are those of the ring that it asked for.

    Elements encrypted are `encryptions` for intersections whose sizes it was given, `comparisons`
    for algorithm 2, and `alignment`.
    """

    intersections: int = 0
    encryptions: int = 0
    passes: int = 0
    comparisons: int = 0
    alignment: int = 0
    messages: int = 0
    bytes: int = 0


class SetCardinality(Protocol):
    """How the size of an intersection is found; one object at each site."""

    def count(self, call: int, ring: tuple[int, ...], own: Groups) -> Task[Counts]:
        """Find, at the site that calls, the sizes of all intersections of groups.

        `call` was never used before; `ring` has this site among others. Returns int64 with one axis
        for each site of the ring, as long as its set has groups: in this site's own order on its
        own axis, in a random one on the others.
        """
        ...

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """Return the task that a message begins here, or None if it begins none."""
        ...


class GainComparison(Protocol):
    """How the site with the best attribute is found; one object at each site."""

    def offer(self, call: int, to: int, gain: float) -> Message:
        """Return what tells the site that runs a node about this site's best gain."""
        ...

    def best_site(self, call: int) -> Task[int]:
        """Find the site with the largest gain, at the one that runs a node; the first of equals."""
        ...


@dataclass
class _Pass:
    """What a site remembers of a pass until it has done its part."""

    key: CipherKey
    left: int
    owners: set[int] = field(default_factory=set)


class RingCardinality:
    """Every set is encrypted by every site, in a ring, and shuffled at every hop.

    1. The counting site asks the others of the ring for their sets.
    2. Each site encrypts its set under a key of this call, shuffles the order of the groups and of
       the elements inside them, and passes it on.
    3. Each site does the same with every set that comes by. The last one sends it to the counting
       site.
    4. Equal elements are now equal bytes, and nobody can tell whose they are.

    Keys are fresh for each call, so that elements of two calls cannot be matched. That a site uses
    one key for all its elements nobody can check: a counting site that does not can tell which of
    its elements is in which group of another site. `SecretCardinality` has no such keys.

    Reveals: to the counting site the sizes of the intersections of all groups of all subsets of the
    sites; to each site of the ring the sizes of the groups that pass through it.
    Cost: with m sites and n_j elements at site j, m * sum n_j encryptions, m + 1 messages after
    each other, and m * sum n_j elements sent. Nothing at all for a ring of one.

    `form` gives this site's groups for the purpose of a pass; `learn` is told what is learned
    before it is used, and raises what is not declared; `check` raises H754 for sizes that
    contradict what the owner of a set announced.
    """

    def __init__(
        self,
        index: int,
        cipher: CommutativeCipher,
        form: Callable[[int], Groups],
        *,
        learn: Callable[[str, tuple[int, ...]], None],
        check: Callable[[int, int, list[int]], None],
        meter: SiteMeter,
        entropy: Entropy = os.urandom,
    ) -> None:
        self.index = index
        self.cipher = cipher
        self.elements: Elements = np.empty((0, cipher.width), dtype=np.uint8)
        self._form = form
        self._learn = learn
        self._check = check
        self._meter = meter
        self._entropy = entropy
        self._calls: dict[int, _Pass] = {}
        self._done: set[int] = set()
        self._orders: dict[tuple[int, int], NDArray[np.intp]] = {}

    def count(self, call: int, ring: tuple[int, ...], own: Groups) -> Task[Counts]:
        """See `SetCardinality.count`."""
        if ring == (self.index,):
            counts = np.array([len(rows) for rows in own], dtype=np.int64)
        else:
            sets, order = yield from self.gather(call, NODE, ring, own)
            sizes = tuple(len(groups) for groups in sets)
            self._learn(subsets_name(sizes), tuple(size + 1 for size in sizes))
            counts = joint_sizes(sets, ring)
            axis = ring.index(self.index)
            # Back from the order in which the groups were sent to that of the caller.
            counts = np.take(counts, np.argsort(order), axis=axis)
        self._meter.intersections += counts.size
        return counts

    def gather(
        self, call: int, purpose: int, ring: tuple[int, ...], own: Groups
    ) -> Task[tuple[list[list[Elements]], NDArray[np.intp]]]:
        """Have all sets of a ring encrypted by all its sites (steps 1 to 3).

        Returns the groups of every site, in the order of the ring, and the order in which this
        site's groups were sent.
        """
        self._meter.passes += 1
        for other in ring:
            if other != self.index:
                yield Send(other, BringSet(call, purpose, self.index, ring))
        order = yield from self._begin(call, purpose, self.index, ring, own)
        arrived = yield Wait(call, PassSet, len(ring))
        sets: dict[int, list[Elements]] = {}
        for sender, message in arrived:
            if message.owner in sets or message.ring != ring or message.purpose != purpose:
                raise bad_message(f"site {sender}", f"a set of site {message.owner}")
            sets[message.owner] = self._read(sender, message)
        return [sets[site] for site in ring], order

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """See `SetCardinality.handle`."""
        if isinstance(message, BringSet):
            if message.counter != sender:
                raise bad_message(f"site {sender}", f"a request of site {message.counter}")
            return self._bring(message)
        if isinstance(message, PassSet):
            self._check_pass(sender, message)
            if message.layers < len(message.ring):
                return self._pass_on(sender, message)
        return None

    def order(self, call: int, owner: int) -> NDArray[np.intp] | None:
        """Return how the elements of a set were shuffled here to align records, and forget it."""
        return self._orders.pop((call, owner), None)

    def _bring(self, message: BringSet) -> Task[None]:
        ring = message.ring
        known = message.purpose in (RECORDS, NODE) and {self.index, message.counter} <= set(ring)
        if not known or len(set(ring)) != len(ring):
            raise bad_message(f"site {message.counter}", f"a request to the sites {ring}")
        self._learn(ASKED, ())
        own = self._form(message.purpose)
        yield from self._begin(message.call, message.purpose, message.counter, message.ring, own)

    def _begin(
        self, call: int, purpose: int, counter: int, ring: tuple[int, ...], own: Groups
    ) -> Task[NDArray[np.intp]]:
        order = shuffled(len(own), self._entropy)
        groups = [self.elements[own[i]] for i in order]
        yield from self._encrypt(call, purpose, counter, ring, self.index, 0, groups)
        return order

    def _pass_on(self, sender: int, message: PassSet) -> Task[None]:
        groups = self._read(sender, message)
        # What is learned here is the sizes: the elements are encrypted under a fresh key.
        self._learn(sizes_name(len(groups)), (len(groups),))
        yield from self._encrypt(
            message.call,
            message.purpose,
            message.counter,
            message.ring,
            message.owner,
            message.layers,
            groups,
        )

    def _encrypt(
        self,
        call: int,
        purpose: int,
        counter: int,
        ring: tuple[int, ...],
        owner: int,
        layers: int,
        groups: list[Elements],
    ) -> Task[None]:
        key = self._key_for(call, ring, owner)
        sizes = np.array([len(group) for group in groups], dtype=np.int64)
        whole = np.concatenate(groups) if groups else self.elements[:0]
        done = self.cipher.encrypt(key, whole)
        if purpose == NODE:
            self._meter.encryptions += len(whole)
        else:
            self._meter.alignment += len(whole)
        parts = np.split(done, np.cumsum(sizes)[:-1])
        orders = [shuffled(len(part), self._entropy) for part in parts[: len(groups)]]
        if purpose == RECORDS:
            # What is found of the elements goes back the way that they came.
            (self._orders[call, owner],) = orders
        # Splitting nothing gives one part all the same.
        blobs = tuple(part[order].tobytes() for part, order in zip(parts, orders, strict=False))
        layers += 1
        at = ring.index(self.index)
        to = counter if layers == len(ring) else ring[(at + 1) % len(ring)]
        yield Send(to, PassSet(call, purpose, counter, ring, owner, layers, blobs))

    def _key_for(self, call: int, ring: tuple[int, ...], owner: int) -> CipherKey:
        """Return this site's key of a call; each owner's set is encrypted once."""
        if call in self._done or (call in self._calls and owner in self._calls[call].owners):
            raise bad_message(f"site {owner}", f"its set a second time in call {call}")
        if call not in self._calls:
            self._calls[call] = _Pass(self.cipher.new_key(self._entropy), len(ring))
        mine = self._calls[call]
        mine.owners.add(owner)
        mine.left -= 1
        if not mine.left:
            del self._calls[call]
            self._done.add(call)
        return mine.key

    def _read(self, sender: int, message: PassSet) -> list[Elements]:
        name = f"site {sender}"
        groups = [elements_of(blob, self.cipher.width, name) for blob in message.groups]
        self._check(message.owner, message.purpose, [len(group) for group in groups])
        for group in groups:
            self.cipher.check(group, name)
        return groups

    def _check_pass(self, sender: int, message: PassSet) -> None:
        ring, m = message.ring, len(message.ring)
        if (
            len(set(ring)) != m
            or not {self.index, sender, message.owner, message.counter} <= set(ring)
            or not 1 <= message.layers <= m
            or message.purpose not in (RECORDS, NODE)
        ):
            raise bad_message(f"site {sender}", f"a set of site {message.owner} out of its ring")
        turn = ring[(ring.index(message.owner) + message.layers - 1) % m]
        if sender != turn or (message.layers == m and self.index != message.counter):
            raise bad_message(f"site {sender}", f"a set of site {message.owner} out of turn")


def joint_sizes(sets: Sequence[Sequence[Elements]], ring: Sequence[int]) -> Counts:
    """Count, for every choice of groups, one axis per set, the elements that all of them have."""
    flat = [np.concatenate(groups) for groups in sets]
    everything = np.ascontiguousarray(np.concatenate(flat))
    words = everything.view(f"V{everything.shape[1]}").ravel()
    _, which = np.unique(words, return_inverse=True)
    n = int(which.max(initial=-1)) + 1
    cell = np.zeros(n, dtype=np.int64)
    member = np.ones(n, dtype=np.bool_)
    start = 0
    for site, groups, elements in zip(ring, sets, flat, strict=True):
        mine = which[start : start + len(elements)]
        start += len(elements)
        if len(np.unique(mine)) < len(mine):
            raise Code.SITE_CONTRADICTS.error(
                expected="every element of a set once",
                found=f"a set of site {site} with an element in it twice",
            )
        label = np.full(n, -1, dtype=np.int64)
        label[mine] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        member &= label >= 0
        cell = cell * len(groups) + label
    shape = tuple(len(groups) for groups in sets)
    counts = np.bincount(cell[member], minlength=int(np.prod(shape)))
    return counts.astype(np.int64).reshape(shape)


def sizes_name(groups: int) -> str:
    """Return the name under which the sizes of passing groups are declared."""
    return f"sizes of encrypted sets in {groups} groups"


def subsets_name(sizes: Sequence[int]) -> str:
    """Return the name under which the sizes of sub-intersections are declared."""
    return f"sub-intersections of sets in {' x '.join(map(str, sizes))} groups"
