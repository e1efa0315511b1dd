"""`Frontier`: the rows of a secret table, sorted into the nodes of one level.

The level loop asks for histograms and hands back choices; how rows are kept is the frontier's
business. `growers.masks` keeps one mask per node, `growers.grouped` keeps
the rows in the order of nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret

Choice = Secret | NDArray[np.uint8]
"""One-hot over candidates, shape (trees, nodes, C): secret, or public where it was opened."""


class Frontier(ABC):
    """Rows of one level, for t trees side by side.

    Attributes
    ----------
    layout : Layout
    ring : Ring
        Of histograms and masks.
    n_trees : int
        Trees t that grow side by side.
    n_rows : int
        Slots of one tree.
    """

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
        """Go down one level.

        Parameters
        ----------
        choice : one-hot, shape (trees, nodes, C)
            The split of every node. The children of node j are ``j * arity`` and those after it;
            of a binary split the left one comes first.
        last : bool
            Whether one more histogram is all that will be asked for.
        """
