"""`Engine`: the few primitives in which engines differ; all else is written once, on top.

An engine holds the shares of the parties that live in this process and talks to the others through
its network. Its primitives are the only steps that communicate. Shapes, rounds and bytes of each
depend on public parameters alone, and `cost` states them. How many parties there are, who they are
to the ledger and how a value is shared is the engine's own: what is written on top asks it.

Every public method of an engine, of whatever class, first checks that it runs in the engine's own
thread and that the secrets and permutations it is given are the engine's own: before anything is
drawn or sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from threading import get_ident
from types import TracebackType
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Leakage
from hedgerow.secure.cost import Cost
from hedgerow.secure.kernels import add_product
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, SecretBits, Silent


class Permutation(ABC):
    """A secret permutation of rows, known to no single party; made by `Engine.permutation`."""

    engine: Engine
    n: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n} rows>"


class Engine(ABC):
    """Keeper of secret arrays; it stays in the thread that made it.

    Parameters
    ----------
    leakage : Leakage
        Declared openings; `open` refuses everything else.
    n_parties : int
        Parties that hold shares; `Cost` counts the bytes of these.
    everyone : str
        Audience of all of them, as openings and ledgers spell it.
    """

    share_axes: int
    """Leading axes of `Secret.data` that are not axes of the value."""
    n_addends: int
    """Numbers that `addends` returns."""
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
        """Shape of the share axes; the first, where there is one, has the parties that live here.

        At a party that holds no shares, an owner or an analyst, its length is 0.
        """

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
        """Share integers that party `owner` holds; None at every other party.

        In the simulator the owner lives here too, so values are given.
        """

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

        Checked against the declared leakage before a byte is sent. `to` is `everyone`, one party
        (``"server 0"``), or who is outside (``"analyst"``).
        """

    # What is not linear.

    @abstractmethod
    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element; shapes broadcast."""

    @abstractmethod
    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices (..., m, k) @ (..., k, n); one element per output on the wire."""

    @abstractmethod
    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits; leading axes broadcast."""

    @abstractmethod
    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw secret uniform bits (..., n) that nobody knows; no message."""

    @abstractmethod
    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Share the bits of `n_addends` numbers that add up to x modulo ``2**bits``.

        Returns
        -------
        list of SecretBits, each of shape (bits, x.size)
            Plane j holds bit j of every element. One entry needs no adder, two need one.
        """

    @abstractmethod
    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring, same shape."""

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

    def shuffle(self, x: Secret, permutation: Permutation) -> Secret:
        """Permute the rows (first axis); several arrays may use one permutation."""
        raise self._cannot_shuffle()

    def unshuffle(self, x: Secret, permutation: Permutation) -> Secret:
        """Undo `shuffle`."""
        raise self._cannot_shuffle()

    @abstractmethod
    def cost(self, primitive: str, **public: Any) -> Cost:
        """State rounds and bytes of a primitive from public parameters.

        Parameters
        ----------
        primitive : str
            Name of a method of this class.
        public
            ``shape``: of the result; of the argument for `addends` and `open`; shapes of bits are
            those of `SecretBits.shape`. ``ring``: of the result; None where bits are opened.
            Further ``bits`` for `addends`, ``source`` (the argument's ring) for `extend`,
            ``shift`` for `truncate`, ``owner`` for inputs and ``to`` for `open`.
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
