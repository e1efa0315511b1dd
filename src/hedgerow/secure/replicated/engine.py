"""`ReplicatedEngine`: secret arrays on three servers, of which at most one is curious."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numpy.typing import NDArray

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.orders import JointPermutation
from hedgerow.secure.party_engine import PartyEngine, check_matrices, flat, level
from hedgerow.secure.replicated import arithmetic, convert, kernels, openings, sharing, shuffle
from hedgerow.secure.replicated.core import EVERYONE, Core
from hedgerow.secure.replicated.costs import COSTS
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, SecretBits

Array = NDArray[Any]


class ReplicatedEngine(PartyEngine[Core]):
    """Three servers with replicated shares, semi-honest, one of them at most.

    The data of a secret has shape (servers here, 2, *shape): server i holds x_i and x_{i+1} of
    x = x_0 + x_1 + x_2, or of bits x = x_0 ^ x_1 ^ x_2.
    Paper: araki2016high.

    Parties 0, 1 and 2 of the network are the servers. All keys follow from `insecure_seed`, for
    tests; `private` is False then. Without one the servers draw keys from the operating system and
    exchange them, in one round.
    """

    share_axes = 2
    n_addends = 2
    _costs = COSTS

    def __init__(
        self,
        network: Network,
        leakage: Leakage,
        *,
        session: str = "",
        insecure_seed: bytes | None = None,
    ) -> None:
        super().__init__(Core(network, session, insecure_seed), leakage, everyone=EVERYONE)

    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element; see `arithmetic.mul`."""
        return x.like(arithmetic.mul(self.core, *level(x, y), "mul", kernels.multiply))

    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices; see `arithmetic.matmul`."""
        check_matrices(x, y)
        return x.like(arithmetic.matmul(self.core, *level(x, y)))

    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits, word by word; see `arithmetic.mul`."""
        return x.like(arithmetic.mul(self.core, *level(x, y), "and", kernels.conjoin))

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring; see `convert.b2a`."""
        return Secret(self, ring, convert.b2a(self.core, x.data, x.n, ring))

    def _public_places(self) -> Iterator[tuple[int, int]]:
        # x_0 is the first share of server 0 and the second of server 2.
        for server, side in ((0, 0), (2, 1)):
            at = self.core.at(server)
            if at is not None:
                yield at, side

    def _deal(
        self, value: Array | None, owner: int, shape: tuple[int, ...], dtype: Any, *, xor: bool
    ) -> Array:
        return sharing.deal_input(self.core, value, owner, shape, dtype, xor=xor)

    def _reveal(
        self, data: Array, parties: tuple[int, ...], *, purpose: str, xor: bool
    ) -> Array | None:
        return openings.reveal(self.core, data, parties, purpose=purpose, xor=xor)

    def _addends(self, data: Array, bits: int) -> Iterable[Array]:
        return convert.addends(self.core, data, bits)

    def _permute(
        self, data: Array, by: JointPermutation, ring: Ring | None, *, inverse: bool
    ) -> Array:
        return shuffle.apply(self.core, data, by, inverse=inverse, xor=ring is None)

    def _shift_right(self, x: Secret, ring: Ring, shift: int) -> Array:
        return convert.shift_right(self.core, flat(x), x.ring, ring, shift)
