"""`PartyEngine`: what engines whose parties meet on a network have in common.

Shares are sums of the numbers that parties hold, or XORs of words of bits, whatever the engine;
so linear steps, checks, openings and the farewell are written here. How shares are dealt, revealed
and multiplied is the engine's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.axes import lift
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.orders import JointPermutation, draw_orders
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import (
    WORD,
    AnySecret,
    Engine,
    Permutation,
    Secret,
    SecretBits,
    pack,
    unpack,
    words,
)
from hedgerow.secure.steps import Holders, parties_of

Array = NDArray[Any]
AnyCore = TypeVar("AnyCore", bound=Holders)

LOCAL: Final = {
    "public",
    "public_bits",
    "add_public",
    "xor_public",
    "local_matmul",
    "reduce",
    "random_bits",
    "permutation",
}
"""Primitives that send nothing, whatever the engine."""


class PartyEngine(Engine, Generic[AnyCore]):
    """An engine over a network, with the keys and steps of the parties that live here."""

    def __init__(self, core: AnyCore, leakage: Leakage, *, everyone: str) -> None:
        super().__init__(leakage, n_parties=core.n, everyone=everyone)
        self._kept_core = core
        self._finished = False

    @property
    def core(self) -> AnyCore:
        """Keys and steps of the parties here, which all primitives stand on; gone after `finish`.

        Also for what is dealt and joined outside the network.
        """
        if self._finished:
            raise Code.NETWORK_CLOSED.error(
                expected="an engine that has not finished",
                found="a primitive after the farewell of its parties",
                fix="make a new engine; the network may be used again",
            )
        return self._kept_core

    @property
    def private(self) -> bool:
        """Whether keys come from the operating system."""
        return self._kept_core.private

    @property
    def share_shape(self) -> tuple[int, ...]:
        """Parties that live here, and the shares that each of them holds if it is several."""
        return self._kept_core.share_shape

    @property
    def network(self) -> Network:
        """The network; its meter counts what is sent."""
        return self._kept_core.network

    def finish(self) -> None:
        """Return once all parties have completed every step; a second call does nothing.

        Where it returns at a party, no step has failed at any of them, the last opening included;
        a party that fails in its last step ends the others with a numbered error here. Results are
        to be used after it. What a party has received before a fault it knows all the same, and a
        fault in the farewell itself may end the parties differently; see `Network.farewell`.
        The network stays open, for another engine.

        Cost: 2 rounds, no payload.
        """
        if not self._finished:
            self.network.farewell(range(self.n_parties))
            self._finished = True

    def public(self, values: ArrayLike, ring: Ring) -> Secret:
        """Make a secret of public integers: x_0 is the value, all other shares are 0."""
        elements = ring.encode(values)
        data = self.core.shares(elements.shape, ring.dtype, zero=True)
        return Secret(self, ring, self._combine(np.bitwise_xor, data, elements))

    def public_bits(self, bits: ArrayLike) -> SecretBits:
        """Make secret bits of public ones (..., n)."""
        packed = pack(bits)
        data = self.core.shares(packed.shape, np.uint64, zero=True)
        return SecretBits(self, np.shape(bits)[-1], self._combine(np.bitwise_xor, data, packed))

    def add_public(self, x: Secret, elements: Array) -> Secret:
        """Add public elements of the ring to x_0; shapes broadcast."""
        return x.like(self._combine(np.add, _wide(x, elements.shape), elements))

    def xor_public(self, x: SecretBits, bits: NDArray[np.bool_]) -> SecretBits:
        """Flip bits of x_0 where the public ones are set; shapes broadcast."""
        packed = pack(np.broadcast_to(bits, (*bits.shape[:-1], x.n)))
        return x.like(self._combine(np.bitwise_xor, _wide(x, packed.shape), packed))

    def local_matmul(self, a: Array, b: Array) -> Array:
        """Multiply matrices of which one is public; share axes stand in front."""
        found = super().local_matmul(a, b)
        each = prod(found.shape[self.share_axes :]) * a.shape[-1] * prod(self.share_shape[1:])
        self.network.note_work("products", self.n_parties * each)
        return found

    def reduce(self, x: Secret, ring: Ring) -> Secret:
        """Take the lowest bits of every share."""
        if ring.bits > x.ring.bits:
            raise unfit(f"{x!r} reduced to {ring.bits} bits")
        return Secret(self, ring, x.data.astype(ring.dtype))

    def input(
        self, values: ArrayLike | None, owner: int, shape: tuple[int, ...], ring: Ring
    ) -> Secret:
        """Share integers that party `owner` holds; see `sharing.deal_input`."""
        known = self._known(values, owner, shape)
        elements = None if known is None else ring.encode(known)
        return Secret(self, ring, self._deal(elements, owner, tuple(shape), ring.dtype, xor=False))

    def input_bits(self, bits: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> SecretBits:
        """Share bits that party `owner` holds; see `sharing.deal_input`."""
        known = self._known(bits, owner, shape)
        packed = None if known is None else pack(known)
        full = (*shape[:-1], words(shape[-1]))
        return SecretBits(self, shape[-1], self._deal(packed, owner, full, np.uint64, xor=True))

    def open(self, x: Secret | SecretBits, name: str, to: str) -> Array | None:
        """Open a declared value to its audience; see `openings.reveal`.

        It is recorded as opened before it is sent: after a failure of the network nobody knows
        who has received it.
        """
        # A finished engine refuses here, before anything is recorded.
        _, parties = self.core, parties_of(to, self.everyone, self.n_parties)
        self.leakage.check(name, to, x.shape)
        purpose = f"{name} to {to}"
        if isinstance(x, SecretBits):
            bits = self._reveal(_trimmed(x), parties, purpose=purpose, xor=True)
            return self.network.supposed(name, x.shape) if bits is None else unpack(bits, x.n)
        opened = self._reveal(x.data, parties, purpose=purpose, xor=False)
        return self.network.supposed(name, x.shape) if opened is None else opened

    def extend(self, x: Secret, ring: Ring) -> Secret:
        """Lift 0 <= x < 2**(k-1) into a larger ring; see `convert.shift_right`."""
        if ring.bits < x.ring.bits:
            raise unfit(f"{x!r} extended to {ring.bits} bits")
        if ring == x.ring:
            return x
        return Secret(self, ring, self._shift_right(x, ring, 0).reshape(x.data.shape))

    def truncate(self, x: Secret, shift: int) -> Secret:
        """Divide by ``2**shift``, error in {-1, 0}; see `convert.shift_right`."""
        k = x.ring.bits
        if not 0 <= shift <= k - 2:
            raise unfit(f"{x!r} divided by 2**{shift}")
        if shift == 0:
            return x
        # Moved by 2**(k-2) it is not negative, as the protocol asks.
        raised = self._shift_right(x + (1 << (k - 2)), x.ring, shift)
        return x.like(raised.reshape(x.data.shape)) - (1 << (k - 2 - shift))

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw secret uniform bits: share x_j is a mask of key j, and nobody has all the keys."""
        full = (*shape[:-1], words(shape[-1]))
        step = self.core.step("random bits")
        data = self.core.shares(full, np.uint64)
        for at, party in enumerate(self.core.here):
            keys = self.core.parts(party).values()
            for side, key in zip(np.ndindex(self.core.sides), keys, strict=True):
                data[(at, *side)] = step.mask(key, "bits", full, np.uint64)
        return SecretBits(self, shape[-1], data)

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Share the bits of numbers that add up to x; see `convert.addends`."""
        if not 0 < bits <= x.ring.bits:
            raise unfit(f"{bits} bits of {x!r}")
        return [SecretBits(self, x.size, planes) for planes in self._addends(flat(x), bits)]

    def permutation(self, n: int) -> Permutation:
        """Draw a secret permutation of n rows; see `draw_orders`."""
        return JointPermutation(self, n, draw_orders(self.core, n))

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Permute the rows; see `shuffle.apply`."""
        return self._permuted(x, permutation, inverse=False)

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Undo `shuffle`."""
        return self._permuted(x, permutation, inverse=True)

    def cost(self, primitive: str, **public: Any) -> Cost:
        """State rounds and bytes of a primitive from public parameters."""
        if primitive in LOCAL:
            return NOTHING
        costs = self._costs
        if primitive not in costs:
            raise Code.BAD_PARAMETER.error(
                expected=f"one of {', '.join(sorted({*costs, *LOCAL}))}", found=repr(primitive)
            )
        return costs[primitive](**public)

    def _permuted(self, x: AnySecret, by: Permutation, *, inverse: bool) -> AnySecret:
        ring = x.ring if isinstance(x, Secret) else None
        rows = x.shape[:-1] if ring is None else x.shape
        if not isinstance(by, JointPermutation) or rows[:1] != (by.n,):
            raise unfit(f"{x!r} under {by!r}")
        return x.like(self._permute(x.data, by, ring, inverse=inverse))

    @property
    @abstractmethod
    def _costs(self) -> Mapping[str, Callable[..., Cost]]:
        """Costs of the primitives that are not `LOCAL`, from the parameters of `cost`."""

    @abstractmethod
    def _addends(self, data: Array, bits: int) -> Iterable[Array]:
        """Share the bits of numbers that add up to those of flat shares."""

    @abstractmethod
    def _permute(
        self, data: Array, by: JointPermutation, ring: Ring | None, *, inverse: bool
    ) -> Array:
        """Permute the rows of shares, or undo it; without a ring those of words of bits."""

    @abstractmethod
    def _public_places(self) -> Iterator[tuple[int, ...]]:
        """Return where shares of this process hold x_0, as indices of share axes."""

    @abstractmethod
    def _deal(
        self, value: Array | None, owner: int, shape: tuple[int, ...], dtype: Any, *, xor: bool
    ) -> Array:
        """Share an array that one party holds: (*share axes, *shape)."""

    @abstractmethod
    def _reveal(
        self, data: Array, parties: tuple[int, ...], *, purpose: str, xor: bool
    ) -> Array | None:
        """Open shares to parties; None where none of them lives."""

    @abstractmethod
    def _shift_right(self, x: Secret, ring: Ring, shift: int) -> Array:
        """Divide 0 <= x < 2**(k-1) by ``2**shift`` in a ring: flat shares."""

    def _known(self, values: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> Array | None:
        """Check what is given for an input: values at the owner, nothing elsewhere."""
        if not 0 <= owner < self.n_parties:
            raise Code.BAD_PARAMETER.error(
                expected=f"an owner among {self.everyone}s 0 to {self.n_parties - 1}",
                found=f"party {owner}",
            )
        lives = self.core.at(owner) is not None
        if (values is not None) != lives or (lives and np.shape(values) != tuple(shape)):  # type: ignore[arg-type]
            raise Code.WRONG_SHAPE.error(
                expected=f"values of shape {shape} at party {owner}, none elsewhere",
                found="none" if values is None else f"shape {np.shape(values)}",
            )
        return None if values is None else np.asarray(values)

    def _combine(self, operation: Callable[..., Array], data: Array, elements: Array) -> Array:
        """Apply an operation to x_0, wherever this process holds it."""
        for place in self._public_places():
            where: Any = (*place, ...)
            operation(data[where], elements, out=data[where])
        return data


def level(x: Secret | SecretBits, y: Secret | SecretBits) -> tuple[Array, Array]:
    """Return the shares of two arrays with equally many axes."""
    ndim = max(x.ndim, y.ndim)
    return lift(x.data, x.ndim, ndim), lift(y.data, y.ndim, ndim)


def flat(x: Secret) -> Array:
    """Return shares (*share axes, size)."""
    return x.data.reshape(*x.data.shape[: x.engine.share_axes], prod(x.shape))


def check_matrices(x: Secret, y: Secret) -> None:
    """Refuse matrices that have no product with H702."""
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-2]:
        raise unfit(f"matrices {x!r} and {y!r}")


def unfit(found: str) -> Exception:
    """Return H702."""
    return Code.SECRETS_DO_NOT_FIT.error(found=found)


def _wide(x: Secret | SecretBits, shape: tuple[int, ...]) -> Array:
    """Return a copy of shares that is broadcast against a public shape."""
    lead, data = x.engine.share_axes, lift(x.data, x.ndim, len(shape))
    wide = np.broadcast_shapes(data.shape[lead:], shape)
    return np.array(np.broadcast_to(data, (*data.shape[:lead], *wide)))


def _trimmed(x: SecretBits) -> Array:
    """Clear the padding of shares: what stands there is not meant to be seen."""
    used = x.n % WORD
    if not used:
        return x.data
    data = x.data.copy()
    data[..., -1] &= np.uint64((1 << used) - 1)
    return data
