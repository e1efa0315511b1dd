"""What PPID3 asks about a node: is an attribute left, is it a leaf, which attribute is best.

Paper: vaidya2005vertical, algorithms 2 to 6, lemmas 1 to 5.

=======================  =======================================================
2 IsREmpty               `is_r_empty`, `add_flag`
3 DistributionCounts     `distribution_counts`
4 IsSameClass            `is_same_class`, `ask_leaf`, `answer_leaf`
5 AttribMaxInfoGain      `attrib_max_info_gain`, `best_gain`, `answer_gain`
6 ComputeInfoGain        `compute_info_gain`, `information_gain`
=======================  =======================================================
"""

from __future__ import annotations

import math
from decimal import Context
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Elements, elements_of
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.leakage import (
    COMPARISON,
    GAIN,
    MUST,
    PLACE,
    REMAIN,
    SUM,
    TOKEN,
    most_nodes,
)
from hedgerow.protocols.vertical_id3.messages import (
    AskGain,
    AskLeaf,
    CompareReply,
    CompareStart,
    GainReply,
    LeafReply,
    NodeCall,
    Sum,
    Token,
    bad_message,
)
from hedgerow.protocols.vertical_id3.site import AddNoise, Leaf, Site
from hedgerow.protocols.vertical_id3.tasks import All, Send, Task, Wait

M = 2**64
"""The modulus m of the sum; sums of the sites' flags are far below it."""
NO_ATTRIBUTE = -1.0
GRID = 40
"""Gains are whole multiples of 2^-GRID."""

_NONE = Token(0, 0)
_FINE = 64
# A logarithm of `decimal` is correctly rounded, so it has the same digits on every machine, which
# those of processors and their libraries do not.
_DIGITS = Context(prec=60)
_LN_2 = _DIGITS.ln(2)


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


def distribution_counts(site: Site, node: NodeCall) -> Task[NDArray[np.int64]]:
    """Count the transactions of each class that reach a node; run at a site with the class.

    One set intersection per class (algorithm 3), all of them in one pass of the ring.

    Reveals: see `RingCardinality`, or `SecretCardinality` where servers count.
    """
    assert site.table.labels is not None
    own = site.constraints.by(site.table.labels, site.job.n_classes)
    ring = site.job.ring_of((site.index,), node.constrained)
    add_noise = _noise_of(site)
    counts = yield from site.cardinality.count(site.new_call(), ring, own)
    return add_noise(counts.reshape(site.job.n_classes))


def _noise_of(site: Site) -> AddNoise:
    # On shares the noise is in the counts already.
    return (lambda counts: counts) if site.job.secret else site.next_noise()


def is_same_class(site: Site, node: NodeCall, must: bool) -> Task[Token | None]:
    """Make a leaf of a node whose transactions have one class at most; None if it is to be split.

    `must` makes a leaf in any case: no attribute is left, or the depth is reached (algorithm 7,
    steps 1 to 6). A node without any transaction is a leaf with the distribution of its parent, as
    in `ID3Classifier`; the paper leaves this open.
    """
    site.decided = node.number
    counts = yield from distribution_counts(site, node)
    empty = not counts.any()
    if empty and node.depth:
        counts = site.distributions[node.depth - 1]
    site.distributions[node.depth] = counts
    if not must and np.count_nonzero(counts) > 1 and not empty:
        return None
    site.nodes[node.number] = Leaf(tuple(counts.tolist()), empty)
    return Token(site.index, node.number)


def ask_leaf(site: Site, node: NodeCall, must: bool) -> Task[Token | None]:
    """Have the class site decide, or decide here where all sites have the class."""
    if site.job.knows_class(site.index):
        return (yield from is_same_class(site, node, must))
    call, holder = site.new_call(), site.job.starter
    yield Send(holder, AskLeaf(call, node.number, node.depth, node.constrained, int(must)))
    ((sender, reply),) = yield Wait(call, LeafReply)
    if sender != holder or reply.is_leaf not in (0, 1):
        raise bad_message(f"site {sender}", "a leaf")
    site.learn(TOKEN, (2,))
    if not reply.is_leaf:
        return None
    if reply.token != Token(holder, node.number):
        raise bad_message(f"site {sender}", f"the token {reply.token}")
    token: Token = reply.token
    return token


def answer_leaf(site: Site, sender: int, message: AskLeaf) -> Task[None]:
    """Decide, at the class site, for the site that runs a node."""
    if site.job.class_at != site.index:
        raise bad_message(f"site {sender}", "a question about the class")
    _check_node(site, sender, message)
    known = message.depth == 0 or message.depth - 1 in site.distributions
    # The class site is asked about every node once, in the order of their numbers.
    if message.number != site.decided + 1 or not known or message.must > 1:
        raise bad_message(f"site {sender}", f"node {message.number} out of turn")
    site.learn(PLACE, (3,))
    site.learn(MUST, ())
    token = yield from is_same_class(site, message, bool(message.must))
    yield Send(sender, LeafReply(message.call, int(token is not None), token or _NONE))


def information_gain(table: NDArray[np.int64]) -> float:
    """Return Entropy(S) - sum |S_v|/|S| Entropy(S_v) of counts by value and class, (p, c).

    A sum of whole numbers, rounded to the grid 2^-40 at the end, so that it depends neither on the
    order of values and classes, which other sites shuffle, nor on the machine. Gains that are equal
    but for rounding become equal, and the first attribute wins, unless they lie on two sides of the
    middle between two points of the grid.
    """
    n = int(table.sum())
    if n == 0:
        return 0.0
    plus = sum(map(_n_log_n, table.ravel().tolist()), _n_log_n(n))
    minus = sum(map(_n_log_n, [*table.sum(axis=0).tolist(), *table.sum(axis=1).tolist()]))
    step = n << (_FINE - GRID)
    return max(0, (2 * (plus - minus) + step) // (2 * step)) / (1 << GRID)


@lru_cache(maxsize=1 << 16)
def _n_log_n(n: int) -> int:
    """Return n log2 n as a multiple of 2^-64, to the nearest; 0 for 0."""
    if n < 2:
        return 0
    log = _DIGITS.divide(_DIGITS.ln(n), _LN_2)
    return int(_DIGITS.to_integral_value(_DIGITS.multiply(log, n << _FINE)))


def compute_info_gain(
    site: Site, attribute: int, node: NodeCall
) -> Task[tuple[float, NDArray[np.int64]]]:
    """Compute the gain of one of this site's attributes (algorithm 6), and the node's class counts.

    One set intersection per value and class, all in one pass of the ring; the counts, int64 (c,),
    are their sums, in an unknown order at a site without the class.

    Reveals: as `distribution_counts`. A site without the class sees the classes in an order that
    the class site draws anew for each pass.
    """
    job, constraints = site.job, site.constraints
    p, c = int(constraints.n_values[attribute]), job.n_classes
    values, add_noise = constraints.bins[:, attribute].astype(np.int64), _noise_of(site)
    if job.knows_class(site.index):
        assert site.table.labels is not None
        ring = job.ring_of((site.index,), node.constrained)
        own = constraints.by(values * c + site.table.labels, p * c)
        counts = yield from site.cardinality.count(site.new_call(), ring, own)
        table = counts.reshape(p, c)
    else:
        assert job.class_at is not None
        ring = job.ring_of((site.index, job.class_at), node.constrained)
        own = constraints.by(values, p)
        counts = yield from site.cardinality.count(site.new_call(), ring, own)
        axes = ring.index(site.index), ring.index(job.class_at)
        table = np.moveaxis(counts, axes, (0, 1)).reshape(p, c)
    if not site.job.secret and not node.constrained and int(table.sum()) != site.table.n_records:
        raise Code.IDS_DO_NOT_ALIGN.error(
            found=f"{int(table.sum()):,} records in common of {site.table.n_records:,}",
            fix="align the records first (align=True), or bring the same ids at every site",
        )
    table = add_noise(table)
    return information_gain(table), table.sum(axis=0)


def best_gain(site: Site, node: NodeCall) -> Task[float]:
    """Find this site's best attribute (algorithm 5, steps 2 to 9); of equal ones the first."""
    attributes = site.constraints.remaining
    tasks = tuple(compute_info_gain(site, attribute, node) for attribute in attributes)
    # Whoever ran an earlier node has chosen by now: it is no longer to be had.
    site.best.clear()
    found = yield All(tasks)
    if not found:
        return NO_ATTRIBUTE
    gains: list[float] = [gain for gain, _ in found]
    best = int(np.argmax(gains))
    site.best[node.number] = attributes[best]
    if site.job.class_at is None:
        # The parent of empty leaves below, should this site be chosen.
        site.distributions[node.depth] = found[best][1]
    return gains[best]


def attrib_max_info_gain(site: Site, node: NodeCall) -> Task[int]:
    """Return the site with the best attribute (algorithm 5); of equal ones the first.

    Reveals: to the site that runs the node, the best gain of each other site; on shares, which
    site it is and no gain.
    """
    call = site.new_call()
    for other in range(site.job.n_sites):
        yield Send(other, AskGain(call, node.number, node.depth, node.constrained))
    return (yield from site.gains.best_site(call))


class OpenGains:
    """`GainComparison` as published: the site that runs a node sees the best gain of each other."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def offer(self, call: int, to: int, gain: float) -> GainReply:
        """See `GainComparison.offer`."""
        del to
        return GainReply(call, gain)

    def best_site(self, call: int) -> Task[int]:
        """See `GainComparison.best_site`; H754 for what is no gain."""
        site, k = self._site, self._site.job.n_sites
        replies = yield Wait(call, GainReply, k)
        gains = {sender: reply.gain for sender, reply in replies}
        for sender, gain in gains.items():
            if sender != site.index:
                site.learn(GAIN, ())
            if gain != NO_ATTRIBUTE and not 0.0 <= gain <= math.log2(site.job.n_classes) + 1e-9:
                raise Code.SITE_CONTRADICTS.error(
                    expected=f"a gain from 0 to log2 of {site.job.n_classes} classes, or -1",
                    found=f"{gain} from site {sender}",
                )
        if sorted(gains) != list(range(k)):
            raise bad_message("a site", "two gains")
        return max(range(k), key=lambda other: (gains[other], -other))


def answer_gain(site: Site, sender: int, message: AskGain) -> Task[None]:
    """Compute this site's best gain for the site that runs a node."""
    _check_node(site, sender, message)
    if message.number <= site.offered.number:
        raise bad_message(f"site {sender}", f"node {message.number} out of turn")
    site.offered, site.offered_to = message, sender
    if sender != site.index:
        site.learn(PLACE, (3,))
    gain = yield from best_gain(site, message)
    yield Send(sender, site.gains.offer(message.call, sender, gain))


def _check_node(site: Site, sender: int, message: NodeCall) -> None:
    """Refuse a node that no tree of this job can have; H752."""
    job, announced = site.job, site.announced
    attributes = sum(len(said.values) for said in announced.values())
    levels = attributes if job.max_depth is None else min(job.max_depth, attributes)
    deepest = levels if isinstance(message, AskLeaf) else levels - 1
    if (
        message.depth > deepest
        or not message.depth < message.number <= most_nodes(job, announced)
        or list(message.constrained) != sorted(set(message.constrained))
        or not (message.depth > 0) <= len(message.constrained) <= message.depth
    ):
        raise bad_message(
            f"site {sender}", f"node {message.number} at depth {message.depth}, which cannot be"
        )
