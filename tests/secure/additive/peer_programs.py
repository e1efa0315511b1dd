"""Programs that run alike in the simulator and at peers of their own."""

from typing import Any

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.ring import Z16, Z32, Z64
from tests.secure.replicated.three_server_programs import values
from tests.secure.replicated.wires import everything

SEED = b"peers in tests"


def every_primitive(engine: AdditiveEngine, party: int | None, seed: int = 0) -> dict[str, Any]:
    """Call everything that sends; `party` is the one that lives here, None for all."""

    def mine(owner: int, array: Any) -> Any:
        return array if party in (None, owner) else None

    found = {}
    for ring in (Z16, Z32, Z64):
        a, b = values(ring, 7, 5, seed=seed), values(ring, 7, 5, seed=seed + 1)
        x = engine.input(mine(1, a), 1, a.shape, ring)
        y = engine.input(mine(2, b), 2, b.shape, ring)
        small = engine.input(mine(0, a >> 2), 0, a.shape, ring)
        flags = engine.input_bits(mine(2, a[:, :3] > b[:, :3]), 2, (7, 3))
        others = engine.input_bits(mine(0, a[:, :3] < b[:, :3]), 0, (7, 3))
        permutation = engine.permutation(7)
        mixed = engine.shuffle(x, permutation)
        results: dict[str, Any] = {
            "product": x * y + 3,
            "truncated": engine.truncate(small, 3),
            "mixed": mixed,
            "back": engine.unshuffle(mixed * 2, permutation),
            "less": less_than(small, small[::-1]),
            "largest": argmax(small),
            "extended": engine.extend(small, Z64),
            "random": engine.random_bits((7, 5)),
        }
        found |= {
            f"{name} {ring.bits}": engine.open(result, "table", "peer")
            for name, result in results.items()
        }
        found[f"square {ring.bits}"] = engine.open(x @ y.transpose(), "square", "peer")
        bits = engine.b2a(flags & ~others, ring)
        found[f"bits {ring.bits}"] = engine.open(bits, "bits", "peer")
        found[f"flags {ring.bits}"] = engine.open(flags, "flags", "peer 1")
    return found


def opened() -> Leakage:
    return everything(
        ("table", "peer", (7, 5)),
        ("square", "peer", (7, 7)),
        ("bits", "peer", (7, 3)),
        ("flags", "peer 1", (7, 3)),
    )


def open_everything(network: Network) -> dict[str, Any]:
    """Run `every_primitive` with a seed, and transfers: what is opened here.

    The last bit of a truncation depends on all masks, those of transfers too.
    """
    party = network.local[0] if len(network.local) == 1 else None
    with AdditiveEngine(network, opened(), insecure_seed=SEED) as engine:
        found = every_primitive(engine, party)
    return {name: value for name, value in found.items() if value is not None}
