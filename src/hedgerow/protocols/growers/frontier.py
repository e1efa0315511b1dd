"""`Frontier`: the rows of a secret table, sorted into the nodes of one level.

The level loop asks for histograms and hands back choices; how rows are kept is the frontier's
business. `growers.masks` keeps one mask per node, `growers.grouped` keeps
the rows in the order of nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret
from hedgerow.trees.growing.nodes import NodeSplits

Choice = Secret | NDArray[np.uint8]
"""One-hot over candidates, shape (trees, nodes, C): secret, or public where it was opened."""


DEEP = 9
"""Depth from which keeping rows in the order of nodes is cheaper than masks."""


class Frontier(ABC):
    """Rows of one level, for t trees side by side; of each, `n_rows` slots."""

    layout: Layout
    ring: Ring
    n_trees: int
    n_rows: int

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """Keeper of the shares."""

    @abstractmethod
    def histogram(self) -> Secret:
        """Return sums per node, column and bin, shape (trees, nodes, k, B)."""

    @abstractmethod
    def descend(self, choice: Choice, *, last: bool = False) -> None:
        """Go down one level by one-hot choices, (trees, nodes, C).

        The children of node j are ``j * arity`` and those after it; of a binary split the left one
        comes first. `last`: whether one more histogram is all that will be asked for.
        """


class LeafRows(ABC):
    """Rows of binary trees in their leaves."""

    @abstractmethod
    def sums(self, weight: Secret) -> Secret:
        """Return what the weights (trees, n) of the rows of each leaf add up to, (trees, leaves).

        Weights are those that the trees began with, if they had any.
        """

    @abstractmethod
    def spread(self, values: Secret | NDArray[np.int64]) -> Secret:
        """Return for every row the value (trees, leaves) of its leaf, (trees, n).

        Values are secret, or public where they were opened.
        """


class LeafFrontier(Frontier):
    """Rows of binary trees that can be told to which leaf each of them came."""

    @abstractmethod
    def leaves(self, choice: Choice) -> LeafRows:
        """Return the rows in their leaves, after the choices of the last level."""


class OpenFrontier(Frontier):
    """Rows of a level whose splits are public: branches that do not exist are not kept."""

    @abstractmethod
    def go_down(self, split: NodeSplits, *, last: bool) -> None:
        """Go down one level by public splits; `last` as for `descend`."""


def choose_grower(
    wanted: Literal["auto", "masks", "grouped"],
    depth: int,
    engine: type[Engine],
    *,
    groupable: bool = True,
) -> Literal["masks", "grouped"]:
    """Choose how rows are kept, by public numbers and by what the engine can do.

    `groupable` says whether `growers.grouped` could keep them: one binary tree of all rows.
    """
    if wanted != "auto":
        return wanted
    return "grouped" if groupable and engine.can_shuffle and depth >= DEEP else "masks"
