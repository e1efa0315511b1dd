"""The clear engine: the same protocols on plain arrays, as oracle of the tests and for study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.kernels import bit_planes
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import (
    AnySecret,
    Engine,
    Permutation,
    Secret,
    SecretBits,
    pack,
    unpack,
    words,
)


@dataclass(frozen=True, eq=False, repr=False)
class ClearPermutation(Permutation):
    """Row i of the result is row ``order[i]`` of the argument."""

    engine: Engine
    order: NDArray[np.int64]

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self.order.size


class ClearEngine(Engine):
    """One process that holds everything; openings are checked all the same."""

    share_axes = 0
    n_addends = 1
    share_shape: tuple[int, ...] = ()

    def __init__(
        self,
        leakage: Leakage,
        source: NoiseSource | None = None,
        *,
        n_parties: int = 1,
        everyone: str = "server",
    ) -> None:
        super().__init__(leakage, n_parties=n_parties, everyone=everyone)
        self.source = source or NoiseSource.system()

    @property
    def private(self) -> bool:
        """Whether random bits come from the operating system."""
        return self.source.private

    def finish(self) -> None:
        """Nobody is waited for."""

    def public(self, values: ArrayLike, ring: Ring) -> Secret:
        """Make a secret of public integers."""
        return Secret(self, ring, ring.encode(values))

    def public_bits(self, bits: ArrayLike) -> SecretBits:
        """Make secret bits of public ones (..., n)."""
        return SecretBits(self, np.shape(bits)[-1], pack(bits))

    def add_public(self, x: Secret, elements: NDArray[Any]) -> Secret:
        """Add public elements of the ring; shapes broadcast."""
        return x.like(x.data + elements)

    def xor_public(self, x: SecretBits, bits: NDArray[np.bool_]) -> SecretBits:
        """Flip bits where the public ones are set; shapes broadcast."""
        wide = np.broadcast_to(bits, (*bits.shape[:-1], x.n))
        return x.like(x.data ^ pack(wide))

    def reduce(self, x: Secret, ring: Ring) -> Secret:
        """Take the lowest bits."""
        return Secret(self, ring, x.data.astype(ring.dtype))

    def input(
        self, values: ArrayLike | None, owner: int, shape: tuple[int, ...], ring: Ring
    ) -> Secret:
        """Take integers that party `owner` holds."""
        return self.public(_known(values, owner, shape), ring)

    def input_bits(self, bits: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> SecretBits:
        """Take bits that party `owner` holds."""
        return self.public_bits(_known(bits, owner, shape))

    def open(self, x: Secret | SecretBits, name: str, to: str) -> NDArray[Any]:
        """Open a declared value."""
        self.leakage.check(name, to, x.shape)
        return x.data.copy() if isinstance(x, Secret) else unpack(x.data, x.n)

    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element."""
        return x.like(x.data * y.data)

    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices."""
        return x.like(self.local_matmul(x.data, y.data))

    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits."""
        return x.like(x.data & y.data)

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw uniform bits."""
        full = (*shape[:-1], words(shape[-1]))
        drawn = self.source.words(int(np.prod(full))).reshape(full)
        return SecretBits(self, shape[-1], drawn)

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Return the bits of x itself."""
        return [SecretBits(self, x.size, bit_planes(x.data.reshape(-1), bits))]

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring."""
        return Secret(self, ring, unpack(x.data, x.n).astype(ring.dtype))

    def extend(self, x: Secret, ring: Ring) -> Secret:
        """Lift into a larger ring."""
        return Secret(self, ring, x.data.astype(ring.dtype))

    def truncate(self, x: Secret, shift: int) -> Secret:
        """Divide by a power of two, rounding down."""
        return x.like((x.ring.signed(x.data) >> shift).astype(x.ring.dtype))

    def permutation(self, n: int) -> ClearPermutation:
        """Draw a permutation."""
        return ClearPermutation(self, np.argsort(self.source.words(n), kind="stable"))

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Permute the rows."""
        return x[_order(permutation)]

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Undo `shuffle`."""
        return x[np.argsort(_order(permutation), kind="stable")]

    def cost(self, primitive: str, **public: Any) -> Cost:
        """Nothing is sent."""
        return NOTHING


def _known(values: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> ArrayLike:
    if values is None or np.shape(values) != tuple(shape):
        raise Code.WRONG_SHAPE.error(
            expected=f"values of shape {shape} from party {owner}",
            found="none" if values is None else f"shape {np.shape(values)}",
        )
    return values


def _order(permutation: Permutation) -> NDArray[np.int64]:
    assert isinstance(permutation, ClearPermutation)
    return permutation.order
