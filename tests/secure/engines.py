"""Engines for tests, and a way to look at secrets that only tests have."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource, Opening
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import Cost
from hedgerow.secure.engine import Engine
from hedgerow.secure.replicated.engine import ReplicatedEngine
from hedgerow.secure.secret import Secret, SecretBits

NOTHING_OPENS = Leakage([])
SEED = 20_240


class SplitEngine(ClearEngine):
    """Clear, but with several random addends as real sharings have them."""

    def __init__(self, n_addends: int) -> None:
        super().__init__(NOTHING_OPENS, NoiseSource.insecure_seeded(SEED))
        self.n_addends = n_addends  # type: ignore[misc]

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        shape = (self.n_addends - 1, x.size)
        random = self.source.words(int(np.prod(shape))).reshape(shape).astype(x.ring.dtype)
        last = x.data.reshape(-1) - random.sum(axis=0, dtype=x.ring.dtype)
        return [super(SplitEngine, self).addends(x.like(part), bits)[0] for part in (*random, last)]


def clear() -> Engine:
    return ClearEngine(NOTHING_OPENS, NoiseSource.insecure_seeded(SEED))


def three_servers() -> Engine:
    return ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"secret arrays in tests")


ENGINES: dict[str, Callable[[], Engine]] = {
    "clear": clear,
    "two addends": lambda: SplitEngine(2),
    "five addends": lambda: SplitEngine(5),
    "three servers": three_servers,
}


def reveal(x: Secret | SecretBits) -> NDArray[Any]:
    """Open anything, under a declaration made for it."""
    engine, before = x.engine, x.engine.leakage
    engine.leakage = Leakage([Opening("seen", "server", x.shape, independent="a test looks")])
    try:
        opened = engine.open(x, "seen", "server")
    finally:
        engine.leakage = before
    assert opened is not None
    assert opened.shape == x.shape
    return opened


def share(engine: Engine, values: NDArray[Any], ring: Any) -> Secret:
    """Input by server 0."""
    return engine.input(values, 0, values.shape, ring)


def share_bits(engine: Engine, bits: NDArray[Any]) -> SecretBits:
    """Input by server 0."""
    return engine.input_bits(bits, 0, bits.shape)


def metered(engine: Engine, action: Callable[[], object]) -> Cost:
    """Run an action and return what the meter counted for the servers."""
    network = getattr(engine, "network", None)
    if network is None:
        action()
        return Cost()
    before = network.meter.snapshot()
    action()
    spent = network.meter.snapshot() - before
    return Cost(spent.rounds, spent.payload[:3])
