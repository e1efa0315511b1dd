"""What every three-server protocol stands on: pairwise keys.

Server i holds the keys k_i and k_{i+1}, so key k_j is known to the servers j and j-1 and to nobody
else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.net.network import Network, Route
from hedgerow.secure.steps import Holders, fresh_key

SERVERS: Final = 3
EVERYONE = "server"
"""Audience of all three, in openings and ledgers."""


class Core(Holders):
    """The servers of this process and their keys.

    Without a `seed` every server draws k_i from the operating system and hands it to server i-1:
    one round.
    """

    sides = (2,)

    def __init__(self, network: Network, session: str, seed: bytes | None = None) -> None:
        super().__init__(network, session, SERVERS, seed)
        known = self.here if seed is None else range(SERVERS)
        keys = {j: fresh_key(f"party {j}", seed) for j in known}
        if seed is None:
            keys |= self._exchanged(keys)
        held = sorted({j % SERVERS for i in self.here for j in (i, i + 1)})
        self._streams = {j: Prg(keys[j], once=True) for j in held}

    def key(self, key: Any) -> int:
        """Return the name of key k_j: j modulo 3."""
        return int(key % SERVERS)

    def parts(self, party: int) -> dict[int, int]:
        """Return k_i and k_{i+1}: of three parts a server draws two, and each with another."""
        return {j % SERVERS: j % SERVERS for j in (party, party + 1)}

    def _exchanged(self, own: dict[int, bytes]) -> dict[int, bytes]:
        """Hand key k_i to server i-1, which becomes its second holder."""
        plan = [Route(i, (i - 1) % SERVERS, (KEY_BYTES,), "uint8") for i in range(SERVERS)]
        outbox = {i: np.frombuffer(own[i], dtype=np.uint8) for i in self.here}
        received = self.network.exchange("keys", plan, outbox)
        return {j: array.tobytes() for j, array in received.items()}
