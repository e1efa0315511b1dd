"""Products by triples.

With shares of a random triple c = a b, the peers open d = x - a and e = y - b, which are uniform;
then x y = c + d b + a e + d e, where d e is added by peer 0 alone.
Paper: beaver1991efficient.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.secure.additive import kernels
from hedgerow.secure.additive.preprocessing import AND, Items, Kind, Provider
from hedgerow.secure.additive.sharing import open_to_all
from hedgerow.secure.kernels import WORTH_A_THREAD, add_product
from hedgerow.secure.ring import Ring
from hedgerow.secure.steps import Step

Array = NDArray[Any]


def begin(provider: Provider, name: str, kind: Kind, n: int) -> tuple[Step, Items]:
    """Begin a step that uses n items of a kind; all peers must agree which."""
    first = provider.given(kind)
    items = provider.take(kind, first, n)
    return provider.core.step(name, f"{kind} {first}"), items


def mul(provider: Provider, x: Array, y: Array, ring: Ring | None) -> Array:
    """Multiply element by element, or conjoin words of bits (`ring` is None).

    Shares (peers here, *shape) broadcast, with equally many axes.

    Reveals: nothing.
    Cost: 1 round, two elements from every peer to every other; a triple for each element.
    """
    core, xor = provider.core, ring is None
    shape = np.broadcast_shapes(x.shape[1:], y.shape[1:])
    size, kind = prod(shape), AND if ring is None else Kind("triples", ring)
    out = core.shares(shape, x.dtype)
    if not size:
        return out
    step, items = begin(provider, "and" if xor else "mul", kind, size)
    hidden = core.shares((2, size), x.dtype)
    subtract = np.bitwise_xor if xor else np.subtract
    for side, factor in enumerate((x, y)):
        row = np.broadcast_to(factor, (len(core.here), *shape)).reshape(len(core.here), size)
        subtract(row, items[side], out=hidden[:, side])
    d, e = open_to_all(step, hidden, xor=xor)
    compiled = (kernels.conjoin if xor else kernels.multiply)(x.dtype.name)
    rows = out.reshape(len(core.here), size)

    def work(chunk: tuple[int, slice]) -> None:
        at, part = chunk
        a, b, c = (np.ascontiguousarray(item[at, part]) for item in items)
        compiled(d[part], e[part], a, b, c, core.here[at] == 0, rows[at, part])

    parts = threads.available() if size >= WORTH_A_THREAD else 1
    cuts = [slice(*pair) for pair in pairwise(size * p // parts for p in range(parts + 1))]
    for at in range(len(core.here)):
        threads.run(work, [(at, cut) for cut in cuts])
    return out


def matmul(provider: Provider, x: Array, y: Array, ring: Ring) -> Array:
    """Multiply matrices (..., m, k) @ (..., k, n).

    Shares have equally many axes behind the first; matrices that broadcast are repeated.

    Reveals: nothing.
    Cost: 1 round, m k + k n elements from every peer to every other; a triple of matrices for each.
    """
    core = provider.core
    lead = np.broadcast_shapes(x.shape[1:-2], y.shape[1:-2])
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    count, out = prod(lead), core.shares((*lead, m, n), ring.dtype, zero=True)
    if not count * m * k * n:
        return out
    core.network.note_work("products", core.n * count * m * k * n)
    step, items = begin(provider, "matmul", Kind("matrices", ring, (m, k, n)), count)
    here = len(core.here)
    left = np.broadcast_to(x, (here, *lead, m, k)).reshape(here, count, m, k) - items[0]
    right = np.broadcast_to(y, (here, *lead, k, n)).reshape(here, count, k, n) - items[1]
    hidden = [left.reshape(here, count * m * k), right.reshape(here, count * k * n)]
    opened = open_to_all(step, np.concatenate(hidden, axis=1), xor=False)
    d, e = opened[: count * m * k].reshape(count, m, k), opened[count * m * k :].reshape(-1, k, n)
    rows = out.reshape(len(core.here), count, m, n)
    for at, peer in enumerate(core.here):
        a, b, c = (item[at] for item in items)
        rows[at] = c
        add_product(d, b, rows[at], e if peer == 0 else None)
        add_product(a, e, rows[at])
    return out
