"""Secret arrays, NumPy-like and silent about their values, and `Engine`, which keeps them.

`Secret` is an array over a ring, `SecretBits` one of bits. Both hold an engine's own data with
`Engine.share_axes` leading axes, of which the first has the parties that live in this process. What
is linear happens here, on the shares; what is not goes to the engine. A secret in ``if``,
``int()``, ``print`` raises or shows its shape only; `Engine.open` is the one way out. Copies,
pickles and hashes are refused as well.

An engine's primitives are the only steps that communicate; all else is written once, on top.
Shapes, rounds and bytes depend on public parameters alone, and `Engine.cost` states them. Every
public method first checks that it runs in the engine's own thread, on the engine's own secrets and
permutations: before anything is drawn or sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import isfunction
from threading import get_ident
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Leakage
from hedgerow.secure import circuits
from hedgerow.secure.axes import axes_used, data_axis, lift, take
from hedgerow.secure.cost import Cost
from hedgerow.secure.kernels import add_product, transpose
from hedgerow.secure.ring import Ring

WORD = 64
"""Bits are packed into words of so many."""


class Silent(ABC):
    """Refuses every way in which Python could look at a value."""

    engine: Engine
    data: NDArray[Any]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the secret array."""

    @property
    def ndim(self) -> int:
        """Number of axes of the secret array."""
        return len(self.shape)

    @abstractmethod
    def _check(self, other: Any) -> None:
        """Refuse another array that does not fit."""

    def _aligned(self, other: Self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the data of two arrays with equally many axes."""
        self._check(other)
        ndim = max(self.ndim, other.ndim)
        return lift(self.data, self.ndim, ndim), lift(other.data, other.ndim, ndim)

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
    """A secret array over a ring; data has shape (*share axes, *shape)."""

    engine: Engine
    ring: Ring
    data: NDArray[Any]

    def __post_init__(self) -> None:
        # NumPy makes scalars of arrays without axes, and those warn where they wrap around.
        object.__setattr__(self, "data", np.asarray(self.data))
        assert self.data.dtype == self.ring.dtype, f"{self.data.dtype} for {self!r}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the secret array."""
        return self.data.shape[self.engine.share_axes :]

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
        return self.like(lift(self.data, self.ndim, factor.ndim) * factor)

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
        product = self.engine.local_matmul(lift(left.data, left.ndim, factor.ndim), factor)
        return self.like(product)._without(self.ndim == 1, column)

    def __rmatmul__(self, other: ArrayLike) -> Secret:
        public = self.ring.encode(other)
        right, row = self._as_matrix(row=False), public.ndim == 1
        factor = public[None, :] if row else public
        product = self.engine.local_matmul(factor, lift(right.data, right.ndim, factor.ndim))
        return self.like(product)._without(row, self.ndim == 1)

    def __lt__(self, other: Secret | ArrayLike) -> Secret:
        return (self - other).is_negative()

    def __gt__(self, other: Secret | ArrayLike) -> Secret:
        return (-self + other).is_negative()

    def __le__(self, other: Secret | ArrayLike) -> Secret:
        return 1 - (self > other)

    def __ge__(self, other: Secret | ArrayLike) -> Secret:
        return 1 - (self < other)

    def __eq__(self, other: Secret | ArrayLike) -> Secret:  # type: ignore[override]
        return (self - other).is_zero()

    def __ne__(self, other: Secret | ArrayLike) -> Secret:  # type: ignore[override]
        return 1 - (self == other)

    def __getitem__(self, index: Any) -> Secret:
        """Index with public positions, as NumPy does."""
        return self.like(take(self.data, self.engine.share_axes, index))

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
        data = lift(self.data, self.ndim, len(shape))
        return self.like(np.broadcast_to(data, (*data.shape[: self.engine.share_axes], *shape)))

    def summands(self, bits: int | None = None, drop: int = 0) -> list[SecretBits]:
        """Return the bits of one or two numbers that add up to x modulo ``2**bits``.

        Each of shape (bits, size), of the flat array, lowest first; all bits by default. The lowest
        `drop` of them are left out of every one of `Engine.n_addends` numbers with sum x: each
        is rounded down.

        Reveals: nothing.
        Cost: `compare.cost_summands`; `Engine.addends`, and one round for every carry-save step.
        """
        width = check_width(self.ring, bits)
        return circuits.two_summands([part[drop:] for part in self.engine.addends(self, width)])

    def a2b(self, bits: int | None = None, drop: int = 0) -> SecretBits:
        """Return the lowest bits of the numbers, (bits, size): plane j holds bit j of every one.

        Without the lowest `drop`, what is left may be too small, by less than `Engine.n_addends`.

        Reveals: nothing.
        Cost: `compare.cost_a2b`; for two summands `Engine.addends`, then ceil(log2 bits) rounds.
        """
        return circuits.total(self.summands(bits, drop))

    def is_negative(self, bits: int | None = None) -> Secret:
        """Return 1 where the top bit of the lowest `bits` is set, else 0; see `less_than`.

        Reveals: nothing. Cost: `compare.cost_less_than`.
        """
        return self._numbers(circuits.sign(self.summands(bits)))

    def is_zero(self, bits: int | None = None) -> Secret:
        """Return 1 where the lowest `bits` are all zero, else 0; see `equal`.

        Reveals: nothing. Cost: `compare.cost_equal`.
        """
        return self._numbers(circuits.is_zero(self.summands(bits)))

    def _numbers(self, bits: SecretBits) -> Secret:
        return self.engine.b2a(bits, self.ring).reshape(*self.shape)

    def _as_matrix(self, *, row: bool) -> Secret:
        """Return a vector as a matrix of one row or one column, anything else as it is."""
        if self.ndim != 1:
            return self
        return self[None, :] if row else self[:, None]

    def _without(self, row: bool, column: bool) -> Secret:
        data = self.data[..., 0] if column else self.data
        return self.like(data[..., 0] if row and column else data[..., 0, :] if row else data)

    def _check(self, other: Secret) -> None:
        if other.engine is not self.engine or other.ring != self.ring:
            raise Code.SECRETS_DO_NOT_FIT.error(
                found=f"{self!r} and {other!r}"
                + ("" if other.engine is self.engine else " of two engines")
            )


@dataclass(frozen=True, eq=False, repr=False)
class SecretBits(Silent):
    """A secret array of bits, of which n are packed along its last axis.

    Data has shape (*share axes, *leading shape, ceil(n / 64)): bit i of the last axis is bit
    ``i % 64`` of word ``i // 64``. What stands in the padding of the last word is not defined and
    never opened.
    """

    engine: Engine
    n: int
    data: NDArray[np.uint64]

    def __post_init__(self) -> None:
        assert self.data.dtype == np.uint64, f"{self.data.dtype} for {self!r}"
        assert self.data.shape[-1] == words(self.n), f"{self.data.shape} for {self!r}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the secret array of bits."""
        return (*self.data.shape[self.engine.share_axes : -1], self.n)

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
        return self.like(lift(self.data, self.ndim, mask.ndim) & mask)

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
        if axes_used(index) >= self.ndim:
            raise Code.SECRETS_DO_NOT_FIT.error(
                expected="an index into the leading axes", found=f"{index!r} into {self!r}"
            )
        return self.like(take(self.data, self.engine.share_axes, index))

    def concatenate(self, *others: SecretBits) -> SecretBits:
        """Put further bits behind these, along the first axis."""
        return concatenate([self, *others])

    def with_planes(self, where: NDArray[np.int64], new: SecretBits) -> SecretBits:
        """Return bits (planes, n) with some planes replaced."""
        data = self.data.copy()
        data[..., where, :] = new.data
        return self.like(data)

    def _check(self, other: SecretBits) -> None:
        if other.engine is not self.engine or other.n != self.n:
            raise Code.SECRETS_DO_NOT_FIT.error(found=f"{self!r} and {other!r}")


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


def turned(bits: SecretBits) -> SecretBits:
    """Return bits (a, b) as (b, a): planes of rows, or rows of planes; local.

    Blocks of 64 x 64 bits are turned by one call for every 64 of the shorter side.
    """
    *lead, a, width = bits.data.shape
    rows, b = words(a), bits.n
    out = np.empty((*lead, b, rows), np.uint64)
    block = np.empty((WORD, max(rows, width)), np.uint64)
    for at in np.ndindex(*lead):
        before, after = bits.data[at], out[at]
        if width <= rows:
            for j in range(width):
                transpose(np.ascontiguousarray(before[:, j]), block)
                some = after[WORD * j : WORD * (j + 1)]
                some[:] = block[: len(some)]
            continue
        for j in range(rows):
            some = before[WORD * j : WORD * (j + 1)]
            # A word of every plane after the other, with zeros for planes that are not there.
            values = np.zeros((width, WORD), np.uint64)
            values[:, : len(some)] = some.T
            transpose(values.reshape(-1), block)
            after[:, j] = block.T.reshape(-1)[:b]
    return SecretBits(bits.engine, a, out)


def check_width(ring: Ring, bits: int | None) -> int:
    """Return how many bits of an element are meant, all by default; H501 for more than it has."""
    if bits is None:
        return ring.bits
    if not 1 <= bits <= ring.bits:
        raise Code.BAD_PARAMETER.error(
            expected=f"bits from 1 to {ring.bits}", found=f"bits={bits!r}"
        )
    return bits


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


class Permutation(ABC):
    """A secret permutation of rows, known to no single party; made by `Engine.permutation`."""

    engine: Engine
    n: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n} rows>"


class Engine(ABC):
    """Keeper of secret arrays; it stays in the thread that made it.

    `open` refuses what is not declared in `leakage`. `everyone` is the audience of all parties that
    hold shares, as openings and ledgers spell it.
    """

    share_axes: int
    """Leading axes of `Secret.data` that are not axes of the value."""
    n_addends: int
    """Numbers that `addends` returns."""
    multiplies_bits: bool = False
    """Whether `mul_bits` of a few dozen bits takes less than a product of numbers."""
    can_shuffle: ClassVar[bool] = True
    """Whether it has `permutation`, `shuffle` and `unshuffle`; others refuse with H501."""

    def __init__(self, leakage: Leakage, *, n_parties: int, everyone: str) -> None:
        self.leakage = leakage
        self.n_parties = n_parties
        self.everyone = everyone
        self._thread = get_ident()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _guard(cls)

    @property
    @abstractmethod
    def private(self) -> bool:
        """Whether nobody can know the randomness: False where a seed was given."""

    @property
    @abstractmethod
    def share_shape(self) -> tuple[int, ...]:
        """Shape of the share axes; the first has those parties here that hold shares, or none."""

    @abstractmethod
    def finish(self) -> None:
        """Return once all parties have completed every step; a second call does nothing.

        Every party calls it at the end of its program, or leaves a ``with`` block without an
        error. Results are to be used after it.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error there is nothing to agree on: the network tells the others.
        if error is None:
            self.finish()

    # Local: no message.

    @abstractmethod
    def public(self, values: ArrayLike, ring: Ring) -> Secret:
        """Make a secret of public integers."""

    @abstractmethod
    def public_bits(self, bits: ArrayLike) -> SecretBits:
        """Make secret bits of public ones (..., n)."""

    @abstractmethod
    def add_public(self, x: Secret, elements: NDArray[Any]) -> Secret:
        """Add public elements of the ring; shapes broadcast."""

    @abstractmethod
    def xor_public(self, x: SecretBits, bits: NDArray[np.bool_]) -> SecretBits:
        """Flip bits where the public ones are set; shapes broadcast, also along the last axis."""

    def local_matmul(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """Multiply matrices in a ring where one side is public; share axes stand in front."""
        if a.shape[-1] != b.shape[-2]:
            raise Code.SECRETS_DO_NOT_FIT.error(found=f"matrices {a.shape} and {b.shape}")
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.zeros((*lead, a.shape[-2], b.shape[-1]), a.dtype)
        add_product(a, b, out)
        return out

    @abstractmethod
    def reduce(self, x: Secret, ring: Ring) -> Secret:
        """Take the lowest bits: from a larger ring to a smaller one."""

    # One party gives or gets.

    @abstractmethod
    def input(
        self, values: ArrayLike | None, owner: int, shape: tuple[int, ...], ring: Ring
    ) -> Secret:
        """Share integers that party `owner` holds; None at every process where it does not live."""

    @abstractmethod
    def input_bits(self, bits: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> SecretBits:
        """Share bits that party `owner` holds; None at every other party."""

    @overload
    def open(self, x: Secret, name: str, to: str) -> NDArray[Any] | None: ...
    @overload
    def open(self, x: SecretBits, name: str, to: str) -> NDArray[np.bool_] | None: ...
    @abstractmethod
    def open(self, x: Secret | SecretBits, name: str, to: str) -> NDArray[Any] | None:
        """Open a declared value to its audience; None where the audience does not live here.

        Checked against the declared leakage before a byte is sent. `to` is `everyone`, or one party
        (``"server 0"``).
        """

    def open_to_all(self, x: Secret, name: str) -> NDArray[Any]:
        """Open a declared value to all who hold shares, and so to whoever lives here."""
        opened = self.open(x, name, self.everyone)
        assert opened is not None, "every party is in the audience"
        return opened

    # What is not linear.

    @abstractmethod
    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element; shapes broadcast."""

    @abstractmethod
    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices (..., m, k) @ (..., k, n)."""

    @abstractmethod
    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits; leading axes broadcast."""

    @abstractmethod
    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw secret uniform bits (..., n) that nobody knows; no message."""

    @abstractmethod
    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Share the bits (bits, size) of `n_addends` numbers with sum x modulo ``2**bits``."""

    @abstractmethod
    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring, same shape."""

    def mul_bits(self, x: Secret, planes: SecretBits) -> Secret:
        """Multiply x (..., n) by numbers whose bits are `planes` (bits, n), lowest first."""
        weights = np.left_shift(1, np.arange(len(planes)))[:, None]
        return x * (self.b2a(planes, x.ring) * weights).sum(axis=0)

    @abstractmethod
    def extend(self, x: Secret, ring: Ring) -> Secret:
        """Lift 0 <= x < 2**(k-1) into a larger ring."""

    @abstractmethod
    def truncate(self, x: Secret, shift: int) -> Secret:
        """Divide -2**(k-2) <= x < 2**(k-2) by ``2**shift``, rounding down, error in {-1, 0}.

        Which of the two it is depends on the shares, so a party that sees the result opened
        learns a little more than the quotient: open it only as what it is.
        """

    def permutation(self, n: int) -> Permutation:
        """Draw a secret permutation of n rows."""
        raise self._cannot_shuffle()

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Permute the rows (first axis); several arrays may use one permutation.

        Those of bits (n, ...) are whole: the axis that is packed is never theirs.
        """
        raise self._cannot_shuffle()

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Undo `shuffle`."""
        raise self._cannot_shuffle()

    def prepare(self, cost: Cost) -> None:
        """Make ahead, all at once, what steps of a cost will use up, where there is such a thing.

        Reveals: nothing.
        """
        del cost

    @abstractmethod
    def cost(self, primitive: str, **public: Any) -> Cost:
        """State rounds and bytes of a primitive from public parameters.

        Shapes are those of the result, for `addends` and `open` of the argument, for bits as in
        `SecretBits.shape`. ``ring`` is that of the result, None where bits are opened or shuffled.
        Further ``inner`` (the side that is summed over) for `matmul`, ``bits`` for `addends` and
        `mul_bits`, ``source`` (the argument's ring) for `extend`, ``shift`` for `truncate`,
        ``owner`` for inputs and ``to`` for `open`.
        """

    def _cannot_shuffle(self) -> Exception:
        return Code.BAD_PARAMETER.error(
            expected="an engine that can shuffle rows",
            found=type(self).__name__,
            fix="choose grower='masks'",
        )


_FREE = {"cost"}
"""Public methods that touch no share and draw nothing."""


def _guard(cls: type[Any]) -> None:
    """Make the public methods of a class check who calls them with what."""
    for name, method in list(vars(cls).items()):
        if isfunction(method) and not name.startswith("_") and name not in _FREE:
            setattr(cls, name, _guarded(method))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Check the thread and the arguments of a method of an engine before it runs."""

    @wraps(method)
    def call(self: Engine, *args: Any, **named: Any) -> Any:
        if get_ident() != self._thread:
            raise Code.WRONG_THREAD.error(found=f"`{method.__name__}` in another thread")
        for value in (*args, *named.values()):
            if isinstance(value, (Silent, Permutation)) and value.engine is not self:
                raise Code.SECRETS_DO_NOT_FIT.error(
                    found=f"{value!r} of another engine",
                    fix="use it with the engine that made it",
                )
        return method(self, *args, **named)

    return call


_guard(Engine)
