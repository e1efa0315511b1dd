"""Networks for tests: one that remembers what arrived, and parties in threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Array, Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.replicated import ReplicatedEngine

SEED = b"test"


def everything(*openings: tuple[str, str, tuple[int, ...]]) -> Leakage:
    """Declare openings (name, audience, shape), often."""
    return Leakage(
        [
            Opening(name, to, shape, independent="a test", times=10**6)
            for name, to, shape in openings
        ]
    )


class Recorder(Simulator):
    """A simulator that keeps each party's view: what it received, in order."""

    def __init__(self, n: int = 3) -> None:
        super().__init__(n)
        self.views: dict[int, list[Array]] = {p: [] for p in range(n)}
        self.plans: list[tuple[str, tuple[Route, ...]]] = []

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        received = super()._move(step, plan, outbox)
        self.plans.append((step, tuple(plan)))
        for k, array in received.items():
            self.views[plan[k].destination].append(array.copy())
        return received

    def received(self, party: int) -> Array:
        """All bytes that a party received."""
        parts = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in self.views[party]]
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def apart(n: int, program: Callable[[ReplicatedEngine, int], Any], leakage: Any) -> list[Any]:
    """Run a program as n parties, each with an engine that knows its own shares only."""
    mesh = Mesh(n, timeout=20.0)

    def party(p: int) -> tuple[Any, Any]:
        engine = ReplicatedEngine(mesh.at([p]), leakage(), insecure_seed=SEED)
        return program(engine, p), engine.network.meter.snapshot()

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(party, range(n)))
