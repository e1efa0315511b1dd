"""`ReplicatedEngine`: secret arrays on three servers, of which at most one is curious."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.axes import lift
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated import (
    arithmetic,
    convert,
    costs,
    kernels,
    openings,
    sharing,
    shuffle,
)
from hedgerow.secure.replicated.core import EVERYONE, SERVERS, Core
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

Array = NDArray[Any]


class ReplicatedEngine(Engine):
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

    def __init__(
        self,
        network: Network,
        leakage: Leakage,
        *,
        session: str = "",
        insecure_seed: bytes | None = None,
    ) -> None:
        super().__init__(leakage, n_parties=SERVERS, everyone=EVERYONE)
        self._kept_core = Core(network, session, insecure_seed)
        self._finished = False

    @property
    def core(self) -> Core:
        """Keys and steps of the servers here, which all primitives stand on; gone after `finish`.

        Also for what is dealt and joined outside the network.
        """
        if self._finished:
            raise Code.NETWORK_CLOSED.error(
                expected="an engine that has not finished",
                found="a primitive after the farewell of its servers",
                fix="make a new engine; the network may be used again",
            )
        return self._kept_core

    @property
    def private(self) -> bool:
        """Whether keys come from the operating system."""
        return self._kept_core.private

    @property
    def share_shape(self) -> tuple[int, ...]:
        """Servers that live here, and the two shares that each of them holds."""
        return len(self._kept_core.servers), 2

    @property
    def network(self) -> Network:
        """The network; its meter counts what is sent."""
        return self._kept_core.network

    def finish(self) -> None:
        """Return once the three servers have completed every step; a second call does nothing.

        Where it returns at a server, no step has failed at any of the three, the last
        opening included; a server that fails in its last step ends the others with a numbered
        error here. Results are to be used after it. What a server has received before a fault it
        knows all the same, and a fault in the farewell itself may end the servers differently;
        see `Network.farewell`.
        The network stays open, for another engine.

        Cost: 2 rounds, no payload.
        """
        if not self._finished:
            self.network.farewell(range(SERVERS))
            self._finished = True

    def public(self, values: ArrayLike, ring: Ring) -> Secret:
        """Make a secret of public integers: x_0 is the value, x_1 and x_2 are 0."""
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
        return x.like(self._combine(np.add, _wide(x.data, x.ndim, elements.shape), elements))

    def xor_public(self, x: SecretBits, bits: NDArray[np.bool_]) -> SecretBits:
        """Flip bits of x_0 where the public ones are set; shapes broadcast."""
        packed = pack(np.broadcast_to(bits, (*bits.shape[:-1], x.n)))
        return x.like(self._combine(np.bitwise_xor, _wide(x.data, x.ndim, packed.shape), packed))

    def reduce(self, x: Secret, ring: Ring) -> Secret:
        """Take the lowest bits of every share."""
        if ring.bits > x.ring.bits:
            raise _unfit(f"{x!r} reduced to {ring.bits} bits")
        return Secret(self, ring, x.data.astype(ring.dtype))

    def input(
        self, values: ArrayLike | None, owner: int, shape: tuple[int, ...], ring: Ring
    ) -> Secret:
        """Share integers that server `owner` holds; see `sharing.deal_input`."""
        known = self._known(values, owner, shape)
        elements = None if known is None else ring.encode(known)
        data = sharing.deal_input(self.core, elements, owner, tuple(shape), ring.dtype, xor=False)
        return Secret(self, ring, data)

    def input_bits(self, bits: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> SecretBits:
        """Share bits that server `owner` holds; see `sharing.deal_input`."""
        known = self._known(bits, owner, shape)
        packed = None if known is None else pack(known)
        full = (*shape[:-1], words(shape[-1]))
        data = sharing.deal_input(self.core, packed, owner, full, np.uint64, xor=True)
        return SecretBits(self, shape[-1], data)

    def open(self, x: Secret | SecretBits, name: str, to: str) -> Array | None:
        """Open a declared value to its audience; see `openings.reveal`.

        It is recorded as opened before it is sent: after a failure of the network nobody knows
        who has received it.
        """
        # A finished engine refuses here, before anything is recorded.
        core, servers = self.core, openings.servers_of(to)
        self.leakage.check(name, to, x.shape)
        purpose = f"{name} to {to}"
        if isinstance(x, SecretBits):
            bits = openings.reveal(core, _trimmed(x), servers, purpose=purpose, xor=True)
            return None if bits is None else unpack(bits, x.n)
        return openings.reveal(core, x.data, servers, purpose=purpose, xor=False)

    def mul(self, x: Secret, y: Secret) -> Secret:
        """Multiply element by element; see `arithmetic.mul`."""
        left, right = _level(x, y)
        return x.like(arithmetic.mul(self.core, left, right, "mul", kernels.multiply))

    def matmul(self, x: Secret, y: Secret) -> Secret:
        """Multiply matrices; see `arithmetic.matmul`."""
        if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-2]:
            raise _unfit(f"matrices {x!r} and {y!r}")
        return x.like(arithmetic.matmul(self.core, *_level(x, y)))

    def and_(self, x: SecretBits, y: SecretBits) -> SecretBits:
        """Conjunction of bits, word by word; see `arithmetic.mul`."""
        left, right = _level(x, y)
        return x.like(arithmetic.mul(self.core, left, right, "and", kernels.conjoin))

    def random_bits(self, shape: tuple[int, ...]) -> SecretBits:
        """Draw secret uniform bits: share x_j is a mask of key k_j, so nobody knows all three."""
        full = (*shape[:-1], words(shape[-1]))
        step = self.core.step("random bits")
        data = self.core.shares(full, np.uint64)
        for at, server in enumerate(self.core.servers):
            for side in range(2):
                data[at, side] = step.mask(server + side, "bits", full, np.uint64)
        return SecretBits(self, shape[-1], data)

    def addends(self, x: Secret, bits: int) -> list[SecretBits]:
        """Share the bits of two numbers that add up to x; see `convert.addends`."""
        if not 0 < bits <= x.ring.bits:
            raise _unfit(f"{bits} bits of {x!r}")
        pair = convert.addends(self.core, _flat(x), bits)
        return [SecretBits(self, x.size, planes) for planes in pair]

    def b2a(self, x: SecretBits, ring: Ring) -> Secret:
        """Turn bits into 0 and 1 of a ring; see `convert.b2a`."""
        return Secret(self, ring, convert.b2a(self.core, x.data, x.n, ring))

    def extend(self, x: Secret, ring: Ring) -> Secret:
        """Lift 0 <= x < 2**(k-1) into a larger ring; see `convert.shift_right`."""
        if ring.bits < x.ring.bits:
            raise _unfit(f"{x!r} extended to {ring.bits} bits")
        if ring == x.ring:
            return x
        data = convert.shift_right(self.core, _flat(x), x.ring, ring, 0, "extend")
        return Secret(self, ring, data.reshape(x.data.shape))

    def truncate(self, x: Secret, shift: int) -> Secret:
        """Divide by ``2**shift``, error in {-1, 0}; see `convert.shift_right`."""
        k = x.ring.bits
        if not 0 <= shift <= k - 2:
            raise _unfit(f"{x!r} divided by 2**{shift}")
        if shift == 0:
            return x
        # Moved by 2**(k-2) it is not negative, as the protocol asks.
        raised = _flat(x + (1 << (k - 2)))
        data = convert.shift_right(self.core, raised, x.ring, x.ring, shift, "truncate")
        return x.like(data.reshape(x.data.shape)) - (1 << (k - 2 - shift))

    def permutation(self, n: int) -> Permutation:
        """Draw a secret permutation of n rows; see `shuffle.draw_orders`."""
        return shuffle.ReplicatedPermutation(self, n, shuffle.draw_orders(self.core, n))

    def shuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Permute the rows; see `shuffle.apply`."""
        return self._permuted(x, permutation, inverse=False)

    def unshuffle(self, x: AnySecret, permutation: Permutation) -> AnySecret:
        """Undo `shuffle`."""
        return self._permuted(x, permutation, inverse=True)

    def cost(self, primitive: str, **public: Any) -> Cost:
        """State rounds and bytes of a primitive from public parameters."""
        return costs.cost(primitive, public)

    def _permuted(self, x: AnySecret, by: Permutation, *, inverse: bool) -> AnySecret:
        xor = isinstance(x, SecretBits)
        rows = x.shape[:-1] if xor else x.shape
        if not isinstance(by, shuffle.ReplicatedPermutation) or rows[:1] != (by.n,):
            raise _unfit(f"{x!r} under {by!r}")
        return x.like(shuffle.apply(self.core, x.data, by, inverse=inverse, xor=xor))

    def _known(self, values: ArrayLike | None, owner: int, shape: tuple[int, ...]) -> Array | None:
        """Check what is given for an input: values at the owner, nothing elsewhere."""
        if not 0 <= owner < SERVERS:
            raise Code.BAD_PARAMETER.error(
                expected="an owner among the servers", found=f"party {owner}"
            )
        lives = self.core.at(owner) is not None
        if (values is not None) != lives or (lives and np.shape(values) != tuple(shape)):  # type: ignore[arg-type]
            raise Code.WRONG_SHAPE.error(
                expected=f"values of shape {shape} at party {owner}, none elsewhere",
                found="none" if values is None else f"shape {np.shape(values)}",
            )
        return None if values is None else np.asarray(values)

    def _combine(self, operation: Callable[..., Array], data: Array, elements: Array) -> Array:
        """Apply an operation to x_0, the first share of server 0 and the second of server 2."""
        for server, side in ((0, 0), (2, 1)):
            at = self.core.at(server)
            if at is not None:
                operation(data[at, side, ...], elements, out=data[at, side, ...])
        return data


def _wide(data: Array, ndim: int, shape: tuple[int, ...]) -> Array:
    """Return a copy of share data that is broadcast against a public shape."""
    level = lift(data, ndim, len(shape))
    wide = np.broadcast_shapes(level.shape[2:], shape)
    return np.array(np.broadcast_to(level, (*level.shape[:2], *wide)))


def _level(x: Secret | SecretBits, y: Secret | SecretBits) -> tuple[Array, Array]:
    ndim = max(x.ndim, y.ndim)
    return lift(x.data, x.ndim, ndim), lift(y.data, y.ndim, ndim)


def _flat(x: Secret) -> Array:
    return x.data.reshape(*x.data.shape[:2], prod(x.shape))


def _trimmed(x: SecretBits) -> Array:
    """Clear the padding of shares: what stands there is not meant to be seen."""
    used = x.n % WORD
    if not used:
        return x.data
    data = x.data.copy()
    data[..., -1] &= np.uint64((1 << used) - 1)
    return data


def _unfit(found: str) -> Exception:
    return Code.SECRETS_DO_NOT_FIT.error(found=found)
