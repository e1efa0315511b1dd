"""What members say to each other, in the open: one short message of each to each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.net.network import Network
from hedgerow.secure.replicated.core import SERVERS


def said_by_all(
    network: Network, step: str, mine: Mapping[int, bytes], about: str, parties: int = SERVERS
) -> list[bytes]:
    """Return what each of the first `parties` says, in order, given what those here do.

    All of it has one length. `about` is what they must agree to speak about.

    Cost: one round, the message to each of the others.
    """
    sent = {party: np.frombuffer(data, dtype=np.uint8) for party, data in mine.items()}
    # What an engine before agreed on last is not to be compared here.
    network.agreed = about
    said = network.exchange_all(step, sent, range(parties))
    return [said[party].tobytes() for party in range(parties)]
