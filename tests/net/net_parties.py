"""Helpers of the network tests: parties as threads, and programs for them."""

import contextlib
import secrets
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import HedgerowError
from hedgerow.net.certificates import Identity, make_identity
from hedgerow.net.meeting import Endpoint, listen
from hedgerow.net.network import Network, Route
from hedgerow.net.tls import TLSNetwork
from tests.net.faults import Fault, Spoiler

N = 3


class Club:
    """Keys, listening sockets and the list of n parties on loopback."""

    def __init__(self, folder: Path, n: int = N, dial_out: Collection[int] = ()) -> None:
        self.identities: list[Identity] = [make_identity(folder, f"p{i}") for i in range(n)]
        self.session = secrets.token_bytes(16)
        self.open(dial_out)

    def open(self, dial_out: Collection[int] = ()) -> None:
        """Listen, but for those who have no address."""
        there = [party not in dial_out for party in range(len(self.identities))]
        self.listeners = [listen("127.0.0.1", 0) if one else None for one in there]
        self.roster = [
            Endpoint("127.0.0.1", s.getsockname()[1], identity.pem)
            if s is not None
            else Endpoint(None, 0, identity.pem)
            for s, identity in zip(self.listeners, self.identities, strict=True)
        ]

    def join(self, party: int, *, fault: Fault | None = None, **changes: Any) -> TLSNetwork:
        options = {"session": self.session, "program": b"program", "timeout": 20.0}
        options |= {"listener": self.listeners[party]} | changes
        network = TLSNetwork(party, self.roster, self.identities[party], **options)
        if fault is not None:
            Spoiler(network, fault)
        return network

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


def in_threads(programs: Mapping[Network, Callable[[Network], Any]]) -> list[Any]:
    """Run each program with its network, all at the same time: values, or the numbered errors."""

    def attend(one: tuple[Network, Callable[[Network], Any]]) -> Any:
        try:
            with one[0] as network:
                return one[1](network)
        except HedgerowError as error:
            return error

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(attend, programs.items()))


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


def mail_around(network: Network, step: str, size: int = 300) -> bytes:
    """Post to the next party of a ring, then receive from the one before."""
    (me,) = network.local
    network.post(step, me, (me + 1) % N, bytes([me]) * size)
    return network.receive(step, me, [(me - 1) % N])[1]


def faulty_mail(network: TLSNetwork, timeout: float) -> str:
    """Spoil mail on a ring; the steps after it reach whoever does not wait for what was spoilt."""
    mail_around(network, "before")
    network.timeout = timeout
    mail_around(network, "faulty")
    network.timeout = 2 * timeout
    for step in ("last", "end 1", "end 2"):
        mail_around(network, step)
    return "done"


def mail_or_steps(network: Network) -> list[bytes]:
    """Servers 0, 1 and 2 in lock-step, the others with each of them by mail."""
    said = []
    if network.local[0] < N:
        exchange_all(network, "among servers", mesh(7))
        for me in network.local:
            if me >= N:
                break
            said += [network.receive("question", me, [3, 4])[1] for _ in range(2)]
            for other in (3, 4):
                network.post("answer", me, other, b"a" * 20_000)
    else:
        (me,) = network.local
        for server in range(N):
            network.post("question", me, server, bytes(100 * me))
        said = [network.receive("answer", me, range(N))[1] for _ in range(N)]
    exchange_all(network, "more", mesh(3))
    return said


def sent_by_mail(network: Network) -> str:
    """Return the meter of a run of `mail_or_steps`."""
    mail_or_steps(network)
    return network.meter.snapshot().to_json()


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
