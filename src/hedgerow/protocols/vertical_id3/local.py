"""All sites of a vertical ID3 in one process: the real messages, carried by a loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.nodes import Interior
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from hedgerow.tables import Domain
from hedgerow.tables.ids import id_bytes
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

Tap = Callable[[int, int, bytes], None]
Post = Callable[[int, int, bytes], Mapping[int, bytes]]


class LocalSites:
    """Sites that talk to each other in this process.

    Parameters
    ----------
    sites : sequence of Site
        In the order of their numbers.
    tap : callable, optional
        Of sender, receiver and bytes: sees every message before it arrives.
    post : callable, optional
        Of sender, server and bytes: takes messages to servers, and returns what servers answer, by
        server; see `hedgerow.protocols.vertical_id3.secret.run.Post`.
    """

    def __init__(
        self, sites: Sequence[Site], tap: Tap | None = None, post: Post | None = None
    ) -> None:
        self.sites = list(sites)
        self._tap, self._post = tap, post

    def grow(self) -> Token:
        """Train; returns the token of the root."""
        waiting = [(site.index, site.begin()) for site in self.sites]
        self._carry(waiting)
        root = self.sites[self.sites[0].job.starter].root
        assert root is not None
        for site in self.sites:
            site.end_growth()
        return root

    def classify(
        self,
        root: Token,
        ids: NDArray[Any],
        bins: Sequence[NDArray[Any]],
        asker: int = 0,
    ) -> NDArray[np.int64] | None:
        """Have a site ask for the classes of instances.

        Parameters
        ----------
        root : Token
        ids : int64 or str (n,)
        bins : sequence of arrays (n, d of the site)
            What each site knows of the instances.
        asker : int

        Returns
        -------
        int64 (n, c) or None
            Class counts of the leaves; None where the class site keeps them.
        """
        for site, own in zip(self.sites, bins, strict=True):
            site.offer(ids, own)
        answers: list[NDArray[np.int64] | None] = []
        out = self.sites[asker].ask(root, id_bytes(ids), answers.append)
        self._carry([(asker, out)])
        return answers[0]

    def _carry(self, begun: list[tuple[int, list[Outgoing]]]) -> None:
        queue = deque((sender, item) for sender, out in begun for item in out)
        while queue:
            sender, item = queue.popleft()
            if self._tap is not None:
                self._tap(sender, item.to, item.data)
            if item.to >= len(self.sites):
                assert self._post is not None
                answers = self._post(sender, item.to - len(self.sites), item.data)
                queue.extend(
                    (len(self.sites) + server, Outgoing(sender, data))
                    for server, data in answers.items()
                )
                continue
            queue.extend((item.to, more) for more in self.sites[item.to].receive(sender, item.data))


def joined_tree(
    sites: Sequence[Site], root: Token, domain: Domain, columns: Sequence[Sequence[int]]
) -> Tree:
    """Put the parts of all sites together: what no site sees, for checks and for publication.

    Parameters
    ----------
    sites : sequence of Site
    root : Token
    domain : Domain
        Of all columns and the class.
    columns : sequence of sequences of int
        Which columns of the domain each site's attributes are.

    Returns
    -------
    Tree
        Values of interior nodes are the sums of their leaves.
    """
    classes = domain.target.n_classes if domain.target is not None else None
    assert classes
    kind, feature, first_child, below = [], [], [], [root]
    value: list[NDArray[np.float64]] = []
    weight: list[float] = []
    at = 0
    while at < len(below):
        token = below[at]
        node = sites[token.site].nodes[token.node]
        if isinstance(node, Interior):
            kind.append(int(SplitKind.WARY))
            feature.append(columns[token.site][node.attribute])
            first_child.append(len(below))
            below.extend(node.children)
            value.append(np.zeros(classes))
            weight.append(0.0)
        else:
            kind.append(int(SplitKind.LEAF))
            feature.append(-1)
            first_child.append(-1)
            value.append(np.array(node.counts, dtype=np.float64))
            weight.append(0.0 if node.empty else float(sum(node.counts)))
        at += 1
    for at in reversed(range(len(below))):
        if first_child[at] >= 0:
            token = below[at]
            node = sites[token.site].nodes[token.node]
            assert isinstance(node, Interior)
            children = range(first_child[at], first_child[at] + len(node.children))
            # An empty leaf repeats its parent's counts, which must not count twice.
            value[at] = sum((value[i] for i in children if weight[i] > 0), np.zeros(classes))
            weight[at] = sum(weight[i] for i in children)
    cut = np.full(len(below), -1)
    return Tree(domain, kind, feature, cut, first_child, np.array(value), weight)
