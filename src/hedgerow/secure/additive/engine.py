"""`AdditiveEngine`: secret arrays of two to ten peers, of which all but one may be curious."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.additive import (
    arithmetic,
    bit_products,
    convert,
    costs,
    sharing,
    shuffle,
)
from hedgerow.secure.additive.core import EVERYONE, PeerCore
from hedgerow.secure.additive.preprocessing import Provider
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.cost import Cost
from hedgerow.secure.orders import JointPermutation
from hedgerow.secure.party_engine import PartyEngine, check_matrices, flat, level
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, SecretBits, unpack

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
        self.multiplies_bits = isinstance(self._kept_provider, Transfers)

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

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring; see `convert.b2a`."""
        return Secret(self, ring, convert.b2a(self.provider, x.data, x.n, ring))

    def mul_bits(self, x: Secret, planes: SecretBits) -> Secret:
        """Multiply by numbers of which bits are shared; see `bit_products.times_planes`.

        Triples are what a provider has that makes no transfers.
        """
        if not self.multiplies_bits:
            return super().mul_bits(x, planes)
        if not x.size or not len(planes):
            return x * 0
        flat_x = x.data.reshape(len(x.data), prod(x.shape[:-1]), planes.n)
        bits = unpack(planes.data, planes.n).astype(np.uint8)
        assert isinstance(self.provider, Transfers)
        found = bit_products.times_planes(self.provider, flat_x, bits, x.ring)
        return x.like(found.reshape(x.data.shape))

    @property
    def _costs(self) -> dict[str, Callable[..., Cost]]:
        return costs.of_primitives(self, self._kept_provider)

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

    def _addends(self, data: Array, bits: int) -> Iterable[Array]:
        return convert.addends(self.core, data, bits)

    def _permute(
        self, data: Array, by: JointPermutation, ring: Ring | None, *, inverse: bool
    ) -> Array:
        shape = data.shape[1:]
        if by.n < 2 or not prod(shape):
            return data
        made = self.provider.translations(by, prod(shape[1:]), ring, inverse=inverse)
        return shuffle.apply(self.core, data, by, made, inverse=inverse, xor=ring is None)

    def _shift_right(self, x: Secret, ring: Ring, shift: int) -> Array:
        return convert.shift_right(self, self.core, flat(x), x.ring, ring, shift)
