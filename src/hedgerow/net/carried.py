"""Byte strings between two parties of a network, where the others take no part.

For a party that carries messages of a sans-IO protocol to servers that are processes of their own.
A message is its length, 8 bytes, and then its bytes; an empty one is its length alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.net.meter import Reading
from hedgerow.net.network import Network, Route

KEY, LENGTH, MESSAGE = "sealing key", "length of a message", "message"
_CARRIED = (KEY, LENGTH, MESSAGE)


def send(network: Network, source: int, destination: int, message: bytes) -> None:
    """Send a message from a party that lives here."""
    length = np.array([len(message)], dtype=np.uint64)
    alone(network, LENGTH, Route(source, destination, (1,), "uint64"), length)
    if message:
        route = Route(source, destination, (len(message),), "uint8")
        alone(network, MESSAGE, route, np.frombuffer(message, dtype=np.uint8))


def receive(network: Network, source: int, destination: int) -> bytes:
    """Receive a message at a party that lives here."""
    (length,) = alone(network, LENGTH, Route(source, destination, (1,), "uint64"), None)
    if not length:
        return b""
    route = Route(source, destination, (int(length),), "uint8")
    return bytes(alone(network, MESSAGE, route, None).tobytes())


def alone(network: Network, step: str, route: Route, payload: Any) -> Any:
    """Move one array between two parties; the others take no part in it."""
    network.agreed = "coordinator and server"
    outbox = {} if payload is None else {0: payload}
    received = network.exchange(step, [route], outbox)
    return received.get(0)


def among_servers(meter: Reading) -> Reading:
    """Leave out what was carried between a server and another party."""
    kept = {at: sent for at, sent in meter.traffic.items() if at[0] not in _CARRIED}
    return Reading(meter.parties, kept)
