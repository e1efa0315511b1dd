"""What three servers say to each other, in the open: one short message of each to each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hedgerow.net.network import Network, Route
from hedgerow.secure.replicated.core import SERVERS

_PAIRS = [(a, b) for a in range(SERVERS) for b in range(SERVERS) if a != b]


@lru_cache
def _plan(size: int) -> list[Route]:
    return [Route(a, b, (size,), "uint8") for a, b in _PAIRS]


def said_by_all(network: Network, step: str, mine: Mapping[int, bytes], about: str) -> list[bytes]:
    """Return what each server says, in order, given what those here do; all of one length.

    `about` is what they must agree to speak about.

    Cost: one round, the message to each of two servers.
    """
    sent = {server: np.frombuffer(data, dtype=np.uint8) for server, data in mine.items()}
    plan = _plan(len(next(iter(mine.values()))))
    # What an engine before agreed on last is not to be compared here.
    network.agreed = about
    outbox = {k: sent[a] for k, (a, _) in enumerate(_PAIRS) if a in sent}
    heard = network.exchange(step, plan, outbox)
    said = {_PAIRS[k][0]: array.tobytes() for k, array in heard.items()} | dict(mine)
    return [said[server] for server in range(SERVERS)]
