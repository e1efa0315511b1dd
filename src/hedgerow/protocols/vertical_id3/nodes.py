"""What a site stores of the tree: its own nodes, and nothing of the others but their tokens."""

from __future__ import annotations

from typing import NamedTuple

from hedgerow.protocols.vertical_id3.messages import Token


class Interior(NamedTuple):
    """A node that tests an attribute of this site.

    Attributes
    ----------
    attribute : int
        Place of the attribute among this site's own.
    children : tuple of Token
        One for each value.
    """

    attribute: int
    children: tuple[Token, ...]


class Leaf(NamedTuple):
    """A leaf, at a site that holds the class.

    Attributes
    ----------
    counts : tuple of int
        Transactions of each class, noisy where noise was agreed on.
    empty : bool
        No transaction came here: `counts` are the parent's.
    """

    counts: tuple[int, ...]
    empty: bool


Node = Interior | Leaf
