"""`ComputeInfoGain` and `AttribMaxInfoGain`: which attribute of which site is best.

Paper: vaidya2005vertical, algorithms 5 and 6, lemmas 4 and 5.
"""

from __future__ import annotations

import math
from decimal import Context
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.checks import check_node
from hedgerow.protocols.vertical_id3.leakage import GAIN, PLACE
from hedgerow.protocols.vertical_id3.messages import AskGain, GainReply, NodeCall, bad_message
from hedgerow.protocols.vertical_id3.tasks import All, Send, Task, Wait

if TYPE_CHECKING:
    from hedgerow.protocols.vertical_id3.site import Site

NO_ATTRIBUTE = -1.0
GRID = 40
"""Gains are whole multiples of 2^-GRID."""

_FINE = 64
# A logarithm of `decimal` is correctly rounded, so it has the same digits on every machine, which
# those of processors and their libraries do not.
_DIGITS = Context(prec=60)
_LN_2 = _DIGITS.ln(2)


def information_gain(table: NDArray[np.int64]) -> float:
    """Return Entropy(S) - sum |S_v|/|S| Entropy(S_v) of counts by value and class, (p, c).

    A sum of whole numbers, rounded to the grid 2^-40 at the end. It depends neither on the order of
    values and classes, which other sites shuffle, nor on the machine, so that the same table gives
    the same gain at every site. Gains that are equal but for rounding become equal, and the first
    attribute wins, unless they lie on two sides of the middle between two points of the grid.
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
    """Compute the gain of one of this site's attributes (algorithm 6).

    One set intersection per value and class, all in one pass of the ring. The counts of the node
    itself are their sums.

    Reveals: see `vertical_id3.set_cardinality.RingCardinality`. A site without the class sees
    the classes in an order that the class site draws anew for each pass.

    Returns
    -------
    float
        The gain.
    int64 (c,)
        Class counts of the node; in an unknown order at a site without the class.
    """
    job, constraints = site.job, site.constraints
    p, c = int(constraints.n_values[attribute]), job.n_classes
    values = constraints.bins[:, attribute].astype(np.int64)
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
    table = site.noisy(table)
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
    call, k = site.new_call(), site.job.n_sites
    for other in range(k):
        yield Send(other, AskGain(call, node.number, node.depth, node.constrained))
    if site.secret is not None:
        return (yield from site.secret.best_site(call))
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
    check_node(site.job, site.announced, sender, message)
    if message.number <= site.offered.number:
        raise bad_message(f"site {sender}", f"node {message.number} out of turn")
    site.offered, site.offered_to = message, sender
    if sender != site.index:
        site.learn(PLACE, (3,))
    gain = yield from best_gain(site, message)
    if site.secret is not None:
        yield Send(sender, site.secret.seal_gain(message.call, sender, gain))
    else:
        yield Send(sender, GainReply(message.call, gain))
