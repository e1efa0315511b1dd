"""What members say to each other, in the open: one short message of each to each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hedgerow.net.network import Network, Route
from hedgerow.secure.replicated.core import SERVERS


@lru_cache
def _plan(size: int, parties: int) -> list[Route]:
    everybody = range(parties)
    return [Route(a, b, (size,), "uint8") for a in everybody for b in everybody if a != b]


def said_by_all(
    network: Network, step: str, mine: Mapping[int, bytes], about: str, parties: int = SERVERS
) -> list[bytes]:
    """Return what each of the first `parties` says, in order, given what those here do.

    All of it has one length. `about` is what they must agree to speak about.

    Cost: one round, the message to each of the others.
    """
    sent = {party: np.frombuffer(data, dtype=np.uint8) for party, data in mine.items()}
    plan = _plan(len(next(iter(mine.values()))), parties)
    # What an engine before agreed on last is not to be compared here.
    network.agreed = about
    outbox = {k: sent[route.source] for k, route in enumerate(plan) if route.source in sent}
    heard = network.exchange(step, plan, outbox)
    said = {plan[k].source: array.tobytes() for k, array in heard.items()} | dict(mine)
    return [said[party] for party in range(parties)]
