"""What all peers but one see together does not depend on the last one's inputs.

Randomness that is dealt gives the online phase alone; the messages of transfers are looked at
apart. The tests on columns are those of the three servers: a run is a lane.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.net.simulator import Simulator
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.preprocessing import Provider
from hedgerow.secure.additive.transfers import SETUP
from hedgerow.secure.ring import Z32, Z64
from tests.secure.engines import IdealProvider
from tests.secure.replicated.joint_views import (
    LANES,
    Columns,
    Tap,
    columns,
    same_relations,
    smallest_p_value,
)
from tests.secure.replicated.wires import everything

PEERS, ROWS, SEEDS = 3, 3, 8
"""1,024 runs: the columns span 964 dimensions, whose relations fewer runs would not show."""
NOTHING, EVERYTHING = (0, False), (2**60 - 1, True)
BOUND = 1e-9
taken = Provider.take


class FromOne(Simulator):
    """Keeps what one peer sends."""

    def __init__(self, source: int) -> None:
        super().__init__(PEERS)
        self.source = source
        self.sent: list[tuple[str, int, Any]] = []

    def _move(self, step: str, plan: Any, outbox: Any) -> Any:
        received = super()._move(step, plan, outbox)
        for k, array in received.items():
            if plan[k].source == self.source:
                self.sent.append((step, plan[k].destination, array))
        return received


def program(engine: AdditiveEngine, last: int, number: int, bit: bool) -> list[Any]:
    """Call the primitives on inputs of the last peer and of another, whose inputs are known."""
    shape, other = (ROWS, LANES), (last + 1) % PEERS
    rows = np.arange(1, ROWS + 1, dtype=np.uint64)[:, None]
    numbers = np.broadcast_to(rows * np.uint64(number), shape)
    bits = np.broadcast_to((rows != 2) & bit, shape)
    x = engine.input(numbers, last, shape, Z64)
    y = engine.input(np.full(shape, 7), other, shape, Z64)
    z = engine.input(numbers >> np.uint64(36), last, shape, Z32)
    b = engine.input_bits(bits, last, shape)
    permutation = engine.permutation(ROWS)
    mixed = engine.shuffle(x, permutation)
    return [
        x,
        y,
        z,
        b,
        x * y,
        x * x,
        b & b,
        engine.b2a(b, Z64),
        engine.extend(z, Z64),
        engine.truncate(x, 7),
        mixed,
        engine.unshuffle(mixed, permutation),
    ]


def view(last: int, number: int, bit: bool) -> Columns:
    """Return what all but the last peer see, (words, engines * lanes): held, received, drawn."""
    others, found = [p for p in range(PEERS) if p != last], []
    for seed in range(SEEDS):
        network, given = FromOne(last), []

        class Dealt(IdealProvider):
            key = f"{number % 9} {seed}".encode().ljust(16)

            def take(self, *address: Any, given: Any = given) -> Any:
                given.append(super().take(*address))
                return given[-1]

        engine: Any = AdditiveEngine(
            network,
            everything(),
            insecure_seed=f"joint {number} {seed}".encode(),
            provider=Dealt,
        )
        taps = engine.core._streams = {j: Tap(s) for j, s in engine.core._streams.items()}
        held = [secret.data[others] for secret in program(engine, last, number, bit)]
        held += [item[others].astype(np.uint64) for items in given for item in items]
        masks = [a for key, tap in taps.items() if key != (last, last) for a in tap.drawn]
        arrays = [*held, *(array for _, _, array in network.sent), *masks]
        found.append(np.concatenate([columns(array) for array in arrays]))
    return np.concatenate(found, axis=1)


def seen(last: int) -> tuple[Columns, Columns]:
    return view(last, *NOTHING), view(last, *EVERYTHING)


@pytest.mark.parametrize("last", range(PEERS))
def test_the_joint_view_of_all_others_does_not_depend_on_inputs(last: int) -> None:
    one, other = seen(last)
    assert len(one) == len(other) > 150
    assert smallest_p_value(one, other) > BOUND
    assert same_relations(one, other)


def items_again(provider: Provider, kind: Any, first: int, n: int) -> Any:
    """Give out the first items of a kind again and again."""
    provider._given[kind], provider._stock = 0, {}
    return taken(provider, kind, 0, n)


def no_masks(provider: Provider, kind: Any, first: int, n: int) -> Any:
    """Give out triples of zeros."""
    return tuple(array * array.dtype.type(0) for array in taken(provider, kind, first, n))


@pytest.mark.parametrize("broken", [items_again, no_masks])
def test_broken_randomness_is_found(
    broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Provider, "take", broken)
    assert not same_relations(*seen(0))


def uniform(array: Any) -> float:
    octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return float(stats.chisquare(np.bincount(octets, minlength=256)).pvalue)


@pytest.mark.parametrize("last", range(PEERS))
def test_what_a_peer_sends_for_transfers_is_uniform(last: int) -> None:
    network, n = FromOne(last), 3000
    engine: Any = AdditiveEngine(network, everything())
    x = engine.input(np.zeros(n, int), last, (n,), Z64)
    bits = engine.input_bits(np.zeros((8, n), bool), last, (8, n))
    permutation = engine.permutation(n)
    for action in (
        lambda: x * x,
        lambda: x.reshape(-1, 3, 5) @ x.reshape(-1, 5, 3),
        lambda: [bits & bits for _ in range(4)],
        lambda: engine.b2a(bits, Z64),
        lambda: engine.truncate(x, 5),
        lambda: engine.shuffle(x, permutation),
    ):
        network.sent.clear()
        action()
        # Masked factors go to all alike, so what two receivers get is not independent.
        for to in {to for _, to, _ in network.sent}:
            parts = [
                array.reshape(-1).view(np.uint8)
                for step, receiver, array in network.sent
                if step != SETUP and receiver == to
            ]
            assert sum(map(len, parts)) > 2000
            assert uniform(np.concatenate(parts)) > 1e-6
