"""Shuffle of peers: every one of them permutes in turn, and no other sees how.

The permutation is pi_{m-1} after ... after pi_0, where peer i alone knows pi_i. To apply pi_i to
the share of peer j, the two use up a *translation*: peer j has uniform rows u and v, peer i has
pi_i(u) - v. Peer j sends x_j - u and keeps v; peer i adds pi_i(x_j - u) + pi_i(u) - v.
Paper: chase2020secret.

A permutation is a network of switches (Benes), each of which swaps two rows or not. A switch whose
bit b peer i knows, on rows that are shared between i and j, adds b times their difference to the
first: one correlated transfer. The second follows from the sum, which a switch does not change.
Paper: mohassel2013mpc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.additive import kernels
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.orders import JointPermutation, moved
from hedgerow.secure.steps import sums

Array = NDArray[Any]
Pair = tuple[int, int]
"""Who has the rows and who permutes them."""


class Translation(NamedTuple):
    """Rows (n, width) of a pair, as far as its peers live here."""

    before: Array | None = None
    after: Array | None = None
    change: Array | None = None


def apply(
    core: PeerCore,
    x: Array,
    by: JointPermutation,
    translations: Mapping[Pair, Translation],
    *,
    inverse: bool,
    xor: bool,
) -> Array:
    """Permute the rows of shares (peers here, n, ...), or undo it; `xor` for words of bits.

    Reveals: nothing. Cost: m rounds, one element for each from every peer to every other, and
    the translations.
    """
    shape, m = x.shape[1:], core.n
    add, subtract = sums(xor=xor)
    step = core.step("unshuffle" if inverse else "shuffle")
    rows = np.array(x).reshape(len(core.here), shape[0], prod(shape[1:]))
    for peer in reversed(range(m)) if inverse else range(m):
        sent, others = {}, [other for other in range(m) if other != peer]
        for other in others:
            at, hidden = core.at(other), None
            if at is not None:
                hidden = subtract(rows[at], translations[other, peer].before)
                rows[at] = translations[other, peer].after
            sent[other] = step.send(other, peer, rows.shape[1:], x.dtype, hidden)
        step.exchange()
        at = core.at(peer)
        if at is not None:
            total = reduce(add, [sent[other].content for other in others], rows[at])
            changes = [translations[other, peer].change for other in others]
            rows[at] = reduce(add, changes, moved(total, by.orders[peer], inverse=inverse))
    return rows.reshape(x.shape)


class Switches:
    """The network of switches for n rows, filled up to a power of two.

    Rows that are filled up stay where they are.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.depth = (n - 1).bit_length()
        self.size = 1 << self.depth

    @property
    def layers(self) -> int:
        """Layers of `size` / 2 switches each."""
        return max(0, 2 * self.depth - 1)

    @property
    def count(self) -> int:
        """Number of switches."""
        return self.layers * self.size // 2

    def bits(self, order: NDArray[np.int64], *, inverse: bool) -> NDArray[np.uint8]:
        """Return which switches swap (layers, size / 2), in the order in which rows pass them."""
        whole = np.concatenate([order, np.arange(self.n, self.size)])
        bits = np.zeros((self.layers, self.size // 2), np.uint8)
        kernels.route(whole, bits)
        return bits[::-1] if inverse else bits

    def pairs(self, rows: Array) -> Iterator[tuple[Array, Array]]:
        """Return for every layer views of the first and second rows of its switches.

        Rows (size, width) are written to in place; a network is its own mirror image.
        """
        for layer in range(self.layers):
            half = self.size >> 1 + min(layer, self.layers - 1 - layer)
            blocks = rows.reshape(-1, 2, half, rows.shape[1])
            yield blocks[:, 0], blocks[:, 1]
