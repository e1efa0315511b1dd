"""`Simulator`: all parties in one process.

It is no mock: parties hold real shares and receive copies of what is sent, and the meter counts
what the same program would put on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.net.frames import wire_bytes
from hedgerow.net.network import Array, Network, Route


class Simulator(Network):
    """A network whose parties all live in this process."""

    def __init__(self, n: int = 3) -> None:
        super().__init__(n, range(n))

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        loads: dict[tuple[int, int], list[int]] = {}
        for route in plan:
            loads.setdefault((route.source, route.destination), []).append(route.nbytes)
        payload, wire = [0] * self.n, [0] * self.n
        for (source, _), sizes in loads.items():
            payload[source] += sum(sizes)
            wire[source] += wire_bytes(sizes)
        for party in self.local:
            self.meter.record(step, party, payload=payload[party], wire=wire[party])
        # Order "C", as an array that was read from a socket has.
        return {k: np.array(outbox[k], dtype=r.dtype, order="C") for k, r in enumerate(plan)}
