"""Sizes of intersections of sets that lie at several sites, many of them in one pass.

Paper: vaidya2005vertical, lemma 2 and section 5; the ring is that of its reference 13.

A site's set may come in groups that share no element (the transactions of each class, of each
value of an attribute). One pass of the sets around the ring then gives the sizes of the
intersections of every choice of groups, and nothing that separate passes for each choice would not
have given: groups of one set are disjoint, so all other sizes are sums and differences of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import Elements
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.messages import Message
from hedgerow.protocols.vertical_id3.tasks import Task

Groups = Sequence[NDArray[np.intp]]
"""Rows of a site's elements, disjoint; a set without groups is a list of one."""
Counts = NDArray[np.int64]

RECORDS, NODE, IDS = 0, 1, 2
"""Purposes of a request: all records of each site (alignment), those that may reach a node, or a
hash of the ids."""
ASKED = "sites of an intersection"
"""Name under which it is declared that a site is asked for its set."""


@dataclass
class Meter:
    """What was done at one site.

    Attributes
    ----------
    intersections : int
        Set intersections that this site was given the size of.
    encryptions : int
        Elements that this site encrypted for them.
    passes : int
        Passes of the ring that this site asked for.
    comparisons, alignment : int
        Elements encrypted for algorithm 2, and for aligning records.
    messages, bytes : int
        Sent by this site.
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

        Parameters
        ----------
        call : int
            A number that was never used before.
        ring : tuple of int
            The sites whose sets are intersected, this one among them.
        own : Groups
            This site's set.

        Returns
        -------
        int64, one axis for each site of the ring, as long as its set has groups
            The order of the groups is this site's own on its own axis, and random on the others.
        """
        ...

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """Return the task that a message begins here, or None if it begins none."""
        ...


def joint_sizes(sets: Sequence[Sequence[Elements]], ring: Sequence[int]) -> Counts:
    """Count, for every choice of one group from each set, the elements that all of them have.

    Parameters
    ----------
    sets : sequence of sequences of Elements
        One per site, each as its groups.
    ring : sequence of int
        Whose sets these are, for refusals.

    Returns
    -------
    int64, one axis per set, as long as it has groups
    """
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
