"""In which order three servers take up the questions of several sites: server 0 says.

Sites ask at the same time, and their questions reach each server in another order. The servers
compute one question after the other, all three the same, so server 0 names the next one of those
that have reached it, and the two others wait for it if need be. While there is nothing to do it
says that, so that nobody who waits takes it for lost.

Reveals: nothing. The other servers are asked the same questions.
Cost: one round, 11 bytes to each of two servers.
"""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple

import numpy as np

from hedgerow.errors import Code
from hedgerow.net.network import Network, Route
from hedgerow.secure.cost import SERVERS

LEADER = 0
STEP = "next question"
_WAIT, _ASKED, _END = range(3)
_ORDER = struct.Struct("<BHQ")


class Question(NamedTuple):
    """Which question is meant: the site that asks, and its call."""

    sender: int
    call: int


Next = Question | Literal["wait", "end"]


def say_next(network: Network, following: Next) -> None:
    """Tell the two other servers what comes next, as server 0."""
    if isinstance(following, Question):
        data = _ORDER.pack(_ASKED, *following)
    else:
        data = _ORDER.pack(_WAIT if following == "wait" else _END, 0, 0)
    payload = np.frombuffer(data, dtype=np.uint8)
    _exchange(network, dict.fromkeys(range(SERVERS - 1), payload))


def hear_next(network: Network) -> Next:
    """Hear what comes next, as one of the two other servers.

    Raises
    ------
    FormatError
        H806 if it is neither a question nor a word.
    """
    (received,) = _exchange(network, {}).values()
    kind, sender, call = _ORDER.unpack(received.tobytes())
    if kind == _ASKED:
        return Question(sender, call)
    if kind > _END or sender or call:
        raise Code.BAD_FRAME.error(found=f"an order of kind {kind} from server {LEADER}")
    return "wait" if kind == _WAIT else "end"


def _exchange(
    network: Network, outbox: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]
) -> dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    network.agreed = "servers that count for sites"
    others = (server for server in range(SERVERS) if server != LEADER)
    plan = [Route(LEADER, server, (_ORDER.size,), "uint8") for server in others]
    received: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]] = network.exchange(
        STEP, plan, outbox
    )
    return received
