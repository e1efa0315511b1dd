"""Engines for tests, and a way to look at secrets that only tests have."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import Prg
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource, Opening
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.additive.preprocessing import Items, Kind, Provider
from hedgerow.secure.additive.shuffle import Pair, Translation
from hedgerow.secure.additive.transfers import PREPROCESSING, SETUP
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.orders import JointPermutation
from hedgerow.secure.replicated.engine import ReplicatedEngine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits
from hedgerow.secure.steps import sums

NOTHING_OPENS = Leakage([])
SEED = 20_240


class IdealProvider(Provider):
    """Deals all shares of correlated randomness from one seed, which every process has: an oracle.

    Nobody sends anything, and nothing is secret: only tests have a dealer.
    """

    key = b"ideal provider.."
    _drawn = 0

    def cost(self, kind: Kind, n: int) -> Cost:
        return Cost(demand={kind: n})

    def make(self, kind: Kind, first: int, n: int) -> Items:
        dealt = self.dealt(kind, first, n)
        return tuple(array[list(self.core.here)] for array in dealt)

    def cost_translations(self, n: int, width: int, ring: Ring | None) -> Cost:
        return NOTHING

    def translations(
        self, by: JointPermutation, width: int, ring: Ring | None, *, inverse: bool
    ) -> dict[Pair, Translation]:
        # Where peers are apart, nobody knows all orders: that is for `Transfers` to show.
        assert len(by.orders) == self.core.n
        dtype = np.dtype(np.uint64) if ring is None else ring.dtype
        made, (_, subtract) = {}, sums(xor=ring is None)
        for pair in permutations(range(self.core.n), 2):
            self._drawn += 1
            u, v = Prg(self.key).fill(f"rows {self._drawn}", (2, by.n, width), dtype)
            order = by.orders[pair[1]]
            moved = u[np.argsort(order)] if inverse else u[order]
            made[pair] = Translation(u, v, subtract(moved, v))
        return made

    def dealt(self, kind: Kind, first: int, n: int) -> Items:
        """Shares of all peers."""
        words = Prg(self.key).fill
        m, k, columns = kind.shape or (1, 1, 1)
        dtype = np.dtype("u8") if kind.ring is None else kind.ring.dtype

        def draw(tag: str, *shape: int) -> NDArray[Any]:
            return words(f"{kind}/{first}/{tag}", (self.core.n, n, *shape), dtype)

        if kind.name == "dabits":
            bits = (draw("r") & dtype.type(1)).astype(np.uint8)
            return bits, _shared(draw("c"), np.bitwise_xor.reduce(bits, axis=0).astype(dtype))
        if kind.ring is None:
            a, b = draw("a"), draw("b")
            both = np.bitwise_xor.reduce(a, axis=0) & np.bitwise_xor.reduce(b, axis=0)
            c = draw("c")
            c[0] = both ^ np.bitwise_xor.reduce(c[1:], axis=0)
            return a, b, c
        a, b = draw("a", m, k), draw("b", k, columns)
        c = _shared(draw("c", m, columns), a.sum(0, dtype=dtype) @ b.sum(0, dtype=dtype))
        return (a, b, c) if kind.shape else tuple(array.reshape(-1, n) for array in (a, b, c))


def _shared(shares: NDArray[Any], value: NDArray[Any]) -> NDArray[Any]:
    shares[0] = value - shares[1:].sum(axis=0, dtype=value.dtype)
    return shares


def peers(n: int, provider: Callable[[PeerCore], Provider] = IdealProvider) -> Engine:
    return AdditiveEngine(
        Simulator(n), NOTHING_OPENS, insecure_seed=b"secret arrays in tests", provider=provider
    )


def clear() -> Engine:
    return ClearEngine(NOTHING_OPENS, NoiseSource.insecure_seeded(SEED))


def three_servers() -> Engine:
    return ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"secret arrays in tests")


ENGINES: dict[str, Callable[[], Engine]] = {
    "clear": clear,
    "two peers": lambda: peers(2),
    "three peers": lambda: peers(3),
    "five peers": lambda: peers(5),
    "three servers": three_servers,
}


def reveal(x: Secret | SecretBits) -> NDArray[Any]:
    """Open anything to all parties, under a declaration made for it."""
    engine, before = x.engine, x.engine.leakage
    seen = Opening("seen", engine.everyone, x.shape, independent="a test looks")
    engine.leakage = Leakage([seen])
    try:
        opened = engine.open(x, "seen", engine.everyone)
    finally:
        engine.leakage = before
    assert opened is not None
    assert opened.shape == x.shape
    return opened


def share(engine: Engine, values: NDArray[Any], ring: Any) -> Secret:
    """Input by party 0."""
    return engine.input(values, 0, values.shape, ring)


def share_bits(engine: Engine, bits: NDArray[Any]) -> SecretBits:
    """Input by party 0."""
    return engine.input_bits(bits, 0, bits.shape)


def metered(engine: Engine, action: Callable[[], object]) -> Cost:
    """Run an action and return what the meter counted for the parties that hold shares."""
    network = getattr(engine, "network", None)
    if network is None:
        action()
        return NOTHING
    before = network.meter.snapshot()
    action()
    spent = network.meter.snapshot() - before
    ahead, online = spent.only(PREPROCESSING), spent.without(PREPROCESSING, SETUP)
    sent = [reading.payload[: engine.n_parties] for reading in (online, ahead)]
    return Cost(online.rounds, *sent, ahead.rounds)
