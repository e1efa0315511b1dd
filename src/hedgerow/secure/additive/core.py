"""What every protocol of peers stands on: keys, shares of zero, correlated randomness.

Peer i holds a key of its own, (i, i), and one with every other peer, (i, j) with i < j. Masks that
two peers have in common take no message.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.net.network import Network, Route
from hedgerow.secure.steps import Holders, Step, fresh_key

Array = NDArray[Any]
Key = tuple[int, int]

FEWEST: Final = 2
MOST: Final = 10
EVERYONE = "peer"
"""Audience of all peers, in openings and ledgers."""


class PeerCore(Holders):
    """The peers of this process and their keys.

    All parties of the network are peers. Without a `seed` peer i draws its own key and those with
    later peers from the operating system, and hands each of the latter to its second holder: one
    round.
    """

    def __init__(self, network: Network, session: str, seed: bytes | None = None) -> None:
        n = network.n
        if not FEWEST <= n <= MOST:
            raise Code.BAD_PARAMETER.error(
                expected=f"a network of {FEWEST} to {MOST} peers", found=f"{n}"
            )
        super().__init__(network, session, n, seed)
        pairs = [(i, j) for i in range(n) for j in range(i, n)]
        held = [pair for pair in pairs if set(pair) & set(self.here)]
        drawn = [pair for pair in held if seed is not None or pair[0] in self.here]
        keys = {pair: fresh_key(f"peers {pair[0]} {pair[1]}", seed) for pair in drawn}
        if seed is None:
            keys |= self._exchanged([pair for pair in pairs if pair[0] < pair[1]], keys)
        self._streams = {pair: Prg(keys[pair], once=True) for pair in held}

    def parts(self, party: int) -> dict[int, Key]:
        """Return a peer's own key: nobody else draws its part."""
        return {party: (party, party)}

    def sum_masks(
        self, step: Step, tag: str, peer: int, shape: tuple[int, ...], dtype: Any, *, xor: bool
    ) -> Array:
        """Return a peer's share of zero: masks with later peers less those with earlier ones."""
        total = np.zeros(shape, dtype)
        for other in range(self.n):
            if other == peer:
                continue
            mask = step.mask((min(peer, other), max(peer, other)), tag, shape, dtype)
            add = np.bitwise_xor if xor else np.add if other > peer else np.subtract
            add(total, mask, out=total)
        return total

    def _exchanged(self, pairs: list[Key], own: dict[Key, bytes]) -> dict[Key, bytes]:
        """Hand key (i, j) from peer i to peer j."""
        plan = [Route(i, j, (KEY_BYTES,), "uint8") for i, j in pairs]
        outbox = {
            k: np.frombuffer(own[pair], dtype=np.uint8)
            for k, pair in enumerate(pairs)
            if pair in own
        }
        received = self.network.exchange("keys", plan, outbox)
        return {pairs[k]: array.tobytes() for k, array in received.items()}
