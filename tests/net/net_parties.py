"""Helpers of the network tests: parties as threads, and programs for them."""

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import HedgerowError
from hedgerow.net.certificates import Identity, make_identity
from hedgerow.net.faults import Fault, FaultyNetwork
from hedgerow.net.meeting import Endpoint, listen
from hedgerow.net.network import Network, Route
from hedgerow.net.tls import TLSNetwork

N = 3


class Club:
    """Keys, listening sockets and the list of n parties on loopback."""

    def __init__(self, folder: Path, n: int = N) -> None:
        self.identities: list[Identity] = [make_identity(folder, f"p{i}") for i in range(n)]
        self.listeners = [listen("127.0.0.1", 0) for _ in range(n)]
        self.roster = [
            Endpoint("127.0.0.1", s.getsockname()[1], identity.pem)
            for s, identity in zip(self.listeners, self.identities, strict=True)
        ]
        self.session = secrets.token_bytes(16)

    def join(self, party: int, *, fault: Fault | None = None, **changes: Any) -> TLSNetwork:
        options = {"session": self.session, "program": b"program", "timeout": 20.0}
        options |= {"listener": self.listeners[party]} | changes
        member = (party, self.roster, self.identities[party])
        return (
            FaultyNetwork(*member, fault=fault, **options)
            if fault
            else TLSNetwork(*member, **options)
        )

    def run(
        self,
        program: Callable[[Network], Any],
        changes: dict[int, dict[str, Any]] | None = None,
        **common: Any,
    ) -> list[Any]:
        """Run a program at every party in a thread of its own: values, or the numbered errors."""
        ends: list[Any] = [None] * len(self.roster)
        # A party that fails early would otherwise be seen by one that is still meeting the others.
        all_met = threading.Barrier(len(self.roster))

        def party(p: int) -> None:
            try:
                with self.join(p, **common | (changes or {}).get(p, {})) as network:
                    with contextlib.suppress(threading.BrokenBarrierError):
                        all_met.wait(30)
                    ends[p] = program(network)
            except HedgerowError as error:
                all_met.abort()
                ends[p] = error

        threads = [threading.Thread(target=party, args=(p,)) for p in range(len(self.roster))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        return ends


def payload(route: Route, salt: int) -> np.ndarray:
    """What a route carries: a function of public things, so that every party can check it."""
    words = np.random.default_rng([route.source, route.destination, salt])
    return (
        words.integers(0, 256, route.nbytes, dtype=np.uint8).view(route.dtype).reshape(route.shape)
    )


def exchange_all(network: Network, step: str, plan: Sequence[Route]) -> None:
    """Send the payload of every route, and check what comes."""
    ours = {k: payload(r, k) for k, r in enumerate(plan) if r.source in network.local}
    got = network.exchange(step, plan, ours)
    assert sorted(got) == [k for k, r in enumerate(plan) if r.destination in network.local]
    for k, array in got.items():
        assert array.dtype.name == plan[k].dtype
        assert array.flags.writeable
        np.testing.assert_array_equal(array, payload(plan[k], k))


def ring(size: int, n: int = N, dtype: str = "uint64") -> list[Route]:
    return [Route(p, (p + 1) % n, (size,), dtype) for p in range(n)]


# Uneven on purpose: several routes of one pair, empty arrays, silent parties, more than one record.
PLANS = {
    "ring": ring(5),
    "two for one": [
        Route(0, 1, (3, 2), "uint16"),
        Route(0, 1, (), "uint64"),
        Route(2, 1, (7,), "uint8"),
    ],
    "nobody": [],
    "empty array": [Route(1, 2, (0, 4), "uint32")],
    "one pair": [Route(0, 2, (1,), "int64")],
    "long": [
        *ring(40_000, dtype="uint8"),
        *(Route((p + 1) % 3, p, (9_000,), "int32") for p in range(3)),
    ],
    "just one record": [
        Route(0, 1, ((1 << 14) - 56,), "uint8"),
        Route(1, 0, ((1 << 14) - 55,), "uint8"),
    ],
}


def all_plans(network: Network) -> None:
    for name, plan in PLANS.items():
        exchange_all(network, name, plan)
    exchange_all(network, "ring", PLANS["ring"])


def metered(network: Network) -> str:
    all_plans(network)
    return network.meter.snapshot().to_json()


def mesh(size: int, n: int = N) -> list[Route]:
    return [Route(a, b, (size,), "uint8") for a in range(n) for b in range(n) if a != b]


def faulty_at_the_end(network: TLSNetwork, timeout: float) -> str:
    """End in the step that tests spoil; a ring, so one party alone waits for the spoilt frame."""
    exchange_all(network, "before", mesh(3))
    # Processes start apart; from here on they are together, and patience may be short.
    network.timeout = timeout
    exchange_all(network, "faulty", ring(300))
    # The patience of the party that waits for the spoilt frame ends first.
    network.timeout = 2 * timeout
    network.farewell(range(N))
    return "done"
