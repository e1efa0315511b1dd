"""Rounds and bytes of every primitive, from public parameters alone, offline and online apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from hedgerow.secure.additive.bit_products import cost_times_bits, every_peer
from hedgerow.secure.additive.convert import has_carry, small_ring, sum_bits, top_bits
from hedgerow.secure.additive.core import EVERYONE
from hedgerow.secure.additive.preprocessing import AND, Kind, Provider
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.compare import cost_a2b
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Z16, Ring
from hedgerow.secure.secret import WORD, Engine, words
from hedgerow.secure.steps import parties_of

Shape = tuple[int, ...]
_WORD_BYTES = WORD // 8


def of_primitives(engine: Engine, provider: Provider) -> dict[str, Callable[..., Cost]]:
    """Return the costs of what a provider makes randomness for, and of what peers do alone."""
    shift = partial(cost_shift, engine)
    return {
        "input": _nothing,
        "input_bits": _nothing,
        "open": partial(_open, provider),
        "mul": partial(_mul, provider),
        "matmul": partial(_matmul, provider),
        "and_": partial(_and, provider),
        "addends": _nothing,
        "b2a": partial(_b2a, provider),
        "mul_bits": partial(_mul_bits, provider),
        "extend": shift,
        "truncate": shift,
        "shuffle": partial(_shuffle, provider),
        "unshuffle": partial(_shuffle, provider),
    }


def cost_shift(
    engine: Engine, shape: Shape, ring: Ring, source: Ring | None = None, shift: int = 0
) -> Cost:
    """State the cost of `convert.shift_right`."""
    source, m = source or ring, engine.n_parties
    if ring == source and not shift:
        return NOTHING
    size = prod(shape) * (2 if has_carry(m, shift) else 1)
    kept = (sum_bits(m) - top_bits(m), size)
    return cost_a2b(engine, size, Z16, sum_bits(m)) + engine.cost(
        "b2a", shape=kept, ring=small_ring(m, source, ring, shift)
    )


def _used(provider: Provider, kind: Kind, n: int, sent: int) -> Cost:
    """One round in which every peer sends so many bytes to every other, and uses n items."""
    m = provider.core.n
    return Cost.equal(1, (m - 1) * sent, m) + provider.cost(kind, n) if n else NOTHING


def _mul(provider: Provider, shape: Shape, ring: Ring) -> Cost:
    size = prod(shape)
    return _used(provider, Kind("triples", ring), size, 2 * size * ring.bytes)


def _and(provider: Provider, shape: Shape) -> Cost:
    size = prod(shape[:-1]) * words(shape[-1])
    return _used(provider, AND, size, 2 * size * _WORD_BYTES)


def _matmul(provider: Provider, shape: Shape, ring: Ring, inner: int) -> Cost:
    *lead, m, n = shape
    count = prod(lead) if m * inner * n else 0
    kind = Kind("matrices", ring, (m, inner, n))
    return _used(provider, kind, count, count * (m + n) * inner * ring.bytes)


def _b2a(provider: Provider, shape: Shape, ring: Ring) -> Cost:
    size = prod(shape)
    return _used(provider, Kind("dabits", ring), size, words(size) * _WORD_BYTES)


def _mul_bits(provider: Provider, shape: Shape, ring: Ring, bits: int) -> Cost:
    n = shape[-1]
    if not isinstance(provider, Transfers):
        return _b2a(provider, (bits, n), ring) + _mul(provider, shape, ring)
    if not prod(shape) * bits:
        return NOTHING
    m = provider.core.n
    return cost_times_bits(m, bits * n, prod(shape[:-1]), ring, every_peer(m, bits * n))


def _open(provider: Provider, shape: Shape, to: str, ring: Ring | None = None) -> Cost:
    size, m = prod(_words_of(shape, ring)) * _bytes_of(ring), provider.core.n
    receivers = parties_of(to, EVERYONE, m)
    return Cost(1, tuple(size * (len(receivers) - (i in receivers)) for i in range(m)))


def _shuffle(provider: Provider, shape: Shape, ring: Ring | None = None) -> Cost:
    m, size = provider.core.n, prod(_words_of(shape, ring))
    if shape[0] < 2 or not size:
        return NOTHING
    ahead = provider.cost_translations(shape[0], size // shape[0], ring)
    return Cost.equal(m, (m - 1) * size * _bytes_of(ring), m) + ahead


def _words_of(shape: Shape, ring: Ring | None) -> Shape:
    """Shape of the elements of a ring, or of the words of bits."""
    return (*shape[:-1], words(shape[-1])) if ring is None else shape


def _bytes_of(ring: Ring | None) -> int:
    return _WORD_BYTES if ring is None else ring.bytes


def _nothing(**_public: Any) -> Cost:
    return NOTHING
