"""`DistributionCounts` and `IsSameClass`: class counts of a node, and whether it is a leaf.

Paper: vaidya2005vertical, algorithms 3 and 4, lemmas 2 and 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.vertical_id3.checks import check_node
from hedgerow.protocols.vertical_id3.leakage import MUST, PLACE, TOKEN
from hedgerow.protocols.vertical_id3.messages import (
    AskLeaf,
    LeafReply,
    NodeCall,
    Token,
    bad_message,
)
from hedgerow.protocols.vertical_id3.nodes import Leaf
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

if TYPE_CHECKING:
    from hedgerow.protocols.vertical_id3.site import Site

_NONE = Token(0, 0)


def distribution_counts(site: Site, node: NodeCall) -> Task[NDArray[np.int64]]:
    """Count the transactions of each class that reach a node; run at a site with the class.

    One set intersection per class (algorithm 3), all of them in one pass of the ring.

    Reveals: see `hedgerow.protocols.vertical_id3.set_cardinality.RingCardinality`.
    """
    assert site.table.labels is not None
    own = site.constraints.by(site.table.labels, site.job.n_classes)
    ring = site.job.ring_of((site.index,), node.constrained)
    counts = yield from site.cardinality.count(site.new_call(), ring, own)
    return site.noisy(counts.reshape(site.job.n_classes))


def is_same_class(site: Site, node: NodeCall, must: bool) -> Task[Token | None]:
    """Make a leaf of a node whose transactions have one class at most; run at a site with it.

    Parameters
    ----------
    site : Site
    node : NodeCall
    must : bool
        Make a leaf in any case: no attribute is left, or the depth is reached (algorithm 7, steps
        1 to 6).

    Returns
    -------
    Token or None
        None if the node has to be split. A node without any transaction is a leaf with the
        distribution of its parent, as in `ID3Classifier`; the paper leaves this open.
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
    check_node(site.job, site.announced, sender, message)
    known = message.depth == 0 or message.depth - 1 in site.distributions
    # The class site is asked about every node once, in the order of their numbers.
    if message.number != site.decided + 1 or not known or message.must > 1:
        raise bad_message(f"site {sender}", f"node {message.number} out of turn")
    site.learn(PLACE, (3,))
    site.learn(MUST, ())
    token = yield from is_same_class(site, message, bool(message.must))
    yield Send(sender, LeafReply(message.call, int(token is not None), token or _NONE))
