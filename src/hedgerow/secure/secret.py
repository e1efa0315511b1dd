"""Secret arrays: NumPy-like, and silent about their values.

`Secret` is an array over a ring, `SecretBits` an array of bits. Both hold an engine's own data with
`Engine.share_axes` leading axes (for three servers: the servers that live in this process, and the
two shares each of them holds). What is linear happens here, on the shares; what is not goes to the
engine. A secret in ``if``, ``int()``, ``print`` raises or shows its shape only; `Engine.open` is
the one way out. Copies, pickles and hashes of secrets are refused as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.secure.axes import consumed, data_axis, lifted, taken
from hedgerow.secure.ring import Ring

if TYPE_CHECKING:
    from hedgerow.secure.engine import Engine

WORD = 64
"""Bits are packed into words of so many."""


class Silent:
    """Refuses every way in which Python could look at a value."""

    engine: Engine
    shape: tuple[int, ...]

    def __bool__(self) -> NoReturn:
        raise _refusal("a truth value (in if, while, and, or, not)")

    def __int__(self) -> NoReturn:
        raise _refusal("an int")

    def __index__(self) -> NoReturn:
        raise _refusal("an index")

    def __float__(self) -> NoReturn:
        raise _refusal("a float")

    def __complex__(self) -> NoReturn:
        raise _refusal("a complex number")

    def __iter__(self) -> NoReturn:
        raise _refusal("a sequence")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise _refusal("a NumPy array")

    def __reduce__(self) -> NoReturn:
        raise _refusal("a pickle")

    # NumPy arrays on the left must hand over to these classes and not loop over themselves.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a secret of shape () has no length")
        return self.shape[0]

    def __format__(self, spec: str) -> str:
        return repr(self)


@dataclass(frozen=True, eq=False, repr=False)
class Secret(Silent):
    """A secret array over a ring.

    Parameters
    ----------
    engine : Engine
        Keeps the shares and does what is not linear.
    ring : Ring
        Modulus.
    data : NDArray, shape (*share axes, *shape)
        The engine's own; elements of the ring.
    """

    engine: Engine
    ring: Ring
    data: NDArray[Any]

    def __post_init__(self) -> None:
        # NumPy makes scalars of arrays without axes, and those warn where they wrap around.
        object.__setattr__(self, "data", np.asarray(self.data))
        assert self.data.dtype == self.ring.dtype, f"{self.data.dtype} for {self!r}"

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the secret array."""
        return self.data.shape[self.engine.share_axes :]

    @property
    def ndim(self) -> int:
        """Number of axes of the secret array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<Secret {self.shape} over Z_2^{self.ring.bits}>"

    def like(self, data: NDArray[Any]) -> Secret:
        """Return a secret of the same engine and ring over other data."""
        return Secret(self.engine, self.ring, data)

    def __add__(self, other: Secret | ArrayLike) -> Secret:
        if isinstance(other, Secret):
            mine, its = self._aligned(other)
            return self.like(mine + its)
        return self.engine.add_public(self, self.ring.encode(other))

    __radd__ = __add__

    def __neg__(self) -> Secret:
        return self.like(np.negative(self.data))

    def __sub__(self, other: Secret | ArrayLike) -> Secret:
        if isinstance(other, Secret):
            mine, its = self._aligned(other)
            return self.like(mine - its)
        return self.engine.add_public(self, np.negative(self.ring.encode(other)))

    def __rsub__(self, other: ArrayLike) -> Secret:
        return -self + other

    def __mul__(self, other: Secret | ArrayLike) -> Secret:
        if isinstance(other, Secret):
            self._check(other)
            return self.engine.mul(self, other)
        factor = self.ring.encode(other)
        return self.like(lifted(self.data, self.ndim, factor.ndim) * factor)

    __rmul__ = __mul__

    def __matmul__(self, other: Secret | ArrayLike) -> Secret:
        if isinstance(other, Secret):
            self._check(other)
            if self.ndim > 1 and other.ndim > 1:
                return self.engine.matmul(self, other)
            left, right = self._as_matrix(row=True), other._as_matrix(row=False)
            return self.engine.matmul(left, right)._without(self.ndim == 1, other.ndim == 1)
        public = self.ring.encode(other)
        left, column = self._as_matrix(row=True), public.ndim == 1
        factor = public[:, None] if column else public
        product = self.engine.local_matmul(lifted(left.data, left.ndim, factor.ndim), factor)
        return self.like(product)._without(self.ndim == 1, column)

    def __rmatmul__(self, other: ArrayLike) -> Secret:
        public = self.ring.encode(other)
        right, row = self._as_matrix(row=False), public.ndim == 1
        factor = public[None, :] if row else public
        product = self.engine.local_matmul(factor, lifted(right.data, right.ndim, factor.ndim))
        return self.like(product)._without(row, self.ndim == 1)

    def __lt__(self, other: Secret | ArrayLike) -> Secret:
        from hedgerow.secure.compare import less_than

        return less_than(self, other)

    def __gt__(self, other: Secret | ArrayLike) -> Secret:
        from hedgerow.secure.compare import less_than

        return less_than(other, self)

    def __le__(self, other: Secret | ArrayLike) -> Secret:
        return 1 - (self > other)

    def __ge__(self, other: Secret | ArrayLike) -> Secret:
        return 1 - (self < other)

    def __eq__(self, other: Secret | ArrayLike) -> Secret:  # type: ignore[override]
        from hedgerow.secure.compare import equal

        return equal(self, other)

    def __ne__(self, other: Secret | ArrayLike) -> Secret:  # type: ignore[override]
        return 1 - (self == other)

    def __getitem__(self, index: Any) -> Secret:
        """Index with public positions, as NumPy does."""
        return self.like(taken(self.data, self.engine.share_axes, index))

    def sum(self, axis: int | None = None, *, keepdims: bool = False) -> Secret:
        """Add up elements, in the ring."""
        lead = self.engine.share_axes
        every = tuple(range(lead, self.data.ndim))
        axes = every if axis is None else data_axis(axis, self.ndim, lead)
        return self.like(self.data.sum(axis=axes, keepdims=keepdims, dtype=self.ring.dtype))

    def cumsum(self, axis: int = 0) -> Secret:
        """Return prefix sums along an axis, in the ring."""
        where = data_axis(axis, self.ndim, self.engine.share_axes)
        return self.like(np.cumsum(self.data, axis=where, dtype=self.ring.dtype))

    def reshape(self, *shape: int) -> Secret:
        """Return the elements in another shape; one side may be -1."""
        # NumPy cannot tell that side where no server lives here and the data is empty.
        known = math.prod(side for side in shape if side != -1)
        shape = tuple(self.size // max(known, 1) if side == -1 else side for side in shape)
        return self.like(self.data.reshape((*self.data.shape[: self.engine.share_axes], *shape)))

    def transpose(self, *axes: int) -> Secret:
        """Return the array with its axes in another order, reversed by default."""
        lead = self.engine.share_axes
        order = [data_axis(a, self.ndim, lead) for a in axes or range(self.ndim)[::-1]]
        return self.like(self.data.transpose((*range(lead), *order)))

    def broadcast_to(self, shape: Sequence[int]) -> Secret:
        """Repeat elements as NumPy's broadcasting does."""
        data = lifted(self.data, self.ndim, len(shape))
        return self.like(np.broadcast_to(data, (*data.shape[: self.engine.share_axes], *shape)))

    def _as_matrix(self, *, row: bool) -> Secret:
        """Return a vector as a matrix of one row or one column, anything else as it is."""
        if self.ndim != 1:
            return self
        return self[None, :] if row else self[:, None]

    def _without(self, row: bool, column: bool) -> Secret:
        """Drop the axes that `_as_matrix` added."""
        data = self.data[..., 0] if column else self.data
        return self.like(data[..., 0] if row and column else data[..., 0, :] if row else data)

    def _check(self, other: Secret) -> None:
        if other.engine is not self.engine or other.ring != self.ring:
            raise Code.SECRETS_DO_NOT_FIT.error(
                found=f"{self!r} and {other!r}"
                + ("" if other.engine is self.engine else " of two engines")
            )

    def _aligned(self, other: Secret) -> tuple[NDArray[Any], NDArray[Any]]:
        self._check(other)
        ndim = max(self.ndim, other.ndim)
        return lifted(self.data, self.ndim, ndim), lifted(other.data, other.ndim, ndim)


@dataclass(frozen=True, eq=False, repr=False)
class SecretBits(Silent):
    """A secret array of bits, packed along its last axis.

    Parameters
    ----------
    engine : Engine
    n : int
        Bits along the last axis.
    data : uint64 array, shape (*share axes, *leading shape, ceil(n / 64))
        Bit i of the last axis is bit ``i % 64`` of word ``i // 64``. What stands in the padding of
        the last word is not defined and never opened.
    """

    engine: Engine
    n: int
    data: NDArray[np.uint64]

    def __post_init__(self) -> None:
        assert self.data.dtype == np.uint64, f"{self.data.dtype} for {self!r}"
        assert self.data.shape[-1] == words(self.n), f"{self.data.shape} for {self!r}"

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the secret array of bits."""
        return (*self.data.shape[self.engine.share_axes : -1], self.n)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<SecretBits {self.shape}>"

    def like(self, data: NDArray[np.uint64]) -> SecretBits:
        """Return bits of the same engine and length over other words."""
        return SecretBits(self.engine, self.n, data)

    def __xor__(self, other: SecretBits | ArrayLike) -> SecretBits:
        if isinstance(other, SecretBits):
            mine, its = self._aligned(other)
            return self.like(mine ^ its)
        return self.engine.xor_public(self, np.asarray(other, dtype=np.bool_))

    __rxor__ = __xor__

    def __and__(self, other: SecretBits | ArrayLike) -> SecretBits:
        if isinstance(other, SecretBits):
            self._check(other)
            return self.engine.and_(self, other)
        public = np.asarray(other, dtype=np.bool_)
        mask = pack(np.broadcast_to(public, (*public.shape[:-1], self.n)))
        return self.like(lifted(self.data, self.ndim, mask.ndim) & mask)

    __rand__ = __and__

    def __or__(self, other: SecretBits | ArrayLike) -> SecretBits:
        return self ^ other ^ (self & other)

    __ror__ = __or__

    def __eq__(self, other: SecretBits | ArrayLike) -> SecretBits:  # type: ignore[override]
        return ~(self ^ other)

    def __ne__(self, other: SecretBits | ArrayLike) -> SecretBits:  # type: ignore[override]
        return self ^ other

    def __invert__(self) -> SecretBits:
        return self.engine.xor_public(self, np.ones(1, dtype=np.bool_))

    def __getitem__(self, index: Any) -> SecretBits:
        """Index the leading axes with public positions; the last axis stays whole."""
        if consumed(index) >= self.ndim:
            raise Code.SECRETS_DO_NOT_FIT.error(
                expected="an index into the leading axes", found=f"{index!r} into {self!r}"
            )
        return self.like(taken(self.data, self.engine.share_axes, index))

    def _check(self, other: SecretBits) -> None:
        if other.engine is not self.engine or other.n != self.n:
            raise Code.SECRETS_DO_NOT_FIT.error(found=f"{self!r} and {other!r}")

    def _aligned(self, other: SecretBits) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        self._check(other)
        ndim = max(self.ndim, other.ndim)
        return lifted(self.data, self.ndim, ndim), lifted(other.data, other.ndim, ndim)


AnySecret = TypeVar("AnySecret", Secret, SecretBits)


def concatenate(parts: Sequence[AnySecret], axis: int = 0) -> AnySecret:
    """Join secret arrays along an axis; bits along any but their last."""
    where = _joint(parts, axis, 0)
    # Levels of a tree often leave nothing over, and then there is nothing to copy.
    some = [p for p in parts if p.data.shape[where]] or parts[:1]
    if len(some) == 1:
        return some[0]
    return some[0].like(np.concatenate([p.data for p in some], axis=where))


def stack(parts: Sequence[AnySecret], axis: int = 0) -> AnySecret:
    """Join secret arrays along a new axis; that of bits stands before their last."""
    first = parts[0]
    return first.like(np.stack([p.data for p in parts], axis=_joint(parts, axis, 1)))


def words(n: int) -> int:
    """Return how many words n bits take."""
    return -(-n // WORD)


def pack(bits: ArrayLike) -> NDArray[np.uint64]:
    """Pack public bits (..., n) along the last axis into words (..., ceil(n / 64))."""
    array = np.asarray(bits, dtype=np.bool_)
    packed = np.packbits(array, axis=-1, bitorder="little")
    room = words(array.shape[-1]) * (WORD // 8) - packed.shape[-1]
    wide = np.pad(packed, [(0, 0)] * (array.ndim - 1) + [(0, room)])
    return np.ascontiguousarray(wide).view("<u8").astype(np.uint64)


def unpack(packed: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """Undo `pack`."""
    octets = np.ascontiguousarray(packed.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n, bitorder="little").astype(np.bool_)


def _joint(parts: Sequence[AnySecret], axis: int, new: int) -> int:
    """Check that secrets fit and return the axis of their data to join along."""
    first = parts[0]
    for other in parts[1:]:
        first._check(other)
    where = normalize_axis_index(axis, first.ndim + new)
    if isinstance(first, SecretBits) and where == first.ndim + new - 1:
        raise Code.SECRETS_DO_NOT_FIT.error(
            expected="bits joined along an axis that is not packed", found=f"axis {axis}"
        )
    return first.engine.share_axes + where


def _refusal(what: str) -> Exception:
    return Code.SECRET_IN_THE_OPEN.error(found=f"a secret where Python wants {what}")
