"""Engines for tests, and a way to look at secrets that only tests have."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource, Opening
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.replicated.engine import ReplicatedEngine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import AnySecret, Engine, Permutation, Secret, SecretBits, pack, words

NOTHING_OPENS = Leakage([])
SEED = 20_240


class IdealEngine(Engine):
    """Additive shares of n peers, with one who is trusted and computes what is not linear.

    What a real engine of n parties would do by messages, it does by a clear engine: shares are
    joined, the primitive runs on plain numbers, and the result is shared afresh. So everything on
    top meets one share axis, n addends, n parties and an audience of its own.
    """

    share_axes = 1
    share_shape: tuple[int, ...] = ()

    def __init__(self, n: int, leakage: Leakage = NOTHING_OPENS) -> None:
        super().__init__(leakage, n_parties=n, everyone="peer")
        self.n_addends, self.share_shape = n, (n,)
        self.trusted = ClearEngine(leakage, NoiseSource.insecure_seeded(SEED))

    @property
    def private(self) -> bool:
        return False

    def finish(self) -> None:
        """Nobody is waited for."""

    def public(self, values: ArrayLike, ring: Ring) -> Secret:
        return Secret(self, ring, self._first(ring.encode(values)))

    def public_bits(self, bits: ArrayLike) -> SecretBits:
        return SecretBits(self, np.shape(bits)[-1], self._first(pack(bits)))

    def add_public(self, x: Secret, elements: NDArray[Any]) -> Secret:
        return x + Secret(self, x.ring, self._first(elements))

    def xor_public(self, x: SecretBits, bits: NDArray[np.bool_]) -> SecretBits:
        return x ^ self.public_bits(np.broadcast_to(bits, (*bits.shape[:-1], x.n)))

    def reduce(self, x: Secret, ring: Ring) -> Secret:
        return Secret(self, ring, x.data.astype(ring.dtype))

    def input(
        self, values: ArrayLike | None, owner: int, shape: tuple[int, ...], ring: Ring
    ) -> Secret:
        return self._shared(self.trusted.input(values, owner, shape, ring))

    def input_bits(self, bits: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> SecretBits:
        return self._shared(self.trusted.input_bits(bits, owner, shape))

    def open(self, x: Secret | SecretBits, name: str, to: str) -> NDArray[Any]:
        self.trusted.leakage = self.leakage
        return self.trusted.open(self._joined(x), name, to)

    def mul(self, x: Secret, y: Secret) -> Secret:
        return self._run("mul", x, y)

    def matmul(self, x: Secret, y: Secret) -> Secret:
        return self._run("matmul", x, y)

    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        return self._run("and_", x, y)

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        drawn = self._words((self.n_parties, *shape[:-1], words(shape[-1])), np.dtype("u8"))
        return SecretBits(self, shape[-1], drawn)

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Every party shares the bits of its own share."""
        own = [Secret(self.trusted, x.ring, share) for share in x.data]
        return [self._shared(self.trusted.addends(share, bits)[0]) for share in own]

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        return self._run("b2a", x, ring)

    def extend(self, x: Secret, ring: Ring) -> Secret:
        return self._run("extend", x, ring)

    def truncate(self, x: Secret, shift: int) -> Secret:
        return self._run("truncate", x, shift)

    def permutation(self, n: int) -> Permutation:
        permutation = self.trusted.permutation(n)
        object.__setattr__(permutation, "engine", self)
        return permutation

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        return self._moved("shuffle", x, permutation)

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        return self._moved("unshuffle", x, permutation)

    def cost(self, primitive: str, **public: Any) -> Cost:
        return NOTHING

    def _run(self, primitive: str, *arguments: Any) -> Any:
        given = [self._joined(a) if isinstance(a, (Secret, SecretBits)) else a for a in arguments]
        return self._shared(getattr(self.trusted, primitive)(*given))

    def _moved(self, primitive: str, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Every party moves its own shares."""
        object.__setattr__(permutation, "engine", self.trusted)
        try:
            own = [replace(x, engine=self.trusted, data=share) for share in x.data]
            moved = [getattr(self.trusted, primitive)(share, permutation).data for share in own]
        finally:
            object.__setattr__(permutation, "engine", self)
        return x.like(np.stack(moved))

    def _first(self, elements: NDArray[Any]) -> NDArray[Any]:
        """Make party 0's share of a public value, and nothing for the others."""
        data = np.zeros((self.n_parties, *elements.shape), elements.dtype)
        data[0] = elements
        return data

    def _joined(self, x: Any) -> Any:
        if isinstance(x, SecretBits):
            return SecretBits(self.trusted, x.n, np.bitwise_xor.reduce(x.data, axis=0))
        return Secret(self.trusted, x.ring, x.data.sum(axis=0, dtype=x.ring.dtype))

    def _shared(self, x: Any) -> Any:
        data = self._words((self.n_parties, *x.data.shape), x.data.dtype)
        if isinstance(x, SecretBits):
            data[0] = x.data ^ np.bitwise_xor.reduce(data[1:], axis=0)
            return SecretBits(self, x.n, data)
        data[0] = x.data - data[1:].sum(axis=0, dtype=x.data.dtype)
        return Secret(self, x.ring, data)

    def _words(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        drawn: NDArray[Any] = self.trusted.source.words(int(np.prod(shape))).reshape(shape)
        return drawn.astype(dtype)


def clear() -> Engine:
    return ClearEngine(NOTHING_OPENS, NoiseSource.insecure_seeded(SEED))


def three_servers() -> Engine:
    return ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"secret arrays in tests")


ENGINES: dict[str, Callable[[], Engine]] = {
    "clear": clear,
    "two peers": lambda: IdealEngine(2),
    "three peers": lambda: IdealEngine(3),
    "five peers": lambda: IdealEngine(5),
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
    return Cost(spent.rounds, spent.payload[: engine.n_parties])
