"""`PPID3`: an ID3 tree over columns that lie at several sites.

Paper: vaidya2005vertical, algorithms 1 and 7, theorem 1.

Execution moves from site to site; each keeps the nodes that test its attributes, and the class site
the leaves. Algorithms 2 to 6 are in ``node``, 8 in ``classify``, FormTransSet in ``site``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.protocols.vertical_id3.leakage import FOLLOWING, PLACE, TOKEN, most_nodes
from hedgerow.protocols.vertical_id3.messages import (
    NodeCall,
    Split,
    SubtreeGrown,
    Token,
    bad_message,
)
from hedgerow.protocols.vertical_id3.node import ask_leaf, attrib_max_info_gain, is_r_empty
from hedgerow.protocols.vertical_id3.site import ANY, Interior, Site
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait


@dataclass(frozen=True)
class Subtree:
    """The token of a subtree, and the number that the next node will have."""

    token: Token
    following: int


def ppid3(site: Site, node: NodeCall) -> Task[Subtree]:
    """Grow the subtree of a node (algorithm 7); run at the site of its parent.

    1. If no attribute is left, or the depth is reached, the class site makes a leaf (steps 1 to 6).
    2. If all transactions have one class, it does so too (steps 7 and 8).
    3. Otherwise the site with the best attribute goes on: it makes a node, and for each value sets
       its constraint and grows the child (steps 10 to 20).

    Nodes are numbered in the order in which they are begun, as in the paper's figure 2.

    Reveals: to each site its declared part, see `hedgerow.protocols.vertical_id3.leakage`.
    Cost: with c classes and attributes of p values, c set intersections for each node and c p more
    for each attribute that is left, unless the node is a leaf.
    """
    job = site.job
    must = node.depth == job.max_depth or (yield from is_r_empty(site))
    leaf = yield from ask_leaf(site, node, must)
    if leaf is not None:
        return Subtree(leaf, node.number + 1)
    best = yield from attrib_max_info_gain(site, node)
    if best == site.index:
        return (yield from split(site, node))
    call = site.new_call()
    yield Send(best, Split(call, node.number, node.depth, node.constrained))
    ((sender, reply),) = yield Wait(call, SubtreeGrown)
    most = 1 + most_nodes(job, site.announced)
    if (
        sender != best
        or reply.token != Token(best, node.number)
        or not node.number < reply.following <= most
    ):
        raise bad_message(f"site {sender}", f"the subtree {reply.token}")
    site.learn(TOKEN, (2,))
    site.learn(FOLLOWING, ())
    return Subtree(reply.token, reply.following)


def split(site: Site, node: NodeCall) -> Task[Subtree]:
    """Make an interior node with this site's best attribute, and its children."""
    attribute = site.best.pop(node.number)
    constrained = tuple(sorted({*node.constrained, site.index}))
    following = node.number + 1
    children = []
    for value in range(int(site.constraints.n_values[attribute])):
        site.constraints.set(attribute, value)
        child = NodeCall(0, following, node.depth + 1, constrained)
        grown = yield from ppid3(site, child)
        children.append(grown.token)
        following = grown.following
    site.constraints.set(attribute, ANY)
    site.nodes[node.number] = Interior(attribute, tuple(children))
    return Subtree(Token(site.index, node.number), following)


def answer_split(site: Site, sender: int, message: Split) -> Task[None]:
    """Continue here, and give the subtree's token back."""
    asked = site.offered
    same = (message.number, message.depth, message.constrained) == (
        *(asked.number, asked.depth, asked.constrained),
    )
    # Who won, only the site that asked for the gains knows; it may choose once, and at once.
    if message.number not in site.best or sender != site.offered_to or not same:
        raise bad_message(f"site {sender}", f"a split of node {message.number} without its gains")
    site.learn(PLACE, (3,))
    grown = yield from split(site, message)
    yield Send(sender, SubtreeGrown(message.call, grown.token, grown.following))
