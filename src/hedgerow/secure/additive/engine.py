"""`AdditiveEngine`: secret arrays of two to ten peers, of which all but one may be curious."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.additive import arithmetic, convert, costs, sharing, shuffle
from hedgerow.secure.additive.core import EVERYONE, PeerCore
from hedgerow.secure.additive.preprocessing import Provider
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.cost import Cost
from hedgerow.secure.party_engine import (
    PartyEngine,
    check_bits,
    check_matrices,
    flat,
    level,
    unfit,
)
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import AnySecret, Permutation, Secret, SecretBits, words

Array = NDArray[Any]


class AdditiveEngine(PartyEngine[PeerCore]):
    """Peers with additive shares, semi-honest, all but one of them at most.

    The data of a secret has shape (peers here, *shape): peer i holds x_i of x = x_0 + ... +
    x_{m-1}, or of bits x = x_0 ^ ... ^ x_{m-1}. Products use up correlated randomness, which a
    `provider` makes on demand, or ahead with `prepare`.
    Papers: goldreich1987mental, beaver1991efficient.

    All parties of the network are peers. All keys follow from `insecure_seed`, for tests; `private`
    is False then. Without one the peers draw keys from the operating system and exchange them, in
    one round.
    """

    share_axes = 1

    def __init__(
        self,
        network: Network,
        leakage: Leakage,
        *,
        session: str = "",
        insecure_seed: bytes | None = None,
        provider: Callable[[PeerCore], Provider] = Transfers,
    ) -> None:
        core = PeerCore(network, session, insecure_seed)
        super().__init__(core, leakage, everyone=EVERYONE)
        self.n_addends = core.n
        self._kept_provider = provider(core)

    @property
    def provider(self) -> Provider:
        """Where correlated randomness comes from; gone after `finish`."""
        _ = self.core  # refuses once the engine has finished
        return self._kept_provider

    def prepare(self, cost: Cost) -> None:
        """Make ahead all that steps of a cost will use up; they send nothing for it later.

        Reveals: nothing. Cost: `cost_prepare`.
        """
        self.provider.prepare(cost.demand)

    def cost_prepare(self, cost: Cost) -> Cost:
        """State the cost of `prepare` where nothing is in stock."""
        return self._kept_provider.cost_prepare(cost.demand)

    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element; see `arithmetic.mul`."""
        return x.like(arithmetic.mul(self.provider, *level(x, y), x.ring))

    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices; see `arithmetic.matmul`."""
        check_matrices(x, y)
        return x.like(arithmetic.matmul(self.provider, *level(x, y), x.ring))

    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits, word by word; see `arithmetic.mul`."""
        return x.like(arithmetic.mul(self.provider, *level(x, y), None))

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw secret uniform bits: every peer draws its share alone."""
        full = (*shape[:-1], words(shape[-1]))
        step = self.core.step("random bits")
        data = self.core.shares(full, np.uint64)
        for at, peer in enumerate(self.core.here):
            data[at] = step.mask((peer, peer), "bits", full, np.uint64)
        return SecretBits(self, shape[-1], data)

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Share the bits of every peer's share; see `convert.addends`."""
        check_bits(x, bits)
        parts = convert.addends(self.core, flat(x), bits)
        return [SecretBits(self, x.size, planes) for planes in parts]

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring; see `convert.b2a`."""
        return Secret(self, ring, convert.b2a(self.provider, x.data, x.n, ring))

    def permutation(self, n: int) -> Permutation:
        """Draw a secret permutation of n rows; see `shuffle.draw_orders`."""
        return shuffle.AdditivePermutation(self, n, shuffle.draw_orders(self.core, n))

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Permute the rows; see `shuffle.apply`."""
        return self._permuted(x, permutation, inverse=False)

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Undo `shuffle`."""
        return self._permuted(x, permutation, inverse=True)

    def cost(self, primitive: str, **public: Any) -> Cost:
        """State rounds and bytes of a primitive from public parameters."""
        return costs.cost(self, self._kept_provider, primitive, public)

    def _permuted(self, x: AnySecret, by: Permutation, *, inverse: bool) -> AnySecret:
        ring = x.ring if isinstance(x, Secret) else None
        rows, shape = x.shape if ring else x.shape[:-1], x.data.shape[1:]
        if not isinstance(by, shuffle.AdditivePermutation) or rows[:1] != (by.n,):
            raise unfit(f"{x!r} under {by!r}")
        if by.n < 2 or not prod(shape):
            return x
        made = self.provider.translations(by, prod(shape[1:]), ring, inverse=inverse)
        data = shuffle.apply(self.core, x.data, by, made, inverse=inverse, xor=ring is None)
        return x.like(data)

    def _public_places(self) -> Iterator[tuple[int]]:
        at = self.core.at(0)
        if at is not None:
            yield (at,)

    def _deal(
        self, value: Array | None, owner: int, shape: tuple[int, ...], dtype: Any, *, xor: bool
    ) -> Array:
        return sharing.deal_input(self.core, value, owner, shape, dtype, xor=xor)

    def _reveal(
        self, data: Array, parties: tuple[int, ...], *, purpose: str, xor: bool
    ) -> Array | None:
        return sharing.reveal(self.core, data, parties, purpose=purpose, xor=xor)

    def _shift_right(self, x: Secret, ring: Ring, shift: int) -> Array:
        return convert.shift_right(self, self.core, flat(x), x.ring, ring, shift)
