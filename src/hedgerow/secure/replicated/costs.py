"""Rounds and bytes of every primitive, from public parameters alone."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.replicated.core import EVERYONE, SERVERS
from hedgerow.secure.replicated.sharing import length, thirds
from hedgerow.secure.ring import Ring, product_ring
from hedgerow.secure.secret import WORD, words
from hedgerow.secure.steps import parties_of

Shape = tuple[int, ...]
_WORD_BYTES = WORD // 8


def _from(owner: int, size: int) -> Cost:
    return Cost(1, tuple(size if server == owner else 0 for server in range(SERVERS)))


def _open(shape: Shape, to: str, ring: Ring | None = None) -> Cost:
    size = _size(shape, ring)
    senders = {(server - 1) % SERVERS for server in parties_of(to, EVERYONE, SERVERS)}
    return Cost(1, tuple(size if server in senders else 0 for server in range(SERVERS)))


def _numbers(rounds: int) -> Callable[..., Cost]:
    """One element from every server."""
    return lambda shape, ring: Cost.equal(rounds, prod(shape) * ring.bytes, SERVERS)


def _addends(shape: Shape, bits: int) -> Cost:
    runs = thirds(words(prod(shape)))
    return Cost(1, tuple(bits * _WORD_BYTES * length(run) for run in runs))


def _shifted(shape: Shape, ring: Ring, source: Ring | None = None, shift: int = 0) -> Cost:
    source = source or ring
    if ring == source and not shift:
        return NOTHING
    small = product_ring(source, ring, shift).bytes
    runs = thirds(prod(shape))
    return Cost(2, tuple(prod(shape) * small + length(run) * ring.bytes for run in runs))


def _shuffle(shape: Shape, ring: Ring | None = None) -> Cost:
    size = _size(shape, ring)
    return Cost(3, (size, size, 2 * size))


def _size(shape: Shape, ring: Ring | None) -> int:
    """Bytes of numbers of a ring, or of bits."""
    return _packed(shape) if ring is None else prod(shape) * ring.bytes


def _packed(shape: Shape) -> int:
    return prod(shape[:-1]) * words(shape[-1]) * _WORD_BYTES


COSTS: dict[str, Callable[..., Cost]] = {
    "input": lambda shape, ring, owner: _from(owner, prod(shape) * ring.bytes),
    "input_bits": lambda shape, owner: _from(owner, _packed(shape)),
    "open": _open,
    "mul": _numbers(1),
    "matmul": lambda shape, ring, inner: _numbers(1)(shape, ring),
    "and_": lambda shape: Cost.equal(1, _packed(shape), SERVERS),
    "addends": _addends,
    "b2a": _numbers(2),
    "mul_bits": lambda shape, ring, bits: (
        _numbers(2)((bits, shape[-1]), ring) + _numbers(1)(shape, ring)
    ),
    "extend": _shifted,
    "truncate": _shifted,
    "shuffle": _shuffle,
    "unshuffle": _shuffle,
}
