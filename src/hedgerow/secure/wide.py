"""Secret numbers of 128 bits, for exact comparisons of fractions by cross products.

`SecretWide` is to ``2**128`` what `Secret` is to the rings that NumPy has: silent, linear
operations on the shares, everything else by the engine, `Engine.input_wide` and `extend_wide` the
ways in, `Engine.open` the one way out. A fraction of numbers below ``2**63`` is compared exactly:

    a / b < c / d    if and only if    a * d < c * b,    for b, d > 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import Code
from hedgerow.secure import limbs
from hedgerow.secure.adder import cost_msb, msb
from hedgerow.secure.axes import data_axis, lifted, taken
from hedgerow.secure.compare import cost_is_zero, is_zero
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.limbs import LIMBS, Z128, Limbs, WideRing
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Secret, Silent

if TYPE_CHECKING:
    from hedgerow.secure.engine import Engine


@dataclass(frozen=True, eq=False, repr=False)
class SecretWide(Silent):
    """A secret array over the integers modulo ``2**128``.

    Parameters
    ----------
    engine : Engine
        Keeps the shares and does what is not linear.
    data : uint64 array, shape (*share axes, *shape, 2)
        The engine's own; low word first.
    """

    engine: Engine
    data: Limbs

    def __post_init__(self) -> None:
        assert self.data.dtype == np.uint64, f"{self.data.dtype} for {self!r}"
        assert self.data.shape[-1] == LIMBS, f"{self.data.shape} for {self!r}"

    @property
    def ring(self) -> WideRing:
        """Modulus."""
        return Z128

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the secret array."""
        return self.data.shape[self.engine.share_axes : -1]

    @property
    def ndim(self) -> int:
        """Number of axes of the secret array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<SecretWide {self.shape} over Z_2^{Z128.bits}>"

    def like(self, data: Limbs) -> SecretWide:
        """Return a secret of the same engine over other data."""
        return SecretWide(self.engine, data)

    def __add__(self, other: SecretWide | ArrayLike) -> SecretWide:
        if isinstance(other, SecretWide):
            return self.like(limbs.add(*self.aligned(other)))
        return self.engine.add_public_wide(self, _encoded(other))

    __radd__ = __add__

    def __neg__(self) -> SecretWide:
        return self.like(limbs.negative(self.data))

    def __sub__(self, other: SecretWide | ArrayLike) -> SecretWide:
        if isinstance(other, SecretWide):
            return self.like(limbs.subtract(*self.aligned(other)))
        return self.engine.add_public_wide(self, limbs.negative(_encoded(other)))

    def __rsub__(self, other: ArrayLike) -> SecretWide:
        return -self + other

    def __mul__(self, other: SecretWide | ArrayLike) -> SecretWide:
        if isinstance(other, SecretWide):
            return mul_wide(self, other)
        factor = _encoded(other)
        return self.like(limbs.multiply(self._lifted(factor.ndim - 1), factor))

    __rmul__ = __mul__

    def __lt__(self, other: SecretWide | ArrayLike) -> Secret:
        return _is_negative(self - other, None, Z64)

    def __gt__(self, other: SecretWide | ArrayLike) -> Secret:
        return _is_negative(-self + other, None, Z64)

    def __le__(self, other: SecretWide | ArrayLike) -> Secret:
        return 1 - (self > other)

    def __ge__(self, other: SecretWide | ArrayLike) -> Secret:
        return 1 - (self < other)

    def __eq__(self, other: SecretWide | ArrayLike) -> Secret:  # type: ignore[override]
        return equal_wide(self, other)

    def __ne__(self, other: SecretWide | ArrayLike) -> Secret:  # type: ignore[override]
        return 1 - (self == other)

    def __getitem__(self, index: Any) -> SecretWide:
        """Index with public positions, as NumPy does; the words stay together."""
        where = index if isinstance(index, tuple) else (index,)
        if not any(part is Ellipsis for part in where):
            where = (*where, Ellipsis)
        return self.like(taken(self.data, self.engine.share_axes, (*where, slice(None))))

    def sum(self, axis: int | None = None, *, keepdims: bool = False) -> SecretWide:
        """Add up to ``2**32`` elements, modulo ``2**128``."""
        lead = self.engine.share_axes
        every = tuple(range(lead, lead + self.ndim))
        axes = every if axis is None else data_axis(axis, self.ndim, lead)
        return self.like(
            limbs.summed(self.data, partial(np.sum, axis=axes, keepdims=keepdims, dtype=np.uint64))
        )

    def cumsum(self, axis: int = 0) -> SecretWide:
        """Return prefix sums of up to ``2**32`` elements along an axis, modulo ``2**128``."""
        where = data_axis(axis, self.ndim, self.engine.share_axes)
        return self.like(limbs.summed(self.data, partial(np.cumsum, axis=where, dtype=np.uint64)))

    def reshape(self, *shape: int) -> SecretWide:
        """Return the elements in another shape; one side may be -1."""
        # NumPy cannot tell that side where no server lives here and the data is empty.
        known = math.prod(side for side in shape if side != -1)
        shape = tuple(self.size // max(known, 1) if side == -1 else side for side in shape)
        lead = self.data.shape[: self.engine.share_axes]
        return self.like(self.data.reshape((*lead, *shape, LIMBS)))

    def broadcast_to(self, shape: Sequence[int]) -> SecretWide:
        """Repeat elements as NumPy's broadcasting does."""
        data = self._lifted(len(shape))
        lead = data.shape[: self.engine.share_axes]
        return self.like(np.broadcast_to(data, (*lead, *shape, LIMBS)))

    def aligned(self, other: SecretWide) -> tuple[Limbs, Limbs]:
        """Return the data of both with equally many axes, after a check that they fit."""
        if not isinstance(other, SecretWide) or other.engine is not self.engine:
            raise _unfit(f"{self!r} and {other!r}")
        ndim = max(self.ndim, other.ndim)
        return self._lifted(ndim), other._lifted(ndim)

    def _lifted(self, ndim: int) -> Limbs:
        return lifted(self.data, self.ndim + 1, ndim + 1)


def extend_wide(x: Secret) -> SecretWide:
    """Lift 0 <= x < 2**(k-1), over any ring of k bits, to 128 bits.

    Reveals: nothing.
    Cost: `cost_extend_wide`; from fewer than 64 bits `Engine.extend` comes first.

    Parameters
    ----------
    x : Secret of any shape

    Returns
    -------
    SecretWide, the same shape
    """
    return x.engine.extend_wide(x if x.ring == Z64 else x.engine.extend(x, Z64))


def mul_wide(x: SecretWide, y: SecretWide) -> SecretWide:
    """Multiply element by element, modulo ``2**128``; shapes broadcast.

    Reveals: nothing.
    Cost: `cost_mul_wide`; one round, one element of 16 bytes from every server.
    """
    x.aligned(y)
    return x.engine.mul_wide(x, y)


def reduce_wide(x: SecretWide, ring: Ring = Z64) -> Secret:
    """Take the lowest bits of 128, local."""
    return Secret(x.engine, ring, x.data[..., 0].astype(ring.dtype))


def less_than_wide(
    x: SecretWide, y: SecretWide | ArrayLike, *, bits: int | None = None, ring: Ring = Z64
) -> Secret:
    """Return 1 where x < y, else 0; shapes broadcast.

    1. d = x - y modulo ``2**128``, local.
    2. The top bit of the lowest `bits` of d, by the carry tree of `adder.msb`.
    3. The bit as 0 or 1 of the ring.

    Reveals: nothing.
    Cost: `cost_less_than_wide`.

    Parameters
    ----------
    x : SecretWide
    y : SecretWide or integers
        Signed, as x is. ``-2**(bits-1) <= x - y < 2**(bits-1)`` must hold; otherwise the answer is
        the sign of the difference as it wraps around.
    bits : int, optional
        Width of the difference, 128 by default. Narrow differences cost less.
    ring : Ring, default Z64
        Of the answer.

    Returns
    -------
    Secret
    """
    return _is_negative(x - y, bits, ring)


def equal_wide(
    x: SecretWide, y: SecretWide | ArrayLike, *, bits: int | None = None, ring: Ring = Z64
) -> Secret:
    """Return 1 where x == y, else 0; shapes broadcast.

    The zero test of `compare.equal` on x - y modulo ``2**128``.

    Reveals: nothing.
    Cost: `cost_equal_wide`.

    Parameters
    ----------
    x : SecretWide
    y : SecretWide or integers
    bits : int, optional
        Compare the lowest so many bits; all 128 by default.
    ring : Ring, default Z64
        Of the answer.

    Returns
    -------
    Secret
    """
    d = x - y
    return d.engine.b2a(is_zero(d, bits), ring).reshape(*d.shape)


def cost_extend_wide(engine: Engine, size: int, source: Ring = Z64) -> Cost:
    """State the cost of `extend_wide` for `size` elements of a ring."""
    first = NOTHING
    if source != Z64:
        first = engine.cost("extend", shape=(size,), ring=Z64, source=source)
    return first + engine.cost("extend_wide", shape=(size,))


def cost_mul_wide(engine: Engine, size: int) -> Cost:
    """State the cost of `mul_wide` for `size` products."""
    return engine.cost("mul_wide", shape=(size,))


def cost_less_than_wide(
    engine: Engine, size: int, bits: int | None = None, ring: Ring = Z64
) -> Cost:
    """State the cost of `less_than_wide` for `size` elements."""
    return cost_msb(engine, size, Z128, bits) + engine.cost("b2a", shape=(size,), ring=ring)


def cost_equal_wide(engine: Engine, size: int, bits: int | None = None, ring: Ring = Z64) -> Cost:
    """State the cost of `equal_wide` for `size` elements."""
    return cost_is_zero(engine, size, Z128, bits) + engine.cost("b2a", shape=(size,), ring=ring)


def _is_negative(d: SecretWide, bits: int | None, ring: Ring) -> Secret:
    return d.engine.b2a(msb(d, bits), ring).reshape(*d.shape)


def _encoded(other: Any) -> Limbs:
    if isinstance(other, Silent):
        raise _unfit(f"128 bits and {other!r}", "secrets of 128 bits on both sides")
    return Z128.encode(other)


def _unfit(found: str, expected: str | None = None) -> Exception:
    return Code.SECRETS_DO_NOT_FIT.error(found=found, expected=expected)
