"""Stable radix sort of secret keys, and permutations known to nobody.

A secret permutation is its destinations: row i goes to place d[i]. To use one, rows and
destinations are shuffled together by a fresh permutation that no party knows; the shuffled
destinations are then a uniformly random permutation whatever the data, and are opened to the
parties, who move the rows. A pass of the sort takes one digit of the key: its one-hot vector, and
prefix sums over digit values and rows, give each row's place among the rows of that digit.

Paper: chida2019sorting. A pass takes several bits of the key, as its multi-bit variant does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.secure.compare import cost_a2b
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import AnySecret, Engine, Secret, SecretBits, concatenate, stack

SHUFFLED = "shuffled destinations"
"""Name of the opening, unless the caller has several to tell apart."""
DIGIT = 2
"""Bits of the key in one pass: 1 takes more shuffles, 3 more multiplications."""


def openings(n: int, times: int, to: str, name: str = SHUFFLED) -> list[Opening]:
    """Declare what sorts and permutations of n rows open.

    That is `passes` - 1 `times` for every sort and once for every `permute`, to `Engine.everyone`.
    """
    return [
        Opening(
            name,
            to,
            (n,),
            independent="a uniformly random permutation of the rows, drawn afresh each time",
            times=times,
        )
    ]


def passes(bits: int) -> int:
    """Return how many passes a key of so many bits takes."""
    return -(-bits // DIGIT)


def position_ring(n: int) -> Ring:
    """Return the smallest ring that holds the places of n rows."""
    return next(ring for ring in (Z16, Z32, Z64) if n <= 1 << ring.bits)


def destinations(keys: SecretBits, *, name: str = SHUFFLED) -> Secret:
    """Return where each row goes when rows are sorted by secret keys, stably.

    1. All bits become numbers of `position_ring`.
    2. The lowest digit gives the first destinations d (`_places`).
    3. For every further digit: d and the digit's bits are shuffled by a fresh permutation and d is
       opened; the bits are moved by it, give places e among rows in the order so far, and
       d becomes e[d], moved back and unshuffled.

    Plane j of `keys` (bits, n) holds bit j of every key. Returns a permutation of 0 to n - 1 over
    `position_ring`, (n,).

    Reveals: to every party, a uniformly random permutation in every pass but the first.
    Cost: `cost_destinations`.
    """
    engine, n = keys.engine, keys.n
    bits = engine.b2a(keys, position_ring(n))
    d = _places(bits[:DIGIT])
    for low in range(DIGIT, len(keys), DIGIT):
        digit = bits[low : low + DIGIT]
        permutation = engine.permutation(n)
        mixed = engine.shuffle(concatenate([d[None], digit]).transpose(), permutation)
        places, order = open_places(mixed[:, 0], name)
        e = _places(mixed[:, 1:][order].transpose())
        d = engine.unshuffle(e[places], permutation)
    return d


def permute(x: AnySecret, d: Secret, *, name: str = SHUFFLED) -> AnySecret:
    """Move row i of x, of numbers or of bits, to place d[i]; d is a permutation of 0 to n - 1.

    1. x and d are shuffled by a fresh permutation.
    2. The shuffled d is opened and the rows are moved by it.

    Reveals: to every party, a uniformly random permutation. Cost: `cost_permute`.
    """
    permutation = x.engine.permutation(len(x))
    _, order = open_places(x.engine.shuffle(d, permutation), name)
    return x.engine.shuffle(x, permutation)[order]


def sort_by(key: Secret, x: Secret, *, bits: int | None = None, signed: bool = True) -> Secret:
    """Sort the rows of x by a secret key, smallest first, stably.

    1. The bits of the key; for signed keys the top one is flipped.
    2. `destinations`, then `permute`.

    The key (n,) may be `x` itself; `signed`: its top bit is its sign. The declared opening takes
    place `passes(bits)` times.

    Reveals: to every party, a uniformly random permutation in every pass. Cost: `cost_sort_by`.
    """
    if key.ndim != 1 or len(x) != len(key):
        raise Code.WRONG_SHAPE.error(
            expected="one key for every row", found=f"keys {key!r} for rows {x!r}"
        )
    planes = key.a2b(bits)
    if signed:
        planes = planes ^ (np.arange(len(planes)) == len(planes) - 1)[:, None]
    return permute(x, destinations(planes))


def cost_destinations(engine: Engine, bits: int, n: int) -> Cost:
    """State the cost of `destinations` of n keys."""
    ring = position_ring(n)
    total = engine.cost("b2a", shape=(bits, n), ring=ring)
    for low in range(0, bits, DIGIT):
        width = min(DIGIT, bits - low)
        if low:
            total += engine.cost("permutation", shape=(n,))
            total += engine.cost("shuffle", shape=(n, 1 + width), ring=ring)
            total += engine.cost("open", shape=(n,), ring=ring, to=engine.everyone)
            total += engine.cost("unshuffle", shape=(n,), ring=ring)
        total += _cost_places(engine, width, n, ring)
    return total


def cost_permute(engine: Engine, shape: tuple[int, ...], ring: Ring | None) -> Cost:
    """State the cost of `permute` of rows of a shape over a ring, or of bits."""
    n, places = shape[0], position_ring(shape[0])
    return (
        engine.cost("permutation", shape=(n,))
        + engine.cost("shuffle", shape=(n,), ring=places)
        + engine.cost("open", shape=(n,), ring=places, to=engine.everyone)
        + engine.cost("shuffle", shape=shape, ring=ring)
    )


def cost_sort_by(
    engine: Engine,
    key_ring: Ring,
    shape: tuple[int, ...],
    ring: Ring,
    bits: int | None = None,
) -> Cost:
    """State the cost of `sort_by` of rows of a shape over a ring."""
    width = key_ring.bits if bits is None else bits
    return (
        cost_a2b(engine, shape[0], key_ring, bits)
        + cost_destinations(engine, width, shape[0])
        + cost_permute(engine, shape, ring)
    )


def _places(bits: Secret) -> Secret:
    """Return the places (n,) of rows sorted stably by a digit given as bits (width, n).

    1. One-hot vector h of the digit: it doubles with every bit, its entries add up to 1.
    2. r_vi: rows with a lower digit than v, and rows with digit v up to i: prefix sums of h.
    3. The sum over v of h_vi r_vi, less 1; one element on the wire, as in any scalar product.
    """
    hot = stack([1 - bits[0], bits[0]])
    for bit in range(1, len(bits)):
        upper = hot[:-1] * bits[bit]
        upper = concatenate([upper, bits[bit][None] - upper.sum(0, keepdims=True)])
        hot = concatenate([hot - upper, upper])
    width, n = hot.shape
    r = hot.reshape(width * n).cumsum().reshape(width, n)
    # The entries of h add up to 1, so the last product comes for nothing.
    shorter, steps = hot[:-1].transpose(), (r[:-1] - r[-1]).transpose()
    return (shorter[:, None, :] @ steps[:, :, None]).reshape(n) + r[-1] - 1


def _cost_places(engine: Engine, width: int, n: int, ring: Ring) -> Cost:
    total = NOTHING
    for bit in range(1, width):
        total += engine.cost("mul", shape=((1 << bit) - 1, n), ring=ring)
    return total + engine.cost("matmul", shape=(n, 1, 1), ring=ring, inner=(1 << width) - 1)


def open_places(
    d: Secret,
    name: str,
    fix: str = "use destinations that `hedgerow.secure.sort.destinations` made",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Open shuffled destinations; return them and the order that moves rows there."""
    places = d.engine.open_to_all(d, name).astype(np.int64)
    order = np.full(len(places), -1)
    if places.min(initial=0) >= 0 and places.max(initial=-1) < len(places):
        order[places] = np.arange(len(places))
    if order.min(initial=0) < 0:
        raise Code.SECRETS_DO_NOT_FIT.error(
            expected=f"destinations that are a permutation of 0 to {len(d) - 1}",
            found="something else",
            fix=fix,
        )
    return places, order
