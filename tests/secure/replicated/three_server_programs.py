"""Programs that run alike in the simulator and at parties of their own."""

from typing import Any

import numpy as np

from hedgerow.net.network import Network
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import HALVES, open_halves
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Secret
from tests.secure.replicated.wires import SEED, everything


def values(ring: Ring, *shape: int, seed: int = 0) -> Any:
    words = np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)
    return words.astype(ring.dtype)


def every_primitive(engine: ReplicatedEngine, party: int | None, seed: int = 0) -> list[Any]:
    """Call everything that sends; `party` is the one that lives here, None for all."""

    def mine(owner: int, array: Any) -> Any:
        return array if party in (None, owner) else None

    opened = []
    for ring in (Z16, Z32, Z64):
        a, b = values(ring, 7, 5, seed=seed), values(ring, 7, 5, seed=seed + 1)
        x, y = (
            engine.input(mine(1, a), 1, a.shape, ring),
            engine.input(mine(2, b), 2, b.shape, ring),
        )
        small = engine.input(mine(0, a >> 2), 0, a.shape, ring)
        flags = engine.input_bits(mine(2, a[:, :3] > b[:, :3]), 2, (7, 3))
        others = engine.input_bits(mine(0, a[:, :3] < b[:, :3]), 0, (7, 3))
        permutation = engine.permutation(7)
        results = [
            x * y + 3,
            x @ y.transpose(),
            engine.b2a(flags & ~others, ring),
            engine.truncate(small, 3),
            engine.unshuffle(engine.shuffle(x, permutation) * 2, permutation),
            *([engine.extend(small, Z64)] if ring != Z64 else []),
            *engine.addends(x, ring.bits - 1)[:1],
        ]
        for result in results:
            if len(result.shape) == 2 and result.shape == (7, 7):
                opened.append(engine.open(result, "square", "server"))
            elif result.shape == (7, 5):
                opened.append(engine.open(result, "table", "server"))
                if isinstance(result, Secret):
                    halves = open_halves(engine, result, "answer", "analyst")
                    opened += [halves.get(server) for server in HALVES]
        opened.append(engine.open(flags, "flags", "server 1"))
    return opened


def declared() -> Any:
    return everything(
        ("square", "server", (7, 7)),
        ("table", "server", (7, 5)),
        ("answer", "analyst", (7, 5)),
        ("flags", "server 1", (7, 3)),
    )


def open_everything(network: Network) -> dict[str, Any]:
    """Open a product under fresh keys and `every_primitive` under seeded ones, by number.

    The last bit of a truncation depends on the masks, so only equal keys give equal values.
    """
    party = network.local[0] if len(network.local) == 1 else None
    fresh = ReplicatedEngine(network, declared())
    assert fresh.private
    a = values(Z32, 7, 5)
    x = fresh.input(a if party in (None, 2) else None, 2, a.shape, Z32)
    product = fresh.open(x * x, "table", "server")
    opened = every_primitive(ReplicatedEngine(network, declared(), insecure_seed=SEED), party)
    return {str(k): v for k, v in enumerate([product, *opened]) if v is not None}


def open_last(network: Network, timeout: float, to: str, odd: list[str] | None = None) -> Any:
    """Open a square in the last step; `odd` is what server 1 opens instead, and to whom."""
    party = network.local[0]
    leakage = everything(("square", to, (3,)), ("other", to, (3,)), ("own", "server 0", (3,)))
    with ReplicatedEngine(network, leakage) as engine:
        a = np.arange(3, 6)
        x = engine.input(a if party == 0 else None, 0, a.shape, Z64)
        square = x * x
        # The servers have started and compiled by now, so patience may be short.
        network.timeout = timeout  # type: ignore[attr-defined]
        name, audience = odd if odd and party == 1 else ("square", to)
        return engine.open(square, name, audience)
